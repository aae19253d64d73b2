"""Between which values a condition keeps the columns of a table.

Takes a condition over one table; gives ranges. A row for which the condition holds makes each of
its parts hold that are joined by AND; those that compare a column with a constant say a bound.
Spark decides what such a comparison is (its own filters for data sources); nothing is parsed here.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.spark.catalyst import comparisons
from airflow_hiveacid.spark.reading.key_ranges import RANGED, KeyRange
from airflow_hiveacid.storage.values.calendars import SWITCHOVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.spark.catalyst import Comparison, Moment

_LOWER: Final = frozenset({"GreaterThan", "GreaterThanOrEqual"})
_UPPER: Final = frozenset({"LessThan", "LessThanOrEqual"})


def bounds(
    table: TableInfo, rows: DataFrame, condition: str, moment: Moment
) -> Mapping[str, KeyRange]:
    """Ranges in which the condition's columns have to be, by name; of types that have them.

    Args:
        table: the table.
        rows: any frame of its columns, in their order, as the condition names them.
        condition: Spark SQL, which has been checked.
        moment: the statement's time.
    """
    found: dict[str, KeyRange] = {}
    for comparison in comparisons(rows, condition, moment):
        if comparison.position >= len(table.columns):
            continue
        column = table.columns[comparison.position]
        if column.type in RANGED:
            one = _range(comparison)
            found[column.name] = _both(found.get(column.name, KeyRange()), one)
    return {name: one for name, one in found.items() if one != KeyRange()}


def _range(comparison: Comparison) -> KeyRange:
    values: list[Any] = [_plain(value) for value in comparison.values]
    if not values or None in values:
        return KeyRange()
    low, high = min(values), max(values)
    # Ends that are not inclusive make no difference: the condition itself is asked of each row.
    return KeyRange(
        low=None if comparison.operator in _UPPER else low,
        high=None if comparison.operator in _LOWER else high,
    )


def _plain(value: object) -> int | str | dt.date | None:
    """A constant as Python has it; None for what it has not."""
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
    # Java's dates have no days between the calendars, and no sign before the year 1.
    return day if day > SWITCHOVER else None


def _both(one: KeyRange, other: KeyRange) -> KeyRange:
    lows: list[Any] = [r.low for r in (one, other) if r.low is not None]
    highs: list[Any] = [r.high for r in (one, other) if r.high is not None]
    return KeyRange(low=max(lows, default=None), high=min(highs, default=None))
