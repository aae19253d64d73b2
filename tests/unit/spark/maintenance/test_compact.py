"""Compactions of real files during concurrent changes; a stand-in runs the tasks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format import directories, errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.ids import RowId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import (
    Column,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance import compaction_facts
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType, our_pool
from airflow_hiveacid.metastore.listed_tables import check_partition
from airflow_hiveacid.metastore.port import TxnType, snapshot_now
from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.writing.publish import Replacement
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.unit.spark.maintenance import rig
from tests.unit.storage.orc_tables import write_plain

FS = LocalFileSystem()


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    rig.without_spark(monkeypatch)


def test_a_base_has_a_plain_name_unless_a_reader_may_have_an_older_snapshot(
    server: FakeMetastore, table: TableInfo
) -> None:
    """A Hive 4 reader that has the last compacted write as open would read a plain base."""
    client = FakeClient(server)
    reader = client.open_txn(TxnType.READ_ONLY)
    rig.insert(client, table, 1)
    outcome = rig.compact(client, table, CompactionChoice.MAJOR)
    suffix = "" if server.generation is MetastoreGeneration.V3 else f"_v{outcome.txn_id:07d}"
    assert outcome.outputs == (f"base_0000001{suffix}",)
    assert rig.values(client, table) == [1]
    client.commit_txn(reader)
    rig.insert(client, table, 2)
    # Another compaction at work is none of those.
    client.open_txn(TxnType.COMPACTION)
    if server.generation is MetastoreGeneration.V4:
        assert rig.compact(client, table, CompactionChoice.MAJOR).outputs == ("base_0000002",)
        assert rig.values(client, table) == [1, 2]


def test_the_ledger_entry_of_a_killed_writer_is_confirmed_before_its_delta_is_replaced(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    rig.insert(client, table, 1)
    is_confirmed = rig.leave_unconfirmed(table, "delta_0000001_0000001_0000")
    seen: dict[str, bool] = {}
    rig.compact(
        client, table, CompactionChoice.MAJOR, lambda step: seen.update({step: is_confirmed()})
    )
    # Hive's cleaner may be next as soon as it is committed.
    assert (seen["staged"], seen["published"]) == (False, True)


@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
def test_a_requested_kind_of_compaction_fails_if_an_open_write_id_is_below_all_deltas(
    server: FakeMetastore, table: TableInfo, choice: CompactionChoice
) -> None:
    client = FakeClient(server)
    rig.insert(client, table, 1)
    assert rig.compact(client, table, CompactionChoice.MAJOR).done
    writer = client.open_txn()
    client.allocate_write_id(writer, table.ref)
    rig.put(table, "delta_0000002_0000002_0000", [(2, 2)])
    plan = rig.compact(client, table, choice)
    assert plan.why == "there is no delta below write ID 2, which is open"
    rig.insert(client, table, 3)
    rig.insert(client, table, 4)
    with pytest.raises(errors.CompactionNotDoneError, match="write ID 2 is open") as caught:
        rig.compact(client, table, choice)
    assert caught.value.retryable
    assert not rig.compact(client, table, CompactionChoice.AUTO).done
    client.commit_txn(writer)
    assert rig.compact(client, table, choice).done
    assert rig.values(client, table) == [1, 2, 3, 4]


def test_a_requested_compaction_includes_writes_committed_since_the_run_began(
    server: FakeMetastore, table: TableInfo
) -> None:
    """The snapshot of the run has the writer as open, with a lower write ID than all others."""
    client = FakeClient(server)
    writer = client.open_txn()
    client.allocate_write_id(writer, table.ref)
    rig.put(table, "delta_0000001_0000001_0000", [(1, 1)])
    rig.insert(client, table, 2)
    known = snapshot_now(client, [table.ref]).for_compactor()
    client.commit_txn(writer)
    assert rig.compact(client, table, CompactionChoice.MAJOR, known=known).done
    assert rig.values(client, table) == [1, 2]


@pytest.mark.parametrize("step", ["snapshot", "staged"])
def test_a_compaction_fails_if_a_column_is_added_to_the_table_meanwhile(
    server: FakeMetastore, table: TableInfo, step: str
) -> None:
    client = FakeClient(server)
    rig.insert(client, table, 1)
    rig.insert(client, table, 2)

    def alter(reached: str) -> None:
        if reached == step:
            columns = (*table.columns, Column(name="more", type="string"))
            server.tables[table.ref] = dataclasses.replace(table, columns=columns)

    with pytest.raises(errors.TableChangedError, match="columns"):
        rig.compact(client, table, CompactionChoice.MAJOR, alter)
    assert rig.there(table, "base_") == []


def test_a_partition_of_an_unpartitioned_table_is_not_compacted(
    client: FakeClient, table: TableInfo
) -> None:
    rig.insert(client, table, 1)
    before = rig.there(table, "")
    for plan_only in (True, False):
        spec = CompactSpec.of_table(
            str(table.ref),
            partition="month=1",
            choice=CompactionChoice.MAJOR,
            plan_only=plan_only,
        )
        job: Any = SimpleNamespace(
            client=client,
            spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1)),
            spec=None,
            job_of=lambda _, spec=spec: spec,
        )
        with pytest.raises(errors.PartitionNotFoundError, match="has no partition month=1"):
            compact_tables(job)
    assert rig.there(table, "") == before


def test_no_compaction_of_a_flat_table_is_planned(client: FakeClient, table: TableInfo) -> None:
    client.server.tables[table.ref] = dataclasses.replace(table, kind=TransactionalKind.NONE)
    with pytest.raises(errors.NotTransactionalError):
        rig.plan(client, CompactSpec.of_table(str(table.ref), plan_only=True))


def test_a_partition_that_was_moved_or_dropped_is_not_compacted(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    name = PartitionName.parse("p=1")
    parted = dataclasses.replace(table, partition_columns=(Column(name="p", type="int"),))
    server.tables[table.ref] = parted
    (there_now,) = client.add_partitions(parted, [name])
    check_partition(client, parted, there_now)
    elsewhere = dataclasses.replace(there_now, location="file:/elsewhere")
    with pytest.raises(errors.TableChangedError, match="partition p=1"):
        check_partition(client, parted, elsewhere)
    client.drop_partitions(parted, [name])
    with pytest.raises(errors.TableChangedError, match="partition p=1"):
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
    rig.put(table, f"base_0000003_v{worker:07d}", [(1, 1), (2, 2), (3, 3)])
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


def test_a_base_that_the_worker_of_hive_has_just_committed_is_not_compacted_again(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.generation is MetastoreGeneration.V3:
        return  # whose queue tells of workers until they have renamed
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    hives_worker(client, table, monkeypatch, commits=True)
    for value in (4, 5):
        rig.insert(client, table, value)
    outcome = rig.compact(client, table, CompactionChoice.MINOR)
    assert outcome.outputs == ("delta_0000004_0000005",)
    assert rig.values(client, table) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_compaction_gives_way_to_a_worker_of_hive_between_its_mark_and_its_commit(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    if server.generation is MetastoreGeneration.V3:
        return
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    worker = hives_worker(client, table, monkeypatch, commits=False)
    for value in (4, 5):
        rig.insert(client, table, value)

    def on_step(step: str) -> None:
        if is_late and step == "staged":
            client.commit_txn(worker)

    why = "base_0000003_v.* was added" if is_late else "is about to commit base_0000003"
    with pytest.raises(errors.CompactionNotDoneError, match=why):
        rig.compact(client, table, CompactionChoice.MINOR, on_step)
    if not is_late:
        client.commit_txn(worker)
    assert rig.values(client, table) == [1, 2, 3, 4, 5]


def test_a_wider_delta_of_a_concurrent_compactor_does_not_double_rows(
    server: FakeMetastore, table: TableInfo
) -> None:
    """It contains the rows of our base, and readers would read both."""
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)

    def widen(step: str) -> None:
        if step == "staged":
            rig.insert(FakeClient(server), table, 4)
            rig.put(table, "delta_0000001_0000004", [(1, 1), (2, 2), (3, 3), (4, 4)])

    with pytest.raises(
        errors.CompactionNotDoneError, match="delta_0000001_0000004 contains later writes"
    ):
        rig.compact(client, table, CompactionChoice.MAJOR, widen)
    assert rig.there(table, "base_") == []
    assert rig.values(client, table) == [1, 2, 3, 4]


def test_a_base_of_an_aborted_compaction_is_removed_if_a_wider_delta_has_its_rows(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    real = Replacement.publish

    def publish(self: Replacement) -> None:
        real(self)
        assert rig.there(table, "base_") == ["base_0000003"]
        (own,) = client.valid_txns().open
        client.abort_txn(own)
        rig.insert(client, table, 4)
        rig.put(table, "delta_0000001_0000004", [(1, 1), (2, 2), (3, 3), (4, 4)])

    monkeypatch.setattr(Replacement, "publish", publish)
    with pytest.raises(errors.TransactionAbortedError):
        rig.compact(FakeClient(server), table, CompactionChoice.MAJOR)
    assert rig.values(client, table) == [1, 2, 3, 4]
    assert rig.there(table, "base_") == []


def test_a_base_of_two_files_is_not_published_where_files_appear_one_by_one(
    server: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader between the two would take the first for the whole base."""
    monkeypatch.setattr(compaction_facts, "publishes_files", lambda _: True)  # as on S3
    monkeypatch.setattr(directories, "COMBINED_FILE_BYTES", 1)  # so that each file stays alone
    client = FakeClient(server)
    flat = client.create_table(
        NewTable(
            ref=TableRef("default", "flat"),
            columns=(Column(name="id", type="bigint"),),
            kind=TransactionalKind.INSERT_ONLY,
            location=f"file:{tmp_path}/flat",
        )
    )
    row = pa.struct([("id", pa.int64())])
    for value in (1, 2):
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, flat.ref)
        delta = f"delta_{write_id:07d}_{write_id:07d}_0000"
        write_plain(tmp_path / "flat" / delta / "000000_0", [{"id": value}], row=row)
        client.commit_txn(txn_id)
    with pytest.raises(errors.CompactionNotDoneError, match="2 files would appear file by file"):
        rig.compact(client, flat, CompactionChoice.MAJOR)
    assert rig.there(flat, "base_") == []


