"""Values that a task and a trigger exchange when the task defers while its driver runs.

Input is a submission whose driver runs in a cluster. One output is a `DriverNote`, which the
trigger returns in its event. The second output is the trigger's arguments for its own client of the
cluster. Airflow stores both in its database, so they contain no secret. If a user clears or marks
the deferred task, `ApplicationTrigger.on_kill` aborts its transactions and kills its driver.

Example:
    >>> note = DriverNote(
    ...     application_id="application_1_0001",
    ...     attempt="1-0123456789ab",
    ...     job_key="d/r/t/-1",
    ...     targets=("demo.t",),
    ...     result_uri="hdfs://nn/tmp/hiveacid/1/result.json",
    ...     began_s=0.0,
    ...     since_s=5.0,
    ... )
    >>> Woken.of(event_of(note.to_json(), End.ENDED)).note == note
    True
"""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from airflow_hiveacid.airflow_names import AirflowTaskTimeout
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ClusterError, HiveAcidError, JobFailedError
from airflow_hiveacid.jobs.contract import Side, from_json
from airflow_hiveacid.jobs.job import JobError, JobResult, JobSpec, OnRerun
from airflow_hiveacid.operators.reporting.outlets import RerunTerms
from airflow_hiveacid.operators.submission import kubernetes_login
from airflow_hiveacid.operators.submission.kubernetes import NAMESPACE
from airflow_hiveacid.operators.submission.resumption import Resumable
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments

_SETTINGS: Final = (NAMESPACE, *kubernetes_login.SETTINGS)
_VARIABLES: Final = (
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "YARN_CONF_DIR",
)
_LOGIN: Final = ("proxy_user", "principal", "keytab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished job of a task that defers for a later job; `result` is its `JobResult` as text."""

    generation: int
    on_rerun: OnRerun
    result: str

    def parsed(self) -> JobResult:
        """Return the job's result."""
        return JobResult.parse(self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverNote:
    """A driver that a trigger follows, and everything that the task needs to read its result.

    Three times are in seconds since 1970: the job began at `began_s`, the task deferred at
    `since_s`, and the task times out at `until_s`. `done` are the earlier jobs of the same task.
    """

    application_id: str
    attempt: str
    job_key: str
    targets: tuple[str, ...]
    result_uri: str
    began_s: float
    since_s: float
    until_s: float | None = None
    done: tuple[Done, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the note as JSON values, for a trigger's arguments and its event."""
        return cast("dict[str, Any]", to_json(self))

    @classmethod
    def from_json(cls, data: object) -> DriverNote:
        """Parse a note from the JSON values that `to_json` returned."""
        return from_json(cls, data, reader=Side.OPERATOR)


class End(enum.Enum):
    """The reason why a trigger wakes its task."""

    ENDED = "ended"
    TIMED_OUT = "timed out"
    FAILED = "failed"


def event_of(note: dict[str, Any], end: End, error: BaseException | None = None) -> dict[str, Any]:
    """Return a trigger's event; `error` is the reason if the trigger cannot follow the driver."""
    described = None if error is None else to_json(JobError.of(error))
    return {"note": note, "end": end.value, "error": described}


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """The contents of a trigger's event; see `event_of`."""

    note: DriverNote
    end: End
    error: JobError | None = None

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Woken:
        """Parse a trigger's event; raise JobFailedError if it has an unknown form."""
        ends = {member.value: member for member in End}
        match event:
            case {"note": note, "end": str(end), "error": error} if end in ends:
                driver_note = DriverNote.from_json(note)
            case _:
                raise JobFailedError(f"the trigger sent an unknown event: {event!r}")
        match error:
            case {"type": str(kind), "message": str(message)}:
                return cls(
                    note=driver_note, end=ends[end], error=JobError(type=kind, message=message)
                )
            case _:
                return cls(note=driver_note, end=ends[end])

    def failure(self) -> HiveAcidError | AirflowTaskTimeout | None:
        """Return the exception that the wait for the driver ended with, or None to ask the cluster.

        If the trigger failed unexpectedly, the driver may still run, so the task asks the cluster.
        """
        if self.end is End.TIMED_OUT:
            return AirflowTaskTimeout(
                f"{self.note.application_id} had not ended at the end of execution_timeout"
            )
        error = None if self.error is None else self.error.rebuild()
        return error if isinstance(error, ClusterError) else None


class Progress:
    """The state of a task that one of its deferrals passes to the next; mutable.

    `done` are the finished jobs, in order. The current job began at `began_s`, and the task times
    out at `until_s`; both are in seconds since 1970.
    """

    def __init__(self) -> None:
        self.done: list[tuple[RerunTerms, JobResult]] = []
        self.began_s = 0.0
        self.until_s: float | None = None
        self._woken: Woken | None = None

    def begin(self, limit: timedelta | None) -> None:
        """Begin a new try, which has no finished job yet; `limit` is its time limit."""
        self.done, self._woken = [], None
        self.until_s = None if limit is None else time.time() + limit.total_seconds()

    def resume(self, event: Mapping[str, Any]) -> None:
        """Continue the try of a task that its trigger has woken."""
        woken = Woken.of(event)
        self.done = [(entry, entry.parsed()) for entry in woken.note.done]
        self.until_s, self._woken = woken.note.until_s, woken

    @property
    def is_woken(self) -> bool:
        """True if a trigger has woken the task, and no job has read the trigger's event yet."""
        return self._woken is not None

    def woken_for(self, job_key: str) -> Woken | None:
        """Return the trigger's event if it is about this job, and None for every later job."""
        woken, self._woken = self._woken, None
        if woken is None or woken.note.job_key != job_key:
            return None
        self.began_s = woken.note.began_s
        return woken

    def note(self, application_id: str, spec: JobSpec, notes: Resumable | None) -> DriverNote:
        """Return the note about a job's driver, maybe that of an earlier try, as `notes` say."""
        noted = (None, None) if notes is None else (notes.attempt, notes.result_uri)
        return DriverNote(
            application_id=application_id,
            attempt=noted[0] or spec.attempt,
            job_key=spec.job_key,
            targets=tuple(spec.targets),
            result_uri=noted[1] or str(spec.result_uri),
            began_s=self.began_s,
            since_s=time.time(),
            until_s=self.until_s,
            done=tuple(
                Done(generation=entry.generation, on_rerun=entry.on_rerun, result=result.dump())
                for entry, result in self.done
            ),
        )


def why_not_deferred(target: SparkTarget, arguments: SparkArguments) -> str | None:
    """Return the reason why a trigger cannot follow this driver, or None if a trigger can."""
    if not target.is_cluster:
        return f"with the master {target.master}, the driver is a child of the worker's process"
    if not target.is_followed:
        return f"no resource manager is known for the connection {target.conn_id}"
    if arguments.yarn_rm_auth is not None:
        return "yarn_rm_auth exists only in the worker's process"
    return None


def client_arguments(arguments: SparkArguments) -> dict[str, Any]:
    """Return the arguments for a client of the cluster; none of them is secret."""
    return {
        "conf": _only(_SETTINGS, arguments.conf),
        "env_vars": _only(_VARIABLES, arguments.env_vars),
        **{name: getattr(arguments, name) for name in _LOGIN},
    }


def _only(names: tuple[str, ...], given: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(given[name]) for name in names if given and name in given}
