"""Compactions with real files beside whoever comes between; a stand-in runs what tasks would."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import DirectoryExistsError, TableChangedError
from airflow_hiveacid.format.ids import BucketProperty, RowId, TxnId, WriteId
from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.jobs.specs import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.txn_values import TxnType
from airflow_hiveacid.metastore.unchanged import check_partition
from airflow_hiveacid.spark.maintenance import compact as compact_module
from airflow_hiveacid.spark.maintenance.clean import Cleaner
from airflow_hiveacid.spark.maintenance.compact import CompactionOutcome, Compactor
from airflow_hiveacid.spark.maintenance.replacement import Replacement
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from contract.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hiveacid.format.table import TableInfo
    from contract.fake_metastore import FakeMetastore

BUCKET_0 = BucketProperty(0x20000000)


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object, task: Callable[..., Iterator[pa.RecordBatch]], works: Any, __: str) -> Any:  # noqa: ANN401
        rows = [row for work in works for batch in task(work) for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(**row) for row in rows])

    @contextmanager
    def group(_: object, __: str) -> Iterator[Callable[[], None]]:
        yield lambda: None

    monkeypatch.setattr(compact_module, "run_tasks", run)
    monkeypatch.setattr(compact_module, "job_group", group)


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


def compact(
    client: FakeClient,
    table: TableInfo,
    choice: CompactionChoice,
    on_step: Callable[[str], None] = lambda _: None,
) -> CompactionOutcome:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app_1"))
    compactor = Compactor(
        spark=spark,
        client=client,
        table=table,
        spec=CompactSpec(target=str(table.ref), choice=choice),
        job_key="dag/run/compact/-1",
        attempt=AttemptId(1, "0" * 12),
        lock_timeout_s=5.0,
        heartbeat_s=None,
        on_step=on_step,
    )
    (whole,) = client.list_partitions(table)
    return compactor.compact(whole)


def values(client: FakeClient, table: TableInfo) -> list[int]:
    txns = client.valid_txns()
    ids = client.valid_write_ids([table.ref], txns)[table.ref]
    found = scan(table.location, table.columns, ids, txns)
    return sorted(row["id"] for batch in found for row in batch.to_pylist())


def there(table: TableInfo, prefix: str) -> list[str]:
    root = Path(table.location.removeprefix("file:"))
    return sorted(path.name for path in root.iterdir() if path.name.startswith(prefix))


def test_a_base_has_a_plain_name_unless_somebody_may_read_by_an_older_snapshot(
    server: FakeMetastore, table: TableInfo
) -> None:
    """Who took the last write that goes in for open would read the base, if it is Hive 4."""
    client = FakeClient(server)
    reader = client.open_txn(TxnType.READ_ONLY)
    insert(client, table, 1)
    outcome = compact(client, table, CompactionChoice.MAJOR)
    suffix = "" if server.generation is MetastoreGeneration.V3 else f"_v{outcome.txn_id:07d}"
    assert outcome.outputs == (f"base_0000001{suffix}",)
    assert values(client, table) == [1]
    client.commit_txn(reader)
    insert(client, table, 2)
    # Another compaction at work is none of those.
    client.open_txn(TxnType.COMPACTION)
    if server.generation is MetastoreGeneration.V4:
        assert compact(client, table, CompactionChoice.MAJOR).outputs == ("base_0000002",)
        assert values(client, table) == [1, 2]


@pytest.mark.parametrize("step", ["snapshot", "staged"])
def test_a_table_that_got_another_column_meanwhile_is_not_compacted_without_it(
    server: FakeMetastore, table: TableInfo, step: str
) -> None:
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)

    def alter(reached: str) -> None:
        if reached == step:
            columns = (*table.columns, Column(name="more", type="string"))
            server.tables[table.ref] = dataclasses.replace(table, columns=columns)

    with pytest.raises(TableChangedError, match="columns"):
        compact(client, table, CompactionChoice.MAJOR, alter)
    assert there(table, "base_") == []


def test_a_partition_that_lies_elsewhere_by_now_is_not_compacted(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    name = PartitionName.parse("p=1")
    parted = dataclasses.replace(table, partition_columns=(Column(name="p", type="int"),))
    server.tables[table.ref] = parted
    (there_now,) = client.add_partitions(parted, [name])
    check_partition(client, parted, there_now)
    elsewhere = dataclasses.replace(there_now, location="file:/elsewhere")
    with pytest.raises(TableChangedError, match="partition p=1"):
        check_partition(client, parted, elsewhere)
    client.drop_partitions(parted, [name])
    with pytest.raises(TableChangedError, match="partition p=1"):
        check_partition(client, parted, there_now)


def hives_worker(
    client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> TxnId:
    """One that has all but ended, and leaves the queue right before we are let in."""
    client.request_compaction(table.ref, None, CompactionType.MAJOR)
    theirs = client.find_next_compaction("hive", worker_version="4.0.1")
    assert theirs is not None
    worker = client.open_txn(TxnType.COMPACTION)
    theirs = dataclasses.replace(theirs, highest_write_id=WriteId(3))
    client.update_compactor_state(theirs, worker)
    put(table, f"base_0000003_v{worker:07d}", [(1, 1), (2, 2), (3, 3)])
    real, asked = FakeClient.request_compaction, list[str]()

    def request(self: FakeClient, *arguments: Any, **terms: Any) -> Any:  # noqa: ANN401
        if not asked:
            asked.append("once")
            client.mark_compacted(theirs)
            if commits:
                client.commit_txn(worker)
        return real(self, *arguments, **terms)

    monkeypatch.setattr(FakeClient, "request_compaction", request)
    return worker


def test_what_hives_own_worker_has_just_made_is_seen_with_its_place_in_the_queue(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.generation is MetastoreGeneration.V3:
        return  # whose queue tells of workers until they have renamed
    client = FakeClient(server)
    for value in (1, 2, 3):
        insert(client, table, value)
    hives_worker(client, table, monkeypatch, commits=True)
    for value in (4, 5):
        insert(client, table, value)
    outcome = compact(client, table, CompactionChoice.MINOR)
    assert outcome.outputs == ("delta_0000004_0000005",)
    assert values(client, table) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_worker_of_hives_that_has_left_the_queue_and_not_committed_is_waited_for(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    if server.generation is MetastoreGeneration.V3:
        return
    client = FakeClient(server)
    for value in (1, 2, 3):
        insert(client, table, value)
    worker = hives_worker(client, table, monkeypatch, commits=False)
    for value in (4, 5):
        insert(client, table, value)

    def on_step(step: str) -> None:
        if is_late and step == "staged":
            client.commit_txn(worker)

    if is_late:
        with pytest.raises(DirectoryExistsError, match="base_0000003"):
            compact(client, table, CompactionChoice.MINOR, on_step)
    else:
        outcome = compact(client, table, CompactionChoice.MINOR, on_step)
        assert f"transaction {worker} is about to show base_0000003" in outcome.why
        client.commit_txn(worker)
    assert values(client, table) == [1, 2, 3, 4, 5]


def test_a_worker_of_3x_that_comes_while_the_directory_is_looked_at_goes_first(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.generation is MetastoreGeneration.V4:
        return  # where the queue lets nobody in beside us
    client = FakeClient(server)
    for value in (1, 2):
        insert(client, table, value)
    real = Replacement.remove_dead_siblings

    def remove(self: Replacement) -> None:
        real(self)
        client.request_compaction(table.ref, None, CompactionType.MAJOR)

    monkeypatch.setattr(Replacement, "remove_dead_siblings", remove)
    outcome = compact(client, table, CompactionChoice.MAJOR)
    assert (outcome.done, there(table, "base_")) == (False, [])
    assert "queue has it as initiated" in outcome.why


def test_an_entry_whose_compaction_was_not_committed_is_not_marked_as_cleaned(
    server: FakeMetastore, table: TableInfo
) -> None:
    """The server would forget what was aborted below it, and rows of that would come back."""
    if server.generation is MetastoreGeneration.V3:
        return  # no queue to mark
    client = FakeClient(server)
    for value in (1, 2, 3):
        insert(client, table, value)

    class Killed(BaseException):
        pass

    def die(step: str) -> None:
        if step == "marked":
            raise Killed

    reader = client.open_txn(TxnType.READ_ONLY)
    with pytest.raises(Killed):
        compact(client, table, CompactionChoice.MAJOR, die)
    client.commit_txn(reader)
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.FAILED, "it could say so itself"
    # One that could not.
    entry_id, txn_id = _ready_but_aborted(client, table)
    marked: list[object] = []
    client.mark_cleaned = marked.append  # type: ignore[method-assign]
    (whole,) = client.list_partitions(table)
    spec = CleanSpec(target=str(table.ref))
    outcome = Cleaner(client=client, table=table, spec=spec, on_step=lambda _: None).clean(whole)
    assert (outcome.marked_entries, marked) == ((), [])
    states = {e.entry_id: e.state for e in client.show_compactions(table.ref)}
    assert states[entry_id] is CompactionState.FAILED
    assert txn_id in client.valid_txns().aborted


def _ready_but_aborted(client: FakeClient, table: TableInfo) -> tuple[int, TxnId]:
    """An entry of ours whose worker died between its mark and its commit."""
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="hiveacid-x")
    claim = client.find_next_compaction("hiveacid-k", worker_version="1", pool="hiveacid-x")
    assert claim is not None
    txn_id = client.open_txn(TxnType.COMPACTION)
    claim = dataclasses.replace(claim, highest_write_id=WriteId(3))
    client.update_compactor_state(claim, txn_id)
    client.mark_compacted(claim)
    client.abort_txn(txn_id)
    TableNotes.of(table).note_highest_write_id(claim.entry_id, WriteId(3))
    return claim.entry_id, txn_id
