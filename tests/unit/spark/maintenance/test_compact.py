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
from airflow_hiveacid.format.table import (
    Column,
    PartitionName,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance import compaction_facts
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.overview import Overview
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
from tests.support.steps import act_after, act_before, at
from tests.support.tables import id_table
from tests.unit.spark.maintenance.rig import BUCKET_0, Rig, leave_unconfirmed, plan
from tests.unit.storage.orc_tables import write_plain

FS = LocalFileSystem()
ON_4 = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)


def test_a_base_has_a_plain_name_unless_a_reader_may_have_an_older_snapshot(rig: Rig) -> None:
    """A Hive 4 reader that has the last compacted write as open would read a plain base."""
    reader = rig.client.open_txn(TxnType.READ_ONLY)
    rig.insert(1)
    outcome = rig.compact(CompactionChoice.MAJOR)
    suffix = "" if rig.server.generation is MetastoreGeneration.V3 else f"_v{outcome.txn_id:07d}"
    assert outcome.outputs == (f"base_0000001{suffix}",)
    assert rig.values == [1]
    rig.client.commit_txn(reader)
    rig.insert(2)
    # Another compaction at work is none of those.
    rig.client.open_txn(TxnType.COMPACTION)
    if rig.server.generation is MetastoreGeneration.V4:
        assert rig.compact(CompactionChoice.MAJOR).outputs == ("base_0000002",)
        assert rig.values == [1, 2]


def test_the_ledger_entry_of_a_killed_writer_is_confirmed_before_its_delta_is_replaced(
    rig: Rig,
) -> None:
    rig.insert(1)
    is_confirmed = leave_unconfirmed(rig.table, "delta_0000001_0000001_0000")
    seen: dict[str, bool] = {}
    rig.compact(CompactionChoice.MAJOR, lambda step: seen.update({step: is_confirmed()}))
    # Hive's cleaner may be next as soon as it is committed.
    assert (seen["staged"], seen["published"]) == (False, True)


@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
def test_a_requested_kind_of_compaction_fails_if_an_open_write_id_is_below_all_deltas(
    rig: Rig, choice: CompactionChoice
) -> None:
    rig.insert(1)
    assert rig.compact(CompactionChoice.MAJOR).done
    writer = rig.client.open_txn()
    rig.client.allocate_write_id(writer, rig.ref)
    rig.put("delta_0000002_0000002_0000", [(2, 2)])
    assert rig.compact(choice).why == "there is no delta below write ID 2, which is open"
    rig.insert(3, 4)
    with pytest.raises(errors.CompactionNotDoneError, match="write ID 2 is open") as caught:
        rig.compact(choice)
    assert caught.value.retryable
    assert not rig.compact(CompactionChoice.AUTO).done
    rig.client.commit_txn(writer)
    assert rig.compact(choice).done
    assert rig.values == [1, 2, 3, 4]


def test_a_requested_compaction_includes_writes_committed_since_the_run_began(rig: Rig) -> None:
    """The snapshot of the run has the writer as open, with a lower write ID than all others."""
    writer = rig.client.open_txn()
    rig.client.allocate_write_id(writer, rig.ref)
    rig.put("delta_0000001_0000001_0000", [(1, 1)])
    rig.insert(2)
    known = snapshot_now(rig.client, [rig.ref]).for_compactor()
    rig.client.commit_txn(writer)
    assert rig.compact(CompactionChoice.MAJOR, known=known).done
    assert rig.values == [1, 2]


@pytest.mark.parametrize("step", ["snapshot", "staged"])
def test_a_compaction_fails_if_a_column_is_added_to_the_table_meanwhile(
    rig: Rig, step: str
) -> None:
    rig.insert(1, 2)

    def alter(reached: str) -> None:
        if reached == step:
            columns = (*rig.table.columns, Column(name="more", type="string"))
            rig.server.tables[rig.ref] = dataclasses.replace(rig.table, columns=columns)

    with pytest.raises(errors.TableChangedError, match="columns"):
        rig.compact(CompactionChoice.MAJOR, alter)
    assert rig.there("base_") == []


def test_a_partition_of_an_unpartitioned_table_is_not_compacted(rig: Rig) -> None:
    rig.insert(1)
    before = rig.there("")
    for plan_only in (True, False):
        spec = CompactSpec.of_table(
            str(rig.ref),
            partition="month=1",
            choice=CompactionChoice.MAJOR,
            plan_only=plan_only,
        )
        job: Any = SimpleNamespace(
            client=rig.client,
            spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1)),
            spec=None,
            job_of=lambda _, spec=spec: spec,
        )
        with pytest.raises(errors.PartitionNotFoundError, match="has no partition month=1"):
            compact_tables(job)
    assert rig.there("") == before


