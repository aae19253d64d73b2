"""Expressions and conditions over a frame, checked before anything is read.

Spark's own analyser finds what is wrong in an expression; this module says it in our words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NullType

from airflow_hiveacid.format.errors import ExpressionError, UnknownColumnError
from airflow_hiveacid.spark.catalyst import NotOfOneRowError, Resolved, resolve
from airflow_hiveacid.spark.failures import condition_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.spark.catalyst import Moment

_UNRESOLVED = "UNRESOLVED_COLUMN"
_MANY_ROWS = "it needs more than one row, or makes several: no aggregate, window or explode here"


def resolved(
    table: TableInfo, frame: DataFrame, texts: Sequence[str], moment: Moment
) -> tuple[Resolved, ...]:
    """What some expressions are over a frame, which holds all that they may see.

    Raises:
        UnknownColumnError: one names a column that is not there.
        ExpressionError: one cannot be resolved for another reason, or is not of one row.
    """
    try:
        return resolve(frame, texts, moment)
    except (AnalysisException, ParseException, NotOfOneRowError) as error:
        if len(texts) > 1:
            # One analysis for all of them is much cheaper; only now is it asked which one it was.
            for text in texts:
                resolved(table, frame, [text], moment)
        raise _in_our_words(table, texts[0], error) from error


def _in_our_words(table: TableInfo, text: str, error: Exception) -> Exception:
    if isinstance(error, AnalysisException) and condition_of(error).startswith(_UNRESOLVED):
        name = (error.getMessageParameters() or {}).get("objectName", text)
        return UnknownColumnError(
            table=table.ref, column=name.replace("`", ""), known=table.column_names
        )
    reason = _MANY_ROWS if isinstance(error, NotOfOneRowError) else reason_of(error)
    return ExpressionError(table=table.ref, expression=text, reason=reason)


def condition(table: TableInfo, text: str, value: Resolved) -> Column:
    """An expression as a condition.

    Raises:
        ExpressionError: it is no truth value.
    """
    if not isinstance(value.type, BooleanType | NullType):
        raise ExpressionError(
            table=table.ref,
            expression=text,
            reason=f"a condition is true or false, this is {value.type.simpleString()}",
        )
    return F.lit(None).cast("boolean") if isinstance(value.type, NullType) else value.column
