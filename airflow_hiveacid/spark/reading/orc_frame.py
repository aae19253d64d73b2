"""Live rows of the files that Spark's vectorised ORC reader reads correctly (`orc_fit`).

Spark reads plain ORC files with six root columns; an anti-join on the row ID removes deleted rows.
All files of a table are one frame, without partition columns, which Java's ORC would treat as root
columns; facts about a row's file are looked up by its number.

Java's ORC recognises an ACID file by its types, and wraps the schema once more if a root column is
not requested. So every root column is used in a condition that is always true, but that the
optimiser cannot remove; that of `row` uses a field that no file has.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F, types as T

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import FILE_BITS, NUMBER, KeyRange, ReadRequest, free_name
from airflow_hiveacid.reading.orc_fit import DeleteFile
from airflow_hiveacid.spark.engine.catalyst import cast_in_utc
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.spark.reading.file_relation import (
    NumberedFile,
    partition_of,
    rows_of_files,
    search_argument,
)
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.merge import visible_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.values.timestamps import day_of

# A broadcast relation of this many keys takes some 100 MB on the driver and on every executor.
_BROADCAST_DELETES: Final = 4_000_000
_LONGS: Final = 1 << 63
_IDENTITY: Final = tuple(
    T.StructField(name, T.IntegerType() if name == acid.BUCKET_PROPERTY else T.LongType())
    for name in acid.IDENTITY_COLUMNS
)
POSITION_FIELDS: Final = (T.StructField(NUMBER, T.LongType()), *_IDENTITY)
"""The fields of a row's position: the number of its file, and its row ID."""

_ROOT: Final = (
    T.StructField(acid.OPERATION, T.IntegerType()),
    *_IDENTITY,
    T.StructField(acid.CURRENT_WRITE_ID, T.LongType()),
)
_MARK: Final = "__"
"""The prefix of helper columns."""
_PROPERTY_BITS: Final = 16
"""The number of low bits of a bucket property; the higher bits hold the bucket (`bucket_codec`)."""
READ_OPTIONS: Final = {
    # Missing or damaged files are errors.
    "ignoreCorruptFiles": False,
    "ignoreMissingFiles": False,
    "orc.skip.corrupt.data": False,
    # ORC must not match columns by position. Otherwise, the first requested column would get the
    # values of the file's first column, both in the root and in `row`.
    "orc.force.positional.evolution": False,
    # Filters select only row groups: Spark would still see single rows that ORC removed.
    "orc.sarg.to.filter": False,
}
"""Options that a session may have set differently for its own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEvents:
    """A delete file; its number combines its partition and its position."""

    file: NumberedFile
    delete: DeleteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFiles:
    """One or more data files, and the delete files that may have events for their rows."""

    data: Sequence[NumberedFile]
    deletes: Sequence[DeleteEvents]


def live_rows(
    spark: SparkSession,
    request: ReadRequest,
    files: NativeFiles,
    write_ids: ValidWriteIdList,
    position: str,
) -> DataFrame:
    """Return the live rows of files that fit: the `POSITION_FIELDS`, then the data columns."""
    # Reading this column costs nothing, because no file contains it.
    absent = free_name("absent", [c.name for c in request.table_columns])
    fields = [
        T.StructField(c.name, as_read(spark_type(parse_type(c.type)))) for c in request.columns
    ]
    schema = T.StructType(
        [*_ROOT, T.StructField(acid.ROW, T.StructType([*fields, _absent(absent)]))]
    )
    options = {**READ_OPTIONS, **search_argument(spark, request.columns, request.ranges)}
    rows = rows_of_files(spark, files.data, schema, options)
    rows = rows.where(_never_false([*(f.name for f in _ROOT), f"{acid.ROW}.{absent}"]))
    for name, key_range in request.ranges.items():
        rows = rows.where(_in_range(F.col(f"{acid.ROW}.{quoted(name)}"), key_range))
    if files.deletes:
        rows = _without(spark, rows, files.deletes, write_ids, absent)
    where = F.struct(*[F.col(field.name) for field in POSITION_FIELDS]).alias(position)
    return rows.select(
        where,
        *[value_of(spark, c, F.col(f"{acid.ROW}.{quoted(c.name)}")) for c in request.columns],
    )


def _absent(name: str) -> T.StructField:
    return T.StructField(name, T.IntegerType())


def as_read(data_type: T.DataType) -> T.DataType:
    """Return the type to request from Spark's reader: for a wall-clock time, an instant in UTC."""
    match data_type:
        case T.TimestampNTZType():
            return T.TimestampType()
        case T.ArrayType():
            return T.ArrayType(as_read(data_type.elementType))
        case T.MapType():
            return T.MapType(as_read(data_type.keyType), as_read(data_type.valueType))
        case T.StructType():
            return T.StructType([T.StructField(f.name, as_read(f.dataType)) for f in data_type])
        case _:
            return data_type


