"""A run over many partitions looks up only those that need work, and skips none of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyarrow.fs import FileSystem

from airflow_hiveacid.format import snapshot
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.records import FirstSeen
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.maintenance.clean import Cleaner, CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import forget_unreadable
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts
from airflow_hiveacid.maintenance.compaction_planner import Window
from airflow_hiveacid.maintenance.overview import Overview, with_past
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.json_files import HiddenFiles
from airflow_hiveacid.storage.stores.listing import list_files, metadata_text
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.writing.compaction import Compactor
from airflow_hiveacid.writing.publish import SharedNotes
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_before
from tests.support.tables import id_table
from tests.unit.spark.maintenance.rig import Rig, leave_unconfirmed

REF: Final = TableRef("d", "t")
QUIET: Final = ("1", "2", "3")


class Watched(FakeClient):
    """A client that notes what the metastore is asked."""

    asked: list[str]

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        found = super().__getattribute__(name)
        if callable(found) and not name.startswith("_") and name != "asked":
            super().__getattribute__("asked").append(name)
        return found


@pytest.fixture
def client() -> Watched:
    return Watched(FakeMetastore(MetastoreGeneration.V4, ManualClock()))


@pytest.fixture
def table(client: Watched, tmp_path: Path) -> TableInfo:
    """Four days of two inserts each; of the last one there is a base that holds both."""
    client.asked = []
    table = id_table(client, REF, tmp_path / "t", by="day string")
    client.add_partitions(table, [day(n) for n in (*QUIET, "4")])
    for write_id in (1, 2):
        assert insert(client) == write_id
        for n in (*QUIET, "4"):
            put(tmp_path, n, f"delta_000000{write_id}_000000{write_id}_0000")
    put_base(tmp_path, "4", 2)
    return table


def day(number: str) -> PartitionName:
    return PartitionName(("day",), (number,))


def insert(client: FakeClient, *, aborts: bool = False) -> WriteId:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, REF)
    client.add_dynamic_partitions(txn_id, write_id, REF, [day("1")], DataOperation.INSERT)
    (client.abort_txn if aborts else client.commit_txn)(txn_id)
    return write_id


def put(root: Path, number: str, name: str) -> Path:
    directory = root / "t" / f"day={number}" / name
    directory.mkdir(parents=True)
    (directory / "bucket_00000").write_text("rows")
    return directory


def put_base(root: Path, number: str, write_id: int) -> None:
    base = put(root, number, f"base_{write_id:07d}")
    (base / METADATA_FILE).write_bytes(metadata_text("compacted"))


def there(root: Path, number: str) -> list[str]:
    return sorted(p.name for p in (root / "t" / f"day={number}").iterdir())


def clean(client: FakeClient, table: TableInfo, overview: Overview, n: str) -> CleaningOutcome:
    cleaner = Cleaner(
        client=client,
        table=table,
        spec=CleanSpec.of_table(str(REF), retention_s=0.0, orphan_age_s=0.0),
        on_step=lambda _: None,
        overview=overview,
    )
    return cleaner.clean(PartitionInfo(name=day(n), location=f"{table.location}/day={n}"))


def ready_for_cleaning(client: FakeClient, table: TableInfo, n: str) -> int:
    """A compaction of ours that is through with a partition, but for its cleaning."""
    client.request_compaction(REF, day(n), CompactionType.MAJOR)
    claim = Rig(client, table).claim()
    client.mark_compacted(claim)
    TableNotes.of(table).note_highest_write_id(claim.entry_id, WriteId(2))
    return claim.entry_id


def test_cleaning_makes_no_metastore_calls_for_partitions_that_need_no_work(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    overview = Overview.of(client, table)
    client.asked.clear()
    for n in QUIET:
        assert clean(client, table, overview, n).removed == ()
    assert client.asked == []
    removed = [r.path for r in clean(client, table, overview, "4").removed]
    assert len(removed) == 2
    assert there(tmp_path, "4") == ["base_0000002"]
    assert "show_compactions" in client.asked


def test_the_ledger_entry_of_a_killed_writer_is_confirmed_before_its_delta_is_removed(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    is_confirmed = leave_unconfirmed(table, "day=4/delta_0000001_0000001_0000")
    overview = Overview.of(client, table)
    clean(client, table, overview, "1")
    assert not is_confirmed()
    clean(client, table, overview, "4")
    assert there(tmp_path, "4") == ["base_0000002"]
    assert is_confirmed()


def test_the_ledger_entry_of_a_writer_killed_while_a_run_begins_is_confirmed(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    """The notes are listed first. The snapshot, which shows the write, may come much later."""
    notes = VersionNotes.of(table).listed_once()
    assert notes.tags() == ()
    is_confirmed = leave_unconfirmed(table, "day=4/delta_0000001_0000001_0000")
    clean(client, table, Overview.of(client, table, notes), "4")
    assert there(tmp_path, "4") == ["base_0000002"]
    assert is_confirmed()


def test_the_ledger_entry_of_a_killed_writer_is_not_confirmed_while_its_delta_is_kept(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    is_confirmed = leave_unconfirmed(table, "day=4/delta_0000001_0000001_0000")
    client.open_txn()  # may read what the base has replaced
    overview = Overview.of(client, table)
    clean(client, table, overview, "4")
    assert len(there(tmp_path, "4")) == 3
    assert not is_confirmed()


def test_aborted_deltas_are_removed_from_a_partition_with_nothing_else_to_clean(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    assert insert(client, aborts=True) == 3
    put(tmp_path, "1", "delta_0000003_0000003_0000")
    overview = Overview.of(client, table)
    assert insert(client, aborts=True) == 4
    put(tmp_path, "1", "delta_0000004_0000004_0000")
    clean(client, table, overview, "1")
    kept = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
    # What was aborted since is left to the next run.
    assert there(tmp_path, "1") == [*kept, "delta_0000004_0000004_0000"]
    clean(client, table, Overview.of(client, table), "1")
    assert there(tmp_path, "1") == kept


def test_old_staged_files_are_removed_from_a_partition_with_nothing_else_to_clean(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    put(tmp_path, "1", "_tmp_hiveacid_1-1-0123456789ab")
    clean(client, table, Overview.of(client, table), "1")
    assert len(there(tmp_path, "1")) == 2


def test_the_entry_of_a_partition_that_is_already_clean_is_marked_as_cleaned(
    client: Watched, table: TableInfo
) -> None:
    entry_id = ready_for_cleaning(client, table, "1")
    assert clean(client, table, Overview.of(client, table), "1").marked_entries == (entry_id,)
    (entry,) = client.show_compactions(REF)
    assert entry.state is CompactionState.SUCCEEDED


def test_an_entry_that_becomes_ready_after_the_overview_is_left_to_the_next_run(
    client: Watched, table: TableInfo
) -> None:
    overview = Overview.of(client, table)
    ready_for_cleaning(client, table, "1")
    assert clean(client, table, overview, "1").marked_entries == ()
    (entry,) = client.show_compactions(REF)
    assert entry.state is CompactionState.READY_FOR_CLEANING


def test_an_entry_that_becomes_ready_during_a_cleaning_is_not_marked_as_cleaned(
    client: Watched, table: TableInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        if there(tmp_path, "4") == ["base_0000002"]:
            ready_for_cleaning(client, table, "4")

    cleaner = FakeClient(client.server)
    act_before(monkeypatch, cleaner, "valid_write_ids", end)
    outcome = clean(cleaner, table, Overview.of(client, table), "4")
    assert len(outcome.removed) == 2
    assert outcome.marked_entries == ()


def test_the_note_about_a_missing_directory_is_removed_by_the_next_run(
    client: Watched, table: TableInfo
) -> None:
    """A new directory of the same name would otherwise count as seen long ago."""
    notes = TableNotes.of(table)
    seen = FirstSeen(high_watermark=client.valid_txns().high_watermark, at_s=1.0)
    notes.note_first_seen(day("1"), {"base_0000002": seen})
    clean(client, table, Overview.of(client, table), "1")
    assert notes.noted(HiddenFiles(table.location)) == frozenset()


def test_the_note_of_a_compaction_is_removed_when_its_queue_entry_is_done_or_gone(
    client: Watched, table: TableInfo
) -> None:
    notes = TableNotes.of(table)
    by_server, ready, working = (ready_for_cleaning(client, table, n) for n in QUIET)
    gone = 4711  # not even in the history any more
    notes.note_highest_write_id(gone, WriteId(1))
    entry = client.server.queue[working]  # its note is written right before its commit
    client.server.queue[working] = replace(entry, state=CompactionState.WORKING)
    entry = client.server.queue[by_server]
    client.server.queue[by_server] = replace(entry, state=CompactionState.SUCCEEDED)
    with_past(client, table, plan_only=True)
    assert notes.compactions(HiddenFiles(table.location)) == {by_server, ready, working, gone}
    with_past(client, table, plan_only=False)
    assert notes.compactions(HiddenFiles(table.location)) == {ready, working}


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_cleaning_lists_the_notes_of_a_table_at_most_three_times(
    client: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    parameters = {"hiveacid.readable.for": "0 seconds"} if is_kept else {}
    ref = TableRef("d", "whole")
    client.asked = []
    whole = id_table(client, ref, tmp_path / "whole", parameters=parameters)

    def cleaned() -> list[str]:
        table, overview = with_past(client, client.get_table(ref), plan_only=False)
        (info,) = client.list_partitions(table)
        spec = CleanSpec.of_table(str(ref), retention_s=0.0)
        cleaner = Cleaner(
            client=client, table=table, spec=spec, on_step=lambda _: None, overview=overview
        )
        outcome = cleaner.clean(info)
        forget_unreadable(table, [outcome], overview.notes)
        return [r.path for r in outcome.removed]

    (tmp_path / "whole").mkdir()
    cleaned()  # from now on the table may be kept
    for write_id in (1, 2):
        txn_id = client.open_txn()
        client.allocate_write_id(txn_id, ref)
        name = f"delta_000000{write_id}_000000{write_id}_0000"
        (tmp_path / "whole" / name).mkdir()
        (tmp_path / "whole" / name / "bucket_00000").write_text("rows")
        client.commit_txn(txn_id)
    (tmp_path / "whole/base_0000002").mkdir()
    (tmp_path / "whole/base_0000002/bucket_00000").write_text("rows")
    (tmp_path / "whole/base_0000002" / METADATA_FILE).write_bytes(metadata_text("compacted"))
    listed: list[str] = []

    def listing(fs: FileSystem, directory: str, prefix: str = "") -> tuple[FileEntry, ...]:
        listed.append(directory)
        return list_files(fs, directory, prefix)

    monkeypatch.setattr(json_files, "list_files", listing)
    assert len(cleaned()) == 2
    assert VersionNotes.of(whole).is_kept() is is_kept
    assert set(listed) == {f"{tmp_path}/whole/_hiveacid"}
    assert len(listed) <= (3 if is_kept else 2)


def test_a_partition_compacted_and_cleaned_since_the_run_began_causes_no_error(
    client: Watched, table: TableInfo, tmp_path: Path
) -> None:
    overview = Overview.of(client, table)
    assert insert(client) == 3
    put_base(tmp_path, "1", 3)
    for write_id in (1, 2):
        shutil.rmtree(tmp_path / f"t/day=1/delta_000000{write_id}_000000{write_id}_0000")
    assert clean(client, table, overview, "1").removed == ()
    assert there(tmp_path, "1") == ["base_0000003"]


def test_compaction_makes_no_metastore_calls_for_partitions_that_are_not_due(
    client: Watched, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    txns = client.valid_txns()
    all_of_it = Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids([REF], txns))
    known = all_of_it.for_compactor()
    nothing: Any = None
    shared = SharedNotes.of(table)
    client.asked.clear()
    # Nor are the write IDs, a million perhaps, put in order again for each.
    monkeypatch.setattr(snapshot, "_sorted_disjoint", None)
    for n in QUIET:
        info = PartitionInfo(name=day(n), location=f"{table.location}/day={n}")
        spec = CompactSpec.of_table(str(REF))
        compactor = Compactor(
            job=nothing,
            engine=nothing,
            client=client,
            facts=CompactionFacts(table=table, partition=info, spec=spec, known=known),
            shared=shared,
            window=Window(),
        )
        assert not compactor.compact().done
    assert client.asked == []
