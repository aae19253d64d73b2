"""Show Arrow an ORC file with a new footer, and fetch only the streams that Arrow will decode.

Arrow's batch reader streams in bounded memory, but can skip only whole top-level columns, and no
stripes. So in the new footer, the struct `row` is empty, its fields are columns directly after it,
called `c<column ID>`, and all IDs and streams stay the same.

The view can also show only the whole seconds or only the nanoseconds of timestamps, because Arrow
refuses those outside 1677 to 2262. ORC stores them in separate streams, so the type in the footer
decides whether Arrow reads the seconds as numbers; zeros in their place leave the nanoseconds. The
module `timestamps` joins both.

Arrow would read 128 KiB of one stream after the other, each with a round trip. A stripe's footer
shows the wanted columns' streams; if it is invalid, nothing is read ahead, and the decoder reports
it. `splice` reads a `ReadAhead` like a file.
"""

from __future__ import annotations

import enum
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.types import MAX_PRECISION
from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType, StripeInfo, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import (
    INDEXES,
    Content,
    Stretch,
    in_utc,
    parse_stripe_footer,
    splice,
    stripe_footer,
)
from airflow_hiveacid.storage.orc.statistics import length_sum
from airflow_hiveacid.storage.orc.tail import serialize_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors

HELD_BYTES: Final = 32 << 20
"""The approximate limit of the bytes held from one stripe; a batch may take as many bytes."""

LARGEST_READ_BYTES: Final = 8 << 20

# Reading a gap of this size takes as long as another round trip.
_GAP_BYTES: Final = 128 << 10
_LEAST_READ_BYTES: Final = 128 << 10
_SMALL_STRIPE_BYTES: Final = 256 << 10


class ReadAhead:
    """An open file that is read in windows. Mutable: it holds the bytes read from one stripe."""

    def __init__(self, source: pa.NativeFile, tail: OrcTail, columns: Iterable[int]) -> None:
        self._source = source
        self._tail = tail
        self._columns = _with_relatives(tail.types, columns)
        self._offsets = [stripe.offset for stripe in tail.stripes]
        self._stripe: StripeInfo | None = None
        self._windows: list[_Window] = []

    def read_at(self, size: int, offset: int) -> bytes:
        """Return the same bytes as the file's own `read_at`."""
        parts = list(self._parts(offset, offset + size))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _parts(self, offset: int, stop: int) -> Iterator[bytes]:
        while offset < stop:
            self._enter(offset)
            number = bisect_right(self._windows, offset, key=lambda window: window.start)
            window = self._windows[number - 1] if number else None
            if window is not None and offset < window.stop:
                part = window.read(self._source, offset, stop)
            else:  # outside of all windows, read only what is asked for
                later = self._windows[number].start if number < len(self._windows) else stop
                part = self._source.read_at(min(stop, later) - offset, offset)
            if not part:
                return
            yield part
            offset += len(part)

    def _enter(self, offset: int) -> None:
        """Plan the reads of the stripe that contains the byte `offset`."""
        current = self._stripe
        if current is not None and current.offset <= offset < current.offset + current.length:
            return
        number = bisect_right(self._offsets, offset) - 1
        stripe = self._tail.stripes[number] if number >= 0 else None
        if stripe is None or offset >= stripe.offset + stripe.length:
            return
        # Drop the old windows first: they hold bytes, and `_plan` may fail.
        self._stripe, self._windows = stripe, []
        self._windows = self._plan(stripe)

    def _plan(self, stripe: StripeInfo) -> list[_Window]:
        end = stripe.offset + stripe.length
        if stripe.length <= _SMALL_STRIPE_BYTES:
            return [_Window(stripe.offset, end, stripe.length)]
        start = end - stripe.footer_length
        footer = _Window(start, end, stripe.footer_length)
        try:
            inside = parse_stripe_footer(self._tail, footer.read(self._source, start, end))
        except (errors.CorruptFileError, errors.UnsupportedFileError):
            return []
        streams: list[tuple[int, int]] = []
        offset = stripe.offset
        for stream in inside.streams:
            stop = min(offset + stream.length, start)
            if stream.kind not in INDEXES and stream.column in self._columns and offset < stop:
                streams.append((offset, stop))
            offset = stop
        return [*_windows(streams), footer]


