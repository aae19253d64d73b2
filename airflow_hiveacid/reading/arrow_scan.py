"""Scan of live rows and of row changes on executors with our own reader.

The pieces of work are plain values. The batches have Spark's types: timestamps are in microseconds,
and chars have no padding, as in Hive's comparisons. Changes also have a mark of inserted rows, and
the write ID of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.reading import NUMBER, KeyRange
from airflow_hiveacid.reading.pieces import into_tasks, work_of, work_of_file
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.read import AcidFile, KeyBounds, bounds_of, meeting
from airflow_hiveacid.storage.acid.read.changed_rows import (
    Changed,
    FeedManner,
    changed_in,
    deaths_of,
)
from airflow_hiveacid.storage.acid.read.reader import read_events, read_identity
from airflow_hiveacid.storage.acid.read.scan import live_in
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.values.column_types import arrow_type, types_in
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm, with_microseconds

_SPLIT_BYTES: Final = 64 << 20
# A batch of any size costs about a millisecond. Wide rows come in smaller batches.
BATCH_ROWS: Final = 64 * 1024
_INSTANT: Final = pa.timestamp("ns", "UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFile:
    """A data file of a target, with the delete files that may have events for its rows.

    `partition` is the position of the file's partition among the target's partitions. `number`
    combines that position with the file's own position (`file_number`).
    """

    number: int
    partition: int
    data: AcidFile
    deletes: tuple[AcidFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPiece:
    """A file of an insert-only or flat table for a task, with its number in column `position`."""

    number: int
    file: PlainFile
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidPiece:
    """Data files of a bucket, or stripes of a file, with their numbers and delete files."""

    numbers: tuple[int, ...]
    data: tuple[AcidFile, ...]
    stripes: tuple[int, ...] | None
    deletes: tuple[AcidFile, ...]
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    position: str

    @property
    def place(self) -> str:
        """The file that errors name; rows of several files come together."""
        first = self.data[0].path
        return first if len(self.data) == 1 else f"{first} or a later file of its bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPiece(AcidPiece):
    """A piece of a scan of live rows."""

    write_ids: ValidWriteIdList
    ranges: Mapping[str, KeyRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePiece(AcidPiece):
    """A piece of a scan of row changes.

    If `is_whole` is False, no row of the files was inserted in the range. `size_bytes` is the size
    of the stripes.
    """

    part: ChangeRange
    ends_with: WriteId | None
    is_net: bool
    is_whole: bool
    size_bytes: int | None = None


def work_of_scan(piece: ScanPiece) -> int:
    """Return a piece's cost in bytes, estimated from the columns that are read."""
    part = (1 + len({*piece.wanted, *piece.ranges})) / (1 + len(piece.columns))
    return round(work_of(piece) * min(1.0, part))


def read_together(
    files: Sequence[TargetFile], cores: int
) -> Iterator[tuple[tuple[TargetFile, ...], tuple[int, ...] | None]]:
    """Yield the pieces: a piece is the files of one bucket, or stripes of one large file.

    If each of a thousand deltas were read alone, their delete files would be read a thousand times.
    `files` come bucket by bucket; `cores` tasks run at a time.
    """
    parts = into_tasks(
        files,
        cores,
        lambda file: work_of_file(file.data),
        lambda file: (file.partition, file.data.bucket_id),
    )
    for part in parts:
        for stripes in splits(part[0].data) if len(part) == 1 else [None]:
            yield part, stripes


def deletes_of(files: Sequence[TargetFile]) -> tuple[AcidFile, ...]:
    """Return the delete files of several data files, without duplicates."""
    first = files[0].deletes
    if all(file.deletes is first for file in files):
        return first  # the list is sent only once if pieces share this object
    return tuple({delete.path: delete for file in files for delete in file.deletes}.values())