def value_of(spark: SparkSession, column: Column, value: SparkColumn) -> SparkColumn:
    """Convert values of Spark's reader from the type `as_read(...)` to the column's type."""
    hive_type = parse_type(column.type)
    target_type = spark_type(hive_type)
    if isinstance(hive_type, CharType):
        value = F.rtrim(value)
    elif as_read(target_type) != target_type:
        value = cast_in_utc(spark, value, target_type)
    return value.alias(column.name)


def _never_false(names: Sequence[str]) -> SparkColumn:
    """Return a condition on columns that is always true, and that no ORC filter can express.

    In a filter, Java's ORC would look up root columns among the table's columns, and skip row
    groups by the statistics of the wrong column.
    """
    return reduce(and_, [F.isnull(F.col(name)) >= F.lit(False) for name in names])


def _in_range(value: SparkColumn, key_range: KeyRange) -> SparkColumn:
    """Return the condition that a value is in a range, not NULL, in a form that is not pushed."""
    if key_range.is_empty:
        return F.lit(False)
    inside = F.lit(True)
    for end, is_inside in (
        (key_range.low, value.__ge__),
        (key_range.high, value.__le__),
    ):
        if end is not None:
            inside = inside & is_inside(_literal(end))
    return F.coalesce(inside, F.lit(False))


def _literal(end: object) -> SparkColumn:
    """Return a bound as a literal; make dates from day numbers, because Java lacks days of 1582."""
    return F.date_from_unix_date(F.lit(day_of(end))) if isinstance(end, dt.date) else F.lit(end)


# ---- deleted rows --------------------------------------------------------------------------------


def _without(
    spark: SparkSession,
    rows: DataFrame,
    deletes: Sequence[DeleteEvents],
    write_ids: ValidWriteIdList,
    absent: str,
) -> DataFrame:
    keys = _identity_keys(deletes)
    native = [entry.file for entry in deletes if entry.delete.is_native]
    arrow_deletes = [entry for entry in deletes if not entry.delete.is_native]
    frames = []
    if native:
        empty_row = T.StructField(acid.ROW, T.StructType([_absent(absent)]))
        events = rows_of_files(spark, native, T.StructType([*_ROOT, empty_row]), READ_OPTIONS)
        names = [*(f.name for f in _ROOT), f"{acid.ROW}.{absent}"]
        frames.append(events.where(_never_false(names)))
    if arrow_deletes:
        pieces = [
            _Deletes(file=entry.delete.file, number=entry.file.number, write_ids=write_ids)
            for entry in arrow_deletes
        ]
        frames.append(run_tasks(spark, _read_deletes, pieces, T.StructType(list(POSITION_FIELDS))))
    dead = reduce(lambda a, b: a.union(b), [frame.select(*keys) for frame in frames])
    if sum(entry.delete.rows for entry in deletes) <= _BROADCAST_DELETES:
        dead = dead.hint("broadcast")
    return rows.select("*", *keys).join(dead, dead.columns, "left_anti")