@dataclass(slots=True)
class _Window:
    """A mutable range of bytes that is read from start to end, `step` bytes at a time."""

    start: int
    stop: int
    step: int
    _offset: int = 0
    _buffer: bytes = b""

    def read(self, source: pa.NativeFile, offset: int, stop: int) -> bytes:
        """Return bytes from `offset` to at most `stop`; return no bytes at the end of the file."""
        if not self._offset <= offset < self._offset + len(self._buffer):
            self._buffer = source.read_at(min(self.step, self.stop - offset), offset)
            self._offset = offset
        return self._buffer[offset - self._offset : stop - self._offset]


def _windows(streams: Sequence[tuple[int, int]]) -> Iterator[_Window]:
    """Yield the windows for reading streams; the streams must be in file order."""
    total = sum(stop - start for start, stop in streams)
    if total <= HELD_BYTES:
        for start, stop in _joined(streams):
            for offset in range(start, stop, LARGEST_READ_BYTES):
                yield _Window(offset, min(offset + LARGEST_READ_BYTES, stop), LARGEST_READ_BYTES)
        return
    # Streams are decoded in parallel, so each stream has a window that moves forward.
    step = max(_LEAST_READ_BYTES, min(LARGEST_READ_BYTES, HELD_BYTES // len(streams)))
    for start, stop in _joined(streams, step):
        yield _Window(start, stop, step)


def _joined(
    streams: Sequence[tuple[int, int]], most: int | None = None
) -> Iterator[tuple[int, int]]:
    """Join streams across small gaps, into ranges of at most `most` bytes; None means no limit."""
    if not streams:
        return
    start, reached = streams[0]
    for begin, stop in streams[1:]:
        if begin - reached <= _GAP_BYTES and (most is None or stop - start <= most):
            reached = stop
            continue
        yield start, reached
        start, reached = begin, stop
    yield start, reached


def _with_relatives(types: Sequence[OrcType], columns: Iterable[int]) -> frozenset[int]:
    """Return the columns with their children and parents; a parent's streams record its NULLs."""
    # A child has a higher ID than its parent, so one pass in each direction reaches every level.
    chosen = set(columns)
    for column_id, type_ in enumerate(types):
        if column_id in chosen:
            chosen.update(type_.children)
    for column_id in reversed(range(len(types))):
        if chosen.intersection(types[column_id].children):
            chosen.add(column_id)
    return frozenset(chosen)


DEFAULT_BATCH_ROWS: Final = 16 * 1024
# ORC looks for time zone rules in this directory, even for UTC.
_TIME_ZONES: Final = "/usr/share/zoneinfo"
_TAIL_GUESS_BYTES: Final = 16 * 1024
_PRESENT: Final = 0
_REPEATED: Final = frozenset({TypeKind.LIST, TypeKind.MAP})
TIMESTAMP_KINDS: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})


class ShowTimestamps(enum.Enum):
    """The parts of a timestamp column to show: all, only seconds as a long, or only nanoseconds.

    Seconds count from 2015-01-01. Nanoseconds are shown as a timestamp in the first second of
    2015-01-01.
    """

    WHOLE = "whole"
    SECONDS = "seconds"
    NANOS = "nanos"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """The part of a file to show to Arrow.

    `columns` are column IDs; each becomes a column `c<ID>`, in this order. `flatten` is the ID of a
    struct below the root, if any, whose fields become top-level columns. `stripes` are 0-based;
    None shows all. If `in_utc`, the stripes state that they were written in UTC, whatever their
    footers say (`writer_time_zones`).
    """

    columns: tuple[int, ...]
    flatten: int | None = None
    stripes: tuple[int, ...] | None = None
    timestamps: ShowTimestamps = ShowTimestamps.WHOLE
    in_utc: bool = False


