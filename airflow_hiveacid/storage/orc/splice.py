"""Show Arrow a file in which some parts are replaced, such as the tail or stripe footers.

The module also builds pieces that replace the time zone in stripe footers, or the seconds of
timestamps with 0.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from google.protobuf.message import DecodeError

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.orc.compression import (
    Compression,
    compress,
    decompress,
    most_expanded_bytes,
)
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.stores.open_files import FileReader

# A file up to this size is read at once, because a Python callback per stream takes longer.
_WHOLE_BYTES: Final = 256 * 1024
_STREAM_DATA: Final = 1
# The largest number of values of one column in a stripe, as in Java, where it is the length of an
# array. This module inserts a zero for each value.
_MOST_VALUES: Final = 1 << 31
_UTC: Final = "UTC"
INDEXES: Final = frozenset({6, 7, 8})
"""The kinds of row indexes and Bloom filters (`Stream.kind`); Arrow does not read these."""
DIRECT: Final = 0
DIRECT_V2: Final = 2
# Runs of zeros: 130 longs in RLE version 1, 512 in version 2 (a run with fixed delta 0).
_ZERO_RUNS: Final[Mapping[int, tuple[bytes, int]]] = {
    DIRECT: (b"\x7f\x00\x00", 130),
    DIRECT_V2: (b"\xc1\xff\x00\x00", 512),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A range of bytes of the original file."""

    offset: int
    length: int


Content = Stretch | bytes


_shown: Final[weakref.WeakSet[_SplicedFile]] = weakref.WeakSet()
_LONGEST_LAST_WAIT_S: Final = 1.0


@atexit.register
def let_go_of_files() -> None:
    """Wait until Arrow has released the spliced files; called when the interpreter exits.

    Arrow's threads release files some milliseconds late, and the process aborts if Python exits
    earlier (apache/arrow#45214). For a file that the program holds, stop waiting after a second.
    """
    gc.collect()
    end = time.monotonic() + _LONGEST_LAST_WAIT_S
    while _shown and time.monotonic() < end:
        time.sleep(0.001)


class OpenedFile(Protocol):
    """The part of an open file's interface that this module needs."""

    def read_at(self, size: int, offset: int, /) -> bytes:
        """Return `size` bytes from `offset` on; return fewer at the end of the file."""


def splice(
    source: OpenedFile, pieces: Sequence[Content], ahead: OpenedFile | None = None
) -> pa.NativeFile:
    """Return one file that consists of these pieces. The source must stay open.

    `ahead` is a second reader of it, for large pieces. Raises EOFError if the source is too short;
    with large pieces, at a later read.
    """
    lengths = [len(p) if isinstance(p, bytes) else p.length for p in pieces]
    if sum(lengths) <= _WHOLE_BYTES:
        whole = _in_memory(source, pieces)
        return pa.BufferReader(b"".join(_content(whole, piece) for piece in pieces))
    return pa.PythonFile(_SplicedFile(ahead or source, pieces, lengths), mode="r")


def _in_memory(source: OpenedFile, pieces: Sequence[Content]) -> OpenedFile:
    stretches = [piece for piece in pieces if isinstance(piece, Stretch)]
    end = max((stretch.offset + stretch.length for stretch in stretches), default=0)
    start = min((stretch.offset for stretch in stretches), default=0)
    if end - start > _WHOLE_BYTES:
        return source
    return _Part(start, source.read_at(end - start, start))


@dataclass(frozen=True, slots=True)
class _Part:
    offset: int
    content: bytes

    def read_at(self, size: int, offset: int, /) -> bytes:
        return self.content[offset - self.offset : offset - self.offset + size]


def _content(source: OpenedFile, piece: Content) -> bytes:
    if isinstance(piece, bytes):
        return piece
    content: bytes = source.read_at(piece.length, piece.offset)
    if len(content) != piece.length:
        raise EOFError(f"it ends before byte {piece.offset + piece.length}")
    return content


class _SplicedFile(FileReader):
    def __init__(
        self, source: OpenedFile, pieces: Sequence[Content], lengths: Sequence[int]
    ) -> None:
        self._ends = list(itertools.accumulate(lengths))
        super().__init__(self._ends[-1])
        _shown.add(self)
        self._source = source
        self._pieces = pieces

    def _take(self, wanted: int, left: int) -> bytes:  # noqa: ARG002 - it reads nothing ahead
        return b"".join(self._parts(self._at + wanted))

    def _parts(self, stop: int) -> Iterator[bytes]:
        position = self._at
        index = bisect_right(self._ends, position)
        while position < stop:
            begin = self._ends[index - 1] if index else 0
            end = min(stop, self._ends[index])
            yield _content(self._source, _cut(self._pieces[index], position - begin, end - begin))
            position, index = end, index + 1


