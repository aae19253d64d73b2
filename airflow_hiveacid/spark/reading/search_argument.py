"""What Java's ORC is told of the rows that are wanted, so that it opens no other row groups.

Spark would tell it of a column `row.x`, which ORC does not find: it takes names of an ACID file for
those of the table's columns. So the filter is ours, under these names, and travels where Spark puts
its own. Statistics of integers and days are there whenever there are values, and compared as
everybody compares them. Those of texts are not: writers leave out long ones, which ORC takes for
NULLs, and texts beyond U+FFFF are ordered otherwise than their bytes.

Takes ranges; gives options of Spark's ORC source.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.spark.types import struct_of
from airflow_hiveacid.storage.values.calendars import SWITCHOVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange

_TOLD: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILTER: Final = "orc.kryo.sarg"
_COLUMNS: Final = "orc.sarg.column.names"


def search_argument(
    spark: SparkSession, columns: Sequence[Column], ranges: Mapping[str, KeyRange]
) -> dict[str, object]:
    """The options that name the ranges to ORC; none if it cannot use one.

    Args:
        spark: the session.
        columns: the columns that are read.
        ranges: of some of them.
    """
    usable = [c for c in columns if c.type in _TOLD and _PLAIN_NAME.fullmatch(c.name)]
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
    found = orc.createFilter(schema, jvm.PythonUtils.toSeq(filters))
    if found.isEmpty():
        return {}
    is_loaded = False
    settings = jvm.org.apache.hadoop.conf.Configuration(is_loaded)
    jvm.org.apache.orc.mapred.OrcInputFormat.setSearchArgument(
        settings, found.get(), schema.fieldNames()
    )
    return {key: settings.get(key) for key in (_FILTER, _COLUMNS)}


def _comparisons(
    spark: SparkSession, wanted: KeyRange
) -> Iterator[tuple[str, JavaObject | object]]:
    """Spark's names of the comparisons that ORC makes as everybody does, with their values."""
    for name, end in (("GreaterThanOrEqual", wanted.low), ("LessThanOrEqual", wanted.high)):
        match end:
            case dt.date():
                # Java's dates have no days between the calendars; no file here is that old.
                if end < SWITCHOVER:
                    continue
                yield name, jvm_of(spark).java.sql.Date.valueOf(end.isoformat())
            case int():
                yield name, end
            case _:
                pass
