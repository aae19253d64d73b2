"""The request to an application and its response: one frozen, versioned value each.

The request is a JSON file without secrets, which the application reads once when it starts.

Example:
    >>> spec = JobSpec(
    ...     job_key="dag/run/task",
    ...     metastore=MetastoreEndpoint(uris=("thrift://hms:9083",)),
    ...     job=statements.DeleteSpec(target="db.t", where="id = 1"),
    ... )
    >>> JobSpec.parse(spec.dump()) == spec
    True
    >>> r = JobResult(kind="delete", job_key="k", status=JobStatus.COMMITTED, table="db.t")
    >>> JobResult.parse(r.dump()) == r
    True
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import Codec, JsonValue, MisfitError, to_json
from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.known_secrets import without_secrets
from airflow_hiveacid.jobs import LOCK_TIMEOUT_S, maintenance, statements
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION, Side, from_json, read_object
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """A user's PySpark program, with the tables that its transaction may access.

    The program may read all of these tables. The program may insert into the tables in `inserts`,
    `changes` and `overwrites`, update and delete rows of those in `changes` and `overwrites`, and
    overwrite only those in `overwrites`. `digest` is the digest of the program's source code, or
    empty if the operator cannot read the program.
    """

    application: str
    arguments: tuple[str, ...] = ()
    digest: str = ""
    reads: tuple[str, ...] = ()
    inserts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that the program may write, without duplicates."""
        return tuple(dict.fromkeys((*self.inserts, *self.changes, *self.overwrites)))

    @property
    def target(self) -> str:
        """The tables that the program may write, as text for messages."""
        return ", ".join(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec(ProgramSpec):
    """A program that runs a stream until `run_for_s` seconds are over, or its source ends."""

    run_for_s: float | None = None


Job = (
    statements.StatementSpec
    | statements.TransactionSpec
    | statements.StreamBatchSpec
    | ProgramSpec
    | statements.CreateAsSpec
    | maintenance.RestoreSpec
    | maintenance.RebalanceSpec
    | maintenance.CompactSpec
    | maintenance.CleanSpec
    | maintenance.ProveErasureSpec
    | maintenance.ConvertSpec
    | maintenance.ChangeFeedSpec
)


JOB_KINDS: Final[Mapping[str, type[Job]]] = {
    "insert": statements.InsertSpec,
    "merge": statements.MergeSpec,
    "update": statements.UpdateSpec,
    "delete": statements.DeleteSpec,
    "truncate": statements.TruncateSpec,
    "load": statements.LoadSpec,
    "transaction": statements.TransactionSpec,
    "stream_batch": statements.StreamBatchSpec,
    "program": ProgramSpec,
    "stream": StreamSpec,
    "create_as": statements.CreateAsSpec,
    "restore": maintenance.RestoreSpec,
    "rebalance": maintenance.RebalanceSpec,
    "compact": maintenance.CompactSpec,
    "compact_tables": maintenance.CompactSpec,
    "clean": maintenance.CleanSpec,
    "clean_tables": maintenance.CleanSpec,
    "prove_erasure": maintenance.ProveErasureSpec,
    "convert": maintenance.ConvertSpec,
    "change_feed": maintenance.ChangeFeedSpec,
}


def application_of(job: Job) -> str:
    """Return the name of the application that does a job, such as `merge` or `compact`."""
    # In JOB_KINDS, the application's name precedes other names of the same class.
    return next(kind for kind, cls in JOB_KINDS.items() if type(job) is cls)


def kind_of(job: Job) -> str:
    """Return the name of a kind of job: its application's, or such as `compact_tables`."""
    name = application_of(job)
    is_of_tables = (
        isinstance(job, maintenance.CompactSpec | maintenance.CleanSpec) and not job.is_of_table
    )
    return f"{name}_tables" if is_of_tables else name


class OnRerun(enum.Enum):
    """The behaviour of a job whose task was cleared after a success.

    Retries are not affected, because they never apply a change twice.
    """

    APPLY = "apply"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job with its metastore, its settings, and the key that makes it run only once.

    `job_key` is `dag_id/run_id/task_id/map_index@installation`, without the try number: all tries
    have the same key. `generation` is incremented when this task is cleared after a success.
    `attempt` is the ID of this submission (`format.ids`). `ledger_retention_s` says how long
    the ledger keeps the entry of this job. The application writes its `JobResult` to `result_uri`,
    if that is not None. `start_timeout_s` limits the wait for the first executor; None means
    Spark's limit. The conflict policy is the job's own, or else the table's, or else
    `default_conflict_policy`. With `allow_unsafe_expressions`, SQL may call Java and read the
    driver's files (docs/decisions/values.md). A driver in a cluster begins its job when its
    follower, a worker or a trigger, has written the file `follower_uri`. A driver on a worker
    commits only while its worker holds the lock of `worker_file`.
    """

    job_key: str
    metastore: MetastoreEndpoint
    job: Job
    generation: int = 0
    attempt: str = field(default_factory=lambda: str(AttemptId.new()))
    on_rerun: OnRerun = OnRerun.APPLY
    ledger_retention_s: float = 30 * 86400.0
    lock_timeout_s: float = LOCK_TIMEOUT_S
    heartbeat_s: float | None = None
    result_uri: str | None = None
    start_timeout_s: float | None = None
    conflict_policy: ConflictPolicy | None = None
    default_conflict_policy: ConflictPolicy = ConflictPolicy.HIVE
    allow_unsafe_expressions: bool = False
    follower_uri: str | None = None
    worker_file: str | None = None

    @property
    def statement(self) -> dict[str, str]:
        """A dict from the name of each part of the job to the part's digest.

        Jobs with equal digests make the same change. A field with its default value is no part, so
        that a new release, with more fields, computes the digests of its predecessor.

        Example:
            >>> job = statements.DeleteSpec(target="db.t", where="id = 1")
            >>> metastore = MetastoreEndpoint(uris=("thrift://hms:9083",))
            >>> sorted(JobSpec(job_key="k", metastore=metastore, job=job).statement)
            ['kind', 'target', 'where']
        """
        if isinstance(self.job, statements.StreamBatchSpec):
            # Between two tries of a batch, the user may have changed the stream's tables.
            return _digests(replace(self.job, targets=()))
        if not isinstance(self.job, statements.TransactionSpec):
            return _digests(self.job)
        every = {"kind": _digest(self.kind)}
        number = 0
        for part in self.job.statements:
            if isinstance(part, statements.MultiInsertSpec):
                # The number of INSERTs is a part too: single INSERTs would see each other's rows.
                shared = to_json(replace(part, inserts=()), omits_defaults=True)
                every[f"{number + 1}.shared"] = _digest([len(part.inserts), shared])
            for statement in statements.each(part):
                number += 1
                every |= {f"{number}.{name}": text for name, text in _digests(statement).items()}
        return every

    @property
    def kind(self) -> str:
        """The job's name (`kind_of`)."""
        return kind_of(self.job)

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that the job writes; for a change feed or a proof, the table that it reads.

        Empty if only the job itself finds its tables. CREATE TABLE AS writes its temporary table.
        """
        match self.job:
            case statements.TransactionSpec() | statements.StreamBatchSpec() | ProgramSpec():
                return self.job.targets
            case maintenance.CompactSpec() | maintenance.CleanSpec() if not self.job.is_of_table:
                return ()
            case statements.CreateAsSpec():
                return (self.job.hidden(self.job_key, self.attempt),)
            case _:
                return (self.job.target,)

    @property
    def has_statements(self) -> bool:
        """True if the result's details have an entry for each statement."""
        several = statements.TransactionSpec | statements.StreamBatchSpec | ProgramSpec
        return isinstance(self.job, several)

    def dump(self) -> str:
        """Return the spec as JSON text."""
        body = to_json(self)
        if not isinstance(body, dict):
            raise TypeError("a spec is an object")
        return json.dumps({"version": CONTRACT_VERSION, "kind": self.kind, **body})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a spec from its JSON text."""
        data = read_object(text, reader=Side.APPLICATION)
        kind, job = data.pop("kind", None), data.pop("job", None)
        if not isinstance(kind, str) or kind not in JOB_KINDS:
            raise errors.ContractVersionError(
                found=CONTRACT_VERSION,
                supported=CONTRACT_VERSION,
                side=Side.APPLICATION.value,
                detail=f"the job {kind!r} is unknown",
            )
        # The fields of the job that an older operator does not know get their defaults.
        data["job"] = from_json(JOB_KINDS[kind], job, reader=Side.APPLICATION, path="job")
        return from_json(cls, data, reader=Side.APPLICATION, needs_all=True)


def _digests(job: Job) -> dict[str, str]:
    """Return a dict from the name of each part of a job to its digest; not for a transaction."""
    parts = to_json(job, omits_defaults=True)
    if not isinstance(parts, dict):
        raise TypeError("a job is an object")
    if isinstance(source := parts.pop("source", None), dict):
        parts |= {f"source.{name}": value for name, value in source.items()}
    return {name: _digest(value) for name, value in {"kind": kind_of(job), **parts}.items()}


def _digest(value: JsonValue) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
