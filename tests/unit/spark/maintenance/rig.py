"""Compactions of real files; stand-ins replace the metastore and Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts, CompactionOutcome
from airflow_hiveacid.maintenance.compaction_planner import Window, plan_tables
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    CompactionType,
    in_queue,
)
from airflow_hiveacid.metastore.port import TxnType, snapshot_now
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
from tests.contract.fake_metastore import FakeMetastore
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


@dataclass(frozen=True)
class Rig:
    """A table of real files, and the work on it through one client."""

    client: FakeClient
    table: TableInfo

    @property
    def ref(self) -> TableRef:
        return self.table.ref

    @property
    def root(self) -> Path:
        return Path(self.table.location.removeprefix("file:"))

    def put(self, directory: str, rows: Sequence[tuple[int, int]]) -> None:
        put(self.table, directory, rows)

    def there(self, prefix: str) -> list[str]:
        return there(self.table, prefix)

    def insert(self, *values: int) -> None:
        """Commit an insert of each value."""
        for value in values:
            txn_id = self.client.open_txn()
            write_id = self.client.allocate_write_id(txn_id, self.ref)
            self.client.add_dynamic_partitions(txn_id, write_id, self.ref, (), DataOperation.INSERT)
            self.put(f"delta_{write_id:07d}_{write_id:07d}_0000", [(write_id, value)])
            self.client.commit_txn(txn_id)

    def begin_delete(self, *gone: int) -> Callable[[], None]:
        """Find the rows with these values, as a DELETE does; what is returned deletes them."""
        txn_id = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn_id, self.ref)
        self.client.add_dynamic_partitions(txn_id, write_id, self.ref, (), DataOperation.DELETE)
        found = pa.Table.from_batches(self._scanned(with_identity=True)).to_pylist()
        keys = [tuple(row["row__id"].values()) for row in found if row["id"] in gone]

        def finish() -> None:
            names = ("originalTransaction", "bucket", "rowId")
            types = (pa.int64(), pa.int32(), pa.int64())
            columns = zip(zip(*keys, strict=True), types, strict=True)
            identity = pa.record_batch([pa.array(values, t) for values, t in columns], names)
            directory = f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
            path = f"{self.root}/{directory}/bucket_00000"
            with AcidFileWriter(
                pafs.LocalFileSystem(), path, self.table.columns, WriterOptions(), is_delete=True
            ) as file:
                file.write(delete_events(identity, write_id, self.table.columns))
                file.close()
            self.client.commit_txn(txn_id)

        return finish

    def compact(
        self,
        choice: CompactionChoice,
        on_step: Callable[[str], None] = lambda _: None,
        *,
        job_key: str = "dag/run/compact/-1",
        policy: ConflictPolicy = ConflictPolicy.HIVE,
        known: Snapshot | None = None,
        is_stopped: bool = False,
        clock: Clock | None = None,
    ) -> CompactionOutcome:
        """Compact the table as the metastore defines it now."""
        requests = {entry.partition: entry for entry in end_dead_entries(self.client, self.ref)}
        table = self.client.get_table(self.ref)
        (whole,) = self.client.list_partitions(table)
        attempt = AttemptId(1, "0" * 12)
        job: Any = SimpleNamespace(
            policy_of=lambda _: policy,
            terms=job_terms(job_key, attempt=attempt, clock=clock or Clock(), on_step=on_step),
        )
        compactor = Compactor(
            job=job,
            engine=compact_tables.SparkCompactions(pretended_spark(is_stopped=is_stopped)),
            client=self.client,
            facts=CompactionFacts(
                table=table,
                partition=whole,
                spec=CompactSpec.of_table(str(self.ref), choice=choice),
                known=known or snapshot_now(self.client, [self.ref]),
                request=requests.get(in_queue(whole)),
            ),
            shared=SharedNotes.of(table),
            window=Window(),
        )
        return compactor.compact()

    def clean(self) -> None:
        clean_tables(self.client, CleanSpec.of_table(str(self.ref)), lambda _: None)

    @property
    def server(self) -> FakeMetastore:
        return self.client.server

    def abort_open(self) -> None:
        for txn_id in self.client.valid_txns().open:
            self.client.abort_txn(txn_id)

    @property
    def values(self) -> list[int]:
        return sorted(row["id"] for batch in self._scanned() for row in batch.to_pylist())

    def _scanned(self, *, with_identity: bool = False) -> Iterator[pa.RecordBatch]:
        txns = self.client.valid_txns()
        ids = self.client.valid_write_ids([self.ref], txns)[self.ref]
        return scan(self.table.location, self.table.columns, ids, txns, with_identity=with_identity)

    @property
    def entries(self) -> list[CompactionEntry]:
        """The entries of the table in the queue, the oldest first."""
        entries = self.client.show_compactions(self.ref)
        return sorted(entries, key=lambda entry: entry.entry_id or 0)

    @property
    def states(self) -> list[CompactionState]:
        return [entry.state for entry in self.entries]

    def request(
        self, kind: CompactionType = CompactionType.MAJOR, pool: str | None = None
    ) -> int | None:
        """Request a compaction of the table, as another client does."""
        return self.client.request_compaction(self.ref, None, kind, pool=pool).entry_id

    def claim(self, worker: str = "hive", pool: str | None = None) -> ClaimedCompaction:
        """Let a worker claim the request that waits."""
        claim = self.client.find_next_compaction(worker, worker_version="4.0.1", pool=pool)
        assert claim is not None
        return claim

    def begin_claimed(
        self, claim: ClaimedCompaction, highest: int = 3
    ) -> tuple[ClaimedCompaction, TxnId]:
        """Open the transaction of a claimed compaction of the writes up to `highest`."""
        txn_id = self.client.open_txn(TxnType.COMPACTION)
        claim = replace(claim, highest_write_id=WriteId(highest))
        self.client.update_compactor_state(claim, txn_id)
        return claim, txn_id


def plan(client: FakeClient, spec: CompactSpec) -> list[CompactionOutcome]:
    run = plan_tables(client, spec)
    run.report_due()
    run.check(run.done)
    return run.of_table


def ledger_entry(
    table: TableInfo, directory: str, write_id: int = 1, job_key: str = "dag/run/task/-1"
) -> LedgerEntry:
    """An unconfirmed entry of a job whose transaction has the number of its write."""
    return LedgerEntry(
        job_key=job_key,
        generation=0,
        attempt=AttemptId(1, "1" * 12),
        statement={"kind": "1a"},
        table_id=table.table_id,
        txn_id=TxnId(write_id),
        write_id=WriteId(write_id),
        directories=(f"{table.location}/{directory}",),
        result="{}",
        recorded_s=1.0,
        retention_s=100.0,
    )


def leave_unconfirmed(table: TableInfo, directory: str) -> Callable[[], bool]:
    """Leave what a driver that is killed after it has committed write 1 leaves in the ledger.

    What is returned tells whether the entry is confirmed.
    """
    ledger, entry = Ledger.of(table), ledger_entry(table, directory)
    ledger.write(entry)
    return lambda: any(e.is_confirmed for e in ledger.entries(entry.job_key))


def there(table: TableInfo, prefix: str) -> list[str]:
    root = Path(table.location.removeprefix("file:"))
    return sorted(path.name for path in root.iterdir() if path.name.startswith(prefix))
