"""Cleaning with a fake metastore and real files: the notes decide what is removed later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance import clean
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    CompactionType,
)
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.storage.stores.listing import list_table, metadata_text
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import at
from tests.support.tables import id_table
from tests.unit.spark.maintenance.rig import Rig

OLD = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
BASE = "base_0000002"


@dataclass
class Place:
    """A table of two inserts and the base of both, in a directory of its own."""

    client: FakeClient
    table: TableInfo
    root: Path

    def clean(
        self,
        *,
        at_s: float,
        retention_s: float = 0.0,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """Clean at a time; what is left."""
        cleaner = Cleaner(
            client=self.client,
            table=self.table,
            spec=CleanSpec.of_table("default.t", retention_s=retention_s),
            on_step=on_step,
            now_s=lambda: at_s,
            overview=Overview.of(self.client, self.table),
        )
        (whole,) = self.client.list_partitions(self.table)
        cleaner.clean(whole)
        return self.left()

    def compacted(
        self,
        worker: str = "hivehost1-42",
        kind: CompactionType = CompactionType.MAJOR,
    ) -> tuple[ClaimedCompaction, TxnId]:
        """Let a worker compact the table; its transaction is still open."""
        rig = Rig(self.client, self.table)
        rig.request(kind)
        claim, txn_id = rig.begin_claimed(rig.claim(worker), 2)
        self.client.mark_compacted(claim)
        return claim, txn_id

    @property
    def entry(self) -> CompactionEntry:
        """The only entry of the queue."""
        (entry,) = self.client.show_compactions(self.table.ref)
        return entry

    def left(self) -> list[str]:
        """The directories that stand."""
        return sorted(p.name for p in self.root.iterdir() if not p.name.startswith("_"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    client = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))
    root = tmp_path / "t"
    table = id_table(client, "t", root)
    for _ in OLD:
        txn_id = client.open_txn()
        client.allocate_write_id(txn_id, table.ref)
        client.commit_txn(txn_id)
    for name in (*OLD, BASE):
        (root / name).mkdir(parents=True)
        (root / name / "bucket_00000").write_bytes(b"rows")
    (root / BASE / "_metadata_acid").write_bytes(metadata_text("compacted"))
    return Place(client=client, table=table, root=root)


@pytest.mark.promise("K5")
def test_replaced_directories_are_removed_after_the_retention_time(place: Place) -> None:
    assert place.clean(at_s=1000.0, retention_s=60.0) == [BASE, *OLD]
    # It counts from the first look, however often one looks.
    assert place.clean(at_s=1059.0, retention_s=60.0) == [BASE, *OLD]
    assert place.clean(at_s=1060.0, retention_s=60.0) == [BASE]


@pytest.mark.promise("K1")
def test_only_transactions_opened_before_the_first_look_delay_the_removal(
    place: Place,
) -> None:
    newest = place.client.open_txn()
    assert place.client.valid_txns().high_watermark == newest
    assert place.clean(at_s=1000.0) == [BASE, *OLD]
    younger = place.client.open_txn()
    assert place.clean(at_s=2000.0) == [BASE, *OLD]
    place.client.commit_txn(newest)
    assert place.client.valid_txns().open == (younger,)
    assert place.clean(at_s=3000.0) == [BASE]


@pytest.mark.parametrize("off_s", [-600.0, 600.0])
def test_a_cleaner_with_a_clock_ten_minutes_off_neither_harms_a_reader_nor_stops_cleaning(
    place: Place, off_s: float
) -> None:
    reader = place.client.open_txn()
    assert place.clean(at_s=1000.0 + off_s, retention_s=60.0) == [BASE, *OLD]
    assert place.clean(at_s=1000.0, retention_s=60.0) == [BASE, *OLD]
    place.client.commit_txn(reader)
    assert place.clean(at_s=1060.0, retention_s=60.0) == [BASE]


def test_a_cleaner_that_lost_its_notes_starts_the_retention_time_again(place: Place) -> None:
    assert place.clean(at_s=1000.0, retention_s=60.0) == [BASE, *OLD]
    for note in place.root.rglob("_seen_*.json"):
        note.unlink()
    assert place.clean(at_s=1060.0, retention_s=60.0) == [BASE, *OLD]
    assert place.clean(at_s=1120.0, retention_s=60.0) == [BASE]


@pytest.mark.promise("K1")
def test_a_reader_that_begins_right_before_the_listing_of_the_cleaner_loses_no_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def listed(location: str) -> Listing:
        if not readers:
            readers.append(place.client.open_txn())
        return list_table(location)

    monkeypatch.setattr(clean, "list_table", listed)
    assert place.clean(at_s=1000.0) == [BASE, *OLD]
    place.client.commit_txn(readers[0])
    assert place.clean(at_s=1000.0) == [BASE]


class StopHereError(Exception):
    """A cleaner is killed at a border between two steps."""


def test_nothing_is_removed_before_the_note_about_its_replacement_is_written(place: Place) -> None:
    def stop(step: str) -> None:
        assert step == "noted"
        raise StopHereError

    with pytest.raises(StopHereError):
        place.clean(at_s=1000.0, on_step=stop)
    assert place.left() == [BASE, *OLD]
    assert set(TableNotes.of(place.table).first_seen(PartitionName())) == {BASE}


def test_an_entry_that_the_metastore_cannot_mark_as_cleaned_ends_all_the_same(place: Place) -> None:
    """Such a metastore returns a page of Java."""
    client = place.client
    client.commit_txn(place.compacted()[1])
    page = MetastoreCallError(method="mark_cleaned", reason=f"no data type {'x' * 2000}\n\tat org")
    client.server.break_next("mark_cleaned", page, is_done=False)
    assert place.clean(at_s=1000.0) == [BASE]
    entry = place.entry
    assert (entry.state, entry.has_failed) == (CompactionState.REFUSED, False)
    assert (entry.error_message or "").startswith("committed and cleaned; ")
    assert "\n" not in entry.error_message
    assert len(entry.error_message) < 300


def test_a_committed_compaction_of_hive_is_marked_as_cleaned_when_nothing_is_left_to_remove(
    place: Place,
) -> None:
    client = place.client
    client.commit_txn(place.compacted()[1])
    reader = client.open_txn()
    assert place.clean(at_s=1000.0) == [BASE, *OLD]
    assert place.entry.state is CompactionState.READY_FOR_CLEANING
    client.commit_txn(reader)
    assert place.clean(at_s=2000.0) == [BASE]
    assert place.entry.state is CompactionState.SUCCEEDED


def test_an_entry_of_hive_is_not_marked_if_its_compaction_may_have_been_aborted(
    place: Place,
) -> None:
    """Hive marks entries before it commits, and no commit of a rebalancing leaves a mark."""
    client = place.client
    _, txn_id = place.compacted(kind=CompactionType.REBALANCE)
    client.abort_txn(txn_id)
    del client.server.txns[txn_id]  # forgotten, as an aborted transaction without a write
    assert place.clean(at_s=1000.0) == [BASE]
    assert place.entry.state is CompactionState.READY_FOR_CLEANING


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_entry_is_not_marked_until_the_transaction_of_its_compaction_ends(
    place: Place, *, is_committed: bool
) -> None:
    client, notes = place.client, TableNotes.of(place.table)
    claim, txn_id = place.compacted("worker")
    notes.note_highest_write_id(claim.entry_id, WriteId(2))
    # Nothing is replaced as long as the result is hidden, so nothing but this makes it wait.
    (place.root / BASE).rename(place.root / f"{BASE}_v{txn_id:07d}")
    assert place.clean(at_s=1000.0) == [f"{BASE}_v{txn_id:07d}", *OLD]
    assert place.entry.state is CompactionState.READY_FOR_CLEANING
    assert notes.highest_write_id(claim.entry_id) == 2
    if is_committed:
        client.commit_txn(txn_id)
    else:
        client.abort_txn(txn_id)
    place.clean(at_s=1001.0)
    assert place.entry.state is (
        CompactionState.SUCCEEDED if is_committed else CompactionState.REFUSED
    )
    assert notes.highest_write_id(claim.entry_id) is None


# ---- readers of other tables ---------------------------------------------------------------------


def ask_for_lock(client: FakeClient, txn_id: TxnId, name: str) -> None:
    component = LockComponent(
        table=TableRef("default", name),
        lock_type=LockType.SHARED_READ,
        operation=DataOperation.SELECT,
    )
    client.lock(
        LockRequest(
            txn_id=txn_id,
            components=(component,),
            agent_info="etl_20261123020304_0f0e0d0c-0b0a-0908-0706-050403020100",
        )
    )


def test_a_reader_of_a_different_table_does_not_delay_cleaning(place: Place) -> None:
    ask_for_lock(place.client, place.client.open_txn(), "other")
    assert place.clean(at_s=1000.0) == [BASE]


def test_a_lock_requested_after_the_note_is_written_delays_the_removal(place: Place) -> None:
    late = place.client.open_txn()
    ask_for_lock(place.client, late, "other")

    meanwhile = at("noted", lambda: ask_for_lock(place.client, late, "t"))
    assert place.clean(at_s=1000.0, on_step=meanwhile) == [BASE, *OLD]
    place.client.commit_txn(late)
    assert place.clean(at_s=2000.0) == [BASE]


@pytest.mark.promise("K4")
def test_an_entry_is_marked_as_cleaned_only_after_its_replaced_directories_are_removed(
    place: Place,
) -> None:
    """The metastore then forgets aborted writes below it, which old versions still need."""
    client = place.client
    rig = Rig(client, place.table)
    rig.request()
    claim = rig.claim()
    client.mark_compacted(claim)
    TableNotes.of(place.table).note_highest_write_id(claim.entry_id, WriteId(2))
    reader = client.open_txn()
    assert place.clean(at_s=1000.0) == [BASE, *OLD]
    assert place.entry.state is CompactionState.READY_FOR_CLEANING
    client.commit_txn(reader)
    assert place.clean(at_s=2000.0) == [BASE]
    assert place.entry.state is CompactionState.SUCCEEDED
