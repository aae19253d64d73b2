"""The specs of statements that change tables, with the typed values of their parameters.

SQL refers to a parameter with a marker such as `:day`. The value is never inserted into the SQL
text. The value is sent separately, and `spark.engine.parsed_sql` puts it into Spark's
plan as a literal.

Example:
    >>> LoadSpec(target="db.t", location="hdfs://nn/landing/day").overwrite
    False
    >>> Parameter(values=(Value(type=ValueType.DATE, text="2026-01-31"),)).said
    "date '2026-01-31'"
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.ids import AttemptId


class ValueType(enum.Enum):
    """The type of a parameter value; the values of the enum are the names for users."""

    STRING = "string"
    INT = "int"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    MOMENT = "timestamp with local time zone"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value: its type, and its canonical form as text.

    A TIMESTAMP is a wall-clock time without a time zone, such as `2026-01-31 02:00:00.5`. A MOMENT
    has the same form in UTC, and ends in `Z`. The text of NULL is empty.
    """

    type: ValueType
    text: str = ""

    @property
    def said(self) -> str:
        """The type and value, for error messages."""
        return "NULL" if self.type is ValueType.NULL else f"{self.type.value} {self.text!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The value of a parameter, or one or more values for `IN (:ids)` if `is_list` is true."""

    values: tuple[Value, ...]
    is_list: bool = False

    @property
    def said(self) -> str:
        """The values with their types, for error messages."""
        values = ", ".join(value.said for value in self.values)
        return f"({values})" if self.is_list else values


SOURCE_VIEW: Final = "source"
"""The name of the view with a source's rows; the source's own query reads this view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The source of rows: exactly one of files, an ACID table, values, or a query.

    `query` is a Spark SQL SELECT over the view `source`. Without a query, the statement uses all
    rows unchanged. If `tables` is given, the query itself is the source. `tables` then maps each
    view in the query to an ACID table (`db.table`), and may be empty.

    `versions` maps a view to a version of its table (`VersionSpec.text`). The name of the view for
    `table` is `source`. `parameters` are the parameters in the query.
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
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


class InsertMode(enum.Enum):
    """The effect of an INSERT on existing rows: keep or overwrite them."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class ColumnMatch(enum.Enum):
    """The rule that matches source columns with target columns if `columns` is empty."""

    NAME = "name"
    POSITION = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertSpec:
    """INSERT INTO or INSERT OVERWRITE.

    `columns` lists target columns in the order of the source's columns; some columns may be
    missing. If `columns` is empty, `match` applies. If columns are matched by name, the source may
    lack some columns. If columns are matched by position, as in Hive, the source has all data
    columns, then all dynamic partition columns, in the order of the PARTITION clause.

    `partition` contains the partition columns with a fixed value (static partition), and
    `dynamic_partition` those that a PARTITION clause lists without a value. OVERWRITE replaces the
    partitions that receive rows. If the source has no rows, OVERWRITE still empties an
    unpartitioned table, and a partition if every partition column has a fixed value. All other
    partitions keep their rows. So an OVERWRITE from an earlier version of the table does not
    restore that version; use `RestoreSpec`.

    Columns without a value get their default, or NULL. The columns at `default_at` always get their
    default, so the source does not contain them. In the columns at `default_where`, only some rows
    get the default: for each of them, in the same order, the source has an extra column at its end,
    in which the string `true` means that the row gets the default, and `false` that it does not.
    The columns at `text_at` contain only strings, which the statement casts to the column's type.
    All these positions are indexes of target columns, from 0, in the order of the source's columns.
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
    """The rows to which a clause of MERGE applies."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"


