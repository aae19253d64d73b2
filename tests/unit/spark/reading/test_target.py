"""What a target knows about its partitions; these tests read no partition."""

from __future__ import annotations

from typing import Any, Final

from airflow_hiveacid.format import table
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.reading import KeyRange
from airflow_hiveacid.spark.reading.target import Target
from tests.support.tables import table_of

TABLE: Final = table_of("a int", by="day string")


def target_of(
    days: list[table.PartitionName], places: list[str], *, is_narrow: bool = False
) -> Target:
    nothing: Any = None
    return Target(
        spark=nothing,
        table=TABLE,
        write_ids=ValidWriteIdList.parse("d.t:1:1::"),
        txns=ValidTxnList(high_watermark=TxnId(1)),
        partitions=tuple(
            table.PartitionInfo(name=n, location=p) for n, p in zip(days, places, strict=True)
        ),
        is_narrow=is_narrow,
    )


def test_tasks_get_only_the_partition_locations_that_differ_from_the_default() -> None:
    days = [TABLE.partition_name([day]) for day in ("1", "a=b", "3")]
    places = ["file:/d/t/day=1", "file:/d/t/day=a%3Db", "file:/elsewhere"]
    target = target_of(days, places)
    assert target.elsewhere == {days[2]: "file:/elsewhere"}


def test_partitions_selected_before_the_locks_are_not_selected_with_spark_again() -> None:
    days = [TABLE.partition_name([day]) for day in "12"]
    target = target_of(days, ["file:/d/t/day=1", "file:/d/t/day=2"], is_narrow=True)
    nothing: Any = None  # there is no session, no source and no predicate
    beside: Any = "a source"
    ranges = {"a": KeyRange(low=1, high=2)}
    found = target.where("t.day = s.day", nothing, beside).within(nothing, ["day"], nothing, ranges)
    assert (found.partitions, found.ranges) == (target.partitions, ranges)
