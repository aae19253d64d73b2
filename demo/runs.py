"""The DAGs of the demonstration, and a log of their finished tasks and results.

The log reads runs and task instances from Airflow's API, and the applications' results from XCom.
Each task is reported once, when it has finished.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from demo.report import JobLine, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from airflow_hiveacid.local.process import Progress
    from demo.airflow_api import AirflowApi, Run, Task

BOOTSTRAP: Final = "flights_bootstrap"
MERGE: Final = "flights_merge"
COMPACTION: Final = "flights_compaction"
CARRIERS: Final = "flights_carriers"
FEED: Final = "change_feed"
DAGS: Final = (BOOTSTRAP, MERGE, COMPACTION, CARRIERS, FEED)

_OVER: Final = frozenset({"success", "failed"})
_NO_JOBS: Final = frozenset({"needed", "make", "steps"})
_COMMITTED: Final = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction that changed the table, and the cleaning after it. Times have a time zone.

    A transaction that began before the compaction ended, such as a concurrent merge, may still be
    open. In this case the cleaning removes nothing, and the next cleaning removes the files.
    """

    began: datetime
    cleaned: datetime
    has_removed: bool


class RunLog:
    """The jobs that have finished so far. Mutable: it records which jobs it has reported."""

    def __init__(self, api: AirflowApi, *, say: Progress) -> None:
        self._api = api
        self._say = say
        self._lines: dict[tuple[str, str, str], JobLine] = {}
        self._results: dict[tuple[str, str, str], Mapping[str, Any]] = {}

    def look(self, dag_id: str) -> tuple[Run, ...]:
        """Return a DAG's runs, oldest first, and report tasks that finished since the last call."""
        runs = self._api.runs(dag_id)
        by_id = {run.run_id: run for run in runs}
        for task in self._api.tasks(dag_id):
            key = (dag_id, task.run_id, task.task_id)
            run = by_id.get(task.run_id)
            if (
                task.state in _OVER
                and task.task_id not in _NO_JOBS
                and run
                and key not in self._lines
            ):
                self._note(key, run, task)
        return runs

    def lines(self) -> tuple[JobLine, ...]:
        """Return all finished jobs, in the order of the DAGs."""
        order = {dag_id: position for position, dag_id in enumerate(DAGS)}
        return tuple(sorted(self._lines.values(), key=lambda line: order[line.dag_id]))

    def compactions(self) -> tuple[Compaction, ...]:
        """Return the compactions that changed the table and have been cleaned up, oldest first."""
        tasks = {(task.run_id, task.task_id): task for task in self._api.tasks(COMPACTION)}
        found = []
        for (dag_id, run_id, task_id), result in self._results.items():
            if (dag_id, task_id) != (COMPACTION, "compact") or result.get("status") != _COMMITTED:
                continue
            began = tasks[run_id, "compact"].start
            clean = tasks.get((run_id, "clean"))
            removal = self._results.get((COMPACTION, run_id, "clean"))
            if began and clean and clean.end and removal:
                has_removed = removal.get("status") == _COMMITTED
                found.append(Compaction(began=began, cleaned=clean.end, has_removed=has_removed))
        return tuple(sorted(found, key=lambda compaction: compaction.began))

    def _note(self, key: tuple[str, str, str], run: Run, task: Task) -> None:
        # In the demonstration, a mapped task has at most one task instance.
        result = _result_of(self._api.result(*key, task.map_index) or {})
        line = _job_line(run, task, result)
        self._lines[key], self._results[key] = line, result
        self._say(_sentence(line))


def _result_of(returned: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a task's result; for several statements, the last statement's result."""
    statements = returned.get("statements")
    return statements[-1] if statements else returned


def why_failed(logs: Path) -> str:
    """Return the last error in one run's task logs, which Airflow writes as JSON lines."""
    found = "no task logged an error"
    for log in sorted(
        logs.glob("task_id=*/**/attempt=*.log"), key=lambda file: file.stat().st_mtime
    ):
        for line in log.read_text(errors="replace").splitlines():
            errors = _event(line).get("error_detail")
            if errors:
                found = f"{errors[0].get('exc_type')}: {errors[0].get('exc_value')}"
    return found


def _event(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:  # output of a program that ran in the task
        return {}
    return event if isinstance(event, dict) else {}


def _job_line(run: Run, task: Task, result: Mapping[str, Any]) -> JobLine:
    rows = result.get("rows") or {}
    return JobLine(
        dag_id=run.dag_id,
        task_id=task.task_id,
        day=run.day if run.dag_id == MERGE else None,
        state=str(task.state),
        tries=task.tries,
        task_s=task.seconds or 0.0,
        job_s=float(result.get("seconds") or 0.0),
        rows=(
            int(rows.get("inserted") or 0),
            int(rows.get("updated") or 0),
            int(rows.get("deleted") or 0),
        ),
        files=int(result.get("files") or 0),
        size_bytes=int(result.get("size_bytes") or 0),
        note=_note_of(result),
    )


def _note_of(result: Mapping[str, Any]) -> str:
    """Describe a result: its status, and the kind, sizes and reason of each compaction."""
    details = result.get("details") or {}
    done = [c for c in details.get("compactions") or () if c.get("done")]
    sizes = [(size_text(c["bytes_in"]), size_text(c["bytes_out"])) for c in done]
    words = [
        f"{c['kind']} of {c['partition'] or 'the table'}, {into} to {out}: {c['why']}"
        for c, (into, out) in zip(done, sizes, strict=True)
    ]
    return "; ".join([str(result.get("status") or "no result"), *words])


def _sentence(line: JobLine) -> str:
    inserted, updated, deleted = line.rows
    rows = f"{inserted:,} inserted, {updated:,} updated, {deleted:,} deleted, "
    return (
        f"{line.title}: {line.state}, {rows if any(line.rows) else ''}"
        f"{size_text(line.size_bytes)} in {line.files} files, {line.task_s:.1f} s ({line.note})"
    )
