"""Stripes of one ORC file put into another, stream by stream, without decoding a value.

Takes an open file and its tail; gives each stripe as a list of streams that are still in the file.
Who has other plans for a stripe changes the list: puts streams of its own in, leaves some out,
gives columns other numbers. `StripeWriter` then writes what the list says. Memory holds a window of
one stream. Must not know what columns mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc.compression import Compression, compress, decompress
from airflow_hiveacid.storage.orc.footer import MAGIC
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import Piece, Stretch, stripe_footer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from airflow_hiveacid.storage.orc.footer import OrcTail

DATA: Final = 1
ROW_INDEX: Final = 6
_INDEXES: Final = frozenset({ROW_INDEX, 7, 8})  # the others are Bloom filters
_VALUES: Final = frozenset({0, DATA, 2, 3, 5})
_WINDOW_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeStream:
    """One stream: what it is of which column, and its bytes or where they are."""

    kind: int
    column: int
    content: Piece

    @property
    def length(self) -> int:
        """Its bytes."""
        content = self.content
        return len(content) if isinstance(content, bytes) else content.length

    @property
    def is_index(self) -> bool:
        """Whether it lies before the data of the stripe."""
        return self.kind in _INDEXES


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeContent:
    """One stripe. `encodings` are by column ID; streams of one part keep the order they have."""

    rows: int
    streams: tuple[StripeStream, ...]
    encodings: tuple[pb.ColumnEncoding, ...]
    writer_time_zone: str


def stripe_content(source: pa.NativeFile, tail: OrcTail, number: int) -> StripeContent:
    """What the stripe with this 0-based number consists of.

    Raises:
        CorruptFileError: its footer is damaged, or contradicts the tail.
        UnsupportedFileError: it holds streams of a kind that is not known.
    """
    stripe = tail.footer.stripes[number]
    footer = stripe_footer(source, tail, stripe)
    streams = []
    at = stripe.offset
    for stream in footer.streams:
        if stream.kind not in _INDEXES | _VALUES:
            raise UnsupportedFileError(
                path=tail.path, reason=f"it has streams of the kind {stream.kind}"
            )
        place = Stretch(offset=at, length=stream.length)
        streams.append(StripeStream(kind=stream.kind, column=stream.column, content=place))
        at += stream.length
    lengths = [sum(s.length for s in streams if s.is_index is index) for index in (True, False)]
    if lengths != [stripe.index_length, stripe.data_length]:
        raise CorruptFileError(path=tail.path, reason="the streams of a stripe do not fill it")
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
    """A row index whose statistics say the same in another way; the same one if that is needless.

    Raises:
        CorruptFileError: it is damaged.
    """
    content, path = stream.content, tail.path
    stored = content if isinstance(content, bytes) else _read(source, content, path)
    kind, block_bytes = tail.compression, tail.compression_block_bytes
    index = pb.RowIndex()
    try:
        index.ParseFromString(decompress(stored, kind, block_bytes, path=path))
    except DecodeError as error:
        raise CorruptFileError(path=path, reason="a row index cannot be parsed") from error
    # All of them, not just up to the first that changes.
    changed = [restate(entry.statistics) for entry in index.entries]
    if not any(changed):
        return stream
    return replace(stream, content=compress(index.SerializeToString(), kind, block_bytes))


class StripeWriter:
    """Writes stripes one behind the other. Mutable: it knows how far it has come.

    `out` takes bytes. All stripes have to come from files of one compression. A file begins with
    what it begins with, unless there are `position` bytes of it already.
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
        """Write one stripe whose streams are in this file; says where it is now.

        Raises:
            CorruptFileError: the source ends before its streams do.
        """
        streams = sorted(content.streams, key=lambda s: not s.is_index)
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
        """Write the tail; the size of the file in bytes."""
        self._emit(tail)
        return self.position

    def _emit(self, data: bytes) -> None:
        self._out(data)
        self.position += len(data)


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same bytes in fewer pieces: streams that lie one behind the other are one stretch."""
    before: Piece = b""
    for piece in pieces:
        if isinstance(before, bytes) and isinstance(piece, bytes):
            before += piece
        elif (
            isinstance(before, Stretch)
            and isinstance(piece, Stretch)
            and before.offset + before.length == piece.offset
        ):
            before = Stretch(offset=before.offset, length=before.length + piece.length)
        else:
            yield before
            before = piece
    yield before


def _windows(source: pa.NativeFile, piece: Piece, path: str) -> Iterator[bytes]:
    if isinstance(piece, bytes):
        yield piece
        return
    for start in range(0, piece.length, _WINDOW_BYTES):
        length = min(_WINDOW_BYTES, piece.length - start)
        yield _read(source, Stretch(offset=piece.offset + start, length=length), path)


def _read(source: pa.NativeFile, place: Stretch, path: str) -> bytes:
    found: bytes = source.read_at(place.length, place.offset)
    if len(found) != place.length:
        raise CorruptFileError(
            path=path, reason=f"it ends before byte {place.offset + place.length}"
        )
    return found
