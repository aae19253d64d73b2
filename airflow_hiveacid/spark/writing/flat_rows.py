"""New rows in a form that Spark's own ORC writer stores exactly as our writer would.

The frame has plain columns `c0`, `c1` and so on: dates are day numbers, a char has its padding,
timestamps are wall-clock times. For a partitioned table, the partition and its hash follow. If
Spark or Java would store a different value, there is no frame, or its tasks fail with an
`UnsupportedFileError`, and `event_files` writes the rows instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.spark.engine.expressions.catalyst import rebalanced
from airflow_hiveacid.spark.engine.failures import carried
from airflow_hiveacid.spark.engine.session import runs_in_utc
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.storage.acid.write.flat_copy import UTC_ZONES, can_be_flat, has_times

KEY: Final = "key"
"""The `_partition` value."""

GROUP: Final = "g"
"""A hash of the partition: a task writes the rows of each hash to a separate file."""

# Java's replacement character for invalid UTF-8.
_REPLACED: Final = "\ufffd"
# Before, Spark converts timestamps to the hybrid calendar, which lacks ten days.
_OLD: Final = "1582-10-15 00:00:00"
# In this range, ORC stores the wrong second: it corrects only negative ones.
_LOST_FROM, _LOST_TO = "1969-12-31 23:59:59.001", "1970-01-01 00:00:00"


def flat_rows(
    table: TableInfo, source: DataFrame, values: Mapping[str, Column], key: Column | None
) -> DataFrame | None:
    """Return new rows for Spark to write; None if Spark's files would differ from our files.

    `values` are the table's data columns over these rows, cast to their types; a missing column is
    NULL. `key` is the `_partition` value; None in a table without partitions.
    """
    spark = source.sparkSession
    if table.num_buckets or not can_be_flat(table.columns):
        return None
    stores_clocks = runs_in_utc(spark) and spark.conf.get("spark.sql.session.timeZone") in UTC_ZONES
    if has_times(table.columns) and not stores_clocks:
        return None
    types = {f"c{i}": hive.parse_type(column.type) for i, column in enumerate(table.columns)}
    chosen = [
        values.get(column.name, F.lit(None).cast(spark_type(type_))).alias(name)
        for column, (name, type_) in zip(table.columns, types.items(), strict=True)
    ]
    key_columns = [] if key is None else [key.alias(KEY)]
    # Use two steps: the first computes each value once, and the second checks and stores it.
    rows = source.select(*chosen, *key_columns).withColumns(
        {name: flat for name, type_ in types.items() if (flat := _flat(type_, name)) is not None}
    )
    if key is None:
        return rows
    return rebalanced(rows.withColumn(GROUP, F.xxhash64(KEY)), GROUP)


def _flat(hive_type: hive.HiveType, name: str) -> Column | None:
    """Return the column as Spark must store it, if that differs; tasks fail on other values."""
    match hive_type:
        case hive.PrimitiveType(name="date"):
            # Spark would convert old dates to the hybrid calendar, and change ten days.
            return F.unix_date(name)
        case hive.PrimitiveType(name=kind) if kind in ("timestamp", hive.TIMESTAMP_LOCAL):
            # In UTC, an instant is the wall-clock time; Spark stores TIMESTAMP_NTZ as a number.
            clock = F.col(name).cast("timestamp")
            moved, start, end = (F.lit(t).cast("timestamp") for t in (_OLD, _LOST_FROM, _LOST_TO))
            is_wrong = (clock < moved) | ((clock >= start) & (clock < end))
            return _unless(is_wrong, clock, "a timestamp")
        case hive.CharType(length=length):
            text = F.rtrim(name)
            is_odd = (F.octet_length(text) != F.length(text)) & text.rlike(_REPLACED)
            padded = F.rpad(text, length, " ")
            return _unless((F.length(text) > length) | is_odd, padded, f"text for {hive_type}")
        case hive.VarcharType(length=length):
            is_odd = (F.length(name) > length) | F.col(name).rlike(_REPLACED)
            is_long = F.octet_length(name) > length
            return _unless(is_long & is_odd, F.col(name), f"text for {hive_type}")
        case _:
            return None


def _unless(is_wrong: Column, value: Column, what: str) -> Column:
    error = UnsupportedFileError(path="the new rows", reason=f"{what} requires our own writer")
    return F.when(is_wrong, F.raise_error(F.lit(carried(error)))).otherwise(value)
