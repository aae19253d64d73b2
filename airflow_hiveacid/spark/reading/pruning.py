"""The partitions and the ranges of column values that a statement can reach.

Spark evaluates the statement's own expressions over the values of the partitions: none is converted
to text, parsed again or cast. Readers skip files and stripes outside of the ranges, on which no
result depends.

`bounds` are the ranges of a condition's parts, joined with AND, that compare a column with a
constant; Spark recognises them as filters for data sources. `key_ranges` are those of a MERGE's
keys in its source. A key has no range if Python cannot represent a bound exactly, such as a year
beyond 9999 or a string that is not UTF-8.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, IntegralType

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted, require_partition_columns
from airflow_hiveacid.reading import RANGED, KeyRange, free_name
from airflow_hiveacid.spark.engine import UnknownJavaCallError, catalyst, unknown_calls
from airflow_hiveacid.spark.engine.failures import reason_of
from airflow_hiveacid.spark.engine.types import named, small_frame, spark_type
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.storage.values.timestamps import EPOCH, SWITCHOVER


def partitions_where(  # noqa: PLR0913 - the partitions, and all that the condition can use
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    condition: str | None,
    moment: catalyst.Moment,
    *,
    beside: DataFrame | None = None,
) -> tuple[PartitionName, ...] | None:
    """Return the partitions in which a condition can hold; None if it does not restrict them.

    A row meets the condition only if it meets each part that is joined with AND. This function uses
    only parts that are deterministic, contain only partition columns, and have no subquery. In the
    condition, the table is `t`, and the source `beside`, if there is one, is `s`.
    """
    if condition is None or not table.is_partitioned or len(partitions) <= 1:
        return None
    number = free_name("number", table.column_names, beside.columns if beside is not None else ())
    null_columns = [
        named(spark, c, F.lit(None).cast(spark_type(parse_type(c.type)))) for c in table.columns
    ]
    values = _values(spark, table, table.partition_columns, partitions, number)
    names = [F.col(quoted(c.name)) for c in table.partition_columns]
    rows = values.select(number, *null_columns, *names).alias("t")
    sees = rows if beside is None else rows.crossJoin(beside.alias("s"))
    try:
        parts = catalyst.conjuncts(sees.drop(number), condition, moment)
        partition_indexes = range(len(table.columns), len(table.column_names))
        alone = [
            part.column
            for part in parts
            if part.uses and part.uses <= set(partition_indexes)
            if part.is_deterministic and not part.has_subquery
        ]
        return _numbered(rows.where(reduce(and_, alone)), number, partitions) if alone else None
    except catalyst.TEXT_ERRORS:
        # The later check of the statement reports this error with more detail.
        return None
    except PySparkException:
        # One part may fail for rows that another part excludes: exclude no partition.
        return None


def partitions_meeting(
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    source: DataFrame,
    keys: Sequence[str],
    equal: Callable[[str], SparkColumn],
) -> tuple[PartitionName, ...]:
    """Return the partitions with key values that equal the values of at least one source row.

    `equal` returns the join's predicate for a key, over the sides `t` and `s`. Only this predicate
    decides, because the join may cast either side.
    """
    columns = [c for c in table.partition_columns if c.name in keys]
    if not columns or len(partitions) <= 1:
        return partitions
    number = free_name("number", table.column_names)
    values = _values(source.sparkSession, table, columns, partitions, number).alias("t")
    source_keys = source.select(*[F.col(quoted(c.name)) for c in columns]).distinct().alias("s")
    matches = values.join(source_keys, reduce(and_, [equal(c.name) for c in columns]), "left_semi")
    return _numbered(matches, number, partitions)


def partitions_with(
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    wanted: Mapping[str, str | None],
) -> tuple[PartitionName, ...]:
    """Return the partitions in which columns have exactly these values; all if `wanted` is empty.

    Values are compared in their column's type, for which they must be valid. In an int column, `01`
    selects the partition with the value 1, even if the partition's name is spelled differently.
    """
    require_partition_columns(table, wanted)
    if not wanted:
        return partitions
    types = {c.name: c.type for c in table.partition_columns}
    number = free_name("number", table.column_names)
    rows = _values(spark, table, table.partition_columns, partitions, number)
    for name, value in wanted.items():
        kind = spark_type(parse_type(types[name.lower()]))
        rows = rows.where(F.col(quoted(name.lower())).eqNullSafe(F.lit(value).cast(kind)))
    try:
        return _numbered(rows, number, partitions)
    except PySparkException as error:
        raise ConfigurationError(
            f"partition {dict(wanted)} of {table.ref} does not fit its columns' types:"
            f" {reason_of(error)}"
        ) from error


def _values(
    spark: SparkSession,
    table: TableInfo,
    columns: Sequence[Column],
    partitions: Sequence[PartitionName],
    number: str,
) -> DataFrame:
    indexes = [[c.name for c in table.partition_columns].index(column.name) for column in columns]
    texts = ", ".join(f"{quoted(c.name)} string" for c in columns)
    read = [partition_texts(table.partition_columns, name) for name in partitions]
    rows = [(i, *[texts_of[j] for j in indexes]) for i, texts_of in enumerate(read)]
    return small_frame(spark, rows, f"{number} int, {texts}").select(
        number,
        *[
            named(spark, c, F.col(quoted(c.name)).cast(spark_type(parse_type(c.type))))
            for c in columns
        ],
    )


def _numbered(
    values: DataFrame, number: str, partitions: tuple[PartitionName, ...]
) -> tuple[PartitionName, ...]:
    return tuple(partitions[i] for i in sorted(r[0] for r in values.select(number).collect()))


_LOWER: Final = frozenset({"GreaterThan", "GreaterThanOrEqual"})
_UPPER: Final = frozenset({"LessThan", "LessThanOrEqual"})


def bounds(
    table: TableInfo, rows: DataFrame, condition: str, moment: catalyst.Moment
) -> Mapping[str, KeyRange]:
    """Return the ranges that a condition allows over `rows`, any frame of the table's columns."""
    ranges: dict[str, KeyRange] = {}
    try:
        with unknown_calls():
            compared = list(catalyst.comparisons(rows, condition, moment))
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


