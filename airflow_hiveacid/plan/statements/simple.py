"""Statements that one process can run without Spark: typed rows, keys, simple conditions.

Every constant gets its column's type, and every condition is parsed; SparkNeededError has the
reason why a statement needs Spark. An error in the statement itself is raised as Spark's side
raises it (`dml`, `conditions.unfit`). Reads no file.

Example:
    >>> from airflow_hiveacid.format.table import Column, TableInfo, TableRef
    >>> a = Column(name="a", type="int")
    >>> t = TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=(a,))
    >>> simple_statement(DeleteSpec(target="d.t", where="a = 1"), t).condition
    Comparison(column='a', operator='=', value=1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import HiveAcidError, SparkNeededError
from airflow_hiveacid.format.table import (
    NULL_PARTITION,
    PartitionName,
    TableInfo,
    TransactionalKind,
    escape_partition_value,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeSpec,
    MergeWhen,
    MultiInsertSpec,
    Parameter,
    SourceSpec,
    TransactionSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements import conditions, dml
from airflow_hiveacid.plan.statements.columns import check_load, check_truncate, value_columns
from airflow_hiveacid.plan.statements.constants import (
    UNFIT,
    Constant,
    constant_of,
    is_comparable,
    reader_of,
    type_name,
)

_OF_PARTITIONS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})

Columns = Mapping[str, Sequence[Constant]]
"""Rows as columns: the values of each column, by name; all columns have the same length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleInsert:
    """An INSERT of typed values: every column of the table, with partition columns.

    `partition` is that of a PARTITION clause with all partition columns; else None.
    """

    table: TableInfo
    rows: int
    values: Columns
    partition: PartitionName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleChange:
    """An UPDATE or DELETE; `assignments` are the new values of an UPDATE, None for a DELETE."""

    table: TableInfo
    condition: conditions.Condition | None
    assignments: Mapping[str, Constant] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleMerge:
    """A MERGE of typed rows by keys.

    `keys` has the source's value of each key, row by row. `updates` and `inserts` have the values
    of the assigned columns; None means that the MERGE has no such clause. `deletes` is True if
    matched rows are deleted.
    """

    table: TableInfo
    rows: int
    keys: Columns
    updates: Columns | None
    inserts: Columns | None
    deletes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleTruncate:
    """A TRUNCATE of all partitions with these values; of the whole table if there are none."""

    table: TableInfo
    partition: Mapping[str, Constant]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleLoad:
    """A LOAD DATA of the files at a location into a partition, or a table without partitions."""

    table: TableInfo
    location: str
    partition: PartitionName
    overwrites: bool


SimpleStatement = SimpleInsert | SimpleChange | SimpleMerge | SimpleTruncate | SimpleLoad
SIMPLE_SPECS: Final = (InsertSpec, UpdateSpec, DeleteSpec, MergeSpec, TruncateSpec, LoadSpec)
SimpleSpec = InsertSpec | UpdateSpec | DeleteSpec | MergeSpec | TruncateSpec | LoadSpec


def simple_specs(job: Job) -> tuple[SimpleSpec, ...]:
    """Return the specs of a job's statements, in order; see `check_kind`."""
    if not isinstance(job, TransactionSpec):
        return (check_kind(job),)
    specs: list[SimpleSpec] = []
    for part in job.statements:
        if isinstance(part, MultiInsertSpec):
            raise SparkNeededError(reason="several of its INSERTs read one source")
        specs.append(check_kind(part))
    return tuple(specs)


def check_kind(job: Job) -> SimpleSpec:
    """Return the spec of a job if its kind and its source may need no Spark, for any table."""
    if not isinstance(job, SIMPLE_SPECS):
        raise SparkNeededError(
            reason="it is not INSERT, UPDATE, DELETE, MERGE, TRUNCATE or LOAD DATA"
        )
    if isinstance(job, InsertSpec | MergeSpec):
        dml.check_source(job.source)
        if job.source.values is None or job.source.query:
            raise SparkNeededError(reason="its rows are not values, but files, tables or a query")
    if isinstance(job, UpdateSpec | DeleteSpec | MergeSpec) and job.tables:
        raise SparkNeededError(reason="its SQL contains a query of other tables")
    if isinstance(job, InsertSpec) and job.mode is not InsertMode.APPEND:
        raise SparkNeededError(reason="INSERT OVERWRITE is not done in one process yet")
    return job