def splits(data: AcidFile) -> Iterator[tuple[int, ...] | None]:
    """Divide a file among tasks: yield the stripes for each task; None means the whole file."""
    if data.length <= _SPLIT_BYTES:
        yield None
        return
    part: list[int] = []
    size = 0
    for number, stripe in enumerate(data.tail().stripes):
        part.append(number)
        size += stripe.length
        if size >= _SPLIT_BYTES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def scan_piece(piece: ScanPiece) -> Iterator[pa.RecordBatch]:
    """Read a piece on an executor: visible rows in the ranges, without deleted rows."""
    for events in live_events(piece):
        events_in_range = _in_range(events, piece.ranges)
        if events_in_range.num_rows:
            yield scanned(events_in_range, piece)


def scan_plain(piece: PlainPiece) -> Iterator[pa.RecordBatch]:
    """Read a piece's file on an executor, with Spark's types."""
    types = {c.name: hive.parse_type(c.type) for c in piece.columns}
    for batch in read_rows(
        piece.file,
        piece.columns,
        data_columns=piece.wanted,
        batch_rows=BATCH_ROWS,
        timestamps=TimestampForm.PAIR,
    ):
        number = pa.repeat(pa.scalar(piece.number, pa.int64()), batch.num_rows)
        where = pa.StructArray.from_arrays([number], names=[NUMBER])
        values = [
            for_spark(batch.column(name), types[name], path=piece.file.path, column=name)
            for name in piece.wanted
        ]
        yield pa.RecordBatch.from_arrays([where, *values], names=[piece.position, *piece.wanted])


def live_events(piece: ScanPiece) -> Iterator[pa.RecordBatch]:
    """Yield the visible rows that have no visible delete event, with the number of their file."""
    numbers = {file.path: n for file, n in zip(piece.data, piece.numbers, strict=True)}
    names = list(dict.fromkeys((*piece.wanted, *piece.ranges)))

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        return _numbered(piece, names, numbers[file.path], file, piece.stripes)

    return live_in(piece.data, piece.deletes, piece.write_ids, read, _reading_deletes(piece))


def _numbered(
    piece: AcidPiece,
    names: Sequence[str],
    number: int,
    file: AcidFile,
    stripes: Sequence[int] | None,
) -> Iterator[pa.RecordBatch]:
    for events in read_events(
        file,
        piece.columns,
        data_columns=names,
        stripes=stripes,
        batch_rows=BATCH_ROWS,
        timestamps=TimestampForm.PAIR,
        matching=Matching.UNAMBIGUOUS,
    ):
        column = pa.repeat(pa.scalar(number, pa.int64()), events.num_rows)
        yield pa.RecordBatch.from_arrays(
            [*events.columns, column], names=[*events.schema.names, NUMBER]
        )


def _reading_deletes(piece: ScanPiece) -> Callable[[AcidFile], Iterator[pa.RecordBatch]]:
    """Return a reader of delete files; it skips stripes without events for the piece's rows."""
    own = _near(piece)
    if own is None:
        return read_identity

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        tail = file.tail()
        yield from read_identity(file, stripes=meeting(bounds_of(file, tail), own), tail=tail)

    return read


def _in_range(events: pa.RecordBatch, ranges: Mapping[str, KeyRange]) -> pa.RecordBatch:
    """Return the events in all the ranges; no range contains NULL."""
    for name, key_range in ranges.items():
        if key_range.is_empty:
            return events.slice(0, 0)
        values = pc.struct_field(events.column("row"), name)
        is_in = values.is_valid()
        for end, is_inside in ((key_range.low, pc.greater_equal), (key_range.high, pc.less_equal)):
            if end is not None:
                is_in = pc.and_(is_in, is_inside(values, pa.scalar(end)))
        events = events.filter(is_in)
    return events


