"""Frames of events (`writing.event_files`), from rows of tables and sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from airflow_hiveacid.format.table import NULL_PARTITION, TableInfo
from airflow_hiveacid.format.types import CharType, DecimalType, parse_type
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.writing.event_files import DELETE_KIND, EVENT_ORDER, GROUP, INSERT_KIND

_IDENTITY_TYPES: Final = ("bigint", "int", "bigint")
# HiveDecimal does not print these trailing zeros of a decimal's fraction.
_TRAILING_ZEROS: Final = r"\.?0+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A frame of events, with the information that the writers need.

    `given[clause]` lists the columns that the clause's insert events set. The other columns come
    from the old row. The old row is in one of `old_files`. If all events are inserts that Spark's
    own writer can write, `flat` contains the same rows. If the driver can write the few events
    itself, `few` contains the events, unordered. `frame` is a function, because the frame is often
    not needed if `flat` or `few` is set.
    """

    frame: Callable[[], DataFrame]
    given: tuple[frozenset[str], ...] = ()
    old_files: Mapping[int, AcidFile] = field(default_factory=dict)
    flat: DataFrame | None = None
    few: DataFrame | None = None


def partition_key(table: TableInfo, value_of: Sequence[Column]) -> Column:
    """Return the `_partition` column from the values of the partition columns, in order.

    Values are formatted as in Hive's dynamic partitions: a char with its padding, a decimal without
    trailing zeros. Otherwise, one value could have two partitions. As in Hive, an empty string and
    the name of the NULL partition mean NULL.
    """
    texts = []
    for column, value in zip(table.partition_columns, value_of, strict=True):
        text = value.cast("string")
        match parse_type(column.type):
            case CharType(length=length):
                text = F.rtrim(text)
                text = F.when(F.length(text) < length, F.rpad(text, length, " ")).otherwise(text)
            case DecimalType(scale=scale) if scale:
                text = F.regexp_replace(text, _TRAILING_ZEROS, "")
        texts.append(F.when(~text.isin("", NULL_PARTITION), text))
    return F.to_json(F.array(*texts)) if texts else F.lit("[]")


def delete_events(rows: DataFrame) -> DataFrame:
    """Return delete events for the rows of a target scan, or of a join with such a scan."""
    return rows.select(
        "_partition",
        F.lit(DELETE_KIND).cast("tinyint").alias("_kind"),
        "_bucket",
        F.lit(None).cast("bigint").alias("_file"),
        F.lit(None).cast("int").alias("_clause"),
        *IDENTITY_COLUMNS,
        F.lit(None).cast(rows.schema["row"].dataType).alias("row"),
    )


def insert_events(rows: DataFrame) -> DataFrame:
    """Return insert events for rows that have all event columns except `_kind`."""
    return rows.select(
        "_partition",
        F.lit(INSERT_KIND).cast("tinyint").alias("_kind"),
        "_bucket",
        "_file",
        "_clause",
        *IDENTITY_COLUMNS,
        "row",
    )


def with_no_old_row(rows: DataFrame) -> DataFrame:
    """Add the event columns that new rows lack (bucket, file, clause, row ID) as NULL."""
    empty = {
        "_bucket": "int",
        "_file": "bigint",
        "_clause": "int",
        **dict(zip(IDENTITY_COLUMNS, _IDENTITY_TYPES, strict=True)),
    }
    columns = set(rows.columns)
    return rows.withColumns(
        {name: F.lit(None).cast(t) for name, t in empty.items() if name not in columns}
    )


def grouped(events: DataFrame) -> DataFrame:
    """Move each group of events to one Spark task, in the order of the writers."""
    return events.repartition(*GROUP).sortWithinPartitions(*EVENT_ORDER)
