"""Conversion of expressions to table rows: values cast as in assignments, columns in order.

The input is checked expressions (`spark.engine.expressions.checked`), one for each column. The
output is the `row` struct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_hiveacid.format.errors import StructFieldsError, TypeMismatchError
from airflow_hiveacid.format.table import Column as TableColumn
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.spark.engine.expressions.catalyst import Resolved, tried_cast
from airflow_hiveacid.spark.engine.failures import carried
from airflow_hiveacid.spark.engine.types import fits, spark_type

_VALUE: Final = "<the text>"
_MOST_SHOWN: Final = 100
_NANOSECONDS: Final = r"\.[0-9]{6}[0-9]*[1-9]"


def stored(
    spark: SparkSession, table: TableInfo, column: str, value: Resolved, *, from_text: bool = False
) -> Column:
    """Cast an expression to a column's type as in an assignment; match struct fields by name.

    A constant string is cast to any type. With `from_text`, every string is cast, as in a VALUES
    list.

    Raises:
        TypeMismatchError: the value's type does not fit the column's type.
        StructFieldsError: a struct in the value has different fields than the column.
    """
    hive_type = {c.name: c.type for c in (*table.columns, *table.partition_columns)}[column]
    target_type = spark_type(parse_type(hive_type))
    source_type, ordered = _by_name(table, column, value.type, target_type)
    is_text = (
        isinstance(source_type, StringType)
        and not isinstance(target_type, ArrayType | MapType | StructType)
        and (from_text or value.is_constant)
    )
    is_same = source_type == target_type
    if not (
        is_same
        or isinstance(source_type, NullType)
        or is_text
        or fits(spark, source_type, target_type)
    ):
        raise TypeMismatchError(
            table=table.ref,
            column=column,
            column_type=hive_type,
            value_type=value.type.simpleString(),
        )
    if is_text and not is_same:
        return _of_text(spark, table, column, hive_type, value.column)
    if source_type == value.type:
        return value.column if is_same else value.column.cast(target_type)
    # The expression that reorders fields contains the value once for each field. As the parameter
    # of a lambda, the value is computed only once.
    return F.transform(F.array(value.column), ordered).getItem(0).cast(target_type)


def _of_text(
    spark: SparkSession, table: TableInfo, column: str, hive_type: str, text: Column
) -> Column:
    """Cast a string to a column's type, or raise an error that shows the string."""
    target_type = spark_type(parse_type(hive_type))
    raised = _misfit(table, column, hive_type, text).cast(target_type)
    if isinstance(target_type, TimestampNTZType | TimestampType):
        text = _of_microseconds(table, column, text)
    return F.coalesce(tried_cast(spark, text, target_type), F.when(text.isNotNull(), raised))


def key_of_text(table: TableInfo, column: str, hive_type: str, text: str) -> Column:
    """Return a string of a MERGE's source as a value that can be compared with a key column.

    As in Spark, a string is compared with a whole number as a bigint. If a string cannot be cast,
    the error shows the string.
    """
    type_ = spark_type(parse_type(hive_type))
    compared_type = LongType() if isinstance(type_, IntegralType) else type_
    raised = _misfit(table, column, hive_type, F.expr(text)).cast(compared_type)
    value = F.expr(f"try_cast({text} AS {compared_type.simpleString()})")
    return F.coalesce(value, F.when(F.expr(text).isNotNull(), raised))


def _misfit(table: TableInfo, column: str, hive_type: str, text: Column) -> Column:
    """Return a column that raises an error; the error shows the string that does not fit."""
    error = TypeMismatchError(
        table=table.ref, column=column, column_type=hive_type, value_type=f"'{_VALUE}'"
    )
    prefix, suffix = carried(error).split(_VALUE)
    # The string with JSON escapes, but without the surrounding braces, name and quotes.
    shown = F.to_json(F.struct(F.substring(text, 1, _MOST_SHOWN).alias("v")))
    shown = F.regexp_replace(shown, r'^\{"v":"|"\}$', "")
    return F.raise_error(F.concat(F.lit(prefix), shown, F.lit(suffix)))


def _of_microseconds(table: TableInfo, column: str, text: Column) -> Column:
    """Return the string; raise an error if it is a time with more digits than Spark can store."""
    error = TypeMismatchError(
        table=table.ref,
        column=column,
        column_type="timestamp",
        value_type="a string with more than six fractional digits of a second",
    )
    return F.when(text.rlike(_NANOSECONDS), F.raise_error(F.lit(carried(error)))).otherwise(text)


def _by_name(
    table: TableInfo, path: str, found: DataType, wanted: DataType
) -> tuple[DataType, Callable[[Column], Column]]:
    """Return a value's type with its struct fields in the order of the column's fields.

    Also return a function that reorders the fields of values.

    Field names are case-insensitive, as in Spark's own store assignment.
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
    source_fields = {f.name.lower(): f for f in found.fields}
    lower = [f.name.lower() for f in found.fields]
    names = [f.name.lower() for f in wanted.fields]
    missing = tuple(n for n in names if n not in source_fields)
    unknown = tuple(n for n in lower if n not in names or lower.count(n) > 1)
    if missing or unknown:
        raise StructFieldsError(table=table.ref, path=path, missing=missing, unknown=unknown)
    sources = [source_fields[n] for n in names]
    parts = [
        (source, *_by_name(table, f"{path}.{f.name}", source.dataType, f.dataType))
        for source, f in zip(sources, wanted.fields, strict=True)
    ]
    ordered = StructType([StructField(f.name, t, f.nullable) for f, t, _ in parts])

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
