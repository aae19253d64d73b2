"""Plays of jobs: an application runs, a process is killed, the application ends and commits once.

The program is the driver of every application: when a play says so, it commits one transaction on
the job's table, writes the result, and reports the application's end to YARN.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus, RowCounts
from airflow_hiveacid.metastore.catalog import NewTable
from demo.airflow_api import AirflowApi, Run, Task
from demo.processes import processes_of, tasks_of
from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import DB, Site, until
from tests.support.pretended_yarn import RUNNING, SUCCEEDED

_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "three": ("deferred_1", "deferred_2", "deferred_3"),
    "one": ("deferred",),
    "waiting": ("waiting",),
}
"""The tasks of each DAG of dags/jobs.py; each has a table of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of a DAG run; `killed` counts requests to YARN to kill an application."""

    state: str
    applications: int
    killed: int
    commits: int

    def __str__(self) -> str:
        """Return the text for the page."""
        killed = f" ({self.killed} killed)" if self.killed else ""
        return f"applications {self.applications}{killed}, commits {self.commits}, {self.state}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One DAG run and its applications."""

    site: Site
    api: AirflowApi
    dag_id: str
    run_id: str
    commits_before: int
    began_s: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, site: Site, dag_id: str) -> Job:
        _create_tables(site)
        api, run_id = site.api, uuid.uuid4().hex[:12]
        until(f"DAG {dag_id}", lambda: dag_id in api.dag_ids())
        api.unpause(dag_id)
        before = _commits(site, dag_id)
        api.trigger(dag_id, run_id)
        return cls(site=site, api=api, dag_id=dag_id, run_id=run_id, commits_before=before)

    @property
    def run(self) -> Run:
        """The run's present state."""
        (found,) = (run for run in self.api.runs(self.dag_id) if run.run_id == self.run_id)
        return found

    @property
    def tasks(self) -> list[Task]:
        """The present state of the tasks."""
        return [task for task in self.api.tasks(self.dag_id) if task.run_id == self.run_id]

    @property
    def applications(self) -> dict[str, JobSpec]:
        """The specs of the run's applications by their IDs, oldest first."""
        submitted = dict(self.site.yarn.submitted)
        specs = {name: JobSpec.parse(body["spec"]) for name, body in submitted.items()}
        key = f"{self.dag_id}/{self.run_id}/"
        return {name: spec for name, spec in specs.items() if spec.job_key.startswith(key)}

    def await_applications(self, state: str) -> None:
        """Wait until every task has this state, and its application runs."""
        count = len(_TASKS[self.dag_id])

        def holds() -> bool:
            states = Counter(task.state for task in self.tasks)
            return states == {state: count} and len(self._running()) == count

        until(f"{count} tasks {state}, each with an application", holds)

    def finish(self) -> Seen:
        """End the applications, also those of later tries, until the run has ended."""

        def is_over() -> bool:
            for name, spec in self._running().items():
                _end(self.site, name, spec)
            return self.run.is_over

        until(f"end of the run of {self.dag_id}", is_over)
        return self.seen()

    def seen(self) -> Seen:
        """Count what has happened so far."""
        applications = self.applications
        return Seen(
            state=self.run.state,
            applications=len(applications),
            killed=sum(name in applications for name in self.site.yarn.killed),
            commits=_commits(self.site, self.dag_id) - self.commits_before,
        )

    def row(self, play: str, title: str, seen: Seen, *, killed: int = 0) -> Row:
        """Return the row: each task commits once, and `killed` applications are killed."""
        count = len(_TASKS[self.dag_id])
        wanted = Seen(state="success", applications=count + killed, killed=killed, commits=count)
        return Row(
            play=play,
            title=title,
            seen=str(seen),
            violation="" if seen == wanted else f"expected {wanted}",
            seconds=time.monotonic() - self.began_s,
        )

    def _running(self) -> dict[str, JobSpec]:
        apps = self.site.yarn.apps
        return {n: spec for n, spec in self.applications.items() if apps[n] == RUNNING}


def slots(site: Site) -> Iterator[Row]:
    """Wait for three applications at once with one worker slot."""
    job = Job.start(site, "three")
    job.await_applications("deferred")
    yield job.row("slots", "three tasks wait at once with one worker slot", job.finish())


def triggerer(site: Site) -> Iterator[Row]:
    """Kill the triggerer while it follows three applications."""
    yield _killed(site, "triggerer", "three", "deferred")


