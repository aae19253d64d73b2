"""How expressions become rows of a table: checked, cast, in the table's order.

Takes a frame and one expression per column; gives the `row` struct. Spark's own analyser finds
what is wrong in an expression; this module says it in our words, before anything is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from airflow_hiveacid.format.errors import (
    ExpressionError,
    StructFieldsError,
    TypeMismatchError,
    UnknownColumnError,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.spark.catalyst import NotOfOneRowError, Resolved, resolve
from airflow_hiveacid.spark.failures import condition_of, reason_of
from airflow_hiveacid.spark.types import fits, spark_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def stored(
    spark: SparkSession, table: TableInfo, column: str, value: Resolved, *, from_text: bool = False
) -> Column:
    """An expression, cast to a column's type as an assignment is; structs by the names of fields.

    `from_text` lets texts be cast to anything, as the constants of a VALUES list are.

    Raises:
        TypeMismatchError: the value's type does not fit.
        StructFieldsError: a struct in it has other fields than the column's.
    """
    hive_type = {c.name: c.type for c in (*table.columns, *table.partition_columns)}[column]
    wanted = spark_type(parse_type(hive_type))
    found, ordered = _by_name(table, column, value.type, wanted)
    is_text = from_text and isinstance(found, StringType)
    if not (isinstance(found, NullType) or is_text or fits(spark, found, wanted)):
        raise TypeMismatchError(
            table=table.ref,
            column=column,
            column_type=hive_type,
            value_type=value.type.simpleString(),
        )
    if found == value.type:
        return value.column.cast(wanted)
    # Putting fields in order names the value once for each of them; as a parameter it is made once.
    return F.transform(F.array(value.column), ordered).getItem(0).cast(wanted)


def _by_name(
    table: TableInfo, path: str, found: DataType, wanted: DataType
) -> tuple[DataType, Callable[[Column], Column]]:
    """A value's type with the fields of its structs in the column's order, and what makes it so.

    Names count in upper and lower case alike, as in Spark's own store assignment.

    Raises:
        StructFieldsError: a field is missing, unknown or there twice.
    """
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return _fields_by_name(table, path, found, wanted)
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        element, order = _by_name(table, f"{path}.element", found.elementType, wanted.elementType)
        return ArrayType(element, found.containsNull), lambda v: F.transform(v, order)
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        key, order_key = _by_name(table, f"{path}.key", found.keyType, wanted.keyType)
        value, order_value = _by_name(table, f"{path}.value", found.valueType, wanted.valueType)
        return MapType(key, value, found.valueContainsNull), lambda v: F.transform_values(
            F.transform_keys(v, lambda k, _: order_key(k)), lambda _, w: order_value(w)
        )
    return found, lambda v: v


def _fields_by_name(
    table: TableInfo, path: str, found: StructType, wanted: StructType
) -> tuple[DataType, Callable[[Column], Column]]:
    there = {f.name.lower(): f for f in found.fields}
    lower = [f.name.lower() for f in found.fields]
    names = [f.name.lower() for f in wanted.fields]
    missing = tuple(n for n in names if n not in there)
    unknown = tuple(n for n in lower if n not in names or lower.count(n) > 1)
    if missing or unknown:
        raise StructFieldsError(table=table.ref, path=path, missing=missing, unknown=unknown)
    sources = [there[n] for n in names]
    parts = [
        (source, *_by_name(table, f"{path}.{f.name}", source.dataType, f.dataType))
        for source, f in zip(sources, wanted.fields, strict=True)
    ]
    ordered = StructType([StructField(f.name, t, f.nullable) for f, t, _ in parts])

    def order(value: Column) -> Column:
        fields = [make(value.getField(f.name)).alias(f.name) for f, _, make in parts]
        return F.when(value.isNotNull(), F.struct(*fields))

    return ordered, order


def row_struct(table: TableInfo, values: Mapping[str, Column]) -> Column:
    """The `row` struct: every data column in order, NULL where no value is given."""
    return F.struct(
        *[
            values.get(c.name, F.lit(None).cast(spark_type(parse_type(c.type)))).alias(c.name)
            for c in table.columns
        ]
    )
