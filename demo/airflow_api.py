"""A client for the few calls of Airflow's REST API that the demonstration needs.

The client takes the server's URL and the file with the password. It returns runs and task instances
as dataclasses. It never passes on the password or the token.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import date, datetime
from http import HTTPStatus
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from demo.errors import AirflowApiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USER: Final = "admin"
_TIMEOUT_S: Final = 30.0
_PAGE: Final = 100
_ATTEMPTS: Final = 6
_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One DAG run. `day` is the start of the data interval; times have a time zone."""

    dag_id: str
    run_id: str
    state: str
    day: date | None
    start: datetime | None
    end: datetime | None

    @property
    def is_over(self) -> bool:
        """True if the run has finished, successfully or not."""
        return self.state in {"success", "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task instance with its last try. `seconds` is the duration of the last try.

    `map_index` is -1 unless the task is mapped.
    """

    run_id: str
    task_id: str
    state: str | None
    tries: int
    seconds: float | None
    start: datetime | None
    end: datetime | None
    map_index: int = -1


class AirflowApi:
    """The REST API of one Airflow installation. Mutable: it holds a token.

    Every call is safe to repeat. A call is retried if the server fails or does not answer. On
    SQLite, calls sometimes fail when several processes write at once.

    Raises:
        AirflowApiError: A call was refused, or failed repeatedly. `health` never raises it.
    """

    def __init__(self, url: str, passwords: Path) -> None:
        self.url = url
        self._passwords = passwords
        self._token: str | None = None
        # The server is local: an HTTP proxy from the environment must not see the token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def health(self) -> Mapping[str, str]:
        """Return each component's state, which is `unreachable` if the server does not answer."""
        names = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            body = self._send("GET", "/api/v2/monitor/health", token=None)
        except AirflowApiError:
            return dict.fromkeys(names, "unreachable")
        return {name: str((body.get(name) or {}).get("status")) for name in names}

    def dag_ids(self) -> frozenset[str]:
        """Return the IDs of the DAGs that Airflow has parsed so far."""
        return frozenset(dag["dag_id"] for dag in self._get("/api/v2/dags?limit=100")["dags"])

    def dag_files(self) -> frozenset[str]:
        """Return the names of the files of these DAGs, without folders."""
        dags = self._pages("/api/v2/dags?order_by=dag_id", "dags")
        return frozenset(PurePath(dag["fileloc"]).name for dag in dags)

    def import_errors(self) -> Mapping[str, str]:
        """Return each DAG file that Airflow could not import, with the error."""
        found = self._get("/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG if it is paused."""
        path = f"/api/v2/dags/{quote(dag_id)}"
        if self._get(path)["is_paused"]:
            self._call("PATCH", f"{path}?update_mask=is_paused", {"is_paused": False})

    def has_active_backfill(self, dag_id: str) -> bool:
        """Return True if a DAG has an unfinished backfill.

        Airflow marks a backfill as finished with a delay.
        """
        found = self._pages(f"/api/v2/backfills?dag_id={quote(dag_id)}", "backfills")
        return any(backfill["completed_at"] is None for backfill in found)

    def clear(self, run: Run) -> None:
        """Clear the failed tasks of a run, so that they are retried."""
        path = f"/api/v2/dags/{quote(run.dag_id)}/dagRuns/{quote(run.run_id, safe='')}/clear"
        self._call("POST", path, {"dry_run": False, "only_failed": True})

    def clear_task(self, run: Run, task_id: str) -> None:
        """Clear one task of a run, in any state, so that it runs again."""
        body = {
            "dry_run": False,
            "dag_run_id": run.run_id,
            "task_ids": [task_id],
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._call("POST", f"/api/v2/dags/{quote(run.dag_id)}/clearTaskInstances", body)

    def asset_events(self) -> tuple[str, ...]:
        """Return the URI of the asset of each event, oldest event first."""
        events = self._pages("/api/v2/assets/events?order_by=timestamp", "asset_events")
        return tuple(event["uri"] for event in events)

    def trigger(self, dag_id: str, run_id: str, **params: object) -> None:
        """Trigger a DAG run with this ID and these params, unless a run with this ID exists."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns"
        try:
            body = {"dag_run_id": run_id, "logical_date": None, "conf": params}
            self._call("POST", path, body)
        except AirflowApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise

    def asks(self, run: Run, task_id: str) -> bool:
        """Return whether a task has asked a person."""
        try:
            self._get(_request(run, task_id))
        except AirflowApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    def answer(self, run: Run, task_id: str, option: str) -> None:
        """Answer a task that has asked a person."""
        self._call("PATCH", _request(run, task_id), {"chosen_options": [option]})

    def runs(self, dag_id: str) -> tuple[Run, ...]:
        """Return all runs of a DAG, oldest first."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns?order_by=run_after"
        return tuple(_run(body) for body in self._pages(path, "dag_runs"))

    def tasks(self, dag_id: str) -> tuple[Task, ...]:
        """Return all task instances of all runs of a DAG."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns/~/taskInstances?order_by=run_after"
        return tuple(_task(body) for body in self._pages(path, "task_instances"))

    def result(
        self, dag_id: str, run_id: str, task_id: str, map_index: int = -1
    ) -> Mapping[str, Any] | None:
        """Return a task's result, or None if the task returned nothing."""
        run = f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"
        path = f"{run}/taskInstances/{quote(task_id)}/xcomEntries/return_value"
        path += f"?map_index={map_index}" if map_index >= 0 else ""
        try:
            value = self._get(path)["value"]
        except AirflowApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        found = json.loads(value) if isinstance(value, str) else value
        return found if isinstance(found, dict) else None

    def _pages(self, path: str, key: str) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = []
        while True:
            body = self._get(f"{path}&limit={_PAGE}&offset={len(rows)}")
            rows += body[key]
            if not body[key] or len(rows) >= body["total_entries"]:
                return rows

    def _get(self, path: str) -> Mapping[str, Any]:
        return self._call("GET", path)

    def _call(self, method: str, path: str, body: object = None) -> Mapping[str, Any]:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._call_once(method, path, body)
            except AirflowApiError as error:
                if not error.is_passing:
                    raise
                time.sleep(_PAUSE_S)
        return self._call_once(method, path, body)

    def _call_once(self, method: str, path: str, body: object) -> Mapping[str, Any]:
        if self._token is None:
            self._token = self._log_in()
        return self._send(method, path, body, token=self._token)

    def _log_in(self) -> str:
        password = json.loads(self._passwords.read_text())[USER]
        body = {"username": USER, "password": password}
        return str(self._send("POST", "/auth/token", body, token=None)["access_token"])

    def _send(
        self, method: str, path: str, body: object = None, *, token: str | None
    ) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - http to loopback
            self.url + path, data=data, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise AirflowApiError(f"{method} {path}", error.code, text) from error
        except OSError as error:
            raise AirflowApiError(f"{method} {path}", None, f"nothing: {error}") from error
        if not isinstance(found, dict):
            raise AirflowApiError(f"{method} {path}", None, f"a {type(found).__name__}")
        return found


def _request(run: Run, task_id: str) -> str:
    dag_run = f"/api/v2/dags/{quote(run.dag_id)}/dagRuns/{quote(run.run_id, safe='')}"
    return f"{dag_run}/taskInstances/{quote(task_id)}/-1/hitlDetails"


def _run(body: Mapping[str, Any]) -> Run:
    begin = _time(body.get("data_interval_start"))
    return Run(
        dag_id=body["dag_id"],
        run_id=body["dag_run_id"],
        state=str(body["state"]),
        day=begin.date() if begin else None,
        start=_time(body.get("start_date")),
        end=_time(body.get("end_date")),
    )


def _task(body: Mapping[str, Any]) -> Task:
    return Task(
        run_id=body["dag_run_id"],
        task_id=body["task_id"],
        state=body["state"],
        tries=int(body["try_number"]),
        seconds=body["duration"],
        start=_time(body.get("start_date")),
        end=_time(body.get("end_date")),
        map_index=int(body.get("map_index", -1)),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
