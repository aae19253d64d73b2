"""The polls of one process: what a later poll lists again, and what it finds all the same."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.plan.compaction_policy import GivenThresholds, HealthLimits
from airflow_hiveacid.plan.looks import LastLook
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.watch.conditions import CompactionNeeded, LimitReached
from tests.contract.fake_client import FakeClient
from tests.support.request_counts import CountingMetastore, counting_store
from tests.unit.arrow.lake import Lake, made

if TYPE_CHECKING:
    from airflow_hiveacid.watch import Observation
    from airflow_hiveacid.watch.conditions import Condition
    from tests.contract.fake_metastore import FakeMetastore
    from tests.contract.manual_clock import ManualClock

DAYS = 6
DAY = (Column(name="day", type="int"),)


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


class Polls:
    """The polls of one sensor. Mutable: each poll has what the one before has seen."""

    def __init__(self, lake: Lake, condition: Condition) -> None:
        self.lake, self.condition = lake, condition
        self.seen: Observation | None = None

    def poll(self) -> set[str]:
        """Poll once; return the partitions that were listed."""
        server = self.lake.server
        assert isinstance(server, CountingMetastore)
        server.counts.take()
        self.seen = self.condition.observe(self.lake.client)
        self.condition = self.condition.after(self.seen)
        names = (Path(path).name for path in server.counts.take().listed)
        return {name for name in names if name.startswith("day=")}

    @property
    def found(self) -> list[str]:
        assert self.seen is not None
        return [finding["partition"] for finding in self.seen.findings]


def of_deltas(lake: Lake, count: int = 3) -> Polls:
    thresholds = GivenThresholds(delta_count=count)
    return Polls(lake, CompactionNeeded(table="default.s", thresholds=thresholds))


ALL = {f"day={day}" for day in range(DAYS)}


def test_a_poll_lists_only_partitions_that_our_jobs_have_changed_since_the_last_poll(
    lake: Lake,
) -> None:
    polls = of_deltas(lake)
    assert polls.poll() == ALL
    assert polls.poll() == set()
    lake.insert((7, "x", None, 2), (8, "x", None, 3))
    assert polls.poll() == {"day=2", "day=3"}
    assert polls.poll() == set()
    lake.insert((9, "x", None, 2))
    assert polls.poll() == {"day=2"}
    assert polls.found == ["day=2"]


def test_a_partition_that_is_due_is_listed_at_each_poll(lake: Lake) -> None:
    polls = of_deltas(lake)
    for number in range(2):
        lake.insert((10 + number, "x", None, 4))
    assert polls.poll() == ALL
    assert (polls.poll(), polls.found) == ({"day=4"}, ["day=4"])


def test_a_later_poll_reports_what_a_full_poll_reports(lake: Lake) -> None:
    polls = of_deltas(lake, 2)
    polls.poll()
    lake.insert((7, "x", None, 2), (8, "x", None, 9))
    lake.delete("day = 1 and id = 1")
    assert polls.poll() == {"day=1", "day=2", "day=9"}
    fresh = of_deltas(lake, 2)
    fresh.poll()
    assert polls.seen is not None
    assert fresh.seen is not None
    assert polls.seen.summary == fresh.seen.summary
    assert polls.found == fresh.found == ["day=1", "day=2"]


def foreign_write(lake: Lake, day: int, *, commits: bool = True) -> None:
    """Another engine's write, which leaves no note."""
    client = FakeClient(lake.server)
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, lake.table.ref)
    root = Path(lake.table.location.removeprefix("file:")) / f"day={day}"
    (root / f"delta_{write_id:07d}_{write_id:07d}_0000").mkdir(parents=True)
    if commits:
        client.commit_txn(txn_id)
    else:
        client.abort_txn(txn_id)


@pytest.mark.parametrize("commits", [True, False])
def test_after_a_write_without_a_note_all_partitions_are_listed(
    lake: Lake, *, commits: bool
) -> None:
    polls = of_deltas(lake)
    polls.poll()
    lake.insert((7, "x", None, 2))
    foreign_write(lake, 3, commits=commits)
    assert polls.poll() == ALL
    assert polls.poll() == set()


