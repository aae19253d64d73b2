"""Between which values rows must lie, so that readers pass over files and stripes with none.

Takes the source of a MERGE and its keys; gives the least and the greatest value of each key that a
file's rows can be compared with. A range only spares work: where Python could not hold an end of it
exactly (a year beyond 9999, text that is no UTF-8), there is none, and the join alone decides.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.types import spark_type
from airflow_hiveacid.storage.values.calendars import EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from airflow_hiveacid.format.table import Column

RANGED: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
"""Types of which files keep a least and a greatest value that everybody compares alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Least and greatest value, both inclusive; None where there is no bound.

    `is_empty` says that no value is wanted at all. NULL is in no range.
    """

    low: object = None
    high: object = None
    is_empty: bool = False


def key_ranges(
    source: DataFrame,
    keys: Sequence[str],
    columns: Sequence[Column],
    beside: Sequence[SparkColumn] = (),
) -> tuple[dict[str, KeyRange], list[Any]]:
    """The ranges of the keys that have one. One small aggregation of the (kept) source.

    Args:
        source: the rows.
        keys: on which they are joined with the target.
        columns: the target's data columns.
        beside: what else is asked of all rows in the same pass.

    Returns:
        The ranges by key, and the answers to what was asked beside.
    """
    types = {c.name: parse_type(c.type) for c in columns}
    given = {f.name.lower(): f.dataType for f in source.schema}
    ranged = {
        key: wanted.name
        for key in keys
        if isinstance(wanted := types.get(key), PrimitiveType)
        and wanted.name in RANGED
        and _compares_exactly(given[key], wanted)
    }
    ends = [
        _carried(kind, end(F.col(quoted(key))))
        for key, kind in ranged.items()
        for end in (F.min, F.max)
    ]
    if not ends and not beside:
        return {}, []
    values = iter(source.select(*ends, *beside).collect()[0])
    found: dict[str, KeyRange] = {}
    for key, kind in ranged.items():
        low, high = next(values), next(values)
        try:
            found[key] = KeyRange(
                low=_plain(kind, low), high=_plain(kind, high), is_empty=low is None
            )
        except (OverflowError, UnicodeDecodeError):
            continue
    return found, list(values)


def _compares_exactly(given: DataType, wanted: PrimitiveType) -> bool:
    """Whether the join compares without losing anything; else it casts, which is its business."""
    return given == spark_type(wanted) or (
        isinstance(given, IntegralType) and isinstance(spark_type(wanted), IntegralType)
    )


def _carried(kind: str, end: SparkColumn) -> SparkColumn:
    """An end of a range as it comes to the driver whole: days, and bytes."""
    if kind == "date":
        return F.unix_date(end)
    return end.cast("binary") if kind == "string" else end


def _plain(kind: str, value: object) -> object:
    """What was carried, as Python has it.

    Raises:
        OverflowError: a date that Python has not.
        UnicodeDecodeError: text that is no UTF-8.
    """
    match kind, value:
        case "date", int(days):
            return EPOCH + dt.timedelta(days=days)
        case "string", bytes() | bytearray() as text:
            return text.decode()
        case _:
            return value