def read_view(
    fs: pafs.FileSystem, tail: OrcTail, view: ColumnView, batch_rows: int = DEFAULT_BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Read a view's rows in file order, in batches of at most `batch_rows` rows.

    Raises UnsupportedFileError if a map has a NULL key. Raises ConfigurationError if decoding needs
    a time zone database, but it is missing.
    """
    shown = _shown(tail, view)
    if not shown.footer.rows:
        return
    names = [f"c{column_id}" for column_id in view.columns]
    with file_errors("read", tail.path), _opened(fs, tail) as source:
        _require_map_keys(source, tail, view)
        pieces, shown = _pieces(source, tail, shown, view)
        try:
            ahead = ReadAhead(source, tail, view.columns)
            fragment = pads.OrcFileFormat().make_fragment(splice(source, pieces, ahead))
            # One thread per file, because the caller decides how many files to read at a time.
            scanner = fragment.scanner(
                columns=names, batch_size=batch_rows, batch_readahead=1, use_threads=False
            )
            yield from scanner.to_batches()
        except (OSError, EOFError, ValueError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # an error of the file system; Arrow's own errors have no number
            reason = str(error).partition("\n")[0]
            if not (Path(os.environ.get("TZDIR", _TIME_ZONES)) / "UTC").exists():
                raise errors.ConfigurationError(
                    f"{tail.path} cannot be read without a time zone database: install tzdata on"
                    f" this machine or set TZDIR ({reason})"
                ) from error
            raise errors.CorruptFileError(
                path=tail.path, reason=f"its rows cannot be decoded ({reason})"
            ) from error


def shown_scale(scale: int) -> int:
    """Return the scale with which decimals without precision are shown.

    Arrow would cut such values after six digits. Java rounds them to the scale that counts for the
    type, so one more digit is needed.
    """
    return min(scale + 1, MAX_PRECISION)


def writer_time_zones(
    fs: pafs.FileSystem, tail: OrcTail, stripes: Iterable[int]
) -> tuple[str, ...]:
    """Return the writer time zones of these stripes; "" for a stripe without one."""
    with file_errors("read", tail.path), _opened(fs, tail) as source:
        footers = (stripe_footer(source, tail, tail.footer.stripes[number]) for number in stripes)
        return tuple(footer.writer_time_zone for footer in footers)


def stream_bytes(
    fs: pafs.FileSystem, tail: OrcTail, column_ids: Collection[int], stripes: Iterable[int]
) -> int:
    """Return the stored bytes of these columns' values in these stripes, without indexes."""
    with file_errors("read", tail.path), _opened(fs, tail) as source:
        return sum(
            stream.length
            for number in stripes
            for stream in stripe_footer(source, tail, tail.footer.stripes[number]).streams
            if stream.column in column_ids and stream.kind not in INDEXES
        )


def _opened(fs: pafs.FileSystem, tail: OrcTail) -> pa.NativeFile:
    if tail.content is not None:
        return pa.BufferReader(tail.content)
    return fs.open_input_file(tail.path)


def _require_map_keys(source: pa.NativeFile, tail: OrcTail, view: ColumnView) -> None:
    # A NULL key makes Arrow end the process. Writers leave out the stream that marks NULLs if a
    # column has none in a stripe. Statistics might be wrong.
    keys = {
        tail.types[column_id].children[0]
        for column_id in tail.below(c for c in view.columns if c != view.flatten)
        if tail.types[column_id].kind == TypeKind.MAP
    }
    if not keys:
        return
    stripes = range(len(tail.stripes)) if view.stripes is None else view.stripes
    for number in stripes:
        footer = stripe_footer(source, tail, tail.footer.stripes[number])
        if any(s.kind == _PRESENT and s.column in keys and s.length for s in footer.streams):
            raise errors.UnsupportedFileError(
                path=tail.path,
                reason="it has maps with a NULL key, which this reader cannot represent",
            )


def _shown(tail: OrcTail, view: ColumnView) -> OrcTail:
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    # Statistics and metadata may be large, and Arrow reads rows without them.
    del footer.statistics[:]
    del footer.metadata[:]
    if view.stripes is not None:
        _keep_stripes(footer, view.stripes)
    if view.flatten is not None:
        _lift(footer.types, view.flatten)
    root = footer.types[0]
    del root.field_names[:]
    root.field_names.extend(f"c{column_id}" for column_id in root.children)
    for type_, stored in zip(footer.types, tail.types, strict=True):
        if view.timestamps is ShowTimestamps.SECONDS and type_.kind in TIMESTAMP_KINDS:
            type_.kind = TypeKind.LONG
        elif stored.lacks_precision:
            type_.precision, type_.scale = stored.precision, shown_scale(stored.scale)
    return replace(tail, footer=footer, metadata=pb.Metadata())


def _keep_stripes(footer: pb.Footer, stripes: Collection[int]) -> None:
    copies = [pb.Stripe.FromString(footer.stripes[i].SerializeToString()) for i in sorted(stripes)]
    del footer.stripes[:]
    footer.stripes.extend(copies)
    footer.rows = sum(stripe.rows for stripe in copies)


def _lift(types: Any, struct_id: int) -> None:  # noqa: ANN401 - protobuf's container of types
    """Move a struct's fields to the root, right after the struct, so column IDs stay in order."""
    root, struct = types[0], types[struct_id]
    children = list(root.children)
    position = children.index(struct_id) + 1
    children[position:position] = struct.children
    del root.children[:]
    root.children.extend(children)
    del struct.children[:]
    del struct.field_names[:]


def _pieces(
    source: pa.NativeFile, tail: OrcTail, shown: OrcTail, view: ColumnView
) -> tuple[list[Content], OrcTail]:
    """Return the pieces of the file that Arrow reads, and the tail that is the last of them."""
    pieces: list[Content]
    hides_seconds = view.timestamps is ShowTimestamps.NANOS
    if hides_seconds or view.in_utc:
        timestamps = {i for i, t in enumerate(tail.types) if t.kind in TIMESTAMP_KINDS}
        repeated = set(tail.below(i for i, t in enumerate(tail.types) if t.kind in _REPEATED))
        chosen = range(len(tail.stripes)) if view.stripes is None else sorted(view.stripes)

        def values(number: int, column_id: int) -> int | None:
            stripe, rows = chosen[number], tail.stripes[chosen[number]].rows
            if column_id not in repeated:
                return rows
            whole, statistics = tail.statistics(0, stripe), tail.statistics(column_id, stripe)
            # Hive 3.1's minor compaction writes zeros.
            if whole is None or whole.values != rows or statistics is None:
                return None
            return int(statistics.values)

        zeroed = timestamps if hides_seconds else frozenset[int]()
        pieces, footer = in_utc(source, shown, zeroed, values)
        shown = replace(shown, footer=footer)
    else:
        end = max(stripe.offset + stripe.length for stripe in shown.stripes)
        pieces = [Stretch(offset=0, length=end)]
    end_bytes = serialize_tail(shown)
    # ORC first reads this many bytes at the end of the file; the gap keeps stripes out of them.
    gap = bytes(max(0, _TAIL_GUESS_BYTES - len(end_bytes)))
    return [*pieces, gap, end_bytes], shown


# ---- the size of batches -------------------------------------------------------------------------
# Rows differ in size: 16,000 rows can be 100 KB or 10 GB. So the number of rows per batch follows
# from statistics of text and list lengths.

BATCH_BYTES: Final = 32 * 1024 * 1024
"""The target limit of a batch's size, as estimated from the statistics."""

_FEWEST_ROWS: Final = 16
# The size of the largest fixed-length value in Arrow, including its validity bit.
_VALUE_BYTES: Final = 17
# Without statistics, data is assumed to be this many times larger in memory than in the file.
_EXPANSION: Final = 8
_OF_ANY_LENGTH: Final = frozenset(
    {TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY}
)


def fitting_rows(tail: OrcTail, column_ids: Sequence[int], most: int) -> int:
    """Return the rows, at most `most`, for `BATCH_BYTES` in the file and in its heaviest stripe."""
    columns = list(tail.below(column_ids))
    heaviest = max(
        (number for number, stripe in enumerate(tail.stripes) if stripe.rows),
        key=lambda number: tail.stripes[number].data_length / tail.stripes[number].rows,
        default=None,
    )
    if heaviest is None:
        return most
    return min(
        most,
        _fitting(tail, columns, None, range(len(tail.stripes))),
        _fitting(tail, columns, heaviest, [heaviest]),
    )


def _fitting(
    tail: OrcTail, columns: Sequence[int], stripe: int | None, stripes: Sequence[int]
) -> int:
    """Return the rows per batch for `stripes`, by statistics of `stripe`, or the file's if None."""
    rows = sum(tail.stripes[number].rows for number in stripes)
    sizes = [_bytes_of(tail, column_id, stripe, rows) for column_id in columns]
    size = sum(column_bytes for column_bytes in sizes if column_bytes is not None)
    if None in sizes:
        size = max(size, _EXPANSION * sum(tail.stripes[number].data_length for number in stripes))
    return max(_FEWEST_ROWS, BATCH_BYTES * rows // max(size, 1))


def _bytes_of(tail: OrcTail, column_id: int, stripe: int | None, count: int) -> int | None:
    """Estimate a column's bytes in memory for `count` rows; None without right statistics."""
    # Ignore statistics with a wrong row count: Hive 3.1's minor compaction writes zeros.
    rows, statistics = tail.statistics(0, stripe), tail.statistics(column_id, stripe)
    if rows is None or rows.values != count or statistics is None:
        return None
    fixed = int(statistics.values) * _VALUE_BYTES
    if tail.types[column_id].kind not in _OF_ANY_LENGTH:
        return fixed
    lengths = length_sum(statistics)
    return None if lengths is None else lengths + fixed
