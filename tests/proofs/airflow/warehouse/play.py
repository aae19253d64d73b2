"""The play `warehouse`: `compact_warehouse` keeps many tables below their thresholds.

For an hour, tables are written and read while the DAG runs every few minutes in a real scheduler.
The metastore's own initiator and cleaner run, and a worker of Hive 4 serves the initiator's
requests. Trino reads throughout.

Environment variables: `WAREHOUSE_MINUTES` and `WAREHOUSE_TABLES`, by default 10 minutes, 60 tables.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import median
from threading import Event, Thread
from typing import Any, Final

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.port import TxnState
from demo.airflow_api import Task
from demo.environment import spark_environment, spark_home
from demo.runs import why_failed
from tests.judges.engine import HiveJudge
from tests.judges.site import QUERY_BASED_COMPACTION
from tests.judges.trino import TrinoJudge
from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import Site, until
from tests.proofs.airflow.warehouse import readers, watching
from tests.proofs.airflow.warehouse.tables import Route, Table, create_tables
from tests.proofs.airflow.warehouse.writers import (
    FileWriter,
    HiveWriter,
    SparkWriter,
    Writer,
    Writing,
)
from tests.proofs.campaign.process import CampaignProcess

_DAG: Final = "compact_warehouse"
_NIGHTLY: Final = '"0 1 * * *"'
_EVERY_MINUTES: Final = 3
_SEED: Final = 7
_INITIATOR_S: Final = 15
_WORKER_PAUSE_S: Final = 1.0
_MEASURE_S: Final = 60.0
_MOST_ROUNDS: Final = 1
"""Hive's worker may be at work on a partition while a round leaves it alone."""

_MOST_NOTES: Final = 250
"""Jobs roll up 64 entries of the ledger, of two files each, and bundle 50 notes about commits."""

_HIVE_HEAP_MB: Final = 5000
_ROUNDS_OF_A_WORKER: Final = 300
"""Hive's engine keeps 6 MB of each compaction. So another process takes its place after a while."""

_JOIN_S: Final = 300.0
_WRITE_EVERY_S: Final = {Route.FILES: 30.0, Route.SPARK: 60.0, Route.HIVE: 90.0}
"""The time between two writes of a table, on average."""


def warehouse(site: Site) -> Iterator[Row]:
    """Let the DAG, Hive's services, writers and readers work at the same time, and judge them."""
    minutes = float(os.environ.get("WAREHOUSE_MINUTES", "10"))
    began = time.monotonic()
    with _evening(site, int(os.environ.get("WAREHOUSE_TABLES", "60"))) as evening:
        evening.run(minutes)
        evening.close()
        for title, seen, violation in evening.judged():
            yield Row(
                play="warehouse",
                title=f"{title}, {len(evening.tables)} tables, {minutes:g} minutes",
                seen=seen,
                violation=violation,
                seconds=time.monotonic() - began,
            )


