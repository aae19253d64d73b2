"""Ranges of a MERGE's keys in its source, so that readers skip files and stripes outside of them.

Ranges only make reading faster; the join does not depend on them. A key has no range if Python
cannot represent a bound exactly, such as a year beyond 9999 or a string that is not UTF-8.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading.request import RANGED, KeyRange
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.storage.values.calendars import EPOCH


def key_ranges(
    source: DataFrame,
    keys: Sequence[str],
    columns: Sequence[Column],
    beside: Sequence[SparkColumn] = (),
) -> tuple[dict[str, KeyRange], list[Any]]:
    """Compute the ranges of keys with `RANGED` types, in one aggregation of the cached source.

    `beside` are additional aggregates over all rows, computed in the same query. The result is the
    ranges by key, and the values of these aggregates.
    """
    types = {c.name: parse_type(c.type) for c in columns}
    source_types = {f.name.lower(): f.dataType for f in source.schema}
    ranged = {
        key: key_type.name
        for key in keys
        if isinstance(key_type := types.get(key), PrimitiveType)
        and key_type.name in RANGED
        and _compares_exactly(source_types[key], key_type)
    }
    ends = [
        _carried(kind, end(F.col(quoted(key))))
        for key, kind in ranged.items()
        for end in (F.min, F.max)
    ]
    if not ends and not beside:
        return {}, []
    values = iter(source.select(*ends, *beside).collect()[0])
    ranges: dict[str, KeyRange] = {}
    for key, kind in ranged.items():
        low, high = next(values), next(values)
        try:
            ranges[key] = KeyRange(
                low=_plain(kind, low), high=_plain(kind, high), is_empty=low is None
            )
        except (OverflowError, UnicodeDecodeError):
            continue
    return ranges, list(values)


def _compares_exactly(source_type: DataType, key_type: PrimitiveType) -> bool:
    """Return whether the join compares a key's values without a cast that loses digits."""
    return source_type == spark_type(key_type) or (
        isinstance(source_type, IntegralType) and isinstance(spark_type(key_type), IntegralType)
    )


def _carried(kind: str, end: SparkColumn) -> SparkColumn:
    """Convert a bound so that it reaches the driver exactly: a date to days, a string to bytes."""
    if kind == "date":
        return F.unix_date(end)
    return end.cast("binary") if kind == "string" else end


def _plain(kind: str, value: object) -> object:
    """Convert a bound from the result of `_carried` to a Python value."""
    match kind, value:
        case "date", int(days):
            return EPOCH + dt.timedelta(days=days)
        case "string", bytes() | bytearray() as text:
            return text.decode()
        case _:
            return value
