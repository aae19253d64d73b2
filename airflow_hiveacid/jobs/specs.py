"""What the operator asks of the Spark application: one frozen, versioned value per job.

Goes in as JSON (a file shipped with the application), is read once at the application's start.
Holds no secret. The standard library is enough to read it, so both sides of the seam do.

Example:
    >>> spec = JobSpec(
    ...     job_key="dag/run/task",
    ...     metastore=MetastoreEndpoint(uris=("thrift://hms:9083",)),
    ...     job=DeleteSpec(target="db.t", where="id = 1"),
    ... )
    >>> JobSpec.parse(spec.dump()) == spec
    True
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping  # noqa: TC003 - the codec reads hints at run time
from dataclasses import dataclass, field
from typing import Final, Self

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.format.policies import ConflictPolicy
from airflow_hiveacid.jobs.changes import ChangesSpec
from airflow_hiveacid.jobs.codec import (
    CONTRACT_VERSION,
    JsonValue,
    Side,
    from_json,
    read_object,
    to_json,
)
from airflow_hiveacid.jobs.conversion import ConvertSpec
from airflow_hiveacid.jobs.endpoint import (
    MetastoreEndpoint,  # noqa: TC001 - the codec reads hints at run time
)
from airflow_hiveacid.jobs.loading import LoadSpec

SOURCE_VIEW: Final = "source"
"""What a source is to its own query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """Where rows come from: files, an ACID table, values, or a query; exactly one of the four.

    `query` is a Spark SQL SELECT over the view `source`; without it the rows go on as they are.
    With `tables` it is the source itself: they say which ACID table (`db.table`) each view is that
    it reads, and there may be none.

    `versions` says which of these are read as of an earlier version (`VersionSpec.text`), by view;
    `table` is the view `source`.
    """

    format: str | None = None
    location: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    columns: tuple[str, ...] = ()
    values: tuple[tuple[str | int | float | bool | None, ...], ...] | None = None
    query: str | None = None
    tables: Mapping[str, str] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


class InsertMode(enum.Enum):
    """What happens to the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class ColumnMatch(enum.Enum):
    """How the source's columns meet the target's, where nobody lists these."""

    NAME = "name"
    POSITION = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertSpec:
    """INSERT INTO or INSERT OVERWRITE.

    `columns` names the target columns in the source's order, and others may be missing. If it is
    empty, columns meet as `match` says: by name, and some may be missing; or by position, as in
    Hive: all data columns, then the partition columns without a value, none missing.

    `partition` fixes partition columns (static partition); `dynamic_partition` are the others of a
    PARTITION clause. By position, a table's partition columns are exactly those of such a clause,
    in its order, if there is one. OVERWRITE replaces the partitions that the rows fall into; with
    a full static partition, that one even if there are no rows; in an unpartitioned table,
    everything.

    Columns that get no value get their default, or NULL. `default_at` are more of those: places,
    from 0, among the target columns in the source's order, for which the source has no column. Of
    the columns at `default_where` some rows get their default: the source says which, in further
    columns behind all others, in this order, of the texts `true` and `false`. Those at `text_at`
    hold texts only, each of which is cast to whatever the column is.
    """

    target: str
    source: SourceSpec
    mode: InsertMode = InsertMode.APPEND
    columns: tuple[str, ...] = ()
    partition: Mapping[str, str | None] = field(default_factory=dict)
    match: ColumnMatch = ColumnMatch.NAME
    dynamic_partition: tuple[str, ...] = ()
    default_at: tuple[int, ...] = ()
    default_where: tuple[int, ...] = ()
    text_at: tuple[int, ...] = ()


class MergeWhen(enum.Enum):
    """Which rows a clause is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"


class MergeAction(enum.Enum):
    """What a clause does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One WHEN clause; the first whose condition holds is applied.

    `set` maps target columns to Spark SQL expressions over `t` (target) and `s` (source). None
    means every target column that the source has too, from the source (`UPDATE SET *`, `INSERT *`).
    `values` are an insert's expressions for all columns of the target, in its order, instead.
    """

    when: MergeWhen
    action: MergeAction
    condition: str | None = None
    set: Mapping[str, str] | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """MERGE INTO target t USING source s ON the key columns are equal [AND condition].

    `tables` says which ACID table (`db.table`) each view is that queries within the clauses ask.
    """

    target: str
    source: SourceSpec
    keys: tuple[str, ...]
    clauses: tuple[MergeClause, ...]
    condition: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSpec:
    """UPDATE target SET column = expression WHERE condition.

    `tables` says which ACID table (`db.table`) each view is that queries within these ask.
    """

    target: str
    set: Mapping[str, str]
    where: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSpec:
    """DELETE FROM target WHERE condition; no condition deletes every row.

    `tables` says which ACID table (`db.table`) each view is that queries within it ask.
    """

    target: str
    where: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateSpec:
    """TRUNCATE TABLE target [PARTITION (...)]: nothing is left, without a row being read.

    `partition` gives some partition columns their value; every partition that has them is meant,
    and there has to be one. Without it all partitions are.
    """

    target: str
    partition: Mapping[str, str | None] = field(default_factory=dict)


