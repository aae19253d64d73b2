"""Live rows through Spark's own vectorised ORC reader, where it is right (`orc_fit`).

Spark sees the files as what they are, with six root columns, and prunes columns and stripes as it
does for any ORC file; deleted rows go by an anti-join on their identity. Partition values are
literals, so there is a frame for each partition: a column that is not in the file, as Spark's own
partition columns, would make seven of the six.

Java's ORC takes a file for an ACID file by its types, and wraps the schema once more when one of
the root columns is not asked for. So each of them stays in a condition that always holds but that
the optimiser cannot see through; for `row` it is one on its smallest column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from airflow_hiveacid.format.bucket_codec import BUCKET_SHIFT, MAX_BUCKET_ID
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.events import partition_text
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.types import spark_type, struct_of
from airflow_hiveacid.storage.acid.merge import visible_events
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.row_schema import (
    BUCKET_PROPERTY,
    CURRENT_WRITE_ID,
    IDENTITY_COLUMNS,
    OPERATION,
    ROW,
)
from airflow_hiveacid.storage.values.partition_values import partition_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import Column, TableInfo
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.spark.reading.orc_fit import DeleteFile, Part
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile

# A broadcast relation of this many keys takes some 100 MB on the driver and on every executor.
_BROADCAST_DELETES: Final = 4_000_000
_LONGS: Final = 1 << 63
_NARROW: Final = ("boolean", "tinyint", "smallint", "int", "date", "float", "bigint", "double")
_IDENTITY: Final = tuple(
    StructField(name, IntegerType() if name == BUCKET_PROPERTY else LongType())
    for name in IDENTITY_COLUMNS
)
_ROOT: Final = (
    StructField(OPERATION, IntegerType()),
    *_IDENTITY,
    StructField(CURRENT_WRITE_ID, LongType()),
)
_MARK: Final = "__"
"""Begins the names of helper columns."""
_FILE: Final = f"{_MARK}file"
# What a session may have set otherwise, for files of its own.
_OPTIONS: Final = {
    # Where files are missing or damaged there is an error.
    "ignoreCorruptFiles": False,
    "ignoreMissingFiles": False,
    "orc.skip.corrupt.data": False,
    # By position, the first of the asked columns would be the first of the file, at two levels.
    "orc.force.positional.evolution": False,
    # Filters choose row groups; rows that ORC leaves out itself are still there for Spark.
    "orc.sarg.to.filter": False,
}


def is_native(spark: SparkSession) -> bool:
    """Whether this session reads ORC with the reader that all of this is about."""
    v1 = spark.conf.get("spark.sql.sources.useV1SourceList", "orc") or ""
    is_v1 = "orc" in (name.strip().lower() for name in v1.split(","))
    return is_v1 and (spark.conf.get("spark.sql.orc.impl", "native") or "").lower() == "native"


def live_rows(  # noqa: PLR0913 - which rows of which columns, and what goes with them
    spark: SparkSession,
    table: TableInfo,
    columns: Sequence[Column],
    part: Part,
    write_ids: ValidWriteIdList,
    *,
    ranges: Mapping[str, KeyRange],
    place: str | None = None,
) -> DataFrame:
    """A frame of the live rows of one partition.

    Args:
        spark: the session.
        table: the table.
        columns: the data columns to read; at least one.
        part: the partition's files.
        write_ids: the reader's list.
        ranges: of some of the columns, in which a row has to be.
        place: the name of a column that says where a row is; None for none.

    Returns:
        The place, the data columns, all partition columns.
    """
    rows = _events(spark, columns, part)
    for name, (low, high) in ranges.items():
        # A source without a value has no range, and NULL equals nothing.
        value = F.col(f"{ROW}.{quoted(name)}")
        rows = rows.where(F.lit(False) if low is None else value.between(F.lit(low), F.lit(high)))
    if part.deletes:
        rows = _without(spark, rows, part.deletes, write_ids)
    texts = partition_texts(table.partition_columns, part.info.name)
    values = zip(table.partition_columns, texts, strict=True)
    return rows.select(
        *([] if place is None else [_place(part).alias(place)]),
        *[F.col(f"{ROW}.{quoted(c.name)}").alias(c.name) for c in columns],
        *[F.lit(v).cast(spark_type(parse_type(c.type))).alias(c.name) for c, v in values],
    )


def _place(part: Part) -> SparkColumn:
    """Where a row is, as `Target.scan` says it."""
    bucket = F.shiftright(F.col(BUCKET_PROPERTY), BUCKET_SHIFT).bitwiseAND(F.lit(MAX_BUCKET_ID))
    file = F.concat(F.lit(f"{part.info.name}/"), F.substring_index(_FILE, "/", -2))
    return F.struct(
        F.lit(partition_text(part.info.name)).alias("partition"),
        bucket.alias("bucket_id"),
        file.alias("file"),
        *[F.col(name) for name in IDENTITY_COLUMNS],
    )


def _events(spark: SparkSession, columns: Sequence[Column], part: Part) -> DataFrame:
    """The insert events of all data files, with the file that each is in."""
    schema = StructType([*_ROOT, StructField(ROW, struct_of(columns))])
    if not part.data:
        return spark.createDataFrame([], schema.add(_FILE, "string"))
    root = part.info.location.rstrip("/")
    leaf = min(columns, key=_width)
    reader = spark.read.schema(schema).options(**_OPTIONS)
    events = reader.orc([f"{root}/{file.key}" for file in part.data])
    kept = [field.name for field in _ROOT] + [f"{ROW}.{quoted(leaf.name)}"]
    # Always true, and in a form that no ORC filter can express: Java's ORC would look the names of
    # root columns up among the table's own, and pass over row groups by what it finds there.
    return events.select("*", F.col("_metadata.file_path").alias(_FILE)).where(
        reduce(and_, [F.isnull(F.col(name)) >= F.lit(False) for name in kept])
    )


def _width(column: Column) -> int:
    """How wide a column's type is, compared with others: the lower, the narrower."""
    return _NARROW.index(column.type) if column.type in _NARROW else len(_NARROW)