def test_a_write_below_an_open_one_is_looked_at_when_compactions_may_include_it(
    lake: Lake,
) -> None:
    client = lake.client
    polls = of_deltas(lake, 2)
    polls.poll()
    held = client.open_txn()
    client.allocate_write_id(held, lake.table.ref)
    lake.insert((7, "x", None, 2))
    assert (polls.poll(), polls.found) == (set(), [])
    client.commit_txn(held)
    assert (polls.poll(), polls.found) == (ALL, ["day=2"])


def test_a_new_partition_is_listed_and_a_dropped_one_is_forgotten(lake: Lake) -> None:
    polls = of_deltas(lake)
    polls.poll()
    client = lake.client
    client.add_partitions(lake.table, [PartitionName.parse("day=77")])
    Path(f"{lake.table.location.removeprefix('file:')}/day=77").mkdir()
    client.drop_partitions(lake.table, [PartitionName.parse("day=5")])
    assert polls.poll() == {"day=77"}
    condition = polls.condition
    assert isinstance(condition, CompactionNeeded)
    assert condition.last is not None
    assert {health.partition for health in condition.last.healths} == (ALL | {"day=77"}) - {"day=5"}


def test_a_full_look_finds_what_another_tool_left(lake: Lake) -> None:
    polls = of_deltas(lake, 2)
    polls.poll()
    root = Path(lake.table.location.removeprefix("file:"))
    (root / "day=4" / "delta_0000001_0000001_0007").mkdir()
    assert (polls.poll(), polls.found) == (set(), [])
    condition = polls.condition
    assert isinstance(condition, CompactionNeeded)
    assert condition.last is not None
    old = replace(condition.last, full_s=time.time() - LastLook.every_s)
    polls.condition = replace(condition, last=old)
    assert (polls.poll(), polls.found) == (ALL, ["day=4"])
    assert polls.condition.last is not None
    assert polls.condition.last.full_s > old.full_s


def test_a_table_that_was_created_again_is_looked_at_in_full(
    lake: Lake, clock: ManualClock
) -> None:
    polls = of_deltas(lake)
    polls.poll()
    clock.sleep(2.0)
    client = lake.client
    client.drop_table(TableRef("default", "s"))
    again = made_again(lake)
    again.insert(*[(day, "x", None, day) for day in range(DAYS)])
    polls.lake = again
    assert polls.poll() == ALL


def made_again(lake: Lake) -> Lake:
    for child in Path(lake.table.location.removeprefix("file:")).iterdir():
        shutil.rmtree(child)
    table = lake.client.create_table(
        NewTable(
            ref=lake.table.ref,
            columns=lake.table.columns,
            partition_columns=DAY,
            location=lake.table.location,
        )
    )
    return replace(lake, table=table)


def test_a_sensor_with_a_threshold_for_an_age_lists_all_partitions(lake: Lake) -> None:
    thresholds = GivenThresholds(also_when={"oldest_delta_s": 3600.0})
    polls = Polls(lake, CompactionNeeded(table="default.s", thresholds=thresholds))
    for _ in range(2):
        assert polls.poll() == ALL


def test_a_sensor_of_leftovers_lists_all_partitions_because_compactions_have_no_write_id(
    lake: Lake,
) -> None:
    leftovers = Polls(
        lake, LimitReached(table="default.s", limits=HealthLimits(obsolete_directories=1))
    )
    deltas = Polls(lake, LimitReached(table="default.s", limits=HealthLimits(delta_count=3)))
    for polls, again in ((leftovers, ALL), (deltas, set())):
        assert polls.poll() == ALL
        assert polls.poll() == again


def test_notes_in_a_bundle_name_the_partitions_of_their_writes(lake: Lake) -> None:
    polls = of_deltas(lake, 200)
    polls.poll()
    for number in range(60):
        lake.insert((100 + number, "x", None, number % 2))
    names = [p.name for p in Path(lake.table.location.removeprefix("file:"), "_hiveacid").iterdir()]
    assert any(name.startswith("_commits_") for name in names)
    assert polls.poll() == {"day=0", "day=1"}