def test_no_compaction_of_a_flat_table_is_planned(rig: Rig) -> None:
    rig.server.tables[rig.ref] = dataclasses.replace(rig.table, kind=TransactionalKind.NONE)
    with pytest.raises(errors.NotTransactionalError):
        plan(rig.client, CompactSpec.of_table(str(rig.ref), plan_only=True))


def test_a_partition_that_was_moved_or_dropped_is_not_compacted(rig: Rig) -> None:
    name = PartitionName.parse("p=1")
    parted = dataclasses.replace(rig.table, partition_columns=(Column(name="p", type="int"),))
    rig.server.tables[rig.ref] = parted
    (there_now,) = rig.client.add_partitions(parted, [name])
    check_partition(rig.client, parted, there_now)
    elsewhere = dataclasses.replace(there_now, location="file:/elsewhere")
    with pytest.raises(errors.TableChangedError, match="partition p=1"):
        check_partition(rig.client, parted, elsewhere)
    rig.client.drop_partitions(parted, [name])
    with pytest.raises(errors.TableChangedError, match="partition p=1"):
        check_partition(rig.client, parted, there_now)


def hives_worker(rig: Rig, monkeypatch: pytest.MonkeyPatch, *, commits: bool) -> TxnId:
    """One that has all but ended, and leaves the queue right before we are let in."""
    rig.request(CompactionType.MAJOR)
    theirs, worker = rig.begin_claimed(rig.claim())
    rig.put(f"base_0000003_v{worker:07d}", [(1, 1), (2, 2), (3, 3)])
    real, asked = FakeClient.request_compaction, list[str]()

    def request(self: FakeClient, *arguments: Any, **terms: Any) -> Any:  # noqa: ANN401
        if not asked:
            asked.append("once")
            rig.client.mark_compacted(theirs)
            if commits:
                rig.client.commit_txn(worker)
        return real(self, *arguments, **terms)

    monkeypatch.setattr(FakeClient, "request_compaction", request)
    return worker


