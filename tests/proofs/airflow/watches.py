"""Plays of watched tables: an event when a table needs compaction, no second one after a kill.

Tables get real deltas and are watched by the real triggerer. All watches share one poll, so an
event of a second table, the beacon, proves that the poll has seen the first one, too.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from airflow_hiveacid.assets.uris import AssetUri
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.port import snapshot_now
from demo.airflow_api import AirflowApi
from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import DB, Site, until

THRESHOLD: Final = 3
"""The number of deltas at which a table needs compaction, as in dags/watches.py."""

MANY: Final = 200
_DUE: Final = 20
_OBSERVED_S: Final = 60.0
_BLOCKED: Final = re.compile(r"async thread was blocked for ([0-9.]+) seconds")


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The watched tables, by name without the database."""

    site: Site
    api: AirflowApi
    tables: dict[str, TableInfo] = field(default_factory=dict)

    def create(self, *names: str) -> None:
        """Create tables; `watched` has a DAG of its own, and the others share one."""
        for name in names:
            self.tables[name] = self.site.warehouse.table(name)
        listed = [f"{DB}.{name}" for name in self.tables if name != "watched"]
        self.site.tables.write_text(json.dumps(listed))

    def write(self, name: str, deltas: int = 1) -> None:
        for _ in range(deltas):
            self.site.warehouse.delta(self.tables[name], 1)

    def events(self) -> Counter[str]:
        """Count the events of each table."""
        uris = (AssetUri.parse(urlsplit(uri)) for uri in self.api.asset_events())
        return Counter(uri.table.name for uri in uris)

    def await_poll(self, beacon: str) -> None:
        """Wait until a poll that began after this call has sent its events."""
        self.write(beacon, THRESHOLD)
        until(f"an event of {beacon}", lambda: self.events()[beacon])

    def runs(self) -> int:
        """Count the runs of the DAG of the table `watched`."""
        return len(self.api.runs("compaction"))


def watch(site: Site) -> Iterator[Row]:
    """Watch one table: one run a crossing, none after a kill, one after a failed compaction."""
    ended = time.monotonic()
    watched = Watched(site=site, api=site.api)
    beacons = [f"beacon_{number}" for number in range(5)]
    watched.create("watched", *beacons)
    dag_ids = ("compaction", "any_of_many")
    until("the DAGs", lambda: watched.api.dag_ids().issuperset(dag_ids))
    for dag_id in dag_ids:
        watched.api.unpause(dag_id)
    watched.await_poll(beacons[0])

    def row(title: str, wanted: int) -> Row:
        nonlocal ended
        began, ended = ended, time.monotonic()
        runs, events = watched.runs(), watched.events()["watched"]
        seen = f"events {events}, runs {runs}"
        violation = "" if runs == events == wanted else f"expected {wanted} of each"
        return Row(play="watch", title=title, seen=seen, violation=violation, seconds=ended - began)

    watched.write("watched", THRESHOLD - 1)
    watched.await_poll(beacons[1])
    yield row("a table is below its threshold", 0)
    watched.write("watched")
    until("a run", watched.runs)
    yield row("the next write crosses the threshold", 1)
    site.kill("triggerer")
    watched.await_poll(beacons[2])
    watched.await_poll(beacons[3])
    yield row("SIGKILL of the triggerer; the new one polls", 1)
    _fail_compaction(watched, "watched")
    watched.await_poll(beacons[4])
    yield row("a compaction fails", 1)
    watched.write("watched")
    until("a second run", lambda: watched.runs() > 1)
    yield row("the next write after the failed compaction", 2)


def watches(site: Site) -> Iterator[Row]:
    """Watch many tables at once, and let some of them cross the threshold."""
    began = time.monotonic()
    watched = Watched(site=site, api=site.api)
    names = [f"many_{number:03}" for number in range(MANY)]
    since = len(_triggerer_log(site))
    time.sleep(_OBSERVED_S)
    idle, since = _blocked(site, since), len(_triggerer_log(site))
    watched.create(*names)
    until("the DAG of many tables", lambda: "any_of_many" in watched.api.dag_ids())
    watched.api.unpause("any_of_many")
    watched.await_poll(names[-1])
    time.sleep(_OBSERVED_S)
    due = names[:_DUE]
    for name in due:
        watched.write(name, THRESHOLD)
    wait_s = until(f"events of {_DUE} tables", lambda: not Counter(due) - watched.events())
    events = watched.events()
    extra = {name: events[name] for name in names if events[name] != (name in {*due, names[-1]})}
    blocked = _blocked(site, since)
    yield Row(
        play="watches",
        title=f"{MANY} tables are watched, and {_DUE} cross the threshold",
        seen=(
            f"{_DUE} events within {wait_s:.0f} s; a poll of {MANY} tables takes"
            f" {1000 * _poll_s(watched, names):.0f} ms; event loop blocked {_text(blocked)},"
            f" without these watches {_text(idle)}"
        ),
        violation=f"unexpected events: {extra}" if extra else _blockage(blocked, idle),
        seconds=time.monotonic() - began,
    )


def _fail_compaction(watched: Watched, name: str) -> None:
    client = watched.site.warehouse.client
    client.request_compaction(TableRef(DB, name), None, CompactionType.MAJOR)
    claim = client.find_next_compaction("worker", worker_version="4.0.1")
    if claim is None:
        raise LookupError("the metastore's queue is empty")
    client.mark_failed(replace(claim, error_message="no space left"))


def _triggerer_log(site: Site) -> str:
    return site.airflow.log_of("triggerer").read_text(errors="replace")


def _blocked(site: Site, since: int) -> list[float]:
    """Return the seconds of each warning about a blocked event loop in the log's later part."""
    return [float(text) for text in _BLOCKED.findall(_triggerer_log(site)[since:])]


def _text(blocked: list[float]) -> str:
    return f"{len(blocked)} times (longest {max(blocked):.2f} s)" if blocked else "never"


def _blockage(blocked: list[float], idle: list[float]) -> str:
    """Return the violation; on a busy machine the event loop is late without watches, too."""
    return "blocked" if blocked and not idle else ""


def _poll_s(watched: Watched, names: list[str]) -> float:
    endpoint = MetastoreEndpoint(uris=(watched.site.warehouse.uri,))
    refs = [TableRef(DB, name) for name in names]
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with connect(endpoint) as client:
            snapshot_now(client, refs)
        took.append(time.perf_counter() - began)
    return statistics.median(took)