def simple_statement(job: Job, table: TableInfo) -> SimpleStatement:
    """Return a statement in the form that one process can run.

    For INSERT, UPDATE and MERGE, `table` has its constraints; the other statements need none.
    Raises InputError if the statement is invalid for this table.
    """
    spec = check_kind(job)
    # LOAD DATA may also fill an insert-only table.
    if isinstance(spec, LoadSpec):
        return _load(spec, table)
    if table.kind is not TransactionalKind.FULL_ACID:
        raise SparkNeededError(reason="the table is insert-only")
    if isinstance(spec, TruncateSpec):
        return _truncate(spec, table)
    constraints = table.constraints
    if constraints.checks or constraints.defaults or constraints.not_null:
        raise SparkNeededError(reason="the table has DEFAULT, CHECK or NOT NULL constraints")
    match spec:
        case InsertSpec():
            return _insert(spec, table)
        case UpdateSpec() | DeleteSpec():
            return _change(spec, table)
        case MergeSpec():
            return _merge(spec, table)


def _insert(spec: InsertSpec, table: TableInfo) -> SimpleInsert:
    if spec.default_at or spec.default_where:
        raise SparkNeededError(reason="its values contain DEFAULT")
    source = _Source.of(spec.source)
    expressions = dml.resolve_insert(table, spec, source.names)
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    by_expression = {dml.quoted(name): name for name in source.names}
    values: dict[str, Sequence[Constant]] = {}
    for name, expression in expressions.items():
        if name in fixed:
            values[name] = [_stored(fixed[name], table, name)] * source.rows
        elif expression == "NULL":
            values[name] = [None] * source.rows
        else:
            values[name] = source.column(by_expression[expression], table, name)
    check_partition_values(table, values)
    partition = None
    if fixed and len(fixed) == len(table.partition_columns):
        partition = _fixed_partition(table, fixed)
    return SimpleInsert(table=table, rows=source.rows, values=values, partition=partition)


def _change(spec: UpdateSpec | DeleteSpec, table: TableInfo) -> SimpleChange:
    assignments: dict[str, Constant] | None = None
    if isinstance(spec, UpdateSpec):
        clause = dml.resolve_update(table, spec)
        assignments = {
            name: _literal(text, table, name, spec.parameters)
            for name, text in clause.assignments.items()
        }
    condition = (
        None if spec.where is None else conditions.condition_of(spec.where, table, spec.parameters)
    )
    return SimpleChange(table=table, condition=condition, assignments=assignments)


def _merge(spec: MergeSpec, table: TableInfo) -> SimpleMerge:
    if spec.condition is not None:
        raise SparkNeededError(reason="its ON has more than keys")
    source = _Source.of(spec.source)
    clauses = dml.resolve_merge(table, spec, source.names)
    keys = tuple(key.lower() for key in spec.keys)
    for key in keys:
        require_comparable(table, key, "key")
    values: dict[MergeAction, Columns] = {}
    for clause in clauses:
        _check_clause(clause)
        values[clause.action] = {
            name: source.assigned(text, table, name, spec.parameters)
            for name, text in clause.assignments.items()
        }
    own = {key: source.column(key, table, key) for key in keys}
    if MergeAction.UPDATE in values:
        # A matched row's keys are the source's, so the old row need not be read for them.
        of_rows = {c.name: own[c.name] for c in table.columns if c.name in own}
        values[MergeAction.UPDATE] = {**of_rows, **values[MergeAction.UPDATE]}
        if not values[MergeAction.UPDATE]:
            raise SparkNeededError(reason="its UPDATE assigns no column")
    inserts = values.get(MergeAction.INSERT)
    if inserts is not None:
        check_partition_values(table, inserts)
    return SimpleMerge(
        table=table,
        rows=source.rows,
        keys=own,
        updates=values.get(MergeAction.UPDATE),
        inserts=inserts,
        deletes=MergeAction.DELETE in values,
    )


def require_comparable(table: TableInfo, name: str, role: str) -> None:
    """Raise a SparkNeededError if engines may compare the values of a column differently."""
    if not is_comparable(type_ := conditions.column_type(table, name)):
        raise SparkNeededError(
            reason=f"engines may compare the {role} {name}, of type {type_}, differently"
        )


def _check_clause(clause: dml.Clause) -> None:
    if clause.condition is not None:
        raise SparkNeededError(reason="a WHEN clause has a condition")
    if clause.when is MergeWhen.NOT_MATCHED_BY_SOURCE:
        raise SparkNeededError(reason="WHEN NOT MATCHED BY SOURCE reads every row")
    if clause.unchanged:
        raise SparkNeededError(
            reason=f"the source has {', '.join(clause.unchanged)}, which UPDATE must not change"
        )


def _truncate(spec: TruncateSpec, table: TableInfo) -> SimpleTruncate:
    check_truncate(table, spec)
    for name in spec.partition:
        require_comparable(table, name.lower(), "partition column")
    values = {
        name.lower(): _stored(value, table, name.lower()) for name, value in spec.partition.items()
    }
    return SimpleTruncate(table=table, partition=values)


