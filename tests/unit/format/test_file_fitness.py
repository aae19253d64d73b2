from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.file_fitness import check_alike, check_format, own_columns
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
)


def test_a_write_to_a_partition_with_a_different_file_format_is_refused() -> None:
    plain = TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=())
    orc, parquet = (
        PartitionInfo(name=PartitionName(("p",), (n,)), location="/", storage=Storage(format=f))
        for n, f in (("1", FileFormat.ORC), ("2", FileFormat.PARQUET))
    )
    check_alike(plain, [orc, PartitionInfo(name=PartitionName(), location="/")])
    with pytest.raises(UnsupportedTableError, match="its partition p=2 is stored as Parquet"):
        check_alike(plain, [orc, parquet])


def test_parquet_column_access_by_index_is_refused_at_every_level() -> None:
    name = "parquet.column.index.access"
    plain = Storage(format=FileFormat.PARQUET)
    told = Storage(format=FileFormat.PARQUET, parameters=((name, "TRUE"),))
    for storage, parameters in ((plain, {name: "true"}), (told, {})):
        with pytest.raises(UnsupportedTableError, match=r"parquet\.column\.index\.access=true"):
            check_format("d.t", storage, parameters)
    for storage, parameters in (
        (plain, {name: "false"}),
        (told, {name: "false"}),
        (Storage(format=FileFormat.ORC), {name: "true"}),
    ):
        check_format("d.t", storage, parameters)


def test_a_partitions_own_columns_are_used_except_for_orc() -> None:
    a, b = (Column(name=name, type="int") for name in "ab")
    place = PartitionName(("p",), ("x",))

    def own(columns: tuple[Column, ...] | None, format_: FileFormat) -> object:
        return own_columns("d.t", (a, b), place, columns, format_)

    for format_ in (FileFormat.PARQUET, FileFormat.TEXT):
        assert own(None, format_) is None
        assert own((a,), format_) == (a,)
        assert own((Column(name="a", type="tinyint"),), format_) is not None
        with pytest.raises(UnsupportedTableError, match="other column names in partition p=x"):
            own((b,), format_)
    assert own((b,), FileFormat.ORC) is None