class MergeAction(enum.Enum):
    """The action of a clause of MERGE."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One WHEN clause of MERGE; a row gets the first clause whose condition is true.

    `set` maps target columns to Spark SQL expressions over `t` (target) and `s` (source). If `set`
    is None, all columns of the same name get the source's values (`UPDATE SET *`, `INSERT *`). For
    an insert, `values` can be given instead of `set`; `values` contains an expression for each
    target column, in order.
    """

    when: MergeWhen
    action: MergeAction
    condition: str | None = None
    set: Mapping[str, str] | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """MERGE INTO target t USING source s ON t.key = s.key [AND ...] [AND condition].

    `tables` maps each view in queries of the clauses to an ACID table (`db.table`). `parameters`
    are the parameters in the condition and the clauses; the source has its own parameters.
    """

    target: str
    source: SourceSpec
    keys: tuple[str, ...]
    clauses: tuple[MergeClause, ...]
    condition: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSpec:
    """UPDATE target SET column = expression WHERE condition.

    The expressions and the condition may contain queries. `tables` maps each view in these queries
    to an ACID table (`db.table`). `parameters` are the parameters in the expressions and the
    condition.
    """

    target: str
    set: Mapping[str, str]
    where: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSpec:
    """DELETE FROM target WHERE condition; without a condition, all rows are deleted.

    `tables` maps each view in a subquery of the condition to an ACID table (`db.table`).
    `parameters` are the parameters in the condition.
    """

    target: str
    where: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateSpec:
    """TRUNCATE TABLE target [PARTITION (...)]: remove all rows without reading them.

    `partition` has values for some or all partition columns. The statement truncates all partitions
    with these values. At least one partition with these values must exist. Without `partition`, all
    partitions are truncated.
    """

    target: str
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """LOAD DATA INPATH location [OVERWRITE] INTO TABLE target [PARTITION (...)].

    `location` is the URI of a file or a directory of files; the files are copied, not moved.
    `partition` has a value for every partition column. With `overwrite`, the files replace the rows
    of the table or partition.
    """

    target: str
    location: str
    partition: Mapping[str, str | None] = field(default_factory=dict)
    overwrite: bool = False


StatementSpec = InsertSpec | MergeSpec | UpdateSpec | DeleteSpec | TruncateSpec | LoadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiInsertSpec:
    """INSERTs that all see the tables as they were before the first INSERT.

    `shared` maps view names to queries that several sources use. Each shared query runs once, in
    the order of `shared`. A shared query can read the tables of all sources.
    """

    inserts: tuple[InsertSpec, ...]
    shared: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, str]:
        """A dict from view to table, for the tables that the INSERTs read."""
        return {v: t for insert in self.inserts for v, t in (insert.source.tables or {}).items()}

    @property
    def versions(self) -> dict[str, str]:
        """A dict from view to version, for the tables that are read at an earlier version."""
        return {v: t for insert in self.inserts for v, t in insert.source.versions.items()}


def each(part: StatementSpec | MultiInsertSpec) -> tuple[StatementSpec, ...]:
    """Return the statements of a multi-insert, or the single statement."""
    return part.inserts if isinstance(part, MultiInsertSpec) else (part,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpec:
    """Statements that are committed together or not at all.

    Each statement sees the changes of the earlier statements. All statements see the same snapshot
    of other transactions.
    """

    statements: tuple[StatementSpec | MultiInsertSpec, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that the statements write, in order, without duplicates."""
        return tuple(
            dict.fromkeys(statement.target for part in self.statements for statement in each(part))
        )

    @property
    def target(self) -> str:
        """The tables that the statements write, as text for messages."""
        return ", ".join(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAsSpec:
    """CREATE TABLE ... AS SELECT: the table gets the columns of the source.

    `partition_columns` are some of these columns. The table is created under a temporary name
    (`hidden`) and then renamed.
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
        """Return the prefix of this job's temporary table names; it is the same in all tries."""
        return f"{self.target}__ctas_{hashlib.sha256(job_key.encode()).hexdigest()[:10]}_"

    def hidden(self, job_key: str, attempt: str) -> str:
        """Return the temporary table name of one try."""
        return self.hidden_prefix(job_key) + AttemptId.parse(attempt).nonce


UPSERT: Final = (
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
)
"""The clauses of a MERGE that updates the rows with the source's keys, and inserts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTable:
    """A table that a stream writes: it appends rows or, with `keys`, upserts them."""

    table: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatchSpec:
    """One batch of a stream; the job's generation is the batch's number.

    `offsets` is the source's position after the batch, or None if a checkpoint stores the position;
    then, `plan` is a digest of what the checkpoint says about the batch.
    """

    targets: tuple[str, ...]
    offsets: JsonValue = None
    plan: str = ""

    @property
    def target(self) -> str:
        """The tables of the stream, as text for messages."""
        return ", ".join(self.targets)