def worker(site: Site) -> Iterator[Row]:
    """Kill the task's process after YARN has accepted the application, before the task defers."""
    for more in (False, True):
        job = _before_deferral(site)
        _kill_task(site, with_spark_submit=more)
        job.await_applications("deferred")
        processes = " and its `spark-submit`" if more else ""
        title = f"SIGKILL of the task's process{processes}, before the task defers"
        yield job.row("worker", title, job.finish())


def scheduler(site: Site) -> Iterator[Row]:
    """Kill the scheduler, alone or with its executor's processes, at three times."""
    yield _killed(site, "scheduler", "one", "deferred", with_children=False)
    yield _killed(site, "scheduler", "waiting", "running")
    job = _before_deferral(site)
    site.kill("scheduler")
    _let_submit(site)
    job.await_applications("deferred")
    title = "SIGKILL of the scheduler and its worker, before the task defers"
    yield job.row("scheduler", title, job.finish())


def api_server(site: Site) -> Iterator[Row]:
    """Kill the API server while a task is deferred, and while one waits in its worker."""
    yield _killed(site, "api-server", "one", "deferred")
    yield _killed(site, "api-server", "waiting", "running")


def dag_processor(site: Site) -> Iterator[Row]:
    """Kill the DAG processor while a task is deferred."""
    yield _killed(site, "dag-processor", "one", "deferred")


def clear(site: Site) -> Iterator[Row]:
    """Clear a deferred task: its application is killed once, and that of another run is not."""
    other, job = Job.start(site, "three"), Job.start(site, "one")
    for one in (other, job):
        one.await_applications("deferred")
    job.api.clear_task(job.run, "deferred")
    until("a second application", lambda: len(job.applications) == 2)
    job.await_applications("deferred")
    yield job.row("clear", "a user clears a deferred task", job.finish(), killed=1)
    yield other.row("clear", "three tasks of another run at that time", other.finish())


def _killed(
    site: Site, component: str, dag_id: str, state: str, *, with_children: bool = True
) -> Row:
    job = Job.start(site, dag_id)
    job.await_applications(state)
    site.kill(component, with_children=with_children)
    tasks = "three tasks wait" if dag_id == "three" else "a task waits"
    where = "in the triggerer" if state == "deferred" else "in its worker"
    more = " and its worker" if component == "scheduler" and with_children else ""
    title = f"SIGKILL of the {component}{more}, while {tasks} {where}"
    return job.row(component, title, job.finish())


def _before_deferral(site: Site) -> Job:
    """Start a job whose application runs while its `spark-submit` has not ended."""
    _hanging(site).unlink(missing_ok=True)
    site.spark.tell(hangs=True)
    job = Job.start(site, "one")
    until("a submitted application", lambda: job.applications and _hanging(site).exists())
    return job


def _kill_task(site: Site, *, with_spark_submit: bool) -> None:
    (task,) = tasks_of(processes_of(site.layout.home))
    os.kill(task.pid, signal.SIGKILL)
    if with_spark_submit:
        _end_spark_submit(site)
    _let_submit(site)


def _let_submit(site: Site) -> None:
    """Let later submissions end at once, and end the one that has not ended."""
    site.spark.tell(hangs=False)
    _end_spark_submit(site)


def _end_spark_submit(site: Site) -> None:
    for pid in json.loads(_hanging(site).read_text()).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _hanging(site: Site) -> Path:
    return site.spark.directory / "hanging.json"


def _create_tables(site: Site) -> None:
    client = site.warehouse.client
    there = set(client.list_tables(DB))
    for name in {name for names in _TASKS.values() for name in names} - there:
        columns = (Column(name="id", type="bigint"),)
        client.create_table(NewTable(ref=TableRef(DB, name), columns=columns))


def _commits(site: Site, dag_id: str) -> int:
    client, refs = site.warehouse.client, [TableRef(DB, name) for name in _TASKS[dag_id]]
    writes = client.valid_write_ids(refs, client.valid_txns()).values()
    return sum(one.high_watermark - len(one.open) - len(one.aborted) for one in writes)


def _end(site: Site, name: str, spec: JobSpec) -> None:
    client, target = site.warehouse.client, spec.job.target
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, TableRef.parse(target))
    client.commit_txn(txn_id)
    result = JobResult(
        kind=spec.kind,
        job_key=spec.job_key,
        status=JobStatus.COMMITTED,
        table=target,
        txn_id=txn_id,
        write_ids={target: write_id},
        rows=RowCounts(deleted=1),
    )
    file = Path(str(spec.result_uri).removeprefix("file:"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(result.dump())
    site.yarn.apps[name] = dict(SUCCEEDED)
