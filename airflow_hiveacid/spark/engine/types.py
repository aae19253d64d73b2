"""Spark types for Hive types, and rules for Spark values in Hive columns.

Hive's timestamp has no time zone. The Spark type for it is TIMESTAMP_NTZ, so wall-clock values stay
the same in any session time zone. A char or varchar is a string with a maximum length. A char is
read without padding, as in Hive's own functions, joins and LIKE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F, types as T

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import Column, TableInfo
from airflow_hiveacid.spark.engine import jvm_of

_PRIMITIVES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampNTZType(),
    "timestamp with local time zone": T.TimestampType(),
}


# The metadata key under which Spark stores the type of a char column (CharVarcharUtils).
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
# Each setting with its default value and its required value.
_PADS_BOTH_SIDES: Final = {
    "spark.sql.readSideCharPadding": ("true", "false"),
    "spark.sql.legacy.charVarcharAsString": ("false", "false"),
    "spark.sql.legacy.noCharPaddingInPredicate": ("false", "false"),
}


def spark_type(hive_type: hive.HiveType) -> T.DataType:
    """Return the Spark type that holds values of a Hive type; refuse a union, which Spark lacks."""
    match hive_type:
        case hive.PrimitiveType(name=name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case hive.DecimalType(precision=precision, scale=scale):
            return T.DecimalType(precision, scale)
        case hive.CharType() | hive.VarcharType():
            return T.StringType()
        case hive.ArrayType(element=element):
            return T.ArrayType(spark_type(element))
        case hive.MapType(key=key, value=value):
            return T.MapType(spark_type(key), spark_type(value))
        case hive.StructType(fields=fields):
            return T.StructType([T.StructField(n, spark_type(t)) for n, t in fields])
        case _:
            pass
    raise UnsupportedTableError(
        table="columns", detail=f"type {hive_type} cannot be read or written with Spark"
    )


_NAMES: Final = {
    **{type_: name for name, type_ in _PRIMITIVES.items()},
    # Our sessions run in UTC, so values of Spark's `timestamp` are wall-clock times in UTC.
    T.TimestampType(): "timestamp",
}


def column_type(value: T.DataType) -> str | None:  # noqa: PLR0911 - one return for each kind of type
    """Return the Hive type for a Spark type; None if no single Hive type fits.

    This function is the inverse of `spark_type`, but char and varchar become string.

    Example:
        >>> column_type(T.ArrayType(T.DecimalType(5, 2)))
        'array<decimal(5,2)>'
    """
    match value:
        case T.DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case T.ArrayType(elementType=element):
            inner = column_type(element)
            return inner and f"array<{inner}>"
        case T.MapType(keyType=key, valueType=item):
            both = (column_type(key), column_type(item))
            return None if None in both else f"map<{both[0]},{both[1]}>"
        case T.StructType(fields=fields):
            field_types = [(field.name, column_type(field.dataType)) for field in fields]
            if any(type_ is None for _, type_ in field_types):
                return None
            return f"struct<{','.join(f'{name}:{type_}' for name, type_ in field_types)}>"
        case T.StringType():
            return "string"
        case _:
            return _NAMES.get(value)


def struct_of(columns: Sequence[Column]) -> T.StructType:
    """Return a Spark struct with these columns in this order; all fields are nullable."""
    return T.StructType(
        [T.StructField(c.name, spark_type(hive.parse_type(c.type))) for c in columns]
    )


def table_struct(table: TableInfo) -> T.StructType:
    """Return the Spark struct of a table's rows: data columns, then partition columns."""
    return struct_of((*table.columns, *table.partition_columns))


def named(spark: SparkSession, column: Column, values: SparkColumn) -> SparkColumn:
    """Give values their column's name, and make char values compare with literals as in Hive.

    Hive strips trailing blanks from both sides, Spark pads both if the session has the settings in
    `_PADS_BOTH_SIDES`. In other sessions, the char is a plain string.
    """
    is_char = isinstance(hive.parse_type(column.type), hive.CharType)
    if is_char and all(spark.conf.get(k, v) == w for k, (v, w) in _PADS_BOTH_SIDES.items()):
        return values.alias(column.name, metadata={_CHAR: column.type})
    return values.alias(column.name)


def exact_value(text: str, hive_type: hive.HiveType) -> SparkColumn | None:
    """Return a string cast for exact comparisons; None if Spark's cast is exact.

    Spark would compare a string with a decimal or float as doubles, and so round both. For a
    decimal column, it is cast to a decimal with the column's integer digits and the greatest
    possible scale; one with even more fraction digits equals no value.
    """
    match hive_type:
        case hive.DecimalType(precision=precision, scale=scale):
            scale += hive.MAX_PRECISION - precision
            value = F.expr(f"try_cast({text} AS decimal({hive.MAX_PRECISION},{scale}))")
            fits = F.expr(text).rlike(rf"^\s*[+-]?\d*(\.\d{{0,{scale}}}0*)?\s*$")
            # The digits of a text with an exponent cannot be counted, so compare it as a double.
            double = F.expr(f"try_cast({text} AS double)")
            is_power = F.expr(text).rlike("[eE]") & (value.cast("double") == double)
            return F.when(fits | is_power, value)
        case hive.PrimitiveType(name="float"):
            return F.expr(f"try_cast({text} AS float)")
        case _:
            return None


def fits(spark: SparkSession, value: T.DataType, column: T.DataType) -> bool:
    """Return whether ANSI store assignment allows a value of this type in a column."""
    jvm = jvm_of(spark)  # Spark's rule exists only in the JVM
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    return bool(
        jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign(
            parse(value.json()), parse(column.json())
        )
    )


def small_frame(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Return a frame of strings and integers, kept on the driver; `schema` is in Spark's DDL."""
    if not rows:
        return spark.createDataFrame([], schema)
    return spark.createDataFrame(pd.DataFrame(rows, dtype=object), schema)