class CompactionChoice(enum.Enum):
    """Which compaction is asked for."""

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSpec:
    """Compact a table or one partition (`month=1`); AUTO decides by the thresholds.

    `delta_count` fires at that many delta directories, `delta_ratio` at that share of the base's
    bytes.
    """

    target: str
    partition: str | None = None
    choice: CompactionChoice = CompactionChoice.AUTO
    delta_count: int = 10
    delta_ratio: float = 0.1
    plan_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSpec:
    """Remove what no reader can need: obsolete and aborted directories, old staging leftovers.

    `retention_s` keeps obsolete directories that long after they were replaced. `orphan_age_s` is
    how old a staging directory must be to count as left over.
    """

    target: str
    partition: str | None = None
    retention_s: float = 0.0
    orphan_age_s: float = 86400.0
    dry_run: bool = False


StatementSpec = InsertSpec | MergeSpec | UpdateSpec | DeleteSpec | TruncateSpec | LoadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiInsertSpec:
    """INSERTs of which each sees the tables as they were before the first of them.

    `shared` are the queries that their sources have in common, by the views that these are to
    them: each is run once, in this order. The tables that they ask are those of the sources.
    """

    inserts: tuple[InsertSpec, ...]
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, str]:
        """The tables that all of them read, by their views."""
        return {v: t for one in self.inserts for v, t in (one.source.tables or {}).items()}

    @property
    def versions(self) -> dict[str, str]:
        """Which of these are read as of an earlier version, by their views."""
        return {v: t for one in self.inserts for v, t in one.source.versions.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpec:
    """Statements that are committed together or not at all.

    They are done in this order, each on what the earlier ones have left of the tables, and of
    everybody else's changes all see the same.
    """

    statements: tuple[StatementSpec | MultiInsertSpec, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that are written, each once, in the order of their first statements."""
        return tuple(dict.fromkeys(one.target for part in self.statements for one in each(part)))

    @property
    def target(self) -> str:
        """The same for people."""
        return ", ".join(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """A PySpark program of the user's, with the tables that its one transaction may touch.

    `inserts` are only inserted into, the rows of `changes` are changed in any way, `overwrites` may
    be overwritten too; `reads` are read beside these. `digest` stands for the program's text, empty
    where the operator cannot read it.
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
        """The tables that may be written, each once."""
        return tuple(dict.fromkeys((*self.inserts, *self.changes, *self.overwrites)))

    @property
    def target(self) -> str:
        """The same for people."""
        return ", ".join(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAsSpec:
    """CREATE TABLE ... AS SELECT: the columns are those of the source.

    `partition_columns` are some of them. The table is filled under another name (`hidden`).
    """

    target: str
    source: SourceSpec
    partition_columns: tuple[str, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = 0
    insert_only: bool = False
    stored_as: str = "orc"
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False

    def hidden_prefix(self, job_key: str) -> str:
        """What the names begin with under which tries of this job fill the table."""
        return f"{self.target}__ctas_{hashlib.sha256(job_key.encode()).hexdigest()[:10]}_"

    def hidden(self, job_key: str, attempt: str) -> str:
        """The name under which this try fills it."""
        return self.hidden_prefix(job_key) + AttemptId.parse(attempt).nonce


def each(part: StatementSpec | MultiInsertSpec) -> tuple[StatementSpec, ...]:
    """The statements that a part of a transaction is: itself, or its INSERTs."""
    return part.inserts if isinstance(part, MultiInsertSpec) else (part,)


Job = (
    StatementSpec
    | TransactionSpec
    | ProgramSpec
    | CreateAsSpec
    | CompactSpec
    | CleanSpec
    | ConvertSpec
    | ChangesSpec
)

JOB_KINDS: Final[Mapping[str, type[Job]]] = {
    "insert": InsertSpec,
    "merge": MergeSpec,
    "update": UpdateSpec,
    "delete": DeleteSpec,
    "truncate": TruncateSpec,
    "load": LoadSpec,
    "transaction": TransactionSpec,
    "program": ProgramSpec,
    "create_as": CreateAsSpec,
    "compact": CompactSpec,
    "clean": CleanSpec,
    "convert": ConvertSpec,
    "changes": ChangesSpec,
}


def kind_of(job: Job) -> str:
    """A job's name: `merge`, `compact` and so on."""
    return next(kind for kind, cls in JOB_KINDS.items() if type(job) is cls)


class OnRerun(enum.Enum):
    """What a job does that was done before and whose task was cleared after that success.

    A retry is not meant: it never applies a change twice.
    """

    APPLY = "apply"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job, whole: what to do, where the metastore is, and under which key it counts once.

    `job_key` is `dag_id/run_id/task_id/map_index`, without the try number: a retry carries the
    same. `generation` grows when this very task is cleared after a success. `attempt` is this
    submission's own name (`format.attempts`). `ledger_retention_s` is how long it is remembered
    that the job was done. `result_uri` is where the application writes its `JobResult`; None writes
    none. `start_timeout_s` is the longest wait for a first executor; None waits as long as Spark.
    `conflict_policy` is the job's own; None lets the table say, and where that does not either,
    `default_conflict_policy` holds.
    """

    job_key: str
    metastore: MetastoreEndpoint
    job: Job
    generation: int = 0
    attempt: str = field(default_factory=lambda: str(AttemptId.new()))
    on_rerun: OnRerun = OnRerun.APPLY
    ledger_retention_s: float = 30 * 86400.0
    lock_timeout_s: float = 300.0
    heartbeat_s: float | None = None
    result_uri: str | None = None
    start_timeout_s: float | None = None
    conflict_policy: ConflictPolicy | None = None
    default_conflict_policy: ConflictPolicy = ConflictPolicy.HIVE

    @property
    def statement(self) -> dict[str, str]:
        """A digest of each part of the job; two jobs with the same digests do the same.

        Example:
            >>> job = DeleteSpec(target="db.t", where="id = 1")
            >>> metastore = MetastoreEndpoint(uris=("thrift://hms:9083",))
            >>> sorted(JobSpec(job_key="k", metastore=metastore, job=job).statement)
            ['kind', 'tables', 'target', 'where']
        """
        if not isinstance(self.job, TransactionSpec):
            return _digests(self.job)
        every = {"kind": _digest(self.kind)}
        number = 0
        for part in self.job.statements:
            if isinstance(part, MultiInsertSpec):
                shared = [len(part.inserts), dict(part.shared)]
                every[f"{number + 1}.shared"] = _digest(shared)
            for one in each(part):
                number += 1
                every |= {f"{number}.{name}": text for name, text in _digests(one).items()}
        return every

    @property
    def kind(self) -> str:
        """The job's name (`kind_of`)."""
        return kind_of(self.job)

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that the job is about."""
        match self.job:
            case TransactionSpec() | ProgramSpec():
                return self.job.targets
            case CreateAsSpec():
                return (self.job.hidden(self.job_key, self.attempt),)
            case _:
                return (self.job.target,)

    @property
    def has_statements(self) -> bool:
        """Whether the result tells of each statement."""
        return isinstance(self.job, TransactionSpec | ProgramSpec)

    def dump(self) -> str:
        """Write the spec as JSON text."""
        body = to_json(self)
        if not isinstance(body, dict):
            raise TypeError("a spec is an object")
        return json.dumps({"version": CONTRACT_VERSION, "kind": self.kind, **body})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a spec.

        Raises:
            ContractVersionError: another version wrote it, or a field is unknown or missing.
        """
        data = read_object(text, reader=Side.APPLICATION)
        kind, job = data.pop("kind", None), data.pop("job", None)
        if not isinstance(kind, str) or kind not in JOB_KINDS:
            raise ContractVersionError(
                found=CONTRACT_VERSION,
                supported=CONTRACT_VERSION,
                side=Side.APPLICATION.value,
                detail=f"It does not know the job {kind!r}.",
            )
        envelope = from_json(_Envelope, data, reader=Side.APPLICATION)
        return cls(
            job=from_json(JOB_KINDS[kind], job, reader=Side.APPLICATION, path="job"),
            job_key=envelope.job_key,
            metastore=envelope.metastore,
            generation=envelope.generation,
            attempt=envelope.attempt,
            on_rerun=envelope.on_rerun,
            ledger_retention_s=envelope.ledger_retention_s,
            lock_timeout_s=envelope.lock_timeout_s,
            heartbeat_s=envelope.heartbeat_s,
            result_uri=envelope.result_uri,
            start_timeout_s=envelope.start_timeout_s,
            conflict_policy=envelope.conflict_policy,
            default_conflict_policy=envelope.default_conflict_policy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """A JobSpec without its job, which is read by kind."""

    job_key: str
    metastore: MetastoreEndpoint
    generation: int
    attempt: str
    on_rerun: OnRerun
    ledger_retention_s: float
    lock_timeout_s: float
    heartbeat_s: float | None
    result_uri: str | None
    start_timeout_s: float | None
    conflict_policy: ConflictPolicy | None
    default_conflict_policy: ConflictPolicy


def _digests(job: Job) -> dict[str, str]:
    """A digest of each part of a job that is one statement."""
    parts = to_json(job)
    if not isinstance(parts, dict):
        raise TypeError("a job is an object")
    if isinstance(source := parts.pop("source", None), dict):
        parts |= {f"source.{name}": value for name, value in source.items()}
    return {name: _digest(value) for name, value in {"kind": kind_of(job), **parts}.items()}


def _digest(value: JsonValue) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
