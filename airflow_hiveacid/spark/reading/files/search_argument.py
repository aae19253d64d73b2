"""A filter for Java's ORC, so that ORC reads only row groups that may contain wanted rows.

Spark would filter on a column `row.x`, a name that ORC does not find in an ACID file. So we build
the filter with the table's names, and pass it in the options that Spark uses for its own filter. A
file always has statistics of its integers and dates, and all engines compare them in the same way.
Statistics of strings cannot be used: writers omit long strings, which ORC then mistakes for NULLs,
and beyond U+FFFF Java's order differs from the order of the bytes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.reading.request import KeyRange
from airflow_hiveacid.spark.engine.java_names import (
    UnknownJavaCallError,
    call_of_any_release,
    jvm_of,
)
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.storage.values.calendars import SWITCHOVER

_PUSHED_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILTER: Final = "orc.kryo.sarg"
_COLUMNS: Final = "orc.sarg.column.names"


def search_argument(
    spark: SparkSession, columns: Sequence[Column], ranges: Mapping[str, KeyRange]
) -> dict[str, object]:
    """Return the options that pass the ranges to ORC; empty if ORC can use no range."""
    usable = [c for c in columns if c.type in _PUSHED_TYPES and _PLAIN_NAME.fullmatch(c.name)]
    jvm = jvm_of(spark)
    spark_sql = jvm.org.apache.spark.sql
    filters = [
        getattr(spark_sql.sources, name)(column.name, value)
        for column in usable
        if column.name in ranges
        for name, value in _comparisons(spark, ranges[column.name])
    ]
    if not filters:
        return {}
    schema = spark_sql.types.DataType.fromJson(struct_of(usable).json())
    orc = spark_sql.execution.datasources.orc.OrcFilters
    arguments = [schema, jvm.PythonUtils.toSeq(filters)]
    try:
        argument = call_of_any_release(orc.createFilter, arguments, jvm.scala.Option.apply(None))
    except UnknownJavaCallError:
        return {}  # without a filter, ORC reads all rows
    if argument.isEmpty():
        return {}
    is_loaded = False
    settings = jvm.org.apache.hadoop.conf.Configuration(is_loaded)
    jvm.org.apache.orc.mapred.OrcInputFormat.setSearchArgument(
        settings, argument.get(), schema.fieldNames()
    )
    return {key: settings.get(key) for key in (_FILTER, _COLUMNS)}


def _comparisons(
    spark: SparkSession, key_range: KeyRange
) -> Iterator[tuple[str, JavaObject | object]]:
    """Yield the comparisons that ORC evaluates correctly: the name in Spark, and a value."""
    for name, end in (("GreaterThanOrEqual", key_range.low), ("LessThanOrEqual", key_range.high)):
        match end:
            case dt.date():
                # Java's dates lack the days that the calendar switch skipped. The files read here
                # have no older dates.
                if end < SWITCHOVER:
                    continue
                yield name, jvm_of(spark).java.sql.Date.valueOf(end.isoformat())
            case int():
                yield name, end
            case _:
                pass