def _identity_keys(deletes: Sequence[DeleteEvents]) -> list[SparkColumn]:
    """Return the keys that join rows with delete events: one integer if it can hold the row IDs.

    A hash join on one 64-bit integer is about four times as fast as a join on several columns. A
    row outside the range of deleted row IDs gets NULL. NULL equals no key.
    """
    parts = [
        (partition_of(F.col(NUMBER)).cast("long"), _partitions(deletes)),
        *zip(_identity_parts(), _identity_ranges(deletes), strict=True),
    ]
    ranges = [(part, bounds) for part, bounds in parts if bounds is not None]
    if len(ranges) < len(parts) or math.prod(hi - lo + 1 for _, (lo, hi) in ranges) >= _LONGS:
        names = (NUMBER, *acid.IDENTITY_COLUMNS)
        values = (parts[0][0], *(F.col(name) for name in acid.IDENTITY_COLUMNS))
        return [
            value.alias(f"{_MARK}{name}_key") for name, value in zip(names, values, strict=True)
        ]
    packed, inside = F.lit(0).cast("long"), F.lit(True)
    for value, (low, high) in ranges:
        if low == high:
            inside = inside & (value == F.lit(low))
            continue
        packed = packed * F.lit(high - low + 1) + (value - F.lit(low))
        inside = inside & value.between(low, high)
    return [F.when(inside, packed).alias(f"{_MARK}identity")]


def _identity_parts() -> tuple[SparkColumn, ...]:
    write_id, bucket, row_id = (F.col(name).cast("long") for name in acid.IDENTITY_COLUMNS)
    statement = bucket.bitwiseAND(F.lit((1 << _PROPERTY_BITS) - 1))
    return write_id, F.shiftright(bucket, _PROPERTY_BITS), statement, row_id


def _partitions(deletes: Sequence[DeleteEvents]) -> tuple[int, int]:
    numbers = [entry.file.number >> FILE_BITS for entry in deletes]
    return min(numbers), max(numbers)


def _identity_ranges(deletes: Sequence[DeleteEvents]) -> list[tuple[int, int] | None]:
    """Return the range of each part of the deleted row IDs; None if a file has no statistics."""
    write_ids, buckets, row_ids = (
        None if None in column_ranges else [pair for pair in column_ranges if pair is not None]
        for column_ranges in zip(*(entry.delete.ranges for entry in deletes), strict=True)
    )
    return [_hull(write_ids), *_halves(buckets), _hull(row_ids)]


def _hull(pairs: Sequence[tuple[int, int]] | None) -> tuple[int, int] | None:
    if pairs is None:
        return None
    return min(low for low, _ in pairs), max(high for _, high in pairs)


def _halves(
    pairs: Sequence[tuple[int, int]] | None,
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return the ranges of bucket properties' high and low bits; all low bits if high bits vary."""
    if pairs is None:
        return None, None
    size = 1 << _PROPERTY_BITS
    high_range = _hull([(low >> _PROPERTY_BITS, high >> _PROPERTY_BITS) for low, high in pairs])
    low_range = _hull(
        [
            (low % size, high % size)
            if low >> _PROPERTY_BITS == high >> _PROPERTY_BITS
            else (0, size - 1)
            for low, high in pairs
        ]
    )
    return high_range, low_range


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    file: AcidFile
    number: int
    write_ids: ValidWriteIdList


def _read_deletes(piece: _Deletes) -> Iterator[pa.RecordBatch]:
    for events in visible_events(read_identity(piece.file), piece.write_ids):
        number = pa.repeat(pa.scalar(piece.number, pa.int64()), events.num_rows)
        yield pa.RecordBatch.from_arrays(
            [number, *(events.column(name) for name in acid.IDENTITY_COLUMNS)],
            names=[NUMBER, *acid.IDENTITY_COLUMNS],
        )
