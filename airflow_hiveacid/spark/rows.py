"""How expressions become rows of a table: checked, cast, in the table's order.

Takes a frame and one expression per column; gives the `row` struct. Spark's own analyser finds
what is wrong in an expression; this module says it in our words, before anything is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StringType
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from airflow_hiveacid.format.errors import ExpressionError, TypeMismatchError, UnknownColumnError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.spark.types import fits, spark_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.format.table import TableInfo


def named_columns(expression: str, columns: Sequence[str]) -> frozenset[str]:
    """Which of these columns an expression may name, whatever it qualifies them with.

    More than it names may be said, never fewer: an expression that sqlglot cannot read names them
    all.
    """
    try:
        tree = parse_one(expression, dialect="spark")
    except SqlglotError:
        return frozenset(columns)
    found = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    return frozenset(c for c in columns if c in found)


def conjuncts_on(condition: str, columns: Sequence[str]) -> str | None:
    """What a condition says of these columns alone: the parts, joined by AND, that name no other.

    Rows for which the result does not hold cannot satisfy the condition. None: it says nothing.
    """
    try:
        tree = parse_one(condition, dialect="spark")
    except SqlglotError:
        return None
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    known = set(columns)
    alone = [
        part
        for part in parts
        if (named := {c.name.lower() for c in part.find_all(exp.Column)})
        and named <= known
        and not any(part.find_all(exp.Subquery, exp.Select))
        and all(c.table.lower() in ("", "t") for c in part.find_all(exp.Column))
    ]
    return " AND ".join(f"({part.sql(dialect='spark')})" for part in alone) or None


def type_of(frame: DataFrame, table: TableInfo, expression: str) -> DataType:
    """The type an expression has over a frame.

    Raises:
        UnknownColumnError: it names a column that is not there.
        ExpressionError: it cannot be resolved for another reason.
    """
    try:
        return frame.select(F.expr(expression)).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        if str(error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", expression)
            raise UnknownColumnError(
                table=table.ref, column=name.replace("`", ""), known=table.column_names
            ) from error
        raise ExpressionError(
            table=table.ref, expression=expression, reason=reason_of(error)
        ) from error


def stored(  # noqa: PLR0913 - each is needed to say what does not fit
    spark: SparkSession,
    frame: DataFrame,
    table: TableInfo,
    column: str,
    expression: str,
    *,
    from_text: bool = False,
) -> Column:
    """The expression, cast to a column's type as an assignment is.

    `from_text` lets texts be cast to anything, as the constants of a VALUES list are.

    Raises:
        UnknownColumnError, ExpressionError: see `type_of`.
        TypeMismatchError: the value's type does not fit.
    """
    hive_type = {c.name: c.type for c in (*table.columns, *table.partition_columns)}[column]
    wanted = spark_type(parse_type(hive_type))
    found = type_of(frame, table, expression)
    is_text = from_text and isinstance(found, StringType)
    if not (isinstance(found, NullType) or is_text or fits(spark, found, wanted)):
        raise TypeMismatchError(
            table=table.ref,
            column=column,
            column_type=hive_type,
            value_type=found.simpleString(),
        )
    return F.expr(expression).cast(wanted)


def row_struct(table: TableInfo, values: Mapping[str, Column]) -> Column:
    """The `row` struct: every data column in order, NULL where no value is given."""
    return F.struct(
        *[
            values.get(c.name, F.lit(None).cast(spark_type(parse_type(c.type)))).alias(c.name)
            for c in table.columns
        ]
    )
