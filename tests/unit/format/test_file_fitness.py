from __future__ import annotations

import pytest

from airflow_hiveacid.format import table
from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import check_alike, check_format, own_columns


def test_a_write_to_a_partition_with_a_different_file_format_is_refused() -> None:
    plain = table.TableInfo(ref=table.TableRef("d", "t"), location="/d/t", columns=())
    orc, parquet = (
        table.PartitionInfo(
            name=table.PartitionName(("p",), (n,)), location="/", storage=table.Storage(format=f)
        )
        for n, f in (("1", table.FileFormat.ORC), ("2", table.FileFormat.PARQUET))
    )
    check_alike(plain, [orc, table.PartitionInfo(name=table.PartitionName(), location="/")])
    with pytest.raises(UnsupportedTableError, match="its partition p=2 is stored as Parquet"):
        check_alike(plain, [orc, parquet])


def test_parquet_column_access_by_index_is_refused_at_every_level() -> None:
    name = "parquet.column.index.access"
    plain = table.Storage(format=table.FileFormat.PARQUET)
    told = table.Storage(format=table.FileFormat.PARQUET, parameters=((name, "TRUE"),))
    for storage, parameters in ((plain, {name: "true"}), (told, {})):
        with pytest.raises(UnsupportedTableError, match=r"parquet\.column\.index\.access=true"):
            check_format("d.t", storage, parameters)
    for storage, parameters in (
        (plain, {name: "false"}),
        (told, {name: "false"}),
        (table.Storage(format=table.FileFormat.ORC), {name: "true"}),
    ):
        check_format("d.t", storage, parameters)


def test_a_partitions_own_columns_are_used_except_for_orc() -> None:
    a, b = (table.Column(name=name, type="int") for name in "ab")
    place = table.PartitionName(("p",), ("x",))

    def own(columns: tuple[table.Column, ...] | None, format_: table.FileFormat) -> object:
        return own_columns("d.t", (a, b), place, columns, format_)

    for format_ in (table.FileFormat.PARQUET, table.FileFormat.TEXT):
        assert own(None, format_) is None
        assert own((a,), format_) == (a,)
        assert own((table.Column(name="a", type="tinyint"),), format_) is not None
        with pytest.raises(UnsupportedTableError, match="other column names in partition p=x"):
            own((b,), format_)
    assert own((b,), table.FileFormat.ORC) is None
