"""Notes that tell later tries of a task which statements of a script are done.

A table's ledger records which row changes are done, but a drop deletes it. So if a script has a DDL
statement, each of its statements has a note in the task's state store: the result of a finished
statement, or the table's state before an unfinished one. See docs/decisions/definitions.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus, OnRerun
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.operators.submission.resumption import StateStore

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.definitions import Before

_KEY: Final = "hiveacid_statement_{}"
_BEGUN: Final = "begun"
_RESULT: Final = "result"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The execution settings of one statement, with the same field names as in JobSpec."""

    job_key: str
    generation: int
    attempt: str
    on_rerun: OnRerun
    metastore: MetastoreEndpoint
    lock_timeout_s: float
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementNote:
    """The note about one statement; if the task has no state store, nothing is stored.

    `number` is the statement's position in the script, from 1.
    """

    store: StateStore | None
    number: int
    job: Job | MetastoreStatement
    order: Order

    def already(self) -> JobResult | None:
        """Return a finished statement's result, or None to run it; a job may then refuse to run.

        Raises:
            StatementChangedError: an earlier try executed a different statement at this position.
            RerunRefusedError: the statement is done, and `on_rerun` is `fail`.
        """
        noted = self._read()
        result = _result(noted)
        if result is None:
            return None
        is_retry = noted.get("generation") == self.order.generation
        if not is_retry and self.order.on_rerun is OnRerun.APPLY:
            return None
        when, txn_id = str(noted.get("when")), result.txn_id or 0
        key = self.order.job_key
        if noted.get("digest") != self._digest:
            if not isinstance(self.job, MetastoreStatement):
                return None  # the job itself checks the table's ledger and raises the error
            raise errors.StatementChangedError(
                table=result.table,
                job_key=key,
                txn_id=txn_id,
                when=when,
                differing=(f"statement {self.number}",),
            )
        if not is_retry and self.order.on_rerun is OnRerun.FAIL:
            if not isinstance(self.job, MetastoreStatement):
                return None  # as above
            raise errors.RerunRefusedError(
                table=result.table, job_key=key, txn_id=txn_id, when=when
            )
        log.info("statement %d was done at %s", self.number, when)
        if result.status is JobStatus.COMMITTED:
            return replace(result, status=JobStatus.ALREADY_DONE)
        return result

    def before(self) -> Before | None:
        """Return the table's state that an earlier try stored before its first change, or None."""
        from airflow_hiveacid.metastore.definitions import Before  # noqa: PLC0415 - for tasks only

        noted = self._read()
        is_own = (noted.get("generation"), noted.get("digest")) == (
            self.order.generation,
            self._digest,
        )
        begun = noted.get(_BEGUN) if is_own else None
        return Before.from_json(begun) if isinstance(begun, dict) else None

    def begin(self, before: Before) -> None:
        """Store the table's current state before the next call changes it."""
        self._write({_BEGUN: before.to_json()})

    def end(self, result: JobResult) -> None:
        """Store the result of the finished statement, without its details, which may be long."""
        self._write({_RESULT: replace(result, details={}).dump()})

    def _read(self) -> dict[str, Any]:
        noted = None if self.store is None else self.store.get(_KEY.format(self.number))
        return noted if isinstance(noted, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        if self.store is not None:
            from airflow.sdk.execution_time.context import NEVER_EXPIRE  # noqa: PLC0415 - loads the task runner

            time = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            note = {"generation": self.order.generation, "digest": self._digest, "when": time}
            self.store.set(_KEY.format(self.number), {**note, **content}, retention=NEVER_EXPIRE)

    @property
    def _digest(self) -> str:
        if isinstance(self.job, MetastoreStatement):
            return self.job.digest
        text = json.dumps([type(self.job).__name__, to_json(self.job, omits_defaults=True)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _result(noted: dict[str, Any]) -> JobResult | None:
    text = noted.get(_RESULT)
    if not isinstance(text, str):
        return None
    try:
        return JobResult.parse(text)
    except errors.ContractVersionError as error:
        # A different release of the provider wrote the note. Executing the statement again is safe,
        # because its execution begins with a check of the table.
        log.warning("a note of an earlier try cannot be read: %s", error)
        return None
