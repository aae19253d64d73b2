"""Live rows through Spark's own vectorised ORC reader, where it is right (`orc_fit`).

Spark sees the files as what they are, with six root columns, and prunes columns as it does for any
ORC file; deleted rows go by an anti-join on their identity. All files of a table are one frame,
however many partitions they are in: a partition column beside the root columns, as Spark's own
would be, makes seven of the six for Java's ORC. What is to be known of a row's file is looked up by
its number (`file_numbers`).

Java's ORC takes a file for an ACID file by its types, and wraps the schema once more when one of
the root columns is not asked for. So each of them stays in a condition that always holds but that
the optimiser cannot see through; for `row` it is one on a field that no file has, which is never
read.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.catalyst import cast_in_utc
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.reading.file_numbers import FILE_BITS, NUMBER, partition_of
from airflow_hiveacid.spark.reading.file_relation import NumberedFile, rows_of_files
from airflow_hiveacid.spark.reading.search_argument import search_argument
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.types import spark_type
from airflow_hiveacid.storage.acid.merge import visible_events
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.row_schema import (
    BUCKET_PROPERTY,
    CURRENT_WRITE_ID,
    IDENTITY_COLUMNS,
    OPERATION,
    ROW,
)
from airflow_hiveacid.storage.values.calendars import day_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.spark.reading.orc_fit import Asked, DeleteFile
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile

# A broadcast relation of this many keys takes some 100 MB on the driver and on every executor.
_BROADCAST_DELETES: Final = 4_000_000
_LONGS: Final = 1 << 63
_IDENTITY: Final = tuple(
    StructField(name, IntegerType() if name == BUCKET_PROPERTY else LongType())
    for name in IDENTITY_COLUMNS
)
PLACE_FIELDS: Final = (StructField(NUMBER, LongType()), *_IDENTITY)
"""Where a row is: the number of its file, and its identity."""

_ROOT: Final = (
    StructField(OPERATION, IntegerType()),
    *_IDENTITY,
    StructField(CURRENT_WRITE_ID, LongType()),
)
_MARK: Final = "__"
"""Begins the names of helper columns."""
_PROPERTY_BITS: Final = 16
"""Below these stands the statement, above them the bucket (`format.bucket_codec`)."""
READ_OPTIONS: Final = {
    # Where files are missing or damaged there is an error.
    "ignoreCorruptFiles": False,
    "ignoreMissingFiles": False,
    "orc.skip.corrupt.data": False,
    # By position, the first of the asked columns would be the first of the file, at two levels.
    "orc.force.positional.evolution": False,
    # Filters choose row groups; rows that ORC leaves out itself are still there for Spark.
    "orc.sarg.to.filter": False,
}
"""What a session may have set otherwise, for files of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEvents:
    """A delete file with its place among others: its number names its partition."""

    file: NumberedFile
    delete: DeleteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFiles:
    """Data files, at least one, and the delete files whose events may be for rows of these."""

    data: Sequence[NumberedFile]
    deletes: Sequence[DeleteEvents]


def live_rows(
    spark: SparkSession, asked: Asked, files: NativeFiles, write_ids: ValidWriteIdList, place: str
) -> DataFrame:
    """A frame of the live rows of some data files.

    Args:
        spark: the session.
        asked: what is read of each row, and of which.
        files: which Spark's reader reads right.
        write_ids: the reader's list.
        place: what the column is called that says where a row is.

    Returns:
        The place (`PLACE_FIELDS`), then the data columns.
    """
    # One that no file has costs nothing to read.
    absent = free_name("absent", [c.name for c in asked.table_columns])
    fields = [StructField(c.name, as_read(spark_type(parse_type(c.type)))) for c in asked.columns]
    schema = StructType([*_ROOT, StructField(ROW, StructType([*fields, _absent(absent)]))])
    options = {**READ_OPTIONS, **search_argument(spark, asked.columns, asked.ranges)}
    rows = rows_of_files(spark, files.data, schema, options)
    rows = rows.where(_never_false([*(f.name for f in _ROOT), f"{ROW}.{absent}"]))
    for name, wanted in asked.ranges.items():
        rows = rows.where(_in_range(F.col(f"{ROW}.{quoted(name)}"), wanted))
    if files.deletes:
        rows = _without(spark, rows, files.deletes, write_ids, absent)
    where = F.struct(*[F.col(field.name) for field in PLACE_FIELDS]).alias(place)
    return rows.select(
        where, *[value_of(spark, c, F.col(f"{ROW}.{quoted(c.name)}")) for c in asked.columns]
    )


