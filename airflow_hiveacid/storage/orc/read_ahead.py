"""A reader that fetches, in large windows, only the streams that Arrow will decode.

Arrow would read 128 KiB of one stream after the other, each with a round trip. A stripe's footer
shows the wanted columns' streams; if it is invalid, nothing is read ahead, and the decoder reports
it. `splice` reads a `ReadAhead` like a file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType, StripeInfo
from airflow_hiveacid.storage.orc.splice import parse_stripe_footer

HELD_BYTES: Final = 32 << 20
"""The approximate limit of the bytes held from one stripe; a batch may take as many bytes."""

LARGEST_READ_BYTES: Final = 8 << 20

# Reading a gap of this size takes as long as another round trip.
_GAP_BYTES: Final = 128 << 10
_LEAST_READ_BYTES: Final = 128 << 10
_SMALL_STRIPE_BYTES: Final = 256 << 10
# The kinds of row indexes and Bloom filters; Arrow does not read these.
_INDEX_KINDS: Final = frozenset({6, 7, 8})


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
            else:
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
        except (CorruptFileError, UnsupportedFileError):
            return []
        streams: list[tuple[int, int]] = []
        offset = stripe.offset
        for stream in inside.streams:
            stop = min(offset + stream.length, start)
            if stream.kind not in _INDEX_KINDS and stream.column in self._columns and offset < stop:
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
    """Join streams into ranges of about `most` bytes if the gaps between the streams are small."""
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
    chosen = set(columns)
    for column_id, type_ in enumerate(types):
        if column_id in chosen:
            chosen.update(type_.children)
    for column_id in reversed(range(len(types))):
        if chosen.intersection(types[column_id].children):
            chosen.add(column_id)
    return frozenset(chosen)
