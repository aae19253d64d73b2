"""Ranges of column values, so that readers skip files and stripes outside of them.

Ranges only make reading faster; no result depends on them.

`bounds` are the ranges that a condition allows. A row meets a condition only if it meets each part
that is joined with AND. A part that compares a column with a constant gives a bound. Spark
recognises these comparisons as filters for data sources, so nothing is parsed here.

`key_ranges` are those of a MERGE's keys in its source. A key has no range if Python cannot
represent a bound exactly, such as a year beyond 9999 or a string that is not UTF-8.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType

from airflow_hiveacid.format.table import Column, TableInfo
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading.request import RANGED, KeyRange
from airflow_hiveacid.spark.engine.expressions.catalyst import Comparison, Moment, comparisons
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError, unknown_calls
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.storage.values.calendars import EPOCH, SWITCHOVER

_LOWER: Final = frozenset({"GreaterThan", "GreaterThanOrEqual"})
_UPPER: Final = frozenset({"LessThan", "LessThanOrEqual"})


def bounds(
    table: TableInfo, rows: DataFrame, condition: str, moment: Moment
) -> Mapping[str, KeyRange]:
    """Return the ranges that the condition allows, by column, for the types in `RANGED`.

    `rows` is any frame of the table's columns, in their order, under the condition's alias.
    """
    ranges: dict[str, KeyRange] = {}
    try:
        with unknown_calls():
            compared = list(comparisons(rows, condition, moment))
    except UnknownJavaCallError:
        return {}  # all rows are read
    for comparison in compared:
        if comparison.position >= len(table.columns):
            continue
        column = table.columns[comparison.position]
        if column.type in RANGED:
            key_range = _range(comparison)
            ranges[column.name] = _both(ranges.get(column.name, KeyRange()), key_range)
    return {name: key_range for name, key_range in ranges.items() if key_range != KeyRange()}


def _range(comparison: Comparison) -> KeyRange:
    values: list[Any] = [_as_bound(value) for value in comparison.values]
    if not values or None in values:
        return KeyRange()
    low, high = min(values), max(values)
    # Exclusive bounds may count as inclusive, because the condition is still evaluated for each
    # row.
    return KeyRange(
        low=None if comparison.operator in _UPPER else low,
        high=None if comparison.operator in _LOWER else high,
    )


def _as_bound(value: object) -> int | str | dt.date | None:
    """Return a constant as a Python value; None if it cannot serve as a bound."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if value.isascii() else None
    try:
        day = dt.date.fromisoformat(str(value))
    except ValueError:
        return None
    # Spark's Java dates lack the days that the calendar switch skipped. Spark's Java dates print
    # years before 1 without a sign.
    return day if day > SWITCHOVER else None


def _both(first: KeyRange, second: KeyRange) -> KeyRange:
    lows: list[Any] = [r.low for r in (first, second) if r.low is not None]
    highs: list[Any] = [r.high for r in (first, second) if r.high is not None]
    return KeyRange(low=max(lows, default=None), high=min(highs, default=None))


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
