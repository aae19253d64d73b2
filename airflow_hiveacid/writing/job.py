"""A job that writes tables, and checks of its tables before a transaction begins; its phases."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, TypeVar

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.conflicts import ConflictPolicy, chosen_policy
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.statements import SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan.reruns import Batch
from airflow_hiveacid.plan.statements import dml
from airflow_hiveacid.storage.plain.files import check_files_writable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable

_S = TypeVar("_S")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingJob:
    """A job that writes tables: the spec, a metastore connection, the job's terms.

    `batch` is the job's place in a stream, if it is a batch of one.
    """

    spec: JobSpec
    client: MetastorePort
    terms: JobTerms
    batch: Batch | None = None

    def cancellable(self) -> AbstractContextManager[Callable[[], None]]:
        """Run a block whose work the yielded function cancels, from another thread."""
        return nullcontext(lambda: None)

    def result(
        self, status: JobStatus, table: object, details: Mapping[str, JsonValue] | None = None
    ) -> JobResult:
        """Return a result of this job without changes of its own."""
        return JobResult(
            kind=self.spec.kind,
            job_key=self.spec.job_key,
            status=status,
            table=str(table),
            details=details or {},
        )

    def job_of(self, kind: type[_S]) -> _S:
        """Return the spec of this job; refuse a job of a different kind."""
        if not isinstance(self.spec.job, kind):
            raise ConfigurationError(f"this application does not run {self.spec.kind} jobs")
        return self.spec.job

    def policy_of(self, table: TableInfo) -> ConflictPolicy:
        """Return a table's conflict policy, of the job's argument, the table, or the connection."""
        return chosen_policy(
            self.spec.conflict_policy,
            table.parameters,
            self.spec.default_conflict_policy,
            table=table.ref,
        )

    def changeable_table(self, name: str, operation: str) -> TableInfo:
        """Return the table if its rows can be changed and its location is writable."""
        table = self.client.get_table(TableRef.parse(name))
        dml.check_changeable(table, operation)
        return _writable(table)

    def insertable_table(self, name: str) -> TableInfo:
        """Return the table if rows can be added to it and its location is writable."""
        table = self.client.get_table(TableRef.parse(name))
        dml.check_insertable(table)
        check_files_writable(table)
        return _writable(table)

    def with_constraints(self, table: TableInfo) -> TableInfo:
        """Return the table with its constraints, for a statement that writes rows."""
        return dataclasses.replace(table, constraints=self.client.constraints(table.ref))

    def source_tables(self, source: SourceSpec | None) -> dict[str, TableInfo]:
        """Return a dict from view name to ACID table, for the tables that a source reads."""
        return self.tables(dml.tables_of(source))

    def tables(self, names: Mapping[str, str]) -> dict[str, TableInfo]:
        """Return a dict from view name to ACID table, for tables read in addition to the target."""
        tables = {}
        for view, name in names.items():
            tables[view] = self.client.get_source(TableRef.parse(name))
            dml.check_readable(tables[view])
        return tables


def _writable(table: TableInfo) -> TableInfo:
    check_publishable(table.ref, table.location)
    check_writable(table.location)
    return table


# Each phase ends with one of these steps of the transaction. All other steps belong to "work".
_PHASES: Final = {
    "opened": "prepare",
    **dict.fromkeys(("allocated", "locked", "fenced", "snapshot"), "lock"),
    **dict.fromkeys(("registered", "verified", "noted", "published"), "publish"),
    **dict.fromkeys(("body_done", "committed"), "commit"),
}

log = logging.getLogger("hiveacid")


class StepClock:
    """Measures a job's phases, or kills it at one, in tests. Mutable, and shared by threads."""

    def __init__(self) -> None:
        self._stop_at = os.environ.get("HIVEACID_STOP_AT")
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._seconds: dict[str, float] = {}

    def reached(self, step: str) -> None:
        """Log a step, and add the time since the last step to the step's phase."""
        log.debug("step=%s", step)
        with self._lock:
            reached_s = time.monotonic()
            phase = _PHASES.get(step, "work")
            self._seconds[phase] = self._seconds.get(phase, 0.0) + reached_s - self._last
            self._last = reached_s
        if step == self._stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def phases(self) -> Mapping[str, float]:
        """The seconds of each phase, in the order in which the phases began."""
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}
