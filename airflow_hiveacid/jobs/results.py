"""The Spark application's response: one frozen, versioned value that the operator reads.

Example:
    >>> r = JobResult(kind="delete", job_key="k", status=JobStatus.COMMITTED, table="db.t")
    >>> JobResult.parse(r.dump()) == r
    True
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import Codec, JsonValue, MisfitError, to_json
from airflow_hiveacid.format.known_secrets import without_secrets
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION, Side, from_json, read_object

_RECORDED: Final = Codec(ignores_unknown=True)
"""Reads results in ledgers. They outlive releases, so `CONTRACT_VERSION` does not apply to them."""


class JobStatus(enum.Enum):
    """The outcome of a job."""

    COMMITTED = "committed"
    ALREADY_DONE = "already_done"
    NOTHING_TO_DO = "nothing_to_do"
    PLANNED = "planned"
    FAILED = "failed"


class ExitCode(enum.IntEnum):
    """Exit code of the application's process; the `JobResult` contains the details."""

    OK = 0
    UNEXPECTED = 1
    BAD_INPUT = 10
    REFUSED = 11
    RETRYABLE = 20
    COMMIT_UNKNOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Numbers of changed rows; an updated row is not also counted as inserted or deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The effect of one statement of a transaction, in `details["statements"]` of the result.

    `rows` includes rows that a later statement of the same transaction has replaced.
    """

    kind: str
    table: str
    rows: RowCounts
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """A typed error in a job's result: class name and message."""

    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the class name and the message of an error.

        If the error is not a `HiveAcidError`, the class name is `JobFailedError`. Then the message
        begins with the name of the actual class.
        """
        text = without_secrets("\n".join([str(error), *getattr(error, "__notes__", ())]))
        if isinstance(error, errors.HiveAcidError):
            return cls(type=type(error).__name__, message=text)
        return cls(type="JobFailedError", message=f"{type(error).__name__}: {text}")

    def rebuild(self) -> errors.HiveAcidError:
        """Return an equivalent exception, for the operator to raise."""
        return errors.rebuild(self.type, self.message)


def exit_code(error: BaseException) -> ExitCode:
    """Return the application's exit code for an error."""
    if isinstance(error, errors.CommitStateUnknownError):
        return ExitCode.COMMIT_UNKNOWN
    if isinstance(error, errors.InputError):
        return ExitCode.BAD_INPUT
    if isinstance(error, errors.HiveAcidError):
        return ExitCode.RETRYABLE if error.retryable else ExitCode.REFUSED
    return ExitCode.UNEXPECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The effect of a job.

    `write_ids` maps `db.table` to the write ID. `details` depends on the kind of job. `size_bytes`
    and `files` count the written files or, for cleaning, the removed files. `seconds` is how long
    the job ran in the application. `phases` maps each phase to its seconds, in order.
    """

    kind: str
    job_key: str
    status: JobStatus
    table: str
    txn_id: int | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    rows: RowCounts = RowCounts()
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    spark_app_id: str | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    error: JobError | None = None

    @property
    def was_done_before(self) -> bool:
        """True if an earlier run made this change, so that this run changed nothing."""
        return self.status is JobStatus.ALREADY_DONE

    @property
    def statements(self) -> Sequence[Mapping[str, Any]]:
        """A `StatementResult` as JSON per statement; a job without statements has one entry."""
        statements = self.details.get("statements")
        return statements if isinstance(statements, list) and statements else [self.to_json()]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the result as JSON values, for XCom and asset events."""
        body = to_json(self)
        if not isinstance(body, dict):
            raise TypeError("a result is an object")
        return body

    def dump(self) -> str:
        """Return the result as JSON text."""
        return json.dumps({"version": CONTRACT_VERSION, **self.to_json()})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a result from its JSON text."""
        data = read_object(text, reader=Side.OPERATOR)
        return from_json(cls, data, reader=Side.OPERATOR, needs_all=True)


def of_earlier_run(text: str, own: JobResult) -> JobResult:
    """Return the result of an earlier run, which any release may have written to a ledger.

    A field that the text lacks has the value of this run's `own` result, and so has the status.
    Raises ValueError if a field has another type, or the text is not a JSON object.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise MisfitError("the document", f"an object, found {type(data).__name__}")
    defaults = own.to_json()
    return _RECORDED.read(JobResult, {**defaults, **data, "status": defaults["status"]})
