"""Tables that are written, compacted and cleaned again and again: what grows, and what does not."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import DELTA_COUNT, CompactionChoice
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.storage.stores.json_files import HiddenFiles
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from tests.contract.fake_client import FakeClient
from tests.unit.spark.maintenance import rig

AUTO, MINOR, MAJOR = CompactionChoice.AUTO, CompactionChoice.MINOR, CompactionChoice.MAJOR


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    rig.without_spark(monkeypatch)


@pytest.mark.promise("C10")
def test_deletes_that_began_before_a_compaction_delete_their_rows_after_it(
    client: FakeClient, table: TableInfo
) -> None:
    for value in (1, 2, 3):
        rig.insert(client, table, value)
    assert rig.compact(client, table, MAJOR).done
    rig.clean(client, table)
    rig.insert(client, table, 4)
    deletes = [rig.begin_delete(client, table, 1, 4), rig.begin_delete(client, table, 2)]
    assert rig.compact(client, table, MAJOR).done
    assert rig.values(client, table) == [1, 2, 3, 4]
    for finish in deletes:
        finish()
    assert rig.values(client, table) == [3]
    rig.clean(client, table)
    # The first one compacts the delete events without the base, the second one applies them.
    for choice in (MINOR, MAJOR):
        outcome = rig.compact(client, table, choice)
        assert outcome.kind == choice.value
        rig.clean(client, table)
        assert rig.values(client, table) == [3]


@pytest.mark.promise("C11")
@pytest.mark.parametrize("writes", [1, 3, 12])
@pytest.mark.long_cases("hive3-*")
def test_a_read_joins_at_most_as_many_deltas_as_the_threshold_and_the_writes_between_two_runs(
    client: FakeClient, table: TableInfo, writes: int
) -> None:
    most = 0
    for run in range(24 // writes):
        for number in range(writes):
            rig.insert(client, table, run * writes + number)
        most = max(most, len(rig.there(table, "delta_")))
        rig.compact(client, table, AUTO)
        rig.clean(client, table)
    assert DELTA_COUNT <= most < DELTA_COUNT + writes
    assert rig.values(client, table) == list(range(24))


@pytest.mark.promise("C20", "K6")
def test_compactions_and_cleanings_leave_one_file_and_no_unfinished_entry(
    client: FakeClient, table: TableInfo
) -> None:
    root = Path(table.location.removeprefix("file:"))
    for run, choice in enumerate([MAJOR, MINOR, MAJOR]):
        for number in range(10):
            rig.insert(client, table, run * 10 + number)
        assert rig.compact(client, table, choice).done
        rig.clean(client, table)
        assert len([*root.glob("*/bucket_*")]) == (2 if choice is MINOR else 1)
    assert rig.there(table, "base_") == ["base_0000030"]
    assert rig.values(client, table) == list(range(30))
    entries = client.show_compactions(table.ref)
    assert {entry.state for entry in entries} <= {CompactionState.SUCCEEDED}
    assert TableNotes.of(table).compactions(HiddenFiles(table.location)) == frozenset()


@pytest.mark.promise("C18")
@pytest.mark.parametrize("staged_late", [False, True])
@pytest.mark.parametrize("step", ["opened", "locked", "snapshot", "staged"])
def test_no_files_stay_if_the_table_is_dropped_during_a_compaction(
    client: FakeClient, table: TableInfo, step: str, *, staged_late: bool
) -> None:
    """A task may stage its file right after the drop has removed everything."""
    root = Path(table.location.removeprefix("file:"))
    rig.insert(client, table, 1)
    rig.insert(client, table, 2)
    reached = []

    def drop(now: str) -> None:
        reached.append(now)
        if now == step:
            client.drop_table(table.ref)
            for path in root.iterdir():
                if not (staged_late and path.name.startswith("_tmp")):
                    shutil.rmtree(path)

    with suppress(HiveAcidError):
        rig.compact(client, table, MAJOR, drop)
    assert step in reached
    assert not [*root.rglob("*")]
    assert client.show_locks() == ()
    assert client.valid_txns().open == ()
    assert {entry.state for entry in client.show_compactions()} <= {CompactionState.REFUSED}


@pytest.mark.promise("C19")
@pytest.mark.parametrize("choice", [MINOR, MAJOR])
def test_a_compaction_gives_the_table_no_new_version(
    client: FakeClient, table: TableInfo, choice: CompactionChoice
) -> None:
    rig.insert(client, table, 1)
    rig.insert(client, table, 2)
    before = snapshot_now(client, [table.ref]).write_ids(table.ref)
    assert rig.compact(client, table, choice).done
    rig.clean(client, table)
    assert snapshot_now(client, [table.ref]).write_ids(table.ref) == before
