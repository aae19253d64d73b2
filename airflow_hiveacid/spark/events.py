"""The one shape in which every change of rows travels to the writers.

A change is a frame of events: delete events name a row, insert events bring one. An update is both.
Columns that a statement does not change do not travel: an insert event made by an update names its
old row, and the writer fetches the rest from there, exact to the nanosecond.

Columns of an event frame:

| column | meaning |
| --- | --- |
| `_partition` | JSON array of the partition values as texts; `[]` in an unpartitioned table |
| `_kind` | 0 delete event, 1 insert event |
| `_bucket` | number of the bucket file the event goes to |
| `_file`, `_clause` | for updates: number of the old row's file, and the new one's clause |
| `originalTransaction`, `bucket`, `rowId` | identity of the old row; NULL for a new one |
| `row` | the new row, or the columns of it that some clause brings; NULL in a delete event |
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.format.types import CharType, DecimalType, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile

DELETE_KIND: Final = 0
INSERT_KIND: Final = 1
IDENTITY: Final = ("originalTransaction", "bucket", "rowId")
_IDENTITY_TYPES: Final = {"originalTransaction": "bigint", "bucket": "int", "rowId": "bigint"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")
# Of a decimal's fraction; HiveDecimal prints none.
_TRAILING_ZEROS: Final = r"\.?0+$"
GROUP: Final = ("_partition", "_kind", "_bucket")
EVENT_COLUMNS: Final = (*GROUP, "_file", "_clause", *IDENTITY, "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A frame of events and what the writers must know of it.

    `given[clause]` names the columns that the clause's insert events bring; the others come from
    the old row, in one of `old_files`. `flat` are the same events, where they are new rows only and
    Spark can write them itself; `few` are they in no order, where they are few enough to come to
    the driver. Then `frame` may never be asked for, and is made when it is.
    """

    frame: Callable[[], DataFrame]
    given: tuple[frozenset[str], ...] = ()
    old_files: Mapping[int, AcidFile] = field(default_factory=dict)
    flat: DataFrame | None = None
    few: DataFrame | None = None


def partition_key(table: TableInfo, value_of: Sequence[Column]) -> Column:
    """The `_partition` column from the values of the partition columns, in order.

    Texts are those of Hive's dynamic partitions (a char with its padding, a decimal without zeros
    at its end), or there would be two partitions of one value and an overwrite would leave Hive's.
    An empty text counts as NULL there, and so does NULL's own name.
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


def partition_text(name: PartitionName) -> str:
    """The `_partition` value of rows that are in a partition; `partition_key` makes the same."""
    text = json.dumps(list(name.values), separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(_as_spark_writes_it, text)


def _as_spark_writes_it(escape: re.Match[str]) -> str:
    """Control characters in upper-case digits, or one partition would have two keys."""
    return escape[0] if escape[1] is None else f"\\u{escape[1].upper()}"


def delete_events(rows: DataFrame) -> DataFrame:
    """Delete events of rows that a target scan gave (or of a join with one)."""
    return rows.select(
        "_partition",
        F.lit(DELETE_KIND).cast("tinyint").alias("_kind"),
        "_bucket",
        F.lit(None).cast("bigint").alias("_file"),
        F.lit(None).cast("int").alias("_clause"),
        *IDENTITY,
        F.lit(None).cast(rows.schema["row"].dataType).alias("row"),
    )


def insert_events(rows: DataFrame) -> DataFrame:
    """Insert events of rows that carry every column of events but `_kind`."""
    return rows.select(
        "_partition",
        F.lit(INSERT_KIND).cast("tinyint").alias("_kind"),
        "_bucket",
        "_file",
        "_clause",
        *IDENTITY,
        "row",
    )


def with_no_old_row(rows: DataFrame) -> DataFrame:
    """Add what new rows have not: a place and an identity."""
    empty = {"_bucket": "int", "_file": "bigint", "_clause": "int", **_IDENTITY_TYPES}
    known = set(rows.columns)
    return rows.withColumns(
        {name: F.lit(None).cast(t) for name, t in empty.items() if name not in known}
    )


def grouped(events: DataFrame) -> DataFrame:
    """Bring each group of events into one Spark task, in the order in which it is written.

    Delete events come in the order of their identities; insert events of updates file by file, in
    the order of the old rows, so that each old stripe is read once.
    """
    return events.repartition(*GROUP).sortWithinPartitions(*GROUP, "_file", *IDENTITY)
