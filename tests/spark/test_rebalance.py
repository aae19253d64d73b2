"""A rebalance spreads the rows of each partition evenly over files, and changes no row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs, orc

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.ids import BucketProperty, RowId, WriteId
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from airflow_hiveacid.versions.keeping import keep
from airflow_hiveacid.writing import event_files
from tests.spark.test_read_changes import changes
from tests.support.spark_lab import Lab

BUCKET_5 = BucketProperty(0x20050000)
COUNT = 20_000


def rows_of_files(lab: Lab, partition: str, base: str, name: str = "t") -> list[int]:
    """The number of rows of each file in a base."""
    files = sorted((lab.root(name) / partition / base).glob("bucket_*"))
    return [orc.ORCFile(str(file)).nrows for file in files]


def told(result: JobResult) -> dict[str, tuple[bool, int, int | None]]:
    """What the result says of each partition: is it due, and its new files and rows."""
    return {
        one["partition"]: (one["is_due"], one["new_files"], one["rows"])
        for one in result.details["rebalance"]  # type: ignore[union-attr,index]
    }


@pytest.mark.promise("C15")
@pytest.mark.long_cases("3.1.3")
def test_a_rebalance_spreads_the_rows_of_each_partition_evenly_under_an_exclusive_lock(
    lab: Lab,
) -> None:
    ref = lab.table("t", {"id": "bigint", "v": "string"}, partition={"p": "int"}).ref
    lab.insert("t", [(i, "a", 1) for i in range(40)], ["id", "v", "p"])
    lab.insert("t", [(i, "b", 1 + i % 2) for i in range(40, 45)], ["id", "v", "p"])
    lab.delete("t", "p = 1 AND id < 20 AND id % 2 = 0")
    before, files = lab.rows("t"), lab.directories("t", "p=1")
    planned = lab.rebalance("t", buckets=3, plan_only=True)
    assert (planned.status, told(planned)) == (
        JobStatus.PLANNED,
        {"p=1": (True, 3, None), "p=2": (True, 2, None)},
    )
    assert (lab.rows("t"), lab.directories("t", "p=1")) == (before, files)
    locks: list[tuple[LockType, str | None]] = []

    def look(step: str) -> None:
        if step == "staged":
            locks.extend((one.lock_type, one.partition) for one in lab.client.show_locks(ref))

    one = RebalanceSpec(target=str(ref), partition="p=1", buckets=3)
    result = lab.run(one, on_step=look)
    assert locks == [(LockType.EXCLUSIVE, "p=1")]
    assert (result.status, result.rows, told(result)) == (
        JobStatus.COMMITTED,
        RowCounts(inserted=33),
        {"p=1": (True, 3, 33)},
    )
    assert lab.rows("t") == before
    assert rows_of_files(lab, "p=1", "base_0000004") == [11, 11, 11]
    both = lab.rebalance("t", buckets=3)  # the first partition is even already
    assert told(both) == {"p=1": (False, 3, None), "p=2": (True, 2, 2)}
    assert both.partitions == ("p=2",)
    assert rows_of_files(lab, "p=2", "base_0000005") == [1, 1]
    again = lab.rebalance("t", buckets=3)
    assert (again.status, again.txn_id) == (JobStatus.NOTHING_TO_DO, None)
    assert lab.rows("t") == before
    assert lab.client.show_locks(ref) == ()


@pytest.mark.promise("C15")
@pytest.mark.parametrize("order_by", [(), ("c", "id")])
def test_tasks_spread_and_sort_rows_without_changing_any_value(
    lab4: Lab, order_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "MOST_EVENTS", 0)
    lab4.table("t", {"id": "bigint", "at": "timestamp", "c": "char(2)", "old": NESTED})
    put(lab4, [row(i) for i in range(COUNT)])
    lab4.insert("t", [(COUNT, "z")], ["id", "c"])
    lab4.delete("t", "id % 10 = 3")
    before = stored(lab4)
    result = lab4.rebalance("t", buckets=4, order_by=order_by)
    assert result.rows == RowCounts(inserted=COUNT * 9 // 10 + 1)
    after = stored(lab4)
    if order_by:
        assert after == sorted(before, key=lambda one: (one["c"], one["id"]))
    else:
        assert after == [before[-1], *before[:-1]]  # file by file: bucket 0, then bucket 5
    sizes = rows_of_files(lab4, "", "base_0000004")
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1


NESTED = "array<struct<t:timestamp,m:map<string,decimal(9,2)>>>"


def row(number: int) -> dict[str, Any]:
    """A row with values that Spark itself would not keep: nanoseconds, and padding."""
    nanos = 1_000_000_007 * number
    return {
        "id": number,
        "at": None if number % 7 == 0 else nanos,
        "c": f"{number % 5} ",
        "old": [{"t": nanos + 1, "m": [("k", None)]}] if number % 3 else None,
    }


def put(lab: Lab, rows: list[dict[str, Any]]) -> None:
    """Commit a delta with one file of these rows, as another engine could."""
    table, client, stamp = lab.info("t"), lab.client, pa.timestamp("ns")
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.INSERT)
    nested = pa.list_(pa.struct([("t", stamp), ("m", pa.map_(pa.string(), pa.decimal128(9, 2)))]))
    schema = pa.schema([("id", pa.int64()), ("at", stamp), ("c", pa.string()), ("old", nested)])
    path = f"{lab.root('t')}/delta_{write_id:07d}_{write_id:07d}_0000/bucket_00005"
    with AcidFileWriter(
        pafs.LocalFileSystem(), path, table.columns, WriterOptions(), is_delete=False
    ) as file:
        batch = pa.RecordBatch.from_pylist(rows, schema)
        file.write(insert_events(batch, WriteId(write_id), BUCKET_5, RowId(0)))
        file.close()
    client.commit_txn(txn_id)


def stored(lab: Lab) -> list[dict[str, Any]]:
    """The rows in the order of the files, exact to the nanosecond."""
    table, snapshot = lab.info("t"), lab.snapshot("t")
    batches = scan(
        table.location,
        table.columns,
        snapshot.write_ids(table.ref),
        snapshot.txns,
        timestamps=TimestampForm.PAIR,
    )
    return [one for batch in batches for one in batch.to_pylist()]


def test_a_change_feed_of_a_table_with_kept_versions_sees_each_row_deleted_and_inserted(
    lab4: Lab,
) -> None:
    lab4.table("t", {"id": "bigint", "at": "timestamp"})
    keep(lab4.client, lab4.info("t"))
    moment = datetime(2024, 1, 1)  # noqa: DTZ001 - Hive's timestamps have no zone
    lab4.insert("t", [(1, str(moment))], ["id", "at"])
    lab4.insert("t", [(2, str(moment))], ["id", "at"])
    lab4.rebalance("t")
    assert sorted(changes(lab4, since=2)) == [
        (change, 3, number, moment) for change in ("delete", "insert") for number in (1, 2)
    ]


def test_changes_that_overtake_a_rebalance_are_kept(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint"})
    for first in (0, 10):
        lab4.insert("t", [(number,) for number in range(first, first + 10)], ["id"])
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        # The plan under a reader's snapshot has opened a transaction before.
        if step == "opened" and steps.count("opened") == 2:
            lab4.delete("t", "id = 3")
            lab4.insert("t", [(99,)], ["id"])

    spec = RebalanceSpec(target=f"{lab4.db}.t", buckets=3)
    assert lab4.run(spec, on_step=overtake).status is JobStatus.COMMITTED
    assert steps.count("opened") >= 2
    assert lab4.rows("t") == [(number,) for number in range(20) if number != 3] + [(99,)]
    (base,) = (name for name in lab4.directories("t") if name.startswith("base"))
    assert rows_of_files(lab4, "", base) == [7, 7, 6]