def _cut(piece: Content, start: int, stop: int) -> Content:
    if isinstance(piece, bytes):
        return piece[start:stop]
    return Stretch(offset=piece.offset + start, length=stop - start)


# ---- stripes -------------------------------------------------------------------------------------


def stripe_footer(source: OpenedFile, tail: OrcTail, stripe: pb.Stripe) -> pb.StripeFooter:
    """Read the footer of one stripe."""
    start = stripe.offset + stripe.index_length + stripe.data_length
    return parse_stripe_footer(tail, source.read_at(stripe.footer_length, start))


def parse_stripe_footer(tail: OrcTail, section: bytes) -> pb.StripeFooter:
    """Return the footer of a stripe from its bytes."""
    plain = decompress(
        section, tail.postscript.compression, tail.compression_block_bytes, path=tail.path
    )
    footer = pb.StripeFooter()
    try:
        footer.ParseFromString(plain)
    except DecodeError as error:
        raise CorruptFileError(path=tail.path, reason="a stripe footer cannot be parsed") from error
    return footer


def in_utc(
    source: OpenedFile,
    tail: OrcTail,
    zeroed: Collection[int],
    values: Callable[[int, int], int | None],
) -> tuple[list[Content], pb.Footer]:
    """Return pieces that state UTC as the writer's time zone, and replace some seconds with 0.

    Arrow refuses a stripe if the machine does not know its time zone, even without timestamps.
    Zeros replace the stream of seconds; in ORC, 0 seconds means 2015-01-01.

    `tail` has only the wanted stripes. `zeroed` are the timestamp columns whose seconds are
    replaced. `values` returns the maximum number of values of a stripe and column, or None if it is
    unknown; then the stored seconds limit it. The result is the new pieces without the tail, and
    the footer.
    """
    pieces: list[Content] = [MAGIC]
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    offset = len(MAGIC)
    for number, stripe in enumerate(footer.stripes):
        inside = stripe_footer(source, tail, stripe)
        inside.writer_time_zone = _UTC
        old_offset = stripe.offset
        for stream in inside.streams:
            old_length = stream.length
            if stream.kind == _STREAM_DATA and stream.column in zeroed:
                encoding = inside.columns[stream.column].kind
                count = values(number, stream.column)
                if count is None:
                    count = _most_values(tail, encoding, source.read_at(old_length, old_offset))
                zeros = _zeros(tail, encoding, count)
                stream.length = len(zeros)
                pieces.append(zeros)
            else:
                pieces.append(Stretch(offset=old_offset, length=old_length))
            old_offset += old_length
        kind, block_bytes = Compression(tail.postscript.compression), tail.compression_block_bytes
        end = compress(inside.SerializeToString(), kind, block_bytes, path=tail.path)
        pieces.append(end)
        stripe.offset = offset
        # A wrong `index_length` is harmless: Arrow finds streams by the stripe footer.
        stripe.index_length = 0
        stripe.data_length = sum(s.length for s in inside.streams)
        stripe.footer_length = len(end)
        offset += stripe.data_length + len(end)
    return [piece for piece in pieces if not isinstance(piece, Stretch) or piece.length], footer


def _most_values(tail: OrcTail, encoding: int, stored: bytes) -> int:
    """Return how many values a stream of integers can have: no run is shorter than one of zeros."""
    kind, block_bytes = tail.postscript.compression, tail.compression_block_bytes
    run, size = _ZERO_RUNS.get(encoding, _ZERO_RUNS[DIRECT_V2])
    most_bytes = most_expanded_bytes(stored, kind, block_bytes, path=tail.path)
    return min(-(-most_bytes // len(run)) * size, _MOST_VALUES)


def _zeros(tail: OrcTail, encoding: int, count: int) -> bytes:
    if encoding not in _ZERO_RUNS:
        raise CorruptFileError(
            path=tail.path,
            reason=f"timestamps have the invalid encoding {encoding}",
        )
    if count > _MOST_VALUES:
        raise CorruptFileError(
            path=tail.path, reason=f"one of its stripes states {count} values for a column"
        )
    run, size = _ZERO_RUNS[encoding]
    plain = run * -(-count // size)
    if tail.postscript.compression == Compression.NONE:
        return plain
    # The chunks are stored uncompressed.
    step = tail.compression_block_bytes
    chunks = [plain[start : start + step] for start in range(0, len(plain), step)]
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)
