"""Expressions as new rows: the choice of a clause, casts as in assignments, and constraints.

As in Hive, a statement fails at the first row that violates NOT NULL, CHECK or an unchangeable
column, because a value of this row raises an error. Spark evaluates this value only for written
rows.

The clauses see a frame with exactly the columns that they may use (`t`, `s` or both). The clause
for a row is chosen once, and a column keeps its number for all later steps, so one clause never
selects a row that another computes, even if a condition is non-deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, functions as F, types as T

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import Column as TableColumn, TableInfo
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.jobs.statements import MergeAction
from airflow_hiveacid.plan.statements.constants import VALUE_REMEDY
from airflow_hiveacid.plan.statements.constraints import Check, checks_of
from airflow_hiveacid.plan.statements.dml import Clause, quoted
from airflow_hiveacid.reading import free_name
from airflow_hiveacid.spark.engine.catalyst import (
    TEXT_ERRORS,
    Moment,
    Resolved,
    condition,
    over_values,
    resolved,
    tried_cast,
)
from airflow_hiveacid.spark.engine.failures import carried, reason_of
from airflow_hiveacid.spark.engine.types import fits, spark_type, struct_of
from airflow_hiveacid.spark.reading.events import partition_key
from airflow_hiveacid.spark.reading.target import Target, empty_target, whole_rows

_VALUE: Final = "<the text>"
_MOST_SHOWN: Final = 100
_NANOSECONDS: Final = r"\.[0-9]{6}[0-9]*[1-9]"


def stored(
    spark: SparkSession, table: TableInfo, column: str, value: Resolved, *, from_text: bool = False
) -> Column:
    """Cast an expression to a column's type as in an assignment; match struct fields by name.

    A constant string is cast to any type. With `from_text`, every string is cast, as in a VALUES
    list. A type that does not fit raises TypeMismatchError, different struct fields
    StructFieldsError.
    """
    hive_type = {c.name: c.type for c in (*table.columns, *table.partition_columns)}[column]
    target_type = spark_type(parse_type(hive_type))
    source_type, ordered = _by_name(table, column, value.type, target_type)
    is_text = (
        isinstance(source_type, T.StringType)
        and not isinstance(target_type, T.ArrayType | T.MapType | T.StructType)
        and (from_text or value.is_constant)
    )
    is_same = source_type == target_type
    if not (
        is_same
        or isinstance(source_type, T.NullType)
        or is_text
        or fits(spark, source_type, target_type)
    ):
        raise errors.TypeMismatchError(
            table=table.ref,
            column=column,
            column_type=hive_type,
            value_type=value.type.simpleString(),
        )
    if is_text and not is_same:
        return _of_text(spark, table, column, hive_type, value.column)
    if source_type == value.type:
        return value.column if is_same else value.column.cast(target_type)
    # The value occurs once for each field, but as a lambda's parameter it is computed once.
    return F.transform(F.array(value.column), ordered).getItem(0).cast(target_type)


def _of_text(
    spark: SparkSession, table: TableInfo, column: str, hive_type: str, text: Column
) -> Column:
    """Cast a string to a column's type, or raise an error that shows the string."""
    target_type = spark_type(parse_type(hive_type))
    raised = _misfit(table, column, hive_type, text).cast(target_type)
    if isinstance(target_type, T.TimestampNTZType | T.TimestampType):
        text = _of_microseconds(table, column, text)
    return F.coalesce(tried_cast(spark, text, target_type), F.when(text.isNotNull(), raised))


def key_of_text(table: TableInfo, column: str, hive_type: str, text: str) -> Column:
    """Return a source's string to compare with a key: as a bigint with whole numbers."""
    type_ = spark_type(parse_type(hive_type))
    compared_type = T.LongType() if isinstance(type_, T.IntegralType) else type_
    raised = _misfit(table, column, hive_type, F.expr(text)).cast(compared_type)
    value, exact = F.expr(f"try_cast({text} AS {compared_type.simpleString()})"), F.expr(text)
    if isinstance(compared_type, T.TimestampNTZType | T.TimestampType):
        exact = _of_microseconds(table, column, exact)
    return F.when(exact.isNotNull(), F.coalesce(value, raised))