def _range(comparison: catalyst.Comparison) -> KeyRange:
    values: list[Any] = [_as_bound(value) for value in comparison.values]
    if not values or None in values:
        return KeyRange()
    low, high = min(values), max(values)
    # Exclusive bounds may count as inclusive: the condition is evaluated for each row.
    return KeyRange(
        low=None if comparison.operator in _UPPER else low,
        high=None if comparison.operator in _LOWER else high,
    )


def _as_bound(value: object) -> int | str | dt.date | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        # In other text, Java may have put U+FFFD for bytes that are not UTF-8.
        return value if value.isascii() else None
    try:
        day = dt.date.fromisoformat(str(value))
    except ValueError:
        return None
    # Spark's Java dates lack the skipped days, and print years before 1 without a sign.
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
    """Compute the ranges of `RANGED` keys, and the aggregates `beside`, of the cached source."""
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
    return source_type == spark_type(key_type) or (
        isinstance(source_type, IntegralType) and isinstance(spark_type(key_type), IntegralType)
    )


def _carried(kind: str, end: SparkColumn) -> SparkColumn:
    """Convert a bound so that it reaches the driver exactly: a date to days, a string to bytes."""
    if kind == "date":
        return F.unix_date(end)
    return end.cast("binary") if kind == "string" else end


def _plain(kind: str, value: object) -> object:
    match kind, value:
        case "date", int(days):
            return EPOCH + dt.timedelta(days=days)
        case "string", bytes() | bytearray() as text:
            return text.decode()
        case _:
            return value