@dataclass(kw_only=True)
class _Evening:
    """Everything that runs. Mutable: it collects what it sees.

    `over` ends the writers, and `closed` everything else.
    """

    site: Site
    client: MetastoreClient
    tables: list[Table]
    queue: watching.Queue
    writings: list[Writing]
    lookings: list[readers.Looking]
    last_looks: list[readers.Looking]
    metastore_uri: str
    over: Event
    closed: Event
    measured: list[watching.Measured] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    written_s: float = 0.0

    def run(self, minutes: float) -> None:
        """Work for some minutes, then let the writers end."""
        for work in (self._serve, self.queue.run, *(one.run for one in self.lookings)):
            self._start(work)
        writers = [self._start(one.run) for one in self.writings]
        self.site.api.unpause(_DAG)
        end_s = time.monotonic() + 60.0 * minutes
        while (left_s := end_s - time.monotonic()) > 0:
            self._measure()
            time.sleep(min(_MEASURE_S, left_s))
        self.over.set()
        for thread in writers:
            thread.join(_JOIN_S)
        self.written_s = time.time()

    def close(self) -> None:
        """Wait for a round after the last write and for an empty queue, and look once more."""
        self._measure()
        until("a later round", lambda: any(r.began_s > self.written_s for r in self._rounds()))
        until("an empty queue", lambda: not self._at_work())
        self._measure()
        self.closed.set()
        for thread in self.threads:
            thread.join(_JOIN_S)
        self.queue.look()
        entries = "".join(f"{entry}\n" for entry in self.queue.entries.values())
        (self.site.layout.home / "warehouse-queue.txt").write_text(entries)
        for looking in self.last_looks:
            for table in looking.tables:
                looking.look(table)

    def judged(self) -> Iterator[tuple[str, str, str]]:
        """Yield the title, what was seen, and the violation."""
        yield "writers", *self._judged_writers()
        yield "readers", *self._judged_readers()
        yield "thresholds", *self._judged_thresholds()
        yield "compactions", *self._judged_compactions()
        yield "what is left", *self._judged_rest()

    def _judged_writers(self) -> tuple[str, str]:
        routes = {one.tables[0].route.value: one.counts.total() for one in self.writings}
        kinds = sum((one.counts for one in self.writings), Counter[str]())
        errors = [text for one in self.writings for text in one.errors]
        return f"writes by {_listed(routes)}; {_listed(kinds)}", _first(errors)

    def _judged_readers(self) -> tuple[str, str]:
        readings = [one for looking in self._looks() for one in looking.readings]
        errors = [text for looking in self._looks() for text in looking.errors]
        found = [one for one in readings if one.violation]
        wrong = [one.violation for one in found if not self._is_half_a_minor(one)]
        counts = Counter(one.reader for one in readings)
        ours = [text for text in errors if not readers.is_about_a_manifest(text)]
        seen = (
            f"reads by {_listed(counts)}; {len(wrong)} wrong; Trino read"
            f" {len(found) - len(wrong)} times while Hive published a minor compaction;"
            f" {len(errors) - len(ours)} of Trino's reads failed on a manifest of a running INSERT"
            " of Hive"
        )
        return seen, _first(wrong + ours)

    def _is_half_a_minor(self, one: readers.Reading) -> bool:
        """Return True if Trino may have read one of a minor compaction's two directories.

        Hive publishes the inserts and the deletes one after the other, before its commit. Trino
        takes directories with a `_v` suffix for committed ones (docs/engines-failures.md). Without
        the second directory, deleted rows reappear until it is published, too.
        """
        is_by_trino = one.reader == readers.TRINO
        return is_by_trino and self.queue.has_foreign_minor(
            one.table.name, one.began_s, one.ended_s
        )

    def _judged_thresholds(self) -> tuple[str, str]:
        limits = {(t.name, str(p.name)): t.threshold for t, p in watching.pieces(self.tables)}
        reached = {
            name for one in self.measured for name, n in one.deltas.items() if n >= limits[name]
        }
        above = watching.rounds_above(self.measured, limits, self._rounds(), self.queue.compacted())
        late = [f"{name}: {n} rounds" for name, n in above.items() if n > _MOST_ROUNDS]
        last = self.measured[-1].deltas
        late += [f"{name}: {n} deltas at the end" for name, n in last.items() if n >= limits[name]]
        runs = self.site.api.runs(_DAG)
        logs = self.site.layout.airflow / "logs" / f"dag_id={_DAG}"
        late += [
            f"{run.run_id} failed: {why_failed(logs / f'run_id={run.run_id}')}"
            for run in runs
            if run.state == "failed"
        ]
        seconds = [one.ended_s - one.began_s for one in self._rounds()]
        most = max(n for one in self.measured for n in one.deltas.values())
        at_once = [sum(n >= limits[name] for name, n in m.deltas.items()) for m in self.measured]
        seen = (
            f"{len(seconds)} rounds of {min(seconds):.0f} to {max(seconds):.0f} s;"
            f" {len(reached)} of {len(limits)} partitions reached their threshold, one of them"
            f" {most} deltas; {median(at_once):.0f} at a time (median);"
            f" at most {max(above.values())} rounds in a row left one there"
        )
        return seen, _first(late)

    def _judged_compactions(self) -> tuple[str, str]:
        done, omitted = Counter[str](), 0
        for task in self._tasks():
            result = self.site.api.result(_DAG, task.run_id, task.task_id) or {}
            details = result.get("details") or {}
            for one in details.get("compactions", ()):
                done["done" if one["done"] else one["why"][:80]] += 1
            omitted += details.get("compactions_omitted") or 0
        counted, reported = self.queue.done(ours=True), done.pop("done", 0)
        # Hive's worker may compact a partition between our plan and our claim.
        failed = [
            f"{why} ({n})"
            for why, n in self.queue.reasons(ours=True).items()
            if not why.startswith("refused: there is no delta")
        ]
        if not reported <= counted <= reported + omitted:
            failed.append(f"the queue has {counted} of our compactions, XCom {reported}")
        if not (counted and self.queue.done(ours=False)):
            failed.append("Hive's worker or ours compacted nothing")
        seen = (
            f"ours {reported} in XCom, {omitted} omitted there,"
            f" {_listed(self.queue.states(ours=True))};"
            f" not compacted: {_listed(done) or 'none'};"
            f" Hive's {_listed(self.queue.states(ours=False))};"
            f" without a result: {_listed(self.queue.reasons(ours=False)) or 'none'}"
        )
        return seen, _first(failed)

    def _judged_rest(self) -> tuple[str, str]:
        last = self.measured[-1]
        txns = [t for t in self.client.open_txns_info() if t.state is TxnState.OPEN]
        notes = [f"{name}: {n} notes" for name, n in last.notes.items() if n > _MOST_NOTES]
        work = [str(entry) for entry in self._at_work()]
        seen = (
            f"queue entries at work {len(work)}, open transactions {len(txns)}, obsolete"
            f" directories {last.obsolete}, at most {max(last.notes.values())} files of notes in a"
            " table"
        )
        return seen, _first(work + [str(txn) for txn in txns] + notes)

    def _at_work(self) -> list[CompactionEntry]:
        return [entry for entry in self.client.show_compactions() if entry.is_at_work]

    def _looks(self) -> list[readers.Looking]:
        return [*self.lookings, *self.last_looks]

    def _start(self, work: Callable[[], None]) -> Thread:
        thread = Thread(target=work, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def _serve(self) -> None:
        while not self.closed.is_set():
            with HiveJudge(
                self.metastore_uri, settings=QUERY_BASED_COMPACTION, heap_mb=_HIVE_HEAP_MB
            ) as worker:
                for _ in range(_ROUNDS_OF_A_WORKER):
                    worker.work()
                    if self.closed.wait(_WORKER_PAUSE_S):
                        return

    def _measure(self) -> None:
        one = watching.measure(self.client, self.tables)
        self.measured.append(one)
        line = {
            "at": time.strftime("%H:%M:%S"),
            "deltas": sum(one.deltas.values()),
            "most": max(one.deltas.values()),
            "obsolete": one.obsolete,
            "notes": sum(one.notes.values()),
            "writes": sum(writing.counts.total() for writing in self.writings),
            "reads": sum(len(looking.readings) for looking in self.lookings),
            "errors": sum(len(one.errors) for one in self.writings)
            + sum(len(one.errors) for one in self.lookings),
            "rounds": len(self._rounds()),
            "ours": self.queue.done(ours=True),
            "hives": self.queue.done(ours=False),
        }
        with (self.site.layout.home / "warehouse.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _tasks(self) -> list[Task]:
        return [task for task in self.site.api.tasks(_DAG) if task.task_id == "compact"]

    def _rounds(self) -> list[watching.Round]:
        return [
            watching.Round(began_s=task.start.timestamp(), ended_s=task.end.timestamp())
            for task in self._tasks()
            if task.start and task.end
        ]


@contextmanager
def _evening(site: Site, count: int) -> Iterator[_Evening]:
    with ExitStack() as stack:
        metastore = stack.enter_context(metastore_on_postgres(_metastore(site)))
        endpoint = MetastoreEndpoint(uris=(metastore.uri,))

        def client() -> MetastoreClient:
            return stack.enter_context(connect(endpoint))

        tables = create_tables(client(), count)
        files, random = FileWriter(client=client()), Random(_SEED)
        for table in tables:
            change = table.base(random)
            table.record(change, files.write(table, change))
        over, closed = Event(), Event()
        process = _driver(site)
        stack.callback(process.end)
        hive = stack.enter_context(HiveJudge(metastore.uri, heap_mb=_HIVE_HEAP_MB))
        writers: Mapping[Route, Writer] = {
            Route.FILES: files,
            Route.SPARK: SparkWriter(process=process, endpoint=endpoint),
            Route.HIVE: HiveWriter(hive=hive),
        }
        trino = stack.enter_context(TrinoJudge(metastore.uri))
        reader = readers.FileReader(client=client())
        by_trino = readers.SqlReader(name=readers.TRINO, engine=trino)
        by_hive = readers.SqlReader(name="Hive", engine=hive, with_rows=True)
        for_trino = [table for table in tables if table.is_readable_by_trino]

        def looking(
            one: readers.FileReader | readers.SqlReader, chosen: list[Table]
        ) -> readers.Looking:
            return readers.Looking(reader=one, tables=chosen, over=closed, random=Random(_SEED))

        site.launch(**_airflow(site, metastore.uri))
        until(f"DAG {_DAG}", lambda: _DAG in site.api.dag_ids())
        yield _Evening(
            site=site,
            client=client(),
            tables=tables,
            queue=watching.Queue(client=client(), over=closed),
            writings=[
                _writing(writers[route], [t for t in tables if t.route is route], over)
                for route in Route
            ],
            lookings=[looking(reader, tables), looking(by_trino, for_trino)],
            last_looks=[
                looking(reader, tables),
                looking(by_trino, for_trino),
                looking(by_hive, tables),
            ],
            metastore_uri=metastore.uri,
            over=over,
            closed=closed,
        )
        over.set()
        closed.set()


def _metastore(site: Site) -> LocalMetastoreConfig:
    return LocalMetastoreConfig(
        data_dir=site.layout.home / "warehouse",
        initiator_on=True,
        cleaner_on=True,
        ends_with_parent=True,
        start_timeout_s=600.0,
        extra_settings={"hive.compactor.check.interval": f"{_INITIATOR_S}s"},
    )


def _driver(site: Site) -> CampaignProcess:
    program = spark_home(site.layout) / "bin" / "spark-submit"
    script = site.layout.repository / "tests" / "proofs" / "campaign" / "driver.py"
    command = [str(program), "--master", "local[1]", "--driver-memory", "640m", str(script)]
    return CampaignProcess(
        site.layout.home / "warehouse-driver",
        command,
        {
            **os.environ,
            **spark_environment(site.layout),
            "PYTHONPATH": str(site.layout.repository),
        },
    )


def _writing(writer: Writer, tables: list[Table], over: Event) -> Writing:
    pause_s = _WRITE_EVERY_S[tables[0].route] / len(tables)
    return Writing(writer=writer, tables=tables, pause_s=pause_s, over=over, random=Random(_SEED))


def _airflow(site: Site, uri: str) -> dict[str, str]:
    """Return settings with the DAG of `dags/`, every few minutes instead of every night."""
    folder = site.layout.home / "warehouse-dags"
    folder.mkdir(exist_ok=True)
    text = (site.layout.dags / f"{_DAG}.py").read_text()
    if _NIGHTLY not in text:
        raise LookupError(f"{_DAG} has no schedule {_NIGHTLY}")
    (folder / f"{_DAG}.py").write_text(text.replace(_NIGHTLY, f'"*/{_EVERY_MINUTES} * * * *"'))
    bundle = {
        "name": "warehouse",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder)},
    }
    hive: dict[str, Any] = {
        "conn_type": "hive_acid_metastore",
        "extra": {"uris": uri, "result_dir": f"file:{site.layout.home}/results"},
    }
    return {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(hive),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(site.layout.spark_programs),
    }


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))


def _first(found: Iterable[str]) -> str:
    """Return the first findings and the number of the others."""
    every = list(found)
    more = f"; and {len(every) - 5} more" if len(every) > 5 else ""
    return "; ".join(one[:400] for one in every[:5]) + more
