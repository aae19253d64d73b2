"""What a target says of its partitions; nobody reads one here."""

from __future__ import annotations

from typing import Any, Final

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.spark.reading.target import Target

TABLE: Final = TableInfo(
    ref=TableRef("d", "t"),
    location="file:/d/t",
    columns=(Column(name="a", type="int"),),
    partition_columns=(Column(name="day", type="string"),),
)


def test_only_partitions_in_unusual_places_are_told_to_every_task() -> None:
    days = [TABLE.partition_name([day]) for day in ("1", "a=b", "3")]
    places = ["file:/d/t/day=1", "file:/d/t/day=a%3Db", "file:/elsewhere"]
    nothing: Any = None
    target = Target(
        spark=nothing,
        table=TABLE,
        write_ids=ValidWriteIdList.parse("d.t:1:1::"),
        txns=ValidTxnList(high_watermark=TxnId(1)),
        partitions=tuple(
            PartitionInfo(name=n, location=p) for n, p in zip(days, places, strict=True)
        ),
    )
    assert target.elsewhere == {days[2]: "file:/elsewhere"}