def _load(spec: LoadSpec, table: TableInfo) -> SimpleLoad:
    check_load(table, spec)
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    return SimpleLoad(
        table=table,
        location=spec.location,
        partition=_fixed_partition(table, fixed),
        overwrites=spec.overwrite,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The rows of values, as texts by column: so Spark's side casts them, too."""

    names: tuple[str, ...]
    rows: int
    texts: Mapping[str, Sequence[str | None]]

    @classmethod
    def of(cls, source: SourceSpec) -> _Source:
        values, names = source.values or (), value_columns(source)
        if len({name.lower() for name in names}) < len(names):
            raise SparkNeededError(reason="two columns of its source have one name")
        # The values are Python objects, so this loop is over rows: 100,000 rows of 5 take 0.6 s.
        columns = list(zip(*values, strict=True)) or [()] * len(names)
        texts = {
            name.lower(): [None if value is None else _text(value) for value in column]
            for name, column in zip(names, columns, strict=True)
        }
        return cls(names=names, rows=len(values), texts=texts)

    def column(self, name: str, table: TableInfo, target: str) -> list[Constant]:
        """Return a column's values in the type of a column of the target."""
        if name.lower() not in self.texts:
            raise SparkNeededError(reason=f"{name} is not a column of its source")
        texts = self.texts[name.lower()]
        read = reader_of(parse_type(conditions.column_type(table, target)))
        values = [None if text is None else read(text) for text in texts]
        for text, value in zip(texts, values, strict=True):
            if value is UNFIT:
                raise _needs_cast(text or "", table, target)
        return values  # type: ignore[return-value]  # UNFIT has raised

    def assigned(
        self, text: str, table: TableInfo, target: str, parameters: Mapping[str, Parameter]
    ) -> Sequence[Constant]:
        """Return the values of an expression: a source column, or one constant for all rows."""
        column = conditions.source_column_of(text)
        if column is not None:
            return self.column(column, table, target)
        return [_literal(text, table, target, parameters)] * self.rows


def _text(value: object) -> str:
    """Return a value as `spark.reading.source` hands it to Spark's casts."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stored(text: str | None, table: TableInfo, name: str) -> Constant:
    """Return a text in the type of a column of the table."""
    if text is None:
        return None
    value = constant_of(text, parse_type(conditions.column_type(table, name)))
    if value is UNFIT:
        raise _needs_cast(text, table, name)
    return value


def _needs_cast(text: str, table: TableInfo, name: str) -> HiveAcidError:
    shown = text if len(text) <= 40 else f"{text[:40]}..."  # noqa: PLR2004 - for a log's line
    type_ = conditions.column_type(table, name)
    why = f"the value {shown!r} of {name} needs Spark's cast to {type_}"
    return conditions.unfit(table, name, text, why)


def _literal(
    text: str, table: TableInfo, name: str, parameters: Mapping[str, Parameter]
) -> Constant:
    """Return an expression that is a constant, in the type of a column of the table."""
    value = conditions.value_of(text, parameters)
    return conditions.literal_in(table, name, value, "{} for {} needs Spark's cast to {}")


# ---- partitions ----------------------------------------------------------------------------------


def check_partition_values(table: TableInfo, values: Columns) -> None:
    """Raise SparkNeededError unless engines spell the partitions of new rows alike.

    They may not if a partition column's value is of another type, or needs an escape.
    """
    for column in table.partition_columns:
        if type_name(parse_type(column.type)) not in _OF_PARTITIONS:
            raise SparkNeededError(
                reason=f"partition column {column.name} is of type {column.type}"
            )
        for value in dict.fromkeys(values[column.name]):
            if value is not None and not _is_plain(str(value)):
                raise SparkNeededError(
                    reason=f"the value {value!r} of {column.name} needs an escape"
                )


def _fixed_partition(table: TableInfo, texts: Mapping[str, str | None]) -> PartitionName:
    """Return the partition of a PARTITION clause with all partition columns."""
    values = {c.name: [_stored(texts[c.name], table, c.name)] for c in table.partition_columns}
    check_partition_values(table, values)
    return partition_of(table, [value for (value,) in values.values()])


def _is_plain(text: str) -> bool:
    is_null = text in {"", NULL_PARTITION}  # Hive stores both as the partition of NULL
    return not is_null and escape_partition_value(text) == text and text.isprintable()


def partition_of(table: TableInfo, values: Iterable[Constant]) -> PartitionName:
    """Return the partition of a row with these values of the partition columns, in order."""
    return table.partition_name([None if value is None else str(value) for value in values])