def _misfit(table: TableInfo, column: str, hive_type: str, text: Column) -> Column:
    """Return a column that raises an error; the error shows the string that does not fit."""
    error = errors.TypeMismatchError(
        table=table.ref,
        column=column,
        column_type=hive_type,
        value_type=f"'{_VALUE}'",
        remedy=VALUE_REMEDY,
    )
    prefix, suffix = carried(error).split(_VALUE)
    # The string with JSON escapes, but without the surrounding braces, name and quotes.
    shown = F.to_json(F.struct(F.substring(text, 1, _MOST_SHOWN).alias("v")))
    shown = F.regexp_replace(shown, r'^\{"v":"|"\}$', "")
    return F.raise_error(F.concat(F.lit(prefix), shown, F.lit(suffix)))


def _of_microseconds(table: TableInfo, column: str, text: Column) -> Column:
    """Return the string; raise an error if it is a time with more digits than Spark can store."""
    error = errors.TypeMismatchError(
        table=table.ref,
        column=column,
        column_type="timestamp",
        value_type="a string with more than six fractional digits of a second",
    )
    return F.when(text.rlike(_NANOSECONDS), F.raise_error(F.lit(carried(error)))).otherwise(text)


def _by_name(
    table: TableInfo, path: str, found: T.DataType, wanted: T.DataType
) -> tuple[T.DataType, Callable[[Column], Column]]:
    """Return a type with its fields in the column's order (names in any case), and a conversion."""
    if isinstance(found, T.StructType) and isinstance(wanted, T.StructType):
        return _fields_by_name(table, path, found, wanted)
    if isinstance(found, T.ArrayType) and isinstance(wanted, T.ArrayType):
        element, order = _by_name(table, f"{path}.element", found.elementType, wanted.elementType)
        return T.ArrayType(element, found.containsNull), lambda v: F.transform(v, order)
    if isinstance(found, T.MapType) and isinstance(wanted, T.MapType):
        key, order_key = _by_name(table, f"{path}.key", found.keyType, wanted.keyType)
        value, order_value = _by_name(table, f"{path}.value", found.valueType, wanted.valueType)
        return T.MapType(key, value, found.valueContainsNull), lambda v: F.transform_values(
            F.transform_keys(v, lambda k, _: order_key(k)), lambda _, w: order_value(w)
        )
    return found, lambda v: v


def _fields_by_name(
    table: TableInfo, path: str, found: T.StructType, wanted: T.StructType
) -> tuple[T.DataType, Callable[[Column], Column]]:
    source_fields = {f.name.lower(): f for f in found.fields}
    lower = [f.name.lower() for f in found.fields]
    names = [f.name.lower() for f in wanted.fields]
    missing = tuple(n for n in names if n not in source_fields)
    unknown = tuple(n for n in lower if n not in names or lower.count(n) > 1)
    if missing or unknown:
        raise errors.StructFieldsError(table=table.ref, path=path, missing=missing, unknown=unknown)
    sources = [source_fields[n] for n in names]
    parts = [
        (source, *_by_name(table, f"{path}.{f.name}", source.dataType, f.dataType))
        for source, f in zip(sources, wanted.fields, strict=True)
    ]
    ordered = T.StructType([T.StructField(f.name, t, f.nullable) for f, t, _ in parts])

    def order(value: Column) -> Column:
        fields = [make(value.getField(f.name)).alias(f.name) for f, _, make in parts]
        return F.when(value.isNotNull(), F.struct(*fields))

    return ordered, order


def row_struct(columns: Sequence[TableColumn], values: Mapping[str, Column]) -> Column:
    """Return the `row` struct: these data columns in order; NULL for a column without a value."""
    return F.struct(
        *[
            (
                values[c.name]
                if c.name in values
                else F.lit(None).cast(spark_type(parse_type(c.type)))
            ).alias(c.name)
            for c in columns
        ]
    )


def columns_asked(table: TableInfo, clauses: Iterable[Clause]) -> frozenset[str]:
    """Return the columns of old rows to read, as all constraints apply to an updated row."""
    if all(clause.action is not MergeAction.UPDATE for clause in clauses):
        return frozenset()
    return frozenset(table.constraints.not_null).union(*[c.columns for c in checks_of(table)])


