"""Which Spark type a Hive type is read as, and which Spark values a Hive column takes.

Hive's timestamp has no time zone, so it is TIMESTAMP_NTZ here: wall-clock values stay what they
are in any session time zone. char and varchar are strings with a bound on their length; a char
comes without its padding, which is what Hive's own functions, joins and LIKE see of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.table import Column, TableInfo

_PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamp with local time zone": TimestampType(),
}


# Where Spark itself keeps the type of a char column (CharVarcharUtils).
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
# By setting: its default, and what it has to be.
_PADS_BOTH_SIDES: Final = {
    "spark.sql.readSideCharPadding": ("true", "false"),
    "spark.sql.legacy.charVarcharAsString": ("false", "false"),
    "spark.sql.legacy.noCharPaddingInPredicate": ("false", "false"),
}


def spark_type(hive_type: hive.HiveType) -> DataType:
    """The Spark type that holds values of a Hive type.

    Raises:
        UnsupportedTableError: Spark has no such type (a union).
    """
    match hive_type:
        case hive.PrimitiveType(name=name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case hive.DecimalType(precision=precision, scale=scale):
            return DecimalType(precision, scale)
        case hive.CharType() | hive.VarcharType():
            return StringType()
        case hive.ArrayType(element=element):
            return ArrayType(spark_type(element))
        case hive.MapType(key=key, value=value):
            return MapType(spark_type(key), spark_type(value))
        case hive.StructType(fields=fields):
            return StructType([StructField(n, spark_type(t)) for n, t in fields])
        case _:
            pass
    raise UnsupportedTableError(
        table="columns", detail=f"type {hive_type} cannot be read or written with Spark"
    )


_NAMES: Final = {
    **{type_: name for name, type_ in _PRIMITIVES.items()},
    # A session of ours has it for `timestamp`, whose values are wall-clock times.
    TimestampType(): "timestamp",
}


def column_type(value: DataType) -> str | None:  # noqa: PLR0911 - one for each kind of type
    """The type of Hive's for a column of such values; None if there is none, or it is not clear.

    The reverse of `spark_type` but for texts, which are strings.

    Example:
        >>> column_type(ArrayType(DecimalType(5, 2)))
        'array<decimal(5,2)>'
    """
    match value:
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case ArrayType(elementType=element):
            inner = column_type(element)
            return inner and f"array<{inner}>"
        case MapType(keyType=key, valueType=item):
            both = (column_type(key), column_type(item))
            return None if None in both else f"map<{both[0]},{both[1]}>"
        case StructType(fields=fields):
            found = [(field.name, column_type(field.dataType)) for field in fields]
            if any(type_ is None for _, type_ in found):
                return None
            return f"struct<{','.join(f'{name}:{type_}' for name, type_ in found)}>"
        case StringType():
            return "string"
        case _:
            return _NAMES.get(value)


def struct_of(columns: Sequence[Column]) -> StructType:
    """The Spark struct of some columns, all nullable, in their order."""
    return StructType([StructField(c.name, spark_type(hive.parse_type(c.type))) for c in columns])


def table_struct(table: TableInfo) -> StructType:
    """The Spark struct of a table's rows: data columns, then partition columns."""
    return struct_of((*table.columns, *table.partition_columns))


def named(spark: SparkSession, column: Column, values: SparkColumn) -> SparkColumn:
    """Values under their column's name; a char also ignores the blanks that literals end in.

    Hive strips both sides of such a comparison, Spark pads both to the column's length, in a
    session that does so for a value without padding. In others the char is a plain string, and no
    literal that ends in a blank equals it.
    """
    is_char = isinstance(hive.parse_type(column.type), hive.CharType)
    if is_char and all(spark.conf.get(k, v) == w for k, (v, w) in _PADS_BOTH_SIDES.items()):
        return values.alias(column.name, metadata={_CHAR: column.type})
    return values.alias(column.name)


def exact_value(text: str, hive_type: hive.HiveType) -> SparkColumn | None:
    """A column of texts as such values, to be compared with them; None if Spark does that exactly.

    Elsewhere it would take a double, which rounds. A decimal is as wide as its integer digits
    allow; a text with digits beyond that scale equals none, since the cast rounds them.
    """
    match hive_type:
        case hive.DecimalType(precision=precision, scale=scale):
            scale += hive.MAX_PRECISION - precision
            value = F.expr(f"try_cast({text} AS decimal({hive.MAX_PRECISION},{scale}))")
            fits = F.expr(text).rlike(rf"^\s*[+-]?\d*(\.\d{{0,{scale}}}0*)?\s*$")
            double = F.expr(f"try_cast({text} AS double)")
            is_power = F.expr(text).rlike("[eE]") & (value.cast("double") == double)
            return F.when(fits | is_power, value)
        case hive.PrimitiveType(name="float"):
            return F.expr(f"try_cast({text} AS float)")
        case _:
            return None


def fits(spark: SparkSession, value: DataType, column: DataType) -> bool:
    """Whether ANSI store assignment lets a value of this type into a column of that type."""
    jvm = spark._jvm  # noqa: SLF001 - Spark's rule is only reachable on the JVM side
    if jvm is None:
        raise TypeError("a classic Spark session is needed")
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    return bool(
        jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign(
            parse(value.json()), parse(column.json())
        )
    )
