"""The requests to a metastore by kind of job: they do not grow with partitions that nobody touches.

The fakes count the calls of the port, the real servers the requests on the wire.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.jobs.statements import DeleteSpec, InsertSpec, MergeSpec
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client.connection import Connection
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.watch.conditions import CompactionNeeded
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.unit.arrow.lake import COLUMNS, INSERT_ALL, Lake, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.jobs.job import Job
    from airflow_hiveacid.metastore.port import MetastorePort
    from tests.contract.bench import Bench

FEW: Final = 36
MANY: Final = 72
# A connection finds out once which server it has. Heartbeats and waits for locks depend on time.
_VARYING: Final = frozenset(
    {
        "get_open_txns_req",
        "get_max_allocated_table_write_id",
        "get_metastore_db_uuid",
        "heartbeat",
        "check_lock",
    }
)


@dataclass
class BenchLake(Lake):
    """A table of a bench's metastore. Mutable, as its base."""

    bench: Any = None
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def client(self) -> MetastorePort:  # type: ignore[override]
        return self.bench.clients[0]

    @property
    def name(self) -> str:
        return str(self.table.ref)

    def count(self, work: Callable[[], object]) -> dict[str, int]:
        """Return the requests of a piece of work."""
        self.calls.clear()
        work()
        return {method: n for method, n in sorted(self.calls.items()) if method not in _VARYING}

    def insert_day(self, number: int, *days: int) -> None:
        rows = [(number + day, "x", None, day) for day in days]
        self.run_next(InsertSpec(target=self.name, source=values(self.table, *rows)))

    def run_next(self, job: Job) -> None:
        self.run(job, key=f"{self.name} {self.jobs}")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests of all connections from now on."""
    counts: Counter[str] = Counter()
    fault, call_now = FakeMetastore.take_fault, Connection._call_now

    def of_fake(self: FakeMetastore, name: str, *, is_done: bool) -> None:
        counts[name] += not is_done
        fault(self, name, is_done=is_done)

    def of_wire(self: Connection, stubs: Any, call: Any) -> Any:  # noqa: ANN401
        counts[call.method] += 1
        return call_now(self, stubs, call)

    monkeypatch.setattr(FakeMetastore, "take_fault", of_fake)
    monkeypatch.setattr(Connection, "_call_now", of_wire)
    return counts


def counted(
    bench: Bench, calls: Counter[str], partitions: int, folder: Path
) -> dict[str, dict[str, int]]:
    """The requests by kind of job, on a table with so many partitions."""
    client = bench.clients[0]
    location = None
    if isinstance(client, FakeClient):  # it has no warehouse
        (folder / f"p{partitions}").mkdir()
        location = f"file:{folder}/p{partitions}"
    table = client.create_table(
        NewTable(
            ref=TableRef(bench.db, f"p{partitions}"),
            columns=COLUMNS,
            partition_columns=(Column(name="day", type="int"),),
            location=location,
        )
    )
    lake = BenchLake(server=None, clock=bench.clock, table=table, bench=bench, calls=calls)  # type: ignore[arg-type]
    lake.insert_day(0, *range(partitions))
    found = {}
    condition = CompactionNeeded(table=lake.name, thresholds=GivenThresholds())
    compaction = CompactSpec(tables=(f"{bench.db}.p{partitions}*",))
    condition = condition.after(condition.observe(client))
    plan_tables(client, compaction)
    lake.insert_day(10_000, 1)
    found["poll after a write"] = lake.count(lambda: condition.after(condition.observe(client)))
    found["compaction job after a write"] = lake.count(lambda: plan_tables(client, compaction))
    found["INSERT"] = lake.count(lambda: lake.insert_day(20_000, 1))
    found["INSERT into a new partition"] = lake.count(lambda: lake.insert_day(30_000, -1))
    delete = DeleteSpec(target=lake.name, where="day = 1 and id = 10001")
    found["DELETE"] = lake.count(lambda: lake.run_next(delete))
    source = values(lake.table, (40_000, "x", None, 1))
    merge = MergeSpec(target=lake.name, source=source, keys=("id", "day"), clauses=(INSERT_ALL,))
    found["MERGE"] = lake.count(lambda: lake.run_next(merge))
    return found


def test_requests_do_not_grow_with_partitions_that_are_not_touched(
    bench: Bench, calls: Counter[str], tmp_path: Path
) -> None:
    few, many = (counted(bench, calls, partitions, tmp_path) for partitions in (FEW, MANY))
    assert few == many
    assert all(sum(of_job.values()) for of_job in few.values())