def allowed(
    spark: SparkSession,
    table: TableInfo,
    values: Mapping[str, Column],
    resolved: Mapping[str, Resolved],
    moment: Moment,
) -> dict[str, Column]:
    """Return values that raise an error for rows that the table does not allow.

    `values` have the table's types; `t` contains the other columns. `resolved` are the expressions
    from which the values were made. A CHECK that is no condition in Spark, or tests a
    non-deterministic value, is refused.
    """
    result = dict(values)
    if not result:
        return result
    types = {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    for column, name in table.constraints.not_null.items():
        error = errors.ConstraintViolationError(
            table=table.ref, constraint=name, demand=f"{column} NOT NULL"
        )
        if column in result:  # `coalesce` evaluates the value only once
            result[column] = F.coalesce(result[column], _raised(error, types[column]))
        else:
            # `values` lacks this column, so the first of its values raises the error.
            first = next(iter(result))
            fails = F.col(f"t.{quoted(column)}").isNull()
            result[first] = F.when(fails, _raised(error, types[first])).otherwise(result[first])
    for check in checks_of(table):
        tested = [c for c in table.column_names if c in check.columns & values.keys()]
        if not all(resolved[c].is_deterministic for c in tested):
            raise errors.UnsupportedTableError(
                table=table.ref,
                detail=f"has the constraint {check.name}, but a non-deterministic expression sets"
                f" {', '.join(tested)}; compute the value in a source",
            )
        error = errors.ConstraintViolationError(
            table=table.ref, constraint=check.name, demand=f"CHECK ({check.text})"
        )
        fails = ~F.coalesce(_holds(spark, table, check, values, moment), F.lit(True))
        first = next(iter(tested or result))
        result[first] = F.when(fails, _raised(error, types[first])).otherwise(result[first])
    return result


def is_unchanged(table: TableInfo, column: str) -> str:
    """Return the SQL condition that two rows have equal values in a column, in its type."""
    (hive_type,) = [
        parse_type(c.type) for c in (*table.columns, *table.partition_columns) if c.name == column
    ]
    name = quoted(column)
    if isinstance(hive_type, CharType):
        return f"rtrim(t.{name}) <=> rtrim(CAST(s.{name} AS STRING))"
    type_name = spark_type(hive_type).simpleString()
    return f"t.{name} <=> try_cast(CAST(s.{name} AS STRING) AS {type_name})"


def unchanged(
    table: TableInfo, values: Mapping[str, Column], same: Mapping[str, Resolved]
) -> dict[str, Column]:
    """Return values that raise an error unless the conditions `same` (`is_unchanged`) hold."""
    result = dict(values)
    types = {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    is_partition = {c.name for c in table.partition_columns}
    for column, holds in same.items():
        role = "partition" if column in is_partition else "bucket"
        first = next(iter(result), None)
        if first is not None:
            error = _raised(
                errors.ColumnUpdateError(table=table.ref, column=column, role=role), types[first]
            )
            result[first] = F.when(holds.column, result[first]).otherwise(error)
    return result


def _raised(error: errors.HiveAcidError, type_: str) -> Column:
    return F.raise_error(F.lit(carried(error))).cast(spark_type(parse_type(type_)))


def _holds(
    spark: SparkSession,
    table: TableInfo,
    check: Check,
    values: Mapping[str, Column],
    moment: Moment,
) -> Column:
    """Return a CHECK as a condition on these values; as in SQL, NULL also allows the row."""
    row = {
        i: values[c] if c in values else F.col(f"t.{quoted(c)}")
        for i, c in enumerate(table.column_names)
        if c in check.columns
    }
    try:
        return over_values(empty_target(spark, table), check.text, moment, row)
    except TEXT_ERRORS as error:
        raise errors.ExpressionError(
            table=table.ref, expression=check.text, reason=reason_of(error)
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperNames:
    """The names of helper columns; they differ from all columns of the table and the source."""

    position: str
    source_row: str
    clause: str

    @classmethod
    def beside(cls, *columns: Sequence[str]) -> HelperNames:
        """Return helper names that differ from all these columns."""
        return cls(
            position=free_name("position", *columns),
            source_row=free_name("source_row", *columns),
            clause=free_name("clause", *columns),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """All helper names."""
        return self.position, self.source_row, self.clause


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyClause:
    """A clause with expressions that were checked against a frame and cast.

    `holds` and `values` are columns made from `expressions`. `written` are the values of a written
    row. These values raise an error if the table does not allow the row.
    """

    number: int
    action: MergeAction
    holds: Column
    values: Mapping[str, Column]
    written: Mapping[str, Column]
    expressions: Sequence[Resolved]

    @property
    def uses(self) -> frozenset[int]:
        """The positions of the frame's columns that the clause uses."""
        return frozenset[int]().union(*[expression.uses for expression in self.expressions])

    @property
    def is_deterministic(self) -> bool:
        """True if the clause gives the same result for a row every time."""
        return all(expression.is_deterministic for expression in self.expressions)

    @property
    def is_repeatable(self) -> bool:
        """True if the clause is deterministic, and its result does not depend on a subquery."""
        return self.is_deterministic and not any(
            expression.has_subquery for expression in self.expressions
        )


def ready(
    table: TableInfo,
    sees: DataFrame,
    clauses: Sequence[tuple[int, Clause]],
    moment: Moment,
    *,
    from_text: bool = False,
) -> tuple[ReadyClause, ...]:
    """Check numbered clauses; they may use only the columns of the frame `sees`."""
    texts = [
        text
        for _, clause in clauses
        for text in (
            clause.condition or "true",
            *clause.assignments.values(),
            *(is_unchanged(table, name) for name in clause.unchanged),
        )
    ]
    expressions = iter(resolved(table, sees, texts, moment))
    result = []
    for number, clause in clauses:
        holds = next(expressions)
        values = {name: next(expressions) for name in clause.assignments}
        equalities = {name: next(expressions) for name in clause.unchanged}
        assigned = {
            name: stored(sees.sparkSession, table, name, value, from_text=from_text)
            for name, value in values.items()
        }
        result.append(
            ReadyClause(
                number=number,
                action=clause.action,
                holds=condition(table, clause.condition or "true", holds),
                values=assigned,
                written=unchanged(
                    table, allowed(sees.sparkSession, table, assigned, values, moment), equalities
                ),
                expressions=(holds, *values.values(), *equalities.values()),
            )
        )
    return tuple(result)


def brought(table: TableInfo, clauses: Sequence[Clause]) -> tuple[TableColumn, ...]:
    """Return the data columns that a statement's clauses write: all for an inserted row."""
    if any(clause.action is MergeAction.INSERT for clause in clauses):
        return table.columns
    names = frozenset[str]().union(*[clause.assignments for clause in clauses])
    # Spark and Arrow need a struct with at least one field.
    return tuple(c for c in table.columns if c.name in names) or table.columns[:1]


def scanned(
    target: Target, needed: Sequence[str], names: HelperNames, clauses: Sequence[Clause]
) -> DataFrame:
    """Scan the target as `t`: all columns, in order (NULL if not needed), and the position."""
    changes = any(clause.action is not MergeAction.INSERT for clause in clauses)
    rows = target.scan(needed, position=names.position, for_changes=changes)
    return whole_rows(target.table, rows, names.position)


def acted_on(  # noqa: PLR0913 - the rows, the clauses, and the form of the result
    table: TableInfo,
    rows: DataFrame,
    clauses: Sequence[ReadyClause],
    names: HelperNames,
    *,
    columns: Sequence[TableColumn],
    positions: Sequence[Column] = (),
) -> DataFrame:
    """For each row, return the number of the clause that applies, and the clause's new row.

    The first clause with a true condition applies. `columns` are those of the new rows (`brought`).
    `positions` are those of `Target.position_columns`; empty for new rows. Source row numbers are
    kept.

    Returns:
        `_clause` is NULL if no clause applies. `row` is NULL if no row is written. Inserts also
        contain `_partition`.
    """
    chosen = rows.select("*", _first(clauses).alias(names.clause))
    number = F.col(names.clause)
    writing = [c for c in clauses if c.action is not MergeAction.DELETE]
    extra_columns = [number.alias("_clause")]
    if names.source_row in rows.columns:
        extra_columns.append(F.col(names.source_row))
    extra_columns.extend(positions)
    if not positions:
        keys = [
            (c, partition_key(table, [c.written[p.name] for p in table.partition_columns]))
            for c in writing
        ]
        extra_columns.append(
            _of_chosen(number, keys, F.lit(None).cast("string")).alias("_partition")
        )
    new_rows = [(c, row_struct(columns, c.written)) for c in writing]
    none = F.lit(None).cast(struct_of(columns))
    return chosen.select(*extra_columns, _of_chosen(number, new_rows, none).alias("row"))


def _first(clauses: Sequence[ReadyClause]) -> Column:
    choice = F.lit(None).cast("int")
    for clause in reversed(clauses):
        choice = F.when(clause.holds, F.lit(clause.number)).otherwise(choice)
    return choice


def _of_chosen(
    number: Column, values: Sequence[tuple[ReadyClause, Column]], otherwise: Column
) -> Column:
    result = otherwise
    for clause, value in values:
        result = F.when(number == F.lit(clause.number), value).otherwise(result)
    return result
