"""New rows as Spark's own ORC writer is given them, so that its files hold what ours would.

Takes a source and the table's columns over it; gives a frame of plain columns `c0`, `c1` and so on:
dates as numbers of days, char padded, timestamps as the wall clock shows them, every text seen to
fit. In a table with partitions there are two more: the partition, and a number for it. `flat_files`
has them written.

Where Spark or Java would store something else, there is no such frame, or its tasks fail with an
`UnsupportedFileError`: then the rows go the other way, through `writers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    CharType,
    HiveType,
    PrimitiveType,
    VarcharType,
    parse_type,
)
from airflow_hiveacid.spark.catalyst import rebalanced
from airflow_hiveacid.spark.failures import carried
from airflow_hiveacid.spark.time_zones import runs_in_utc
from airflow_hiveacid.spark.types import spark_type
from airflow_hiveacid.storage.acid.write.flat_layout import UTC_ZONES, can_be_flat, has_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hiveacid.format.table import TableInfo

KEY: Final = "key"
"""The `_partition` value."""

GROUP: Final = "g"
"""A number for the partition: a task writes the rows of each number to a file of its own."""

# What UTF-8 that is none becomes in Java.
_REPLACED: Final = "\ufffd"
# Before this, Spark moves timestamps to another calendar, in which ten days are not.
_OLD: Final = "1582-10-15 00:00:00"
# From here on up to 1970 ORC loses the second: it adjusts by a sign, and zero has none.
_LOST_FROM, _LOST_TO = "1969-12-31 23:59:59.001", "1970-01-01 00:00:00"


def flat_rows(
    table: TableInfo, source: DataFrame, values: Mapping[str, Column], key: Column | None
) -> DataFrame | None:
    """New rows as Spark is to write them; None if its files would not hold what ours would.

    Rows of a partition come together in as many tasks as their bytes deserve: Spark sees to that
    when it knows the bytes. A row's way depends on nothing but the values in it.

    Args:
        table: the target.
        source: the rows; whenever a task of theirs runs again, it has the same.
        values: the table's data columns over them, cast to their types; NULL where none is given.
        key: the `_partition` value; None in a table without partitions.
    """
    spark = source.sparkSession
    if table.num_buckets or not can_be_flat(table.columns):
        return None
    if has_times(table.columns) and not _stores_clocks(spark):
        return None
    types = {f"c{i}": parse_type(column.type) for i, column in enumerate(table.columns)}
    chosen = [
        (values[column.name] if column.name in values else _nothing(type_)).alias(name)
        for column, (name, type_) in zip(table.columns, types.items(), strict=True)
    ]
    more = [] if key is None else [key.alias(KEY)]
    # Two steps, so that what is looked at, and then stored, is made once.
    rows = source.select(*chosen, *more).withColumns(
        {name: flat for name, type_ in types.items() if (flat := _flat(type_, name)) is not None}
    )
    if key is None:
        return rows
    return rebalanced(rows.withColumn(GROUP, F.xxhash64(KEY)), GROUP)


def _nothing(hive_type: HiveType) -> Column:
    return F.lit(None).cast(spark_type(hive_type))


def _stores_clocks(spark: SparkSession) -> bool:
    """Whether Spark stores a timestamp as the wall clock shows it; a file's footer says so, too."""
    return runs_in_utc(spark) and spark.conf.get("spark.sql.session.timeZone") in UTC_ZONES


def _flat(hive_type: HiveType, name: str) -> Column | None:
    """The column of this name as it is to be stored; None if it is so already.

    A task fails where the other way has to decide.
    """
    match hive_type:
        case PrimitiveType(name="date"):
            # Spark moves old dates to another calendar, and ten days of 1582 to other days.
            return F.unix_date(name)
        case PrimitiveType(name=kind) if kind in ("timestamp", TIMESTAMP_LOCAL):
            # As an instant, in UTC the wall clock; the other type is stored as a number.
            clock = F.col(name).cast("timestamp")
            moved, start, end = (F.lit(t).cast("timestamp") for t in (_OLD, _LOST_FROM, _LOST_TO))
            is_wrong = (clock < moved) | ((clock >= start) & (clock < end))
            return _unless(is_wrong, clock, "a timestamp")
        case CharType(length=length):
            text = F.rtrim(name)
            is_odd = (F.octet_length(text) != F.length(text)) & text.rlike(_REPLACED)
            padded = F.rpad(text, length, " ")
            return _unless((F.length(text) > length) | is_odd, padded, f"text for {hive_type}")
        case VarcharType(length=length):
            is_odd = (F.length(name) > length) | F.col(name).rlike(_REPLACED)
            is_long = F.octet_length(name) > length
            return _unless(is_long & is_odd, F.col(name), f"text for {hive_type}")
        case _:
            return None


def _unless(is_wrong: Column, value: Column, what: str) -> Column:
    error = UnsupportedFileError(path="what is inserted", reason=f"{what} needs a closer look")
    return F.when(is_wrong, F.raise_error(F.lit(carried(error)))).otherwise(value)