# ---- deleted rows --------------------------------------------------------------------------------


def _without(
    spark: SparkSession,
    rows: DataFrame,
    deletes: Sequence[DeleteFile],
    write_ids: ValidWriteIdList,
) -> DataFrame:
    """Leave out the rows that a visible delete event is for."""
    files = [delete.file for delete in deletes]
    size = -(-len(files) // spark.sparkContext.defaultParallelism)
    pieces = [_Deletes(tuple(files[i : i + size]), write_ids) for i in range(0, len(files), size)]
    keys = _identity_keys(deletes)
    dead = run_tasks(spark, _read_deletes, pieces, StructType(list(_IDENTITY))).select(*keys)
    if sum(delete.rows for delete in deletes) <= _BROADCAST_DELETES:
        dead = F.broadcast(dead)
    return rows.select("*", *keys).join(dead, dead.columns, "left_anti")


def _identity_keys(deletes: Sequence[DeleteFile]) -> list[SparkColumn]:
    """What rows and delete events are joined on: one long if the deleted identities fit.

    A hash join on one long is about four times as fast as one on the three columns. A row outside
    the range of deleted identities gets NULL, which equals nothing.
    """
    by_column = list(zip(*(delete.ranges for delete in deletes), strict=True))
    known = [
        (min(low for low, _ in ranges), max(high for _, high in ranges))
        for found in by_column
        if len(ranges := [pair for pair in found if pair is not None]) == len(found)
    ]
    if len(known) < len(_IDENTITY) or math.prod(hi - lo + 1 for lo, hi in known) >= _LONGS:
        return [F.col(name).alias(f"{_MARK}{name}") for name in IDENTITY_COLUMNS]
    packed, inside = F.lit(0).cast("long"), F.lit(True)
    for name, (low, high) in zip(IDENTITY_COLUMNS, known, strict=True):
        value = F.col(name).cast("long")
        packed = packed * F.lit(high - low + 1) + (value - F.lit(low))
        inside = inside & value.between(low, high)
    return [F.when(inside, packed).alias(f"{_MARK}identity")]


@dataclass(frozen=True, slots=True)
class _Deletes:
    """Some delete files; a plain value."""

    files: tuple[AcidFile, ...]
    write_ids: ValidWriteIdList


def _read_deletes(piece: _Deletes) -> Iterator[pa.RecordBatch]:
    for file in piece.files:
        for events in visible_events(read_identity(file), piece.write_ids):
            yield events.select(IDENTITY_COLUMNS)
