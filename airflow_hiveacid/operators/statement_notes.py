"""What a task notes of each statement in a script that changes definitions, for its later tries.

The ledger of a table remembers which changes of its rows are done, but not whether a table was
dropped, and it goes with the table. So where one of several statements is a definition, the task's
state store remembers of all of them: that it is done, with its result, or that it is about to be
done and what there was before. See docs/adr/0026.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.errors import (
    ContractVersionError,
    RerunRefusedError,
    StatementChangedError,
)
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import OnRerun
from airflow_hiveacid.plan.metastore_statements import MetastoreStatement

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.jobs.specs import Job
    from airflow_hiveacid.metastore.definition_work import Before
    from airflow_hiveacid.operators.resumption import StateStore

_KEY: Final = "hiveacid_statement_{}"
_BEGUN: Final = "begun"
_RESULT: Final = "result"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who wants a statement done, and on which terms; the fields are those of a JobSpec."""

    job_key: str
    generation: int
    attempt: str
    on_rerun: OnRerun
    metastore: MetastoreEndpoint
    lock_timeout_s: float
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementNote:
    """What is noted of one statement; a task without a state store notes nothing.

    `number` is its place in the script, from 1.
    """

    store: StateStore | None
    number: int
    job: Job | MetastoreStatement
    order: Order

    def already(self) -> JobResult | None:
        """Its result, if it is done and not to be done again.

        Raises:
            StatementChangedError: another definition was done here by an earlier try.
            RerunRefusedError: it is done, and the user wants an error then.
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
                return None  # the table's ledger says what is to be said
            raise StatementChangedError(
                table=result.table,
                job_key=key,
                txn_id=txn_id,
                when=when,
                differing=(f"statement {self.number}",),
            )
        if not is_retry and self.order.on_rerun is OnRerun.FAIL:
            if not isinstance(self.job, MetastoreStatement):
                return None  # as above
            raise RerunRefusedError(table=result.table, job_key=key, txn_id=txn_id, when=when)
        log.info("statement %d was done at %s", self.number, when)
        if result.status is JobStatus.COMMITTED:
            return replace(result, status=JobStatus.ALREADY_DONE)
        return result

    def before(self) -> Before | None:
        """What there was when an earlier try was about to change something."""
        from airflow_hiveacid.metastore.definition_work import Before  # noqa: PLC0415 - for tasks only

        noted = self._read()
        is_own = (noted.get("generation"), noted.get("digest")) == (
            self.order.generation,
            self._digest,
        )
        begun = noted.get(_BEGUN) if is_own else None
        return Before.from_json(begun) if isinstance(begun, dict) else None

    def begin(self, before: Before) -> None:
        """Note that the next call may change what was as this says."""
        self._write({_BEGUN: before.to_json()})

    def end(self, result: JobResult) -> None:
        """Note that it is done. Of its details nothing: they may be long."""
        self._write({_RESULT: replace(result, details={}).dump()})

    def _read(self) -> dict[str, Any]:
        noted = None if self.store is None else self.store.get(_KEY.format(self.number))
        return noted if isinstance(noted, dict) else {}

    def _write(self, what: dict[str, Any]) -> None:
        from airflow.sdk.execution_time.context import NEVER_EXPIRE  # noqa: PLC0415 - loads the task runner

        if self.store is not None:
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            note = {"generation": self.order.generation, "digest": self._digest, "when": now}
            self.store.set(_KEY.format(self.number), {**note, **what}, retention=NEVER_EXPIRE)

    @property
    def _digest(self) -> str:
        if isinstance(self.job, MetastoreStatement):
            return self.job.digest
        text = json.dumps([type(self.job).__name__, to_json(self.job)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _result(noted: dict[str, Any]) -> JobResult | None:
    text = noted.get(_RESULT)
    if not isinstance(text, str):
        return None
    try:
        return JobResult.parse(text)
    except ContractVersionError as error:
        # Another release noted it, between two tries: whoever does it again finds out by the table.
        log.warning("a note of an earlier try cannot be read: %s", error)
        return None
