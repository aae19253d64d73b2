from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TableRef
from airflow_hiveacid.spark.writing.overtaking import hiding_directory

if TYPE_CHECKING:
    from pathlib import Path

TABLE = TableInfo(ref=TableRef("d", "t"), location="file:/t", columns=())
OWN = WriteId(4)


def newest(high_watermark: int, *, aborted: tuple[int, ...] = ()) -> Snapshot:
    write_ids = ValidWriteIdList(
        table=TABLE.ref,
        high_watermark=WriteId(high_watermark),
        open=(OWN,),
        aborted=tuple(map(WriteId, aborted)),
    )
    txns = ValidTxnList(high_watermark=TxnId(9), open=(TxnId(8),))
    return Snapshot(txn_id=TxnId(8), txns=txns, tables={TABLE.ref: write_ids})


def days(root: Path, *directories: str | None) -> list[PartitionInfo]:
    """Partitions with one directory each; None for one that has no place yet."""
    found = []
    for day, directory in enumerate(directories):
        location = root / f"day={day}"
        if directory is not None:
            (location / directory).mkdir(parents=True)
            (location / directory / "bucket_00000").write_text("rows")
        name = PartitionName(("day",), (str(day),))
        found.append(PartitionInfo(name=name, location=f"file:{location}"))
    return found


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_base_that_hides_the_write_is_found_in_whatever_partition_it_is(
    tmp_path: Path, place: int
) -> None:
    found: list[str | None] = ["base_0000003", None, "delta_0000003_0000003_0000"]
    found[place] = "base_0000005"
    hiding = hiding_directory(TABLE, days(tmp_path, *found), newest(5), OWN, replaces=False)
    assert hiding == f"file:{tmp_path}/day={place}/base_0000005"


@pytest.mark.parametrize("replaces", [False, True])
def test_what_was_there_before_or_was_aborted_hides_nothing(tmp_path: Path, replaces: bool) -> None:
    there = days(tmp_path, "base_0000003", "base_0000005", "delta_0000003_0000003_0000", None)
    snapshot = newest(6, aborted=(5,))
    assert hiding_directory(TABLE, there, snapshot, OWN, replaces=replaces) is None


@pytest.mark.parametrize(("replaces", "is_hidden"), [(False, False), (True, True)])
def test_a_later_delta_stands_in_the_way_of_an_overwrite_alone(
    tmp_path: Path, replaces: bool, is_hidden: bool
) -> None:
    there = days(tmp_path, None, "delta_0000005_0000005_0000")
    found = hiding_directory(TABLE, there, newest(5), OWN, replaces=replaces)
    assert (found is not None) is is_hidden