def scanned(events: pa.RecordBatch, piece: AcidPiece) -> pa.RecordBatch:
    """Convert events to rows for Spark: file number and row ID, then the wanted columns."""
    types = {c.name: hive.parse_type(c.type) for c in piece.columns}
    row = events.column("row")
    # Extract all fields in one call, because it costs as much as a call for one field.
    fields = dict(zip((field.name for field in row.type), row.flatten(), strict=True))
    numbered = {name: events.column(name) for name in (NUMBER, *IDENTITY_COLUMNS)}
    columns = {
        piece.position: pa.StructArray.from_arrays(list(numbered.values()), names=list(numbered)),
        **{
            name: for_spark(fields[name], types[name], path=piece.place, column=name)
            for name in piece.wanted
        },
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def for_spark(values: pa.Array, wanted: hive.HiveType, *, path: str, column: str) -> pa.Array:
    """Truncate timestamps to Spark's microseconds; convert local timestamps to instants in UTC."""
    cut = _without_padding(with_microseconds(values, path=path, column=column), wanted)
    return cut.cast(pa.timestamp("us", "UTC")) if arrow_type(wanted) == _INSTANT else cut


def _without_padding(array: pa.Array, hive_type: hive.HiveType) -> pa.Array:
    """Return the values with trailing blanks stripped from each char, at any depth."""
    if isinstance(hive_type, hive.CharType):
        return pc.ascii_rtrim(array, " ")
    if not any(isinstance(part, hive.CharType) for part in types_in(hive_type)):
        return array
    if array.offset:
        # An array with an offset cannot be rebuilt from its children, so copy the array.
        array = pa.concat_arrays([array])
    mask = array.is_null() if array.null_count else None
    match hive_type:
        case hive.StructType(fields=fields):
            children = [_without_padding(array.field(i), t) for i, (_, t) in enumerate(fields)]
            names = [field.name for field in array.type]
            return pa.StructArray.from_arrays(children, names=names, mask=mask)
        case hive.MapType(key=key, value=value):
            pairs = _without_padding(array.keys, key), _without_padding(array.items, value)
            return pa.MapArray.from_arrays(array.offsets, *pairs, mask=mask)
        case hive.ArrayType(element=element):
            values = _without_padding(array.values, element)
            return pa.ListArray.from_arrays(array.offsets, values, mask=mask)
        case _:
            return array


IS_BORN: Final = "__is_born"
"""The column that is true for an inserted row, false for a removed row."""

VERSION: Final = "__version"
"""The column with the write ID that inserted or removed the row."""


def work_of_changes(piece: ChangePiece) -> int:
    """Return a piece's cost in bytes, estimated from the stripes and columns that are read."""
    part = (1 + len(piece.wanted)) / (1 + len(piece.columns))
    return round((work_of(piece) if piece.size_bytes is None else piece.size_bytes) * part)


def scan_changes(piece: ChangePiece) -> Iterator[pa.RecordBatch]:
    """Read the changes of a piece on an executor."""
    deaths = deaths_of(piece.deletes, piece.part, _near(piece))
    manner = FeedManner(part=piece.part, ends_with=piece.ends_with, is_net=piece.is_net)
    for number, file in zip(piece.numbers, piece.data, strict=True):
        read = partial(_numbered, piece, piece.wanted, number)
        for batch in changed_in(file, piece.stripes, deaths, manner, read, is_whole=piece.is_whole):
            yield _batch_of(batch, piece)


def _near(piece: AcidPiece) -> list[KeyBounds] | None:
    """Return the bounds of the row IDs in a piece's stripes; None for whole files."""
    if piece.stripes is None:
        return None
    (file,) = piece.data
    bounds = bounds_of(file, file.tail())
    return [bounds[stripe] for stripe in piece.stripes]


def _batch_of(changes: Changed, piece: ChangePiece) -> pa.RecordBatch:
    batch = scanned(changes.rows, piece)
    is_born = pa.repeat(pa.scalar(changes.is_born), batch.num_rows)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, is_born, changes.write_ids],
        names=[*batch.schema.names, IS_BORN, VERSION],
    )
