"""What the Spark application answers: one frozen, versioned value, read back by the operator.

Example:
    >>> r = JobResult(kind="delete", job_key="k", status=JobStatus.COMMITTED, table="db.t")
    >>> JobResult.parse(r.dump()) == r
    True
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping  # noqa: TC003 - the codec reads hints at run time
from dataclasses import dataclass, field
from typing import Final, Self

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    InputError,
    rebuild,
)
from airflow_hiveacid.jobs.codec import (
    CONTRACT_VERSION,
    JsonValue,
    Side,
    from_json,
    misfit,
    read_object,
    to_json,
)


class JobStatus(enum.Enum):
    """How a job ended."""

    COMMITTED = "committed"
    ALREADY_DONE = "already_done"
    NOTHING_TO_DO = "nothing_to_do"
    PLANNED = "planned"
    FAILED = "failed"


class ExitCode(enum.IntEnum):
    """Exit code of the application's process; the result says more."""

    OK = 0
    UNEXPECTED = 1
    BAD_INPUT = 10
    REFUSED = 11
    RETRYABLE = 20
    COMMIT_UNKNOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Rows by kind. An update counts once, under `updated`."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """What one statement of a transaction did; in the result's details, as `statements`.

    A later statement may have replaced what this one wrote: then it counts here, and is not there.
    """

    kind: str
    table: str
    rows: RowCounts
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """A typed error on its way back: class name and message."""

    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe an error, with its notes; classes outside the tree keep their name in it."""
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        if isinstance(error, HiveAcidError):
            return cls(type=type(error).__name__, message=text)
        return cls(type="JobFailedError", message=f"{type(error).__name__}: {text}")

    def rebuild(self) -> HiveAcidError:
        """The error again, to be raised on the operator's side."""
        return rebuild(self.type, self.message)


def exit_code(error: BaseException) -> ExitCode:
    """The exit code that stands for an error."""
    if isinstance(error, CommitStateUnknownError):
        return ExitCode.COMMIT_UNKNOWN
    if isinstance(error, InputError):
        return ExitCode.BAD_INPUT
    if isinstance(error, HiveAcidError):
        return ExitCode.RETRYABLE if error.retryable else ExitCode.REFUSED
    return ExitCode.UNEXPECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job did.

    `write_ids` maps `db.table` to the write ID; `details` is the job's own business. `size_bytes`
    and `files` count what was written (or, for cleaning, removed); `seconds` is the application's
    own time.
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
    spark_app_id: str | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    error: JobError | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The result as JSON values, for XCom and asset events."""
        body = to_json(self)
        if not isinstance(body, dict):
            raise TypeError("a result is an object")
        return body

    def dump(self) -> str:
        """Write the result as JSON text."""
        return json.dumps({"version": CONTRACT_VERSION, **self.to_json()})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a result.

        Raises:
            ContractVersionError: another version wrote it, or a field is unknown or missing.
        """
        data = read_object(text, reader=Side.OPERATOR)
        details = data.pop("details", {})
        if not isinstance(details, dict):
            raise misfit(Side.OPERATOR, "details", f"an object, found {type(details).__name__}")
        result: Final = from_json(_ResultBody, data, reader=Side.OPERATOR)
        return cls(
            **{f: getattr(result, f) for f in _ResultBody.__dataclass_fields__}, details=details
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResultBody:
    """A JobResult without its free-form details."""

    kind: str
    job_key: str
    status: JobStatus
    table: str
    txn_id: int | None
    write_ids: Mapping[str, int]
    rows: RowCounts
    partitions: tuple[str, ...]
    files: int
    size_bytes: int
    seconds: float
    spark_app_id: str | None
    error: JobError | None