def test_on_hive_3_a_compaction_gives_way_to_a_request_made_before_it_publishes(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.generation is MetastoreGeneration.V4:
        return  # where the queue lets nobody in beside us
    client = FakeClient(server)
    for value in (1, 2):
        rig.insert(client, table, value)
    real = Replacement.remove_dead_siblings

    def remove(self: Replacement) -> None:
        real(self)
        client.request_compaction(table.ref, None, CompactionType.MAJOR)

    monkeypatch.setattr(Replacement, "remove_dead_siblings", remove)
    with pytest.raises(
        errors.CompactionNotDoneError, match=r"an entry for it already: .* waits for a worker"
    ):
        rig.compact(client, table, CompactionChoice.MAJOR)
    assert rig.there(table, "base_") == []


def test_a_wider_delta_made_while_the_ledger_is_read_does_not_double_rows(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of 3.1 does not show a worker that has ended, so only the directory does."""
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    real = Ledger.unconfirmed

    def read(self: Ledger, txns: ValidTxnList) -> tuple[LedgerEntry, ...]:
        rig.insert(FakeClient(server), table, 4)
        rig.put(table, "delta_0000001_0000004", [(1, 1), (2, 2), (3, 3), (4, 4)])
        return real(self, txns)

    monkeypatch.setattr(Ledger, "unconfirmed", read)
    with pytest.raises(
        errors.CompactionNotDoneError, match="delta_0000001_0000004 contains later writes"
    ):
        rig.compact(client, table, CompactionChoice.MAJOR)
    assert rig.there(table, "base_") == []
    assert rig.values(client, table) == [1, 2, 3, 4]


def test_an_entry_whose_compaction_was_not_committed_is_not_marked_as_cleaned(
    server: FakeMetastore, table: TableInfo
) -> None:
    """The metastore would forget aborted writes below it, and their rows would reappear."""
    if server.generation is MetastoreGeneration.V3:
        return  # no queue to mark
    client = FakeClient(server)
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    entry_id, txn_id = _ready_but_aborted(client, table)
    marked: list[object] = []
    client.mark_cleaned = marked.append  # type: ignore[method-assign]
    (whole,) = client.list_partitions(table)
    spec = CleanSpec.of_table(str(table.ref))
    overview = Overview.of(client, table)
    cleaner = Cleaner(
        client=client, table=table, spec=spec, on_step=lambda _: None, overview=overview
    )
    outcome = cleaner.clean(whole)
    assert (outcome.marked_entries, marked) == ((), [])
    states = {e.entry_id: e.state for e in client.show_compactions(table.ref)}
    assert states[entry_id] is CompactionState.REFUSED
    assert txn_id in client.valid_txns().aborted


def _ready_but_aborted(client: FakeClient, table: TableInfo) -> tuple[int, TxnId]:
    """An entry of ours whose worker died between its mark and its commit."""
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
    claim = client.find_next_compaction("hiveacid-k", worker_version="1", pool=pool)
    assert claim is not None
    txn_id = client.open_txn(TxnType.COMPACTION)
    claim = dataclasses.replace(claim, highest_write_id=WriteId(3))
    client.update_compactor_state(claim, txn_id)
    client.mark_compacted(claim)
    client.abort_txn(txn_id)
    TableNotes.of(table).note_highest_write_id(claim.entry_id, WriteId(3))
    return claim.entry_id, txn_id


@pytest.mark.promise("F7")
@pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
@pytest.mark.parametrize(
    ("choice", "stripes"), [(CompactionChoice.MINOR, 2), (CompactionChoice.MAJOR, 1)]
)
def test_a_compacted_delta_has_smaller_stripes_than_a_compacted_base(
    client: FakeClient, table: TableInfo, choice: CompactionChoice, stripes: int
) -> None:
    """Both have 20 MiB of numbers that do not compress."""
    root = table.location.removeprefix("file:")
    options = WriterOptions(stripe_size_bytes=1)  # too small to be copied
    dice = np.random.default_rng(1)
    for write_id in (WriteId(1), WriteId(2)):
        txn_id = client.open_txn()
        assert client.allocate_write_id(txn_id, table.ref) == write_id
        rows = pa.record_batch({"id": dice.integers(0, 1 << 62, 10 << 17)})
        path = f"{root}/delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000"
        with AcidFileWriter(FS, path, table.columns, options, is_delete=False) as file:
            file.write(insert_events(rows, write_id, rig.BUCKET_0, RowId(0)))
            file.close()
        client.commit_txn(txn_id)
    (made,) = rig.compact(client, table, choice).outputs
    assert len(read_tail(FS, f"{root}/{made}/bucket_00000").stripes) == stripes
