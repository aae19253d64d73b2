"""The operator's request to the Spark application: one frozen, versioned value for each job.

The request is a JSON file without secrets, which the application reads once when it starts.

Example:
    >>> spec = JobSpec(
    ...     job_key="dag/run/task",
    ...     metastore=MetastoreEndpoint(uris=("thrift://hms:9083",)),
    ...     job=statements.DeleteSpec(target="db.t", where="id = 1"),
    ... )
    >>> JobSpec.parse(spec.dump()) == spec
    True
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.policies import ConflictPolicy
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION, Side, from_json, read_object
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs import maintenance, statements
from airflow_hiveacid.jobs.time_limits import LOCK_TIMEOUT_S


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

        Jobs with equal digests make the same change.

        Example:
            >>> job = statements.DeleteSpec(target="db.t", where="id = 1")
            >>> metastore = MetastoreEndpoint(uris=("thrift://hms:9083",))
            >>> sorted(JobSpec(job_key="k", metastore=metastore, job=job).statement)
            ['kind', 'tables', 'target', 'where']
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
                shared = [len(part.inserts), dict(part.shared)]
                if part.parameters:
                    shared.append(to_json(part.parameters))
                every[f"{number + 1}.shared"] = _digest(shared)
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

        Empty if only the job itself finds its tables.
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
            raise ContractVersionError(
                found=CONTRACT_VERSION,
                supported=CONTRACT_VERSION,
                side=Side.APPLICATION.value,
                detail=f"It does not know the job {kind!r}.",
            )
        data["job"] = from_json(JOB_KINDS[kind], job, reader=Side.APPLICATION, path="job")
        return from_json(cls, data, reader=Side.APPLICATION, needs_all=True)


def _digests(job: Job) -> dict[str, str]:
    """Return a dict from the name of each part of a job, which is no transaction, to its digest."""
    parts = to_json(job)
    if not isinstance(parts, dict):
        raise TypeError("a job is an object")
    if isinstance(source := parts.pop("source", None), dict):
        parts |= {f"source.{name}": value for name, value in source.items()}
    for name in ("parameters", "source.parameters"):
        if not parts.get(name):
            parts.pop(name, None)
    return {name: _digest(value) for name, value in {"kind": kind_of(job), **parts}.items()}


def _digest(value: JsonValue) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
