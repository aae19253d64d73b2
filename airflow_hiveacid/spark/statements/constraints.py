"""Enforcement of NOT NULL, CHECK and unchangeable columns on the rows that a statement writes.

Like in Hive, a statement fails at the first row that violates a constraint, because a value of this
row raises an error. Spark evaluates this value only for written rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    ConstraintViolationError,
    ExpressionError,
    HiveAcidError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.jobs.specs.statements import MergeAction
from airflow_hiveacid.plan.statements.constraints import Check, checks_of
from airflow_hiveacid.plan.statements.dml import Clause, quoted
from airflow_hiveacid.spark.engine.expressions.catalyst import (
    TEXT_ERRORS,
    Moment,
    Resolved,
    over_values,
)
from airflow_hiveacid.spark.engine.failures import carried, reason_of
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.spark.reading.target import empty_target


def columns_asked(table: TableInfo, clauses: Iterable[Clause]) -> frozenset[str]:
    """Return the columns that must be read from old rows to check constraints on updated rows.

    For Hive an updated row is a new row. So all constraints apply, even to columns that are not
    assigned.
    """
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
    from which the values were made.

    Raises:
        UnsupportedTableError: a CHECK is not supported, or tests a non-deterministic value.
        ExpressionError: a CHECK is not a valid condition in Spark.
    """
    result = dict(values)
    if not result:
        return result
    types = {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    for column, name in table.constraints.not_null.items():
        error = ConstraintViolationError(
            table=table.ref, constraint=name, demand=f"{column} NOT NULL"
        )
        if column in result:  # `coalesce` evaluates the value only once
            result[column] = F.coalesce(result[column], _raised(error, types[column]))
        else:
            first = next(iter(result))
            fails = F.col(f"t.{quoted(column)}").isNull()
            result[first] = F.when(fails, _raised(error, types[first])).otherwise(result[first])
    for check in checks_of(table):
        tested = [c for c in table.column_names if c in check.columns & values.keys()]
        if not all(resolved[c].is_deterministic for c in tested):
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"has the constraint {check.name}, but a non-deterministic expression sets"
                f" {', '.join(tested)}; compute the value in a source",
            )
        error = ConstraintViolationError(
            table=table.ref, constraint=check.name, demand=f"CHECK ({check.text})"
        )
        fails = ~F.coalesce(_holds(spark, table, check, values, moment), F.lit(True))
        first = next(iter(tested or result))
        result[first] = F.when(fails, _raised(error, types[first])).otherwise(result[first])
    return result


def is_unchanged(table: TableInfo, column: str) -> str:
    """Return the SQL condition that a source row and a target row have equal values in a column.

    The comparison uses the column's type. A value that does not fit the type counts as different.
    """
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
    """Return values that raise an error if a row would change an unchangeable column.

    `same` contains, for each unchangeable column, the condition that its value stays the same
    (`is_unchanged`).
    """
    result = dict(values)
    types = {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    is_partition = {c.name for c in table.partition_columns}
    for column, holds in same.items():
        role = "partition" if column in is_partition else "bucket"
        first = next(iter(result), None)
        if first is not None:
            error = _raised(
                ColumnUpdateError(table=table.ref, column=column, role=role), types[first]
            )
            result[first] = F.when(holds.column, result[first]).otherwise(error)
    return result


def _raised(error: HiveAcidError, type_: str) -> Column:
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
        raise ExpressionError(
            table=table.ref, expression=check.text, reason=reason_of(error)
        ) from error
