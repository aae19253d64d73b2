"""Copy stripes from one ORC file to another, stream by stream, without decoding values.

A caller may add and remove streams of a stripe's content, or renumber their columns. Then
`StripeWriter` copies the streams. Only a few MiB of one stream are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from google.protobuf.message import DecodeError

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc.compression import Compression, compress, decompress
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import INDEXES, Content, Stretch, stripe_footer
from airflow_hiveacid.storage.orc.statistics import restate_bounds

DATA: Final = 1
ROW_INDEX: Final = 6
# Which values are NULL, data, lengths, the texts of a dictionary, and nanoseconds or scales.
_VALUES: Final = frozenset({0, DATA, 2, 3, 5})
_WINDOW_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeStream:
    """One stream: its kind, its column, and either its bytes or its position in the source file."""

    kind: int
    column: int
    content: Content

    @property
    def length(self) -> int:
        """The stream's length in bytes."""
        content = self.content
        return len(content) if isinstance(content, bytes) else content.length

    @property
    def is_index(self) -> bool:
        """True if the stream is part of the stripe's index; the index comes before the data."""
        return self.kind in INDEXES


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeContent:
    """One stripe; `encodings` are in order of column ID, index streams are written first."""

    rows: int
    streams: tuple[StripeStream, ...]
    encodings: tuple[pb.ColumnEncoding, ...]
    writer_time_zone: str


def stripe_content(source: pa.NativeFile, tail: OrcTail, number: int) -> StripeContent:
    """Return the content of the stripe with this 0-based number."""
    stripe = tail.footer.stripes[number]
    footer = stripe_footer(source, tail, stripe)
    streams = []
    offset = stripe.offset
    for stream in footer.streams:
        if stream.kind not in INDEXES | _VALUES:
            raise UnsupportedFileError(
                path=tail.path, reason=f"it has streams of the kind {stream.kind}"
            )
        stretch = Stretch(offset=offset, length=stream.length)
        streams.append(StripeStream(kind=stream.kind, column=stream.column, content=stretch))
        offset += stream.length
    lengths = [sum(s.length for s in streams if s.is_index is index) for index in (True, False)]
    if lengths != [stripe.index_length, stripe.data_length]:
        raise CorruptFileError(
            path=tail.path,
            reason="the lengths of a stripe's streams do not add up to the lengths of its index and"
            " data",
        )
    if len(footer.columns) != len(tail.types):
        raise CorruptFileError(path=tail.path, reason="a stripe has other columns than the file")
    return StripeContent(
        rows=stripe.rows,
        streams=tuple(streams),
        encodings=tuple(footer.columns),
        writer_time_zone=footer.writer_time_zone,
    )


def with_row_index(
    source: pa.NativeFile,
    tail: OrcTail,
    stream: StripeStream,
    restate: Callable[[pb.ColumnStatistics], bool],
) -> StripeStream:
    """Apply `restate` to a row index's statistics; return `stream` itself if nothing changes."""
    content, path = stream.content, tail.path
    stored = content if isinstance(content, bytes) else _read(source, content, path)
    kind, block_bytes = tail.compression, tail.compression_block_bytes
    index = pb.RowIndex()
    try:
        index.ParseFromString(decompress(stored, kind, block_bytes, path=path))
    except DecodeError as error:
        raise CorruptFileError(path=path, reason="a row index cannot be parsed") from error
    # Use a list, because `any` on a generator would not call `restate` after the first change.
    changed = [restate(entry.statistics) for entry in index.entries]
    if not any(changed):
        return stream
    return replace(stream, content=compress(index.SerializeToString(), kind, block_bytes))


class StripeWriter:
    """A writer of consecutive stripes. Mutable: it counts the bytes written.

    `out` writes to the file. All source files must have the same compression. `position` is the
    number of bytes in the file; if it is 0, the magic bytes are written first.
    """

    def __init__(
        self, out: Callable[[bytes], object], compression: Compression, position: int = 0
    ) -> None:
        self._out = out
        self._compression = compression
        self.position = position
        if not position:
            self._emit(MAGIC)

    def add(self, source: pa.NativeFile, tail: OrcTail, content: StripeContent) -> pb.Stripe:
        """Write one stripe of `source`, with right bounds; return its entry for the footer."""
        streams = sorted(_with_right_bounds(source, tail, content), key=lambda s: not s.is_index)
        footer = pb.StripeFooter(columns=content.encodings)
        if content.writer_time_zone:
            footer.writer_time_zone = content.writer_time_zone
        for stream in streams:
            footer.streams.add(kind=stream.kind, column=stream.column, length=stream.length)
        end = compress(footer.SerializeToString(), self._compression, tail.compression_block_bytes)
        start = self.position
        for piece in _joined(stream.content for stream in streams):
            for data in _windows(source, piece, tail.path):
                self._emit(data)
        self._emit(end)
        return pb.Stripe(
            offset=start,
            index_length=sum(s.length for s in streams if s.is_index),
            data_length=sum(s.length for s in streams if not s.is_index),
            footer_length=len(end),
            rows=content.rows,
        )

    def finish(self, tail: bytes) -> int:
        """Write the tail; return the size of the file in bytes."""
        self._emit(tail)
        return self.position

    def _emit(self, data: bytes) -> None:
        self._out(data)
        self.position += len(data)


def _with_right_bounds(
    source: pa.NativeFile, tail: OrcTail, content: StripeContent
) -> Iterator[StripeStream]:
    """Yield the streams of a stripe; all row indexes are read at once, as they lie together."""
    ours = [s.content for s in content.streams if s.kind == ROW_INDEX]
    stretches = [stretch for stretch in ours if isinstance(stretch, Stretch)]
    start = min((stretch.offset for stretch in stretches), default=0)
    end = max((stretch.offset + stretch.length for stretch in stretches), default=0)
    stored = _read(source, Stretch(offset=start, length=end - start), tail.path)
    for stream in content.streams:
        if stream.kind != ROW_INDEX:
            yield stream
            continue
        row_index = stream.content
        if isinstance(row_index, Stretch):
            offset = row_index.offset - start
            row_index = stored[offset : offset + row_index.length]
        index_stream = replace(stream, content=row_index)
        yield with_row_index(source, tail, index_stream, restate_bounds)


def _joined(pieces: Iterable[Content]) -> Iterator[Content]:
    """Join adjacent streams into one stretch, so that fewer reads are needed."""
    previous: Content = b""
    for piece in pieces:
        if isinstance(previous, bytes) and isinstance(piece, bytes):
            previous += piece
        elif (
            isinstance(previous, Stretch)
            and isinstance(piece, Stretch)
            and previous.offset + previous.length == piece.offset
        ):
            previous = Stretch(offset=previous.offset, length=previous.length + piece.length)
        else:
            yield previous
            previous = piece
    yield previous


def _windows(source: pa.NativeFile, piece: Content, path: str) -> Iterator[bytes]:
    if isinstance(piece, bytes):
        yield piece
        return
    for start in range(0, piece.length, _WINDOW_BYTES):
        length = min(_WINDOW_BYTES, piece.length - start)
        yield _read(source, Stretch(offset=piece.offset + start, length=length), path)


def _read(source: pa.NativeFile, stretch: Stretch, path: str) -> bytes:
    content: bytes = source.read_at(stretch.length, stretch.offset)
    if len(content) != stretch.length:
        raise CorruptFileError(
            path=path, reason=f"it ends before byte {stretch.offset + stretch.length}"
        )
    return content
