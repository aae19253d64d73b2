"""NOT NULL and CHECK: what a statement gives to columns, unless a row of it is not allowed.

Hive's own statements end with the first such row, and so do these: the value of a column is an
error where the row that it is for breaks a constraint. It is evaluated for rows that are written
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from airflow_hiveacid.format.errors import (
    ConstraintViolationError,
    ExpressionError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.specs import MergeAction
from airflow_hiveacid.plan.constraints import checks_of
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.catalyst import NotOfOneRowError, over_values
from airflow_hiveacid.spark.failures import carried, reason_of
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.spark.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, SparkSession

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.plan.constraints import Check
    from airflow_hiveacid.plan.statements import Clause
    from airflow_hiveacid.spark.catalyst import Moment, Resolved


def columns_asked(table: TableInfo, clauses: Iterable[Clause]) -> frozenset[str]:
    """The columns of an old row that say whether a new one is allowed: all that are demanded of.

    A changed row is a new one to Hive, whichever of its columns are assigned.
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
    """The same values, which are an error in a row that the table does not allow.

    Args:
        spark: the session.
        table: the table.
        values: of the columns that are given, in the table's types; `t` has the others.
        resolved: what they were made of.
        moment: the one time.

    Raises:
        UnsupportedTableError: a check is none that is read here, or asks about a value of chance.
        ExpressionError: a check is no condition to Spark.
    """
    found = dict(values)
    if not found:
        return found
    types = {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    for column, name in table.constraints.not_null.items():
        error = ConstraintViolationError(
            table=table.ref, constraint=name, demand=f"{column} NOT NULL"
        )
        if column in found:  # evaluated once, whatever it is
            found[column] = F.coalesce(found[column], _raised(error, types[column]))
        else:
            at = next(iter(found))
            fails = F.col(f"t.{quoted(column)}").isNull()
            found[at] = F.when(fails, _raised(error, types[at])).otherwise(found[at])
    for check in checks_of(table):
        named = [c for c in table.column_names if c in check.columns & values.keys()]
        if not all(resolved[c].is_deterministic for c in named):
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"has the constraint {check.name}, and {', '.join(named)} would be set to"
                " what chance decides; put that into a source",
            )
        error = ConstraintViolationError(
            table=table.ref, constraint=check.name, demand=f"CHECK ({check.text})"
        )
        fails = ~F.coalesce(_holds(spark, table, check, values, moment), F.lit(True))
        at = next(iter(named or found))
        found[at] = F.when(fails, _raised(error, types[at])).otherwise(found[at])
    return found


def _raised(error: ConstraintViolationError, type_: str) -> Column:
    return F.raise_error(F.lit(carried(error))).cast(spark_type(parse_type(type_)))


def _holds(
    spark: SparkSession,
    table: TableInfo,
    check: Check,
    values: Mapping[str, Column],
    moment: Moment,
) -> Column:
    """Whether a row with these values is allowed; NULL is, too."""
    row = {
        i: values[c] if c in values else F.col(f"t.{quoted(c)}")
        for i, c in enumerate(table.column_names)
        if c in check.columns
    }
    try:
        return over_values(empty_target(spark, table), check.text, moment, row)
    except (AnalysisException, ParseException, NotOfOneRowError) as error:
        raise ExpressionError(
            table=table.ref, expression=check.text, reason=reason_of(error)
        ) from error
