"""The steps of the demonstration, from an empty folder to the comparison with the source data.

The steps start the servers, write the batches of changes and create the table. One DAG loads the
first day's schedule. A backfill of a second DAG merges the days, while a third DAG monitors the
table and compacts it. A fourth DAG counts flights by carrier in SQL, and a fifth updates a copy
with the change feed. Finally every row of both tables is compared with the expected rows. Only
Airflow and Spark write to the tables. A second run finds all steps done and changes nothing. A run
after an interruption continues with the first unfinished step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from demo.airflow_api import USER
from demo.changes import BOOTSTRAP_FILE, batch_name, cut, first_days, read_flights
from demo.directories import DirectoryWatch
from demo.errors import AirflowServerError, DemoRunError
from demo.flights_table import (
    CARRIERS as CARRIERS_TABLE,
    COPY,
    FLIGHTS,
    ensure_table,
    read_whole_table,
    table_folder,
)
from demo.runs import BOOTSTRAP, CARRIERS, COMPACTION, DAGS, FEED, MERGE, RunLog, why_failed
from demo.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.airflow_api import AirflowApi, Run
    from demo.report import Report
    from demo.servers import Servers
    from demo.truth import Verdict

_POLL_S: Final = 1.0
_PARSE_TIMEOUT_S: Final = 120.0
_QUIET_TIMEOUT_S: Final = 300.0
# Allow two active runs: when a day's merge ends, the next day's run already exists and waits.
_ACTIVE_RUNS: Final = "2"
_ATTEMPTS: Final = 5
_BEGINNING: Final = "from-the-beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The number of days, and the schedule of the compaction DAG."""

    days: int
    compaction_cron: str