def _absent(name: str) -> StructField:
    return StructField(name, IntegerType())


def as_read(data_type: DataType) -> DataType:
    """What Spark's reader is asked for: as a moment in UTC, a wall-clock time is right."""
    match data_type:
        case TimestampNTZType():
            return TimestampType()
        case ArrayType():
            return ArrayType(as_read(data_type.elementType))
        case MapType():
            return MapType(as_read(data_type.keyType), as_read(data_type.valueType))
        case StructType():
            return StructType([StructField(f.name, as_read(f.dataType)) for f in data_type])
        case _:
            return data_type


def value_of(spark: SparkSession, column: Column, value: SparkColumn) -> SparkColumn:
    """A column of the table, from what Spark's reader gives when it is asked for `as_read`."""
    hive_type = parse_type(column.type)
    wanted = spark_type(hive_type)
    if isinstance(hive_type, CharType):
        value = F.rtrim(value)
    elif as_read(wanted) != wanted:
        value = cast_in_utc(spark, value, wanted)
    return value.alias(column.name)


def _never_false(names: Sequence[str]) -> SparkColumn:
    """A condition on columns that always holds, in a form that no ORC filter can express.

    Java's ORC would look the names of root columns up among the table's own, and pass over row
    groups by what it finds there.
    """
    return reduce(and_, [F.isnull(F.col(name)) >= F.lit(False) for name in names])


def _in_range(value: SparkColumn, wanted: KeyRange) -> SparkColumn:
    """Whether a value lies in a range; NULL in none.

    In a form that Spark makes no filter for files of: it would take the place of ours, and finds
    no column `row.x`.
    """
    if wanted.is_empty:
        return F.lit(False)
    inside = F.lit(True)
    for end, is_inside in (
        (wanted.low, value.__ge__),
        (wanted.high, value.__le__),
    ):
        if end is not None:
            inside = inside & is_inside(_literal(end))
    return F.coalesce(inside, F.lit(False))


def _literal(end: object) -> SparkColumn:
    """An end of a range. A date goes by its number: Java's has no day between the calendars."""
    return F.date_from_unix_date(F.lit(day_of(end))) if isinstance(end, dt.date) else F.lit(end)


# ---- deleted rows --------------------------------------------------------------------------------


def _without(
    spark: SparkSession,
    rows: DataFrame,
    deletes: Sequence[DeleteEvents],
    write_ids: ValidWriteIdList,
    absent: str,
) -> DataFrame:
    """Leave out the rows that a visible delete event is for."""
    keys = _identity_keys(deletes)
    native = [one.file for one in deletes if one.delete.is_native]
    others = [one for one in deletes if not one.delete.is_native]
    found = []
    if native:
        nothing = StructField(ROW, StructType([_absent(absent)]))
        events = rows_of_files(spark, native, StructType([*_ROOT, nothing]), READ_OPTIONS)
        names = [*(f.name for f in _ROOT), f"{ROW}.{absent}"]
        found.append(events.where(_never_false(names)))
    if others:
        pieces = [
            _Deletes(file=one.delete.file, number=one.file.number, write_ids=write_ids)
            for one in others
        ]
        found.append(run_tasks(spark, _read_deletes, pieces, StructType(list(PLACE_FIELDS))))
    dead = reduce(lambda a, b: a.union(b), [one.select(*keys) for one in found])
    if sum(one.delete.rows for one in deletes) <= _BROADCAST_DELETES:
        dead = dead.hint("broadcast")
    return rows.select("*", *keys).join(dead, dead.columns, "left_anti")