@ON_4
def test_a_base_that_the_worker_of_hive_has_just_committed_is_not_compacted_again(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hives_worker(filled, monkeypatch, commits=True)
    filled.insert(4, 5)
    outcome = filled.compact(CompactionChoice.MINOR)
    assert outcome.outputs == ("delta_0000004_0000005",)
    assert filled.values == [1, 2, 3, 4, 5]


@ON_4
@pytest.mark.parametrize("is_late", [False, True])
def test_a_compaction_gives_way_to_a_worker_of_hive_between_its_mark_and_its_commit(
    filled: Rig, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    worker = hives_worker(filled, monkeypatch, commits=False)
    filled.insert(4, 5)

    def on_step(step: str) -> None:
        if is_late and step == "staged":
            filled.client.commit_txn(worker)

    why = "base_0000003_v.* was added" if is_late else "is about to commit base_0000003"
    with pytest.raises(errors.CompactionNotDoneError, match=why):
        filled.compact(CompactionChoice.MINOR, on_step)
    if not is_late:
        filled.client.commit_txn(worker)
    assert filled.values == [1, 2, 3, 4, 5]


def widen(rig: Rig) -> None:
    """Let a compactor make a delta with our rows and a later one."""
    rig.insert(4)
    rig.put("delta_0000001_0000004", [(1, 1), (2, 2), (3, 3), (4, 4)])


@pytest.mark.parametrize("when", ["staged", "the ledger is read"])
def test_a_wider_delta_of_a_concurrent_compactor_does_not_double_rows(
    filled: Rig, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It contains the rows of our base; the queue of 3.1 shows no worker that has ended."""
    if when != "staged":
        act_before(monkeypatch, Ledger, "unconfirmed", lambda *_: widen(filled))
    with pytest.raises(
        errors.CompactionNotDoneError, match="delta_0000001_0000004 contains later writes"
    ):
        filled.compact(CompactionChoice.MAJOR, at(when, lambda: widen(filled)))
    assert filled.there("base_") == []
    assert filled.values == [1, 2, 3, 4]


def test_a_base_of_an_aborted_compaction_is_removed_if_a_wider_delta_has_its_rows(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:

    def abort(_: Replacement) -> None:
        assert filled.there("base_") == ["base_0000003"]
        (own,) = filled.client.valid_txns().open
        filled.client.abort_txn(own)
        widen(filled)

    act_after(monkeypatch, Replacement, "publish", abort)
    with pytest.raises(errors.TransactionAbortedError):
        filled.compact(CompactionChoice.MAJOR)
    assert filled.values == [1, 2, 3, 4]
    assert filled.there("base_") == []


def test_a_base_of_two_files_is_not_published_where_files_appear_one_by_one(
    client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader between the two would take the first for the whole base."""
    monkeypatch.setattr(compaction_facts, "publishes_files", lambda _: True)  # as on S3
    monkeypatch.setattr(directories, "COMBINED_FILE_BYTES", 1)  # so that each file stays alone
    flat = id_table(client, "flat", tmp_path / "flat", kind=TransactionalKind.INSERT_ONLY)
    row = pa.struct([("id", pa.int64())])
    for value in (1, 2):
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, flat.ref)
        delta = f"delta_{write_id:07d}_{write_id:07d}_0000"
        write_plain(tmp_path / "flat" / delta / "000000_0", [{"id": value}], row=row)
        client.commit_txn(txn_id)
    with pytest.raises(errors.CompactionNotDoneError, match="2 files would appear file by file"):
        Rig(client, flat).compact(CompactionChoice.MAJOR)
    assert Rig(client, flat).there("base_") == []


@pytest.mark.parametrize("server", [MetastoreGeneration.V3], indirect=True)
def test_on_hive_3_a_compaction_gives_way_to_a_request_made_before_it_publishes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.insert(1, 2)

    def queue(_: Replacement) -> None:
        rig.request(CompactionType.MAJOR)

    act_after(monkeypatch, Replacement, "remove_dead_siblings", queue)
    with pytest.raises(
        errors.CompactionNotDoneError, match=r"an entry for it already: .* waits for a worker"
    ):
        rig.compact(CompactionChoice.MAJOR)
    assert rig.there("base_") == []


@ON_4
def test_an_entry_whose_compaction_was_not_committed_is_not_marked_as_cleaned(filled: Rig) -> None:
    """The metastore would forget aborted writes below it, and their rows would reappear."""
    entry_id, txn_id = _ready_but_aborted(filled)
    marked: list[object] = []
    filled.client.mark_cleaned = marked.append  # type: ignore[method-assign]
    (whole,) = filled.client.list_partitions(filled.table)
    cleaner = Cleaner(
        client=filled.client,
        table=filled.table,
        spec=CleanSpec.of_table(str(filled.ref)),
        on_step=lambda _: None,
        overview=Overview.of(filled.client, filled.table),
    )
    outcome = cleaner.clean(whole)
    assert (outcome.marked_entries, marked) == ((), [])
    states = {e.entry_id: e.state for e in filled.client.show_compactions(filled.ref)}
    assert states[entry_id] is CompactionState.REFUSED
    assert txn_id in filled.client.valid_txns().aborted


def _ready_but_aborted(rig: Rig) -> tuple[int, TxnId]:
    """An entry of ours whose worker died between its mark and its commit."""
    pool = our_pool(uuid4())
    rig.request(CompactionType.MAJOR, pool)
    claim, txn_id = rig.begin_claimed(rig.claim("hiveacid-k", pool))
    rig.client.mark_compacted(claim)
    rig.client.abort_txn(txn_id)
    TableNotes.of(rig.table).note_highest_write_id(claim.entry_id, WriteId(3))
    return claim.entry_id, txn_id


@pytest.mark.promise("F7")
@ON_4
@pytest.mark.parametrize(
    ("choice", "stripes"), [(CompactionChoice.MINOR, 2), (CompactionChoice.MAJOR, 1)]
)
def test_a_compacted_delta_has_smaller_stripes_than_a_compacted_base(
    rig: Rig, choice: CompactionChoice, stripes: int
) -> None:
    """Both have 20 MiB of numbers that do not compress."""
    root = rig.table.location.removeprefix("file:")
    options = WriterOptions(stripe_size_bytes=1)  # too small to be copied
    dice = np.random.default_rng(1)
    for write_id in (WriteId(1), WriteId(2)):
        txn_id = rig.client.open_txn()
        assert rig.client.allocate_write_id(txn_id, rig.ref) == write_id
        rows = pa.record_batch({"id": dice.integers(0, 1 << 62, 10 << 17)})
        path = f"{root}/delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000"
        with AcidFileWriter(FS, path, rig.table.columns, options, is_delete=False) as file:
            file.write(insert_events(rows, write_id, BUCKET_0, RowId(0)))
            file.close()
        rig.client.commit_txn(txn_id)
    (made,) = rig.compact(choice).outputs
    assert len(read_tail(FS, f"{root}/{made}/bucket_00000").stripes) == stripes
