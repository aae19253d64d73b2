"""The ranges of values that a condition allows for the columns of a table.

A row meets a condition only if it meets each part that is joined with AND. A part that compares a
column with a constant gives a bound. Spark recognises these comparisons as filters for data
sources, so nothing is parsed here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.reading.request import RANGED, KeyRange
from airflow_hiveacid.spark.engine.expressions.catalyst import Comparison, Moment, comparisons
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError, unknown_calls
from airflow_hiveacid.storage.values.calendars import SWITCHOVER

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
    values: list[Any] = [_plain(value) for value in comparison.values]
    if not values or None in values:
        return KeyRange()
    low, high = min(values), max(values)
    # Exclusive bounds may count as inclusive, because the condition is still evaluated for each
    # row.
    return KeyRange(
        low=None if comparison.operator in _UPPER else low,
        high=None if comparison.operator in _LOWER else high,
    )


def _plain(value: object) -> int | str | dt.date | None:
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
