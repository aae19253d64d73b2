"""The note of a compaction job's plan: what the next job plans, and what no note can hide."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.maintenance.health import FEW
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.plan.looks import FULL_LOOK
from airflow_hiveacid.storage.stores import json_files, locations
from airflow_hiveacid.storage.stores.filesystem import read_bytes
from tests.support.request_counts import CountingMetastore, counting_store
from tests.unit.arrow.lake import Lake, made

if TYPE_CHECKING:
    from tests.contract.fake_metastore import FakeMetastore
    from tests.contract.manual_clock import ManualClock

DAYS = FEW + 1
DAY = (Column(name="day", type="int"),)
ALL = {f"day={day}" for day in range(DAYS)}
SPEC = CompactSpec(tables=("default.*",), delta_count=3)


@pytest.fixture
def lake(
    server: FakeMetastore, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Lake:
    counting = CountingMetastore(server.generation, clock, txn_timeout_s=20.0)
    store = counting_store(counting.counts)
    monkeypatch.setattr(locations, "_local", lambda: store)
    lake = made(counting, clock, tmp_path, partition_columns=DAY)
    lake.insert(*[(day, "x", None, day) for day in range(DAYS)])
    return lake


def planned(lake: Lake, spec: CompactSpec = SPEC) -> tuple[set[str], set[str]]:
    """Plan once; return the partitions that were listed, and those that are due."""
    assert isinstance(lake.server, CountingMetastore)
    lake.server.counts.take()
    run = plan_tables(lake.client, spec)
    names = {Path(path).name for path in lake.server.counts.take().listed}
    assert run.partitions == len(lake.client.partition_names(lake.table))
    return {n for n in names if n.startswith("day=")}, {str(f.name) for f, _ in run.due}


def notes(lake: Lake) -> list[Path]:
    return sorted(Path(lake.table.location.removeprefix("file:"), "_hiveacid").glob("_planned_*"))


def test_a_job_plans_what_was_written_since_the_last_job_and_what_was_due(lake: Lake) -> None:
    assert planned(lake) == (ALL, set())
    assert planned(lake) == (set(), set())
    lake.insert((100, "x", None, 4), (101, "x", None, 5))
    assert planned(lake) == ({"day=4", "day=5"}, set())
    lake.insert((102, "x", None, 4))
    for _ in range(2):
        assert planned(lake) == ({"day=4"}, {"day=4"})
    lake.insert((103, "x", None, 99))
    assert planned(lake) == ({"day=4", "day=99"}, {"day=4"})


@pytest.mark.parametrize("commits", [True, False])
def test_after_a_write_without_a_note_a_job_plans_all_partitions(
    lake: Lake, *, commits: bool
) -> None:
    planned(lake)
    client = lake.client
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, lake.table.ref)
    root = Path(lake.table.location.removeprefix("file:"))
    for statement in range(2):
        (root / f"day=7/delta_{write_id:07d}_{write_id:07d}_{statement:04d}").mkdir()
    end: Any = client.commit_txn if commits else client.abort_txn
    end(txn_id)
    assert planned(lake) == (ALL, {"day=7"} if commits else set())
    assert planned(lake) == ({"day=7"} if commits else set(), {"day=7"} if commits else set())


def test_a_request_in_the_queue_is_planned_on_hive_4(lake: Lake) -> None:
    """Only Hive's own workers serve the queue of Hive 3.1."""
    planned(lake)
    lake.client.request_compaction(
        lake.table.ref, PartitionName.parse("day=9"), CompactionType.MAJOR
    )
    is_served = lake.client.generation is MetastoreGeneration.V4
    assert planned(lake) == (({"day=9"},) * 2 if is_served else (set(), set()))


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, also_when={"oldest_delta_s": 9e9}),
        CompactSpec.of_table("default.s", delta_count=3),
        CompactSpec.of_table("default.s", partition="day=3", delta_count=3),
    ],
    ids=["age", "one table", "one partition"],
)
def test_a_job_by_ages_or_of_one_table_plans_all_its_partitions(
    lake: Lake, spec: CompactSpec
) -> None:
    for _ in range(2):
        lake.server.counts.take()  # type: ignore[attr-defined]
        plan_tables(lake.client, spec)
        listed = {Path(p).name for p in lake.server.counts.take().listed}  # type: ignore[attr-defined]
        assert listed >= ({"day=3"} if spec.partition else ALL)
    assert notes(lake) == []


def test_jobs_with_other_thresholds_have_notes_of_their_own(lake: Lake) -> None:
    planned(lake)
    lake.insert((100, "x", None, 4))
    lower = replace(SPEC, delta_count=2)
    assert planned(lake, lower) == (ALL, {"day=4"})
    assert planned(lake) == ({"day=4"}, set())
    assert len(notes(lake)) == 2


def test_a_job_that_only_plans_uses_a_note_and_writes_none(lake: Lake) -> None:
    only = replace(SPEC, plan_only=True)
    assert planned(lake, only) == (ALL, set())
    assert notes(lake) == []
    planned(lake)
    assert planned(lake, only) == (set(), set())


def changed_note(lake: Lake, **fields: object) -> None:
    (note,) = notes(lake)
    note.write_text(json.dumps({**json.loads(note.read_text()), **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"full_s": time.time() - 86_401},
        {"full_s": time.time() + 3_600},
        {"table_id": "another"},
        {"write_id": 99},
        {"terms": "others"},
        {"others": "day=1"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_note_that_is_old_or_does_not_fit_is_ignored(
    lake: Lake, fields: dict[str, object]
) -> None:
    planned(lake)
    changed_note(lake, **fields)
    assert planned(lake) == (ALL, set())
    assert planned(lake) == (set(), set())


def test_a_note_that_cannot_be_read_causes_a_full_look(lake: Lake) -> None:
    planned(lake)
    (note,) = notes(lake)
    note.unlink()
    note.mkdir()
    for _ in range(2):
        assert planned(lake) == (ALL, set())


@pytest.mark.parametrize("kind", ["_planned_", "_commit_"])
def test_without_the_right_to_read_a_note_a_job_plans_all_partitions(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    planned(lake)
    lake.insert((100, "x", None, 4))

    def read(fs: Any, path: str) -> bytes:  # noqa: ANN401 - passed on
        if kind in path:
            raise LocationPermissionError(location=path, action="read", reason="denied")
        return read_bytes(fs, path)

    monkeypatch.setattr(json_files, "read_bytes", read)
    for _ in range(2):
        assert planned(lake) == (ALL, set())
        lake.insert((101, "x", None, 5))


def test_a_note_that_names_other_partitions_does_no_harm(lake: Lake) -> None:
    planned(lake)
    changed_note(lake, others=["day=3", "../../elsewhere", "day=12345"])
    assert planned(lake) == ({"day=3"}, set())


def test_a_table_parameter_sets_how_often_all_partitions_are_planned(lake: Lake) -> None:
    planned(lake)
    lake.client.set_table_parameters(lake.table.ref, {FULL_LOOK: "0 seconds"})
    for _ in range(2):
        assert planned(lake) == (ALL, set())
