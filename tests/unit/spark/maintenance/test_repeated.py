"""Tables that are written, compacted and cleaned again and again: what grows, and what does not."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.jobs.maintenance import DELTA_COUNT, CompactionChoice
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.storage.stores.json_files import HiddenFiles
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from tests.unit.spark.maintenance.rig import Rig

AUTO, MINOR, MAJOR = CompactionChoice.AUTO, CompactionChoice.MINOR, CompactionChoice.MAJOR


@pytest.mark.promise("C10")
def test_deletes_that_began_before_a_compaction_delete_their_rows_after_it(filled: Rig) -> None:
    assert filled.compact(MAJOR).done
    filled.clean()
    filled.insert(4)
    deletes = [filled.begin_delete(1, 4), filled.begin_delete(2)]
    assert filled.compact(MAJOR).done
    assert filled.values == [1, 2, 3, 4]
    for finish in deletes:
        finish()
    assert filled.values == [3]
    filled.clean()
    # The first one compacts the delete events without the base, the second one applies them.
    for choice in (MINOR, MAJOR):
        outcome = filled.compact(choice)
        assert outcome.kind == choice.value
        filled.clean()
        assert filled.values == [3]


@pytest.mark.promise("C11")
@pytest.mark.parametrize("writes", [1, 3, 12])
@pytest.mark.long_cases("hive3-*")
def test_a_read_joins_at_most_as_many_deltas_as_the_threshold_and_the_writes_between_two_runs(
    rig: Rig, writes: int
) -> None:
    most = 0
    for run in range(24 // writes):
        rig.insert(*range(run * writes, (run + 1) * writes))
        most = max(most, len(rig.there("delta_")))
        rig.compact(AUTO)
        rig.clean()
    assert DELTA_COUNT <= most < DELTA_COUNT + writes
    assert rig.values == list(range(24))


@pytest.mark.promise("C20", "K6")
def test_compactions_and_cleanings_leave_one_file_and_no_unfinished_entry(rig: Rig) -> None:
    for run, choice in enumerate([MAJOR, MINOR, MAJOR]):
        rig.insert(*range(run * 10, run * 10 + 10))
        assert rig.compact(choice).done
        rig.clean()
        assert len([*rig.root.glob("*/bucket_*")]) == (2 if choice is MINOR else 1)
    assert rig.there("base_") == ["base_0000030"]
    assert rig.values == list(range(30))
    entries = rig.client.show_compactions(rig.ref)
    assert {entry.state for entry in entries} <= {CompactionState.SUCCEEDED}
    assert TableNotes.of(rig.table).compactions(HiddenFiles(rig.table.location)) == frozenset()


@pytest.mark.promise("C18")
@pytest.mark.parametrize("staged_late", [False, True])
@pytest.mark.parametrize("step", ["opened", "locked", "snapshot", "staged"])
def test_no_files_stay_if_the_table_is_dropped_during_a_compaction(
    rig: Rig, step: str, *, staged_late: bool
) -> None:
    """A task may stage its file right after the drop has removed everything."""
    rig.insert(1, 2)
    reached = []

    def drop(now: str) -> None:
        reached.append(now)
        if now == step:
            rig.client.drop_table(rig.ref)
            for path in rig.root.iterdir():
                if not (staged_late and path.name.startswith("_tmp")):
                    shutil.rmtree(path)

    with suppress(HiveAcidError):
        rig.compact(MAJOR, drop)
    assert step in reached
    assert not [*rig.root.rglob("*")]
    assert rig.client.show_locks() == ()
    assert rig.client.valid_txns().open == ()
    assert {entry.state for entry in rig.client.show_compactions()} <= {CompactionState.REFUSED}


@pytest.mark.promise("C19")
@pytest.mark.parametrize("choice", [MINOR, MAJOR])
def test_a_compaction_gives_the_table_no_new_version(rig: Rig, choice: CompactionChoice) -> None:
    rig.insert(1, 2)
    before = snapshot_now(rig.client, [rig.ref]).write_ids(rig.ref)
    assert rig.compact(choice).done
    rig.clean()
    assert snapshot_now(rig.client, [rig.ref]).write_ids(rig.ref) == before
