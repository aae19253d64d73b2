"""Expressions and conditions over a frame, checked by Spark's analyser before any rows are read."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NullType

from airflow_hiveacid.format.errors import ExpressionError, UnknownColumnError, UnsafeTextError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.spark.engine.expressions import catalyst
from airflow_hiveacid.spark.engine.expressions.parsed_sql import RefusedTextError
from airflow_hiveacid.spark.engine.failures import condition_of, reason_of

_UNRESOLVED = "UNRESOLVED_COLUMN"
_MANY_ROWS = "it needs or returns more than one row: omit aggregates, windows and explode here"


def resolved(
    table: TableInfo, frame: DataFrame, texts: Sequence[str], moment: catalyst.Moment
) -> tuple[catalyst.Resolved, ...]:
    """Resolve expressions that can use only the columns of a frame.

    Raises:
        UnknownColumnError: an expression uses a column that the frame does not have.
        ExpressionError: an expression cannot be resolved for a different reason, or needs or
            returns more than one row.
        UnsafeTextError: an expression contains a call that is not allowed.
    """
    try:
        return catalyst.resolve(frame, texts, moment)
    except catalyst.TEXT_ERRORS as error:
        if len(texts) > 1:
            # Analysed together, which is much cheaper, one has failed: find it.
            for text in texts:
                resolved(table, frame, [text], moment)
        raise _in_our_words(table, texts[0], error) from error


def _in_our_words(table: TableInfo, text: str, error: Exception) -> Exception:
    if isinstance(error, AnalysisException) and condition_of(error).startswith(_UNRESOLVED):
        name = (error.getMessageParameters() or {}).get("objectName", text)
        return UnknownColumnError(
            table=table.ref, column=name.replace("`", ""), known=table.column_names
        )
    if isinstance(error, RefusedTextError):
        return UnsafeTextError(of=table.ref, text=text, what=str(error))
    reason = _MANY_ROWS if isinstance(error, catalyst.NotOfOneRowError) else reason_of(error)
    return ExpressionError(table=table.ref, expression=text, reason=reason)


def condition(table: TableInfo, text: str, value: catalyst.Resolved) -> Column:
    """Return a resolved expression as a condition; refuse it if its type is not boolean."""
    if not isinstance(value.type, BooleanType | NullType):
        raise ExpressionError(
            table=table.ref,
            expression=text,
            reason=f"a condition must be boolean, but this one is {value.type.simpleString()}",
        )
    return F.lit(None).cast("boolean") if isinstance(value.type, NullType) else value.column