def _identity_keys(deletes: Sequence[DeleteEvents]) -> list[SparkColumn]:
    """What rows and delete events are joined on: one long if the deleted identities fit.

    A hash join on one long is about four times as fast as one on several columns. A row outside the
    range of deleted identities gets NULL, which equals nothing.
    """
    parts = [
        (partition_of(F.col(NUMBER)).cast("long"), _partitions(deletes)),
        *zip(_identity_parts(), _identity_ranges(deletes), strict=True),
    ]
    known = [(part, found) for part, found in parts if found is not None]
    if len(known) < len(parts) or math.prod(hi - lo + 1 for _, (lo, hi) in known) >= _LONGS:
        names = (NUMBER, *IDENTITY_COLUMNS)
        values = (parts[0][0], *(F.col(name) for name in IDENTITY_COLUMNS))
        return [
            value.alias(f"{_MARK}{name}_key") for name, value in zip(names, values, strict=True)
        ]
    packed, inside = F.lit(0).cast("long"), F.lit(True)
    for value, (low, high) in known:
        if low == high:
            inside = inside & (value == F.lit(low))
            continue
        packed = packed * F.lit(high - low + 1) + (value - F.lit(low))
        inside = inside & value.between(low, high)
    return [F.when(inside, packed).alias(f"{_MARK}identity")]


def _identity_parts() -> tuple[SparkColumn, ...]:
    """The identity in four longs: the bucket property in two, of which few bits differ."""
    write_id, bucket, row_id = (F.col(name).cast("long") for name in IDENTITY_COLUMNS)
    statement = bucket.bitwiseAND(F.lit((1 << _PROPERTY_BITS) - 1))
    return write_id, F.shiftright(bucket, _PROPERTY_BITS), statement, row_id


def _partitions(deletes: Sequence[DeleteEvents]) -> tuple[int, int]:
    found = [one.file.number >> FILE_BITS for one in deletes]
    return min(found), max(found)


def _identity_ranges(deletes: Sequence[DeleteEvents]) -> list[tuple[int, int] | None]:
    """Least and greatest value of each of the four parts; None where a file does not say."""
    write_ids, buckets, row_ids = (
        None if None in found else [pair for pair in found if pair is not None]
        for found in zip(*(one.delete.ranges for one in deletes), strict=True)
    )
    return [_hull(write_ids), *_halves(buckets), _hull(row_ids)]


def _hull(pairs: Sequence[tuple[int, int]] | None) -> tuple[int, int] | None:
    if pairs is None:
        return None
    return min(low for low, _ in pairs), max(high for _, high in pairs)


def _halves(
    pairs: Sequence[tuple[int, int]] | None,
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The ranges of what stands above and below in bucket properties."""
    if pairs is None:
        return None, None
    size = 1 << _PROPERTY_BITS
    above = _hull([(low >> _PROPERTY_BITS, high >> _PROPERTY_BITS) for low, high in pairs])
    below = _hull(
        [
            (low % size, high % size)
            if low >> _PROPERTY_BITS == high >> _PROPERTY_BITS
            else (0, size - 1)
            for low, high in pairs
        ]
    )
    return above, below


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """One delete file; a plain value."""

    file: AcidFile
    number: int
    write_ids: ValidWriteIdList


def _read_deletes(piece: _Deletes) -> Iterator[pa.RecordBatch]:
    for events in visible_events(read_identity(piece.file), piece.write_ids):
        number = pa.repeat(pa.scalar(piece.number, pa.int64()), events.num_rows)
        yield pa.RecordBatch.from_arrays(
            [number, *(events.column(name) for name in IDENTITY_COLUMNS)],
            names=[NUMBER, *IDENTITY_COLUMNS],
        )
