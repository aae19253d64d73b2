"""What each kind of job asks of the metastore and the store, as docs/evidence/requests.md says.

The page has the counts for 3 and for 300 partitions. Between them they grow by the same number for
each partition, or not at all. But a compaction job has no note of a table of 32 partitions or less.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.maintenance.health import measure
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.watch.conditions import CompactionNeeded
from tests.contract.manual_clock import ManualClock
from tests.support.request_counts import (
    SUMMARIES,
    CountingClient,
    CountingMetastore,
    counting_store,
)
from tests.unit.arrow.lake import INSERT_ALL, Lake, made

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = Path(__file__).parents[3] / "docs/evidence/requests.md"
FEW: Final = 3
MANY: Final = 300
TESTED: Final = 36
_ROW: Final = re.compile(r"\| ([^|]+?) \|" + r" (\d+) / (\d+) \|" * len(SUMMARIES))


class CountingLake(Lake):
    """A table whose jobs have counting clients."""

    @property
    def client(self) -> CountingClient:
        return CountingClient(self.server)


def told() -> dict[str, dict[str, tuple[int, int]]]:
    """The page's counts by kind of job: those of a few and of many partitions."""
    rows = map(_ROW.fullmatch, PAGE.read_text().splitlines())
    return {
        row[1]: {
            name: (int(row[2 * i + 2]), int(row[2 * i + 3])) for i, name in enumerate(SUMMARIES)
        }
        for row in rows
        if row
    }


def expected(few: int, many: int, partitions: int) -> int:
    """The count for a number of partitions between those of the page, but above 32, or few."""
    each, rest = divmod(many - few, MANY - FEW)
    grown = many if rest else few + each * (partitions - FEW)
    return few if partitions == FEW else grown


def counted(folder: Path, partitions: int, patch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    """The counts by kind of job, on a table with so many partitions of one delta each."""
    clock = ManualClock()
    server = CountingMetastore(MetastoreGeneration.V4, clock, txn_timeout_s=20.0)
    store = counting_store(server.counts)
    patch.setattr(locations, "_local", lambda: store)
    plain = made(server, clock, folder, partition_columns=(Column(name="day", type="int"),))
    lake = CountingLake(server=server, clock=clock, table=plain.table)
    lake.insert(*[(day, "x", None, day) for day in range(partitions)])
    client, found = lake.client, {}

    def count(kind: str, work: Callable[[], object]) -> None:
        server.counts.take()
        work()
        found[kind] = server.counts.take().summary

    condition = CompactionNeeded(table="default.s", thresholds=GivenThresholds())
    compaction = CompactSpec(tables=("default.*",))
    cleaning = CleanSpec(tables=("default.*",), plan_only=True)

    def poll() -> None:
        nonlocal condition
        condition = condition.after(condition.observe(client))

    def clean(spec: CleanSpec) -> None:
        clean_tables(client, spec, lambda _: None)

    plan_tables(client, compaction)  # notes the owner
    for note in (folder / "s/_hiveacid").glob("_planned_*"):
        note.unlink()
    count("health", lambda: measure(client, lake.table.ref))
    count("plan of one table", lambda: plan_tables(client, CompactSpec.of_table("default.s")))
    count("sensor, first poll", poll)
    count("sensor, nothing written", poll)
    count("compaction of many tables, first", lambda: plan_tables(client, compaction))
    count("compaction of many tables, nothing written", lambda: plan_tables(client, compaction))
    count("cleaning of many tables, dry run", lambda: clean(cleaning))
    count("INSERT into one partition", lambda: lake.insert((1_000, "x", None, 1)))
    count("sensor, one partition written", poll)
    count("compaction of many tables, one written", lambda: plan_tables(client, compaction))
    count("DELETE with a partition in WHERE", lambda: lake.delete("day = 1 and id = 1000"))
    merge = {"keys": ("id", "day"), "clauses": [INSERT_ALL]}
    count("MERGE by key and partition", lambda: lake.merge((2_000, "x", None, 1), **merge))
    return found


@pytest.mark.parametrize("partitions", [FEW, TESTED])
def test_the_page_of_requests_has_the_counts_of_each_kind_of_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    assert counted(tmp_path, partitions, monkeypatch) == {
        kind: {name: expected(*ends, partitions) for name, ends in counts.items()}
        for kind, counts in told().items()
    }


def test_only_full_looks_ask_for_each_partition() -> None:
    growing = {
        kind
        for kind, counts in told().items()
        if any(counts[n][1] - counts[n][0] >= MANY - FEW for n in SUMMARIES if n != "names")
    }
    assert growing == {
        "health",
        "plan of one table",
        "sensor, first poll",
        "compaction of many tables, first",
        "cleaning of many tables, dry run",
    }