class Pipeline:
    """One run of the demonstration. Mutable: it records which failures are from an earlier run."""

    def __init__(self, plan: Plan, servers: Servers, report: Report) -> None:
        self._plan = plan
        self._servers = servers
        self._report = report
        self._days = first_days(plan.days)
        self._forgiven: set[str] = set()

    def run(self) -> None:
        """Run all steps.

        Raises:
            DemoError: see its subclasses.
            LocalServerError: the metastore did not start.
            HiveAcidError: the table could not be created or read.
        """
        self._start()
        api = self._servers.airflow.api()
        log = RunLog(api, say=self._report.tell)
        is_done = self._is_done(api)
        self._forgiven = {run.run_id for run in api.runs(COMPACTION) if run.state == "failed"}
        if not is_done:
            watch = DirectoryWatch(table_folder(self._servers.metastore.uri))
            self._bootstrap(api, log)
            self._follow_changes(api, log, _BEGINNING)
            self._backfill(api, log, watch)
            self._count(api, log)
            self._follow_changes(api, log, self._counting)
            self._await_compaction(log, watch)
            self._show_work(log, watch)
        verdict = self._compare()
        self._conclude(verdict, is_done=is_done)

    # The steps

    def _start(self) -> None:
        servers, report = self._servers, self._report
        with report.step("starting the Hive metastore"):
            servers.metastore.start()
        with report.step("starting Airflow"):
            servers.airflow.launch(
                metastore_uri=servers.metastore.uri, compaction_cron=self._plan.compaction_cron
            )
        with report.step("cutting the flights into change batches"):
            self._cut()
        with report.step(f"creating the table {FLIGHTS}"):
            is_new = ensure_table(servers.metastore.uri)
            report.say(f"{FLIGHTS} is {'new' if is_new else 'there already'}")
        with report.step("waiting until Airflow responds and has read the DAGs"):
            servers.airflow.await_health()
            self._await_dags(servers.airflow.api())

    def _cut(self) -> None:
        folder = self._servers.layout.changes
        names = [BOOTSTRAP_FILE, *map(batch_name, self._days)]
        if all((folder / name).is_file() for name in names):
            self._report.say(f"{len(names)} files already exist")
            return
        counts = cut(read_flights(), folder, days=self._plan.days).values()
        inserts, updates, deletes = (
            sum(getattr(count, kind) for count in counts)
            for kind in ("inserts", "updates", "deletes")
        )
        self._report.say(
            f"{len(names)} files: {inserts:,} inserts, {updates:,} updates, {deletes:,} deletes"
        )

    def _await_dags(self, api: AirflowApi) -> None:
        def are_read() -> bool:
            if errors := api.import_errors():
                file, trace = next(iter(errors.items()))
                raise DemoRunError(f"Airflow cannot read {file}:\n{trace}")
            return set(DAGS) <= api.dag_ids()

        if not _wait(are_read, timeout_s=_PARSE_TIMEOUT_S):
            raise DemoRunError(
                f"Airflow has not read {', '.join(DAGS)} within {_PARSE_TIMEOUT_S:g} s; see"
                f" {self._servers.layout.logs / 'dag-processor.log'}"
            )

    def _is_done(self, api: AirflowApi) -> bool:
        states = {run.day: run.state for run in api.runs(MERGE)}
        return (
            [run.state for run in api.runs(BOOTSTRAP)] == ["success"]
            and all(states.get(day) == "success" for day in self._days)
            and all(
                any(r.run_id == self._counting and r.state == "success" for r in api.runs(dag_id))
                for dag_id in (CARRIERS, FEED)
            )
            and self._has_compacted(api)
        )

    @property
    def _counting(self) -> str:
        """The ID of the run that counts flights after all days are merged."""
        return f"after-{self._plan.days}-days"

    def _has_compacted(self, api: AirflowApi) -> bool:
        log = RunLog(api, say=lambda _line: None)
        log.look(COMPACTION)
        return bool(log.compactions())

    def _bootstrap(self, api: AirflowApi, log: RunLog) -> None:
        with self._report.step("loading the first day's schedule"):
            self._try_failed_again(api, BOOTSTRAP)
            api.unpause(BOOTSTRAP)
            api.unpause(COMPACTION)
            self._follow(log, BOOTSTRAP, lambda runs: _all_succeeded(runs, expected=1))

    def _backfill(self, api: AirflowApi, log: RunLog, watch: DirectoryWatch) -> None:
        days = self._days
        with self._report.step(f"merging {days[0]} to {days[-1]}"):
            self._try_failed_again(api, MERGE)
            if set(days) - {run.day for run in api.runs(MERGE)}:
                # Airflow allows one backfill at a time: wait for an earlier, shorter backfill.
                self._follow(log, MERGE, lambda _runs: not api.has_active_backfill(MERGE))
                self._create_backfill()
            # Unpause this DAG last, when no other process writes to Airflow's database.
            api.unpause(MERGE)

            def are_merged(runs: tuple[Run, ...]) -> bool:
                watch.look()
                log.look(COMPACTION)
                wanted = tuple(run for run in runs if run.day in days)
                self._report.now(_progress(wanted, expected=len(days)))
                return _all_succeeded(wanted, expected=len(days))

            self._follow(log, MERGE, are_merged)

    def _create_backfill(self) -> None:
        first, last = self._days[0].isoformat(), self._days[-1].isoformat()
        arguments = ["backfill", "create", "--dag-id", MERGE, "--from-date", first]
        arguments += ["--to-date", last, "--max-active-runs", _ACTIVE_RUNS]
        # Airflow requires this argument because merges depend on the previous day. With `failed`,
        # days that were merged do not run again.
        arguments += ["--reprocess-behavior", "failed"]
        self._report.tell(f"airflow {' '.join(arguments)}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._servers.airflow.command(arguments)
            except AirflowServerError:
                # On SQLite, if the scheduler writes at the same time, Airflow rolls the backfill
                # back.
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def _count(self, api: AirflowApi, log: RunLog) -> None:
        title = f"counting flights into {CARRIERS_TABLE}, in SQL"
        self._run_once(api, log, CARRIERS, self._counting, title)

    def _follow_changes(self, api: AirflowApi, log: RunLog, run_id: str) -> None:
        self._run_once(api, log, FEED, run_id, f"merging the changes into {COPY}")

    def _run_once(self, api: AirflowApi, log: RunLog, dag_id: str, run_id: str, title: str) -> None:
        def is_over(runs: tuple[Run, ...]) -> bool:
            own = tuple(run for run in runs if run.run_id == run_id)
            return _all_succeeded(own, expected=1)

        with self._report.step(title):
            self._try_failed_again(api, dag_id)
            api.unpause(dag_id)
            api.trigger(dag_id, run_id)
            self._follow(log, dag_id, is_over)

    def _await_compaction(self, log: RunLog, watch: DirectoryWatch) -> None:
        with self._report.step("waiting for a compaction to end"):
            began = datetime.now(UTC)

            def is_over(runs: tuple[Run, ...]) -> bool:
                watch.look()
                done = log.compactions()
                # If no file has been removed yet, wait for the sensor's next check of the table.
                # The sensor's check starts another compaction and cleaning, or finds that no
                # partition needs them.
                has_looked = any(run.start is not None and run.start > began for run in runs)
                is_clean = any(compaction.has_removed for compaction in done)
                return bool(done) and (is_clean or has_looked) and all(run.is_over for run in runs)

            self._follow(log, COMPACTION, is_over)

    def _compare(self) -> Verdict:
        with self._report.step("comparing every row with the expected rows"):
            uri = self._servers.metastore.uri
            rows, counted, copy = (
                read_whole_table(uri, ref) for ref in (FLIGHTS, CARRIERS_TABLE, COPY)
            )
            with Truth(self._servers.layout.scratch) as truth:
                expected = truth.by_carrier(days=self._plan.days)
                found = sorted(tuple(row.values()) for row in counted.to_pylist())
                if found != expected:
                    raise DemoRunError(f"{CARRIERS_TABLE} contains {found} instead of {expected}")
                self._report.say(f"{CARRIERS_TABLE} is correct: {len(found)} carriers")
                if not truth.compare(copy, days=self._plan.days).is_equal:
                    raise DemoRunError(f"{COPY} differs from {FLIGHTS}, although it must be a copy")
                self._report.say(f"{COPY} is correct: {copy.num_rows:,} rows")
                return truth.compare(rows, days=self._plan.days)

    # The output

    def _show_work(self, log: RunLog, watch: DirectoryWatch) -> None:
        self._report.show_jobs(log.lines())
        compactions = log.compactions()
        first = next((c for c in compactions if c.has_removed), compactions[0])
        pictures = {
            "before the compaction": watch.before(first.began.timestamp()),
            "after the cleaning": watch.after(first.cleaned.timestamp()),
            "now": watch.look(),
        }
        self._report.show_directories({k: v for k, v in pictures.items() if v is not None})

    def _conclude(self, verdict: Verdict, *, is_done: bool) -> None:
        self._report.show_truth(verdict)
        self._report.show_steps()
        if not verdict.is_equal:
            raise DemoRunError(f"{FLIGHTS} differs from the expected rows")
        if is_done:
            self._report.say("[green]nothing to do[/green]: all runs succeeded earlier")
        self._report.say(
            f"[green]{FLIGHTS} is correct[/green]: {verdict.rows:,} rows"
            f" after {self._plan.days} days"
        )
        servers = self._servers
        self._report.tell(f"Airflow     {servers.airflow.url} (user {USER}, password in the file")
        self._report.tell(f"            {servers.layout.passwords})")
        self._report.tell(f"metastore   {servers.metastore.uri}")
        self._report.tell("explore     make demo-shell")
        self._report.tell("stop        make demo-stop")

    # Following runs

    def _follow(self, log: RunLog, dag_id: str, is_over: Callable[[tuple[Run, ...]], bool]) -> None:
        deadline = time.monotonic() + _QUIET_TIMEOUT_S
        reported = 0
        while True:
            runs = log.look(dag_id)
            if is_over(runs):
                return
            self._check(runs)
            if len(log.lines()) != reported:
                reported, deadline = len(log.lines()), time.monotonic() + _QUIET_TIMEOUT_S
            if time.monotonic() >= deadline:
                raise DemoRunError(
                    f"no task has ended for {_QUIET_TIMEOUT_S:g} s while waiting for {dag_id};"
                    f" see {self._servers.layout.logs / 'scheduler.log'}"
                )
            time.sleep(_POLL_S)

    def _check(self, runs: tuple[Run, ...]) -> None:
        for run in runs:
            if run.state == "failed" and run.run_id not in self._forgiven:
                logs = self._servers.layout.airflow / "logs" / f"dag_id={run.dag_id}"
                logs /= f"run_id={run.run_id}"
                raise DemoRunError(
                    f"run {run.run_id} of {run.dag_id} failed: {why_failed(logs)}\n"
                    f"its logs are in {logs}"
                )

    def _try_failed_again(self, api: AirflowApi, dag_id: str) -> None:
        for run in api.runs(dag_id):
            if run.state == "failed":
                self._report.tell(f"{dag_id} {run.run_id} failed earlier and is retried")
                api.clear(run)


def _all_succeeded(runs: tuple[Run, ...], *, expected: int) -> bool:
    return [run.state for run in runs] == ["success"] * expected


def _progress(runs: tuple[Run, ...], *, expected: int) -> str:
    done = sum(run.state == "success" for run in runs)
    running = [str(run.day) for run in runs if run.state == "running"]
    return f"merging {running[0] if running else ''} ({done} of {expected} days done)"


def _wait(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
