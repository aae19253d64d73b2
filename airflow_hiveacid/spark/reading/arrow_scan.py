"""Live rows through our own reader, which is right about every file; runs on executors.

Takes pieces of work: plain values, made by `target` on the driver. Gives Arrow batches in Spark's
terms, `orc_frame.live_rows`: microseconds, and char without its padding, as Hive compares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.spark.events import IDENTITY
from airflow_hiveacid.spark.pieces import into_tasks, work_of, work_of_file
from airflow_hiveacid.spark.reading.file_numbers import NUMBER
from airflow_hiveacid.storage.acid.read.live import live_in
from airflow_hiveacid.storage.acid.read.reader import read_events, read_identity
from airflow_hiveacid.storage.acid.read.stripe_bounds import bounds_of, meeting
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamp_forms import with_microseconds
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile

_SPLIT_BYTES: Final = 64 << 20
# Each batch costs about a millisecond whatever its size; wide rows come in smaller ones.
BATCH_ROWS: Final = 64 * 1024
_INSTANT: Final = pa.timestamp("ns", "UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFile:
    """One data file of a target, with the delete files that may hold events for its rows.

    `partition` is the place of its partition among the target's; `number` says that, and which file
    it is (`file_numbers`).
    """

    number: int
    partition: int
    data: AcidFile
    deletes: tuple[AcidFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPiece:
    """Some data files of one bucket, or some stripes of one, with its delete events; plain values.

    `numbers` are those of the files, `place` what the column of places is called.
    """

    numbers: tuple[int, ...]
    data: tuple[AcidFile, ...]
    stripes: tuple[int, ...] | None
    deletes: tuple[AcidFile, ...]
    write_ids: ValidWriteIdList
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    ranges: Mapping[str, KeyRange]
    place: str


def work_of_scan(piece: ScanPiece) -> int:
    """What a piece costs, in bytes that are read of it: only some columns are."""
    part = (1 + len({*piece.wanted, *piece.ranges})) / (1 + len(piece.columns))
    return round(work_of(piece) * min(1.0, part))


def read_together(
    files: Sequence[TargetFile], cores: int
) -> Iterator[tuple[tuple[TargetFile, ...], tuple[int, ...] | None]]:
    """Which files, or stripes of one, become a piece: as many of a bucket as make a task.

    Whoever read a thousand deltas apart would read their delete files a thousand times.

    Args:
        files: bucket by bucket.
        cores: how many tasks run at a time.
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
    """The delete files of several data files, each once."""
    first = files[0].deletes
    if all(file.deletes is first for file in files):
        return first  # the very same as that of others, which is sent once
    return tuple({delete.path: delete for file in files for delete in file.deletes}.values())


def splits(data: AcidFile) -> Iterator[tuple[int, ...] | None]:
    """The stripes of each task that reads a part of a large file; None is the whole file."""
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
    """Read the files of a piece on an executor: visible rows without a delete event, in range."""
    for events in live_events(piece):
        events_in_range = _in_range(events, piece.ranges)
        if events_in_range.num_rows:
            yield scanned(events_in_range, piece)


def live_events(piece: ScanPiece) -> Iterator[pa.RecordBatch]:
    """Their visible rows, less those with a visible delete event, with the number of their file."""
    numbers = {file.path: n for file, n in zip(piece.data, piece.numbers, strict=True)}

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        for events in read_events(
            file,
            piece.columns,
            data_columns=list(dict.fromkeys((*piece.wanted, *piece.ranges))),
            stripes=piece.stripes,
            batch_rows=BATCH_ROWS,
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
        ):
            yield numbered(events, numbers[file.path])

    return live_in(piece.data, piece.deletes, piece.write_ids, read, _reading_deletes(piece))


def numbered(events: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Events with the number of their file."""
    column = pa.repeat(pa.scalar(number, pa.int64()), events.num_rows)
    return pa.RecordBatch.from_arrays(
        [*events.columns, column], names=[*events.schema.names, NUMBER]
    )


def _reading_deletes(piece: ScanPiece) -> Callable[[AcidFile], Iterator[pa.RecordBatch]]:
    """How a piece reads delete files: of a part of a file, only what may be for its rows."""
    if piece.stripes is None:
        return read_identity
    (data,) = piece.data
    bounds = bounds_of(data, data.tail())
    own = [bounds[stripe] for stripe in piece.stripes]

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        tail = file.tail()
        yield from read_identity(file, stripes=meeting(bounds_of(file, tail), own), tail=tail)

    return read


def _in_range(events: pa.RecordBatch, ranges: Mapping[str, KeyRange]) -> pa.RecordBatch:
    for name, wanted in ranges.items():
        if wanted.is_empty:
            return events.slice(0, 0)
        values = pc.struct_field(events.column("row"), name)
        is_in = values.is_valid()
        for end, is_inside in ((wanted.low, pc.greater_equal), (wanted.high, pc.less_equal)):
            if end is not None:
                is_in = pc.and_(is_in, is_inside(values, pa.scalar(end)))
        events = events.filter(is_in)
    return events


class Scanned(Protocol):
    """What rows of a piece become: which columns, and what the column of places is called."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All data columns of the table."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of those that are given."""

    @property
    def place(self) -> str:
        """What the column of places is called."""


def scanned(events: pa.RecordBatch, piece: Scanned) -> pa.RecordBatch:
    """Events as rows of Spark's: their place, then the wanted columns."""
    types = {c.name: parse_type(c.type) for c in piece.columns}
    row = events.column("row")
    # All at once: to take one field out costs as much as there are.
    fields = dict(zip((field.name for field in row.type), row.flatten(), strict=True))
    place = {name: events.column(name) for name in (NUMBER, *IDENTITY)}
    columns = {
        piece.place: pa.StructArray.from_arrays(list(place.values()), names=list(place)),
        **{n: for_spark(fields[n], types[n]) for n in piece.wanted},
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def for_spark(values: pa.Array, wanted: hive.HiveType) -> pa.Array:
    """Cut nanoseconds, for Spark holds microseconds; a local timestamp is an instant in UTC."""
    cut = _without_padding(with_microseconds(values), wanted)
    return cut.cast(pa.timestamp("us", "UTC")) if arrow_type(wanted) == _INSTANT else cut


def _without_padding(array: pa.Array, wanted: hive.HiveType) -> pa.Array:
    """The same values with every char, at any depth, without the blanks at its end."""
    if isinstance(wanted, hive.CharType):
        return pc.ascii_rtrim(array, " ")
    if not has_char(wanted):
        return array
    if array.offset:
        # Building lists anew asks for arrays that start at their buffers' beginning.
        array = pa.concat_arrays([array])
    mask = array.is_null() if array.null_count else None
    match wanted:
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


def has_char(hive_type: hive.HiveType) -> bool:
    """Whether there is a char in a type, at any depth."""
    match hive_type:
        case hive.CharType():
            return True
        case hive.ArrayType(element=element):
            return has_char(element)
        case hive.MapType(key=key, value=value):
            return has_char(key) or has_char(value)
        case hive.StructType(fields=fields):
            return any(has_char(t) for _, t in fields)
        case _:
            return False
