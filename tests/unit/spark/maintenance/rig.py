"""Compactions of real files; stand-ins replace the metastore and Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation
from airflow_hiveacid.format.ids import AttemptId, BucketProperty, RowId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts, CompactionOutcome
from airflow_hiveacid.maintenance.compaction_planner import Window, plan_tables
from airflow_hiveacid.metastore.compaction_queue import in_queue
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.metastore.transactions import Clock
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.spark.maintenance import bucket_tasks, compact_tables
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.writing.compaction import Compactor
from airflow_hiveacid.writing.publish import SharedNotes
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_terms

BUCKET_0 = BucketProperty(0x20000000)


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tasks of a compaction right here."""

    def results(_: object, task: Callable[[Any], Any], works: Sequence[Any]) -> list[Any]:
        return list(map(task, works))

    @contextmanager
    def group(_: object, __: str) -> Iterator[Callable[[], None]]:
        yield lambda: None

    monkeypatch.setattr(bucket_tasks, "task_results", results)
    monkeypatch.setattr(compact_tables, "job_group", group)


def pretended_spark(*, at_once: int = 4, is_stopped: bool = False) -> Any:  # noqa: ANN401 - a stand-in
    """The parts of a session that a compaction asks for its name and for its end."""
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: is_stopped))
    return SimpleNamespace(
        sparkContext=SimpleNamespace(applicationId="app_1", defaultParallelism=at_once, _jsc=jvm)
    )


def put(table: TableInfo, directory: str, rows: Sequence[tuple[int, int]]) -> None:
    """A file of rows: their write IDs, and values."""
    path = f"{table.location.removeprefix('file:')}/{directory}/bucket_00000"
    options = WriterOptions()
    with AcidFileWriter(
        pafs.LocalFileSystem(), path, table.columns, options, is_delete=False
    ) as file:
        for write_id, value in rows:
            batch = pa.record_batch({"id": [value]}, pa.schema([("id", pa.int64())]))
            file.write(insert_events(batch, WriteId(write_id), BUCKET_0, RowId(0)))
        file.close()


def insert(client: FakeClient, table: TableInfo, value: int) -> None:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.INSERT)
    put(table, f"delta_{write_id:07d}_{write_id:07d}_0000", [(write_id, value)])
    client.commit_txn(txn_id)


def begin_delete(client: FakeClient, table: TableInfo, *gone: int) -> Callable[[], None]:
    """Find the rows with these values, as a DELETE does; what is returned deletes them."""
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.DELETE)
    found = pa.Table.from_batches(_scanned(client, table, with_identity=True)).to_pylist()
    keys = [tuple(row["row__id"].values()) for row in found if row["id"] in gone]

    def finish() -> None:
        names = ("originalTransaction", "bucket", "rowId")
        types = (pa.int64(), pa.int32(), pa.int64())
        columns = zip(zip(*keys, strict=True), types, strict=True)
        identity = pa.record_batch([pa.array(values, t) for values, t in columns], names)
        directory = f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
        path = f"{table.location.removeprefix('file:')}/{directory}/bucket_00000"
        with AcidFileWriter(
            pafs.LocalFileSystem(), path, table.columns, WriterOptions(), is_delete=True
        ) as file:
            file.write(delete_events(identity, write_id, table.columns))
            file.close()
        client.commit_txn(txn_id)

    return finish


def compact(
    client: FakeClient,
    table: TableInfo,
    choice: CompactionChoice,
    on_step: Callable[[str], None] = lambda _: None,
    *,
    job_key: str = "dag/run/compact/-1",
    policy: ConflictPolicy = ConflictPolicy.HIVE,
    known: Snapshot | None = None,
    is_stopped: bool = False,
    clock: Clock | None = None,
) -> CompactionOutcome:
    requests = {entry.partition: entry for entry in end_dead_entries(client, table.ref)}
    (whole,) = client.list_partitions(table)
    job: Any = SimpleNamespace(
        policy_of=lambda _: policy,
        terms=job_terms(
            job_key, attempt=AttemptId(1, "0" * 12), clock=clock or Clock(), on_step=on_step
        ),
    )
    compactor = Compactor(
        job=job,
        engine=compact_tables.SparkCompactions(pretended_spark(is_stopped=is_stopped)),
        client=client,
        facts=CompactionFacts(
            table=table,
            partition=whole,
            spec=CompactSpec.of_table(str(table.ref), choice=choice),
            known=known or snapshot_now(client, [table.ref]),
            request=requests.get(in_queue(whole)),
        ),
        shared=SharedNotes.of(table),
        window=Window(),
    )
    return compactor.compact()


def clean(client: FakeClient, table: TableInfo) -> list[CleaningOutcome]:
    return clean_tables(client, CleanSpec.of_table(str(table.ref)), lambda _: None).outcomes


def plan(client: FakeClient, spec: CompactSpec) -> list[CompactionOutcome]:
    run = plan_tables(client, spec)
    run.report_due()
    run.check(run.done)
    return run.of_table


def values(client: FakeClient, table: TableInfo) -> list[int]:
    found = _scanned(client, table)
    return sorted(row["id"] for batch in found for row in batch.to_pylist())


def _scanned(
    client: FakeClient, table: TableInfo, *, with_identity: bool = False
) -> Iterator[pa.RecordBatch]:
    txns = client.valid_txns()
    ids = client.valid_write_ids([table.ref], txns)[table.ref]
    return scan(table.location, table.columns, ids, txns, with_identity=with_identity)


def leave_unconfirmed(table: TableInfo, directory: str) -> Callable[[], bool]:
    """Leave what a driver that is killed after it has committed write 1 leaves in the ledger.

    What is returned tells whether the entry is confirmed.
    """
    ledger = Ledger.of(table)
    entry = LedgerEntry(
        job_key="dag/run/task/-1",
        generation=0,
        attempt=AttemptId(1, "1" * 12),
        statement={"kind": "1a"},
        table_id=table.table_id,
        txn_id=TxnId(1),
        write_id=WriteId(1),
        directories=(f"{table.location}/{directory}",),
        result="{}",
        recorded_s=1.0,
        retention_s=100.0,
    )
    ledger.write(entry)
    return lambda: any(e.is_confirmed for e in ledger.entries(entry.job_key))


def there(table: TableInfo, prefix: str) -> list[str]:
    root = Path(table.location.removeprefix("file:"))
    return sorted(path.name for path in root.iterdir() if path.name.startswith(prefix))
