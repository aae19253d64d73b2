"""A file that is read in place but for some stretches: another tail, other stripe footers.

Takes an open file and a list of pieces, each a stretch of that file or bytes of our own; gives a
file that Arrow reads as if the pieces lay one behind the other. Also makes the one thing that
needs it besides a tail: stripes whose timestamps have lost their seconds. Must not know what
columns mean.
"""

from __future__ import annotations

import atexit
import gc
import io
import itertools
import time
import weakref
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
from google.protobuf.message import DecodeError

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.orc.compression import Compression, compress, decompress
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from airflow_hiveacid.storage.orc.footer import OrcTail

# A file this small is read in one go; a call back into Python for each stream would cost more.
_WHOLE_BYTES: Final = 256 * 1024
_STREAM_DATA: Final = 1
_HEADER: Final = b"ORC"
# Run-length encodings of zeros: 130 longs in version 1, 512 in version 2 (a run of fixed delta 0).
# Java counts them in an array's length; each zero that is put in their place is a bit of memory.
_MOST_VALUES: Final = 1 << 31
_DIRECT: Final = 0
_DIRECT_V2: Final = 2
_ZERO_RUNS: Final[Mapping[int, tuple[bytes, int]]] = {
    _DIRECT: (b"\x7f\x00\x00", 130),
    _DIRECT_V2: (b"\xc1\xff\x00\x00", 512),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes of the file that stay where they are."""

    offset: int
    length: int


Piece = Stretch | bytes


_shown: Final[weakref.WeakSet[_SplicedFile]] = weakref.WeakSet()
_LONGEST_LAST_WAIT_S: Final = 1.0


@atexit.register
def let_go_of_files() -> None:
    """Wait until Arrow has let go of what it was shown; called when the interpreter ends.

    Its threads do so some milliseconds after the last row was given. If Python is gone by then the
    process is aborted (apache/arrow#45214), with all its work done and an exit code of failure. A
    file that a program holds on to itself is waited for a second.
    """
    gc.collect()
    end = time.monotonic() + _LONGEST_LAST_WAIT_S
    while _shown and time.monotonic() < end:
        time.sleep(0.001)


class Source(Protocol):
    """What is needed of an open file."""

    def read_at(self, size: int, offset: int, /) -> bytes:
        """Bytes from an offset on; fewer where the file ends."""


def splice(source: Source, pieces: Sequence[Piece], ahead: Source | None = None) -> pa.NativeFile:
    """Show these pieces as one file. The source must stay open.

    Args:
        source: the file.
        pieces: what is shown of it.
        ahead: the same file in another guise, that a large one is read through.

    Raises:
        EOFError: the source is shorter than its pieces; where it is large, reading fails later.
    """
    lengths = [len(p) if isinstance(p, bytes) else p.length for p in pieces]
    if sum(lengths) <= _WHOLE_BYTES:
        whole = _in_memory(source, pieces)
        return pa.BufferReader(b"".join(_content(whole, piece) for piece in pieces))
    return pa.PythonFile(_SplicedFile(ahead or source, pieces, lengths), mode="r")


def _in_memory(source: Source, pieces: Sequence[Piece]) -> Source:
    """The part of a file that its stretches lie in, read at once if it is small."""
    stretches = [piece for piece in pieces if isinstance(piece, Stretch)]
    end = max((stretch.offset + stretch.length for stretch in stretches), default=0)
    start = min((stretch.offset for stretch in stretches), default=0)
    if end - start > _WHOLE_BYTES:
        return source
    return _Part(start, source.read_at(end - start, start))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file, that begins at an offset."""

    offset: int
    content: bytes

    def read_at(self, size: int, offset: int, /) -> bytes:
        return self.content[offset - self.offset : offset - self.offset + size]


def _content(source: Source, piece: Piece) -> bytes:
    if isinstance(piece, bytes):
        return piece
    content: bytes = source.read_at(piece.length, piece.offset)
    if len(content) != piece.length:
        raise EOFError(f"it ends before byte {piece.offset + piece.length}")
    return content


class _SplicedFile(io.RawIOBase):
    """The pieces as a file. Mutable: it has a position."""

    def __init__(self, source: Source, pieces: Sequence[Piece], lengths: Sequence[int]) -> None:
        super().__init__()
        _shown.add(self)
        self._source = source
        self._pieces = pieces
        self._ends = list(itertools.accumulate(lengths))
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._ends[-1]}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        stop = self._ends[-1] if size < 0 else min(self._at + size, self._ends[-1])
        content = b"".join(self._parts(stop))
        self._at += len(content)
        return content

    def _parts(self, stop: int) -> Iterator[bytes]:
        at = self._at
        index = bisect_right(self._ends, at)
        while at < stop:
            begin = self._ends[index - 1] if index else 0
            end = min(stop, self._ends[index])
            yield _content(self._source, _cut(self._pieces[index], at - begin, end - begin))
            at, index = end, index + 1


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    if isinstance(piece, bytes):
        return piece[start:stop]
    return Stretch(offset=piece.offset + start, length=stop - start)


# ---- stripes -------------------------------------------------------------------------------------


def stripe_footer(source: Source, tail: OrcTail, stripe: pb.Stripe) -> pb.StripeFooter:
    """Read the footer of one stripe.

    Raises:
        CorruptFileError: it is damaged.
    """
    start = stripe.offset + stripe.index_length + stripe.data_length
    return parse_stripe_footer(tail, source.read_at(stripe.footer_length, start))


def parse_stripe_footer(tail: OrcTail, section: bytes) -> pb.StripeFooter:
    """The footer of a stripe from its bytes.

    Raises:
        CorruptFileError: it is damaged.
        UnsupportedFileError: the compression of the file is not known.
    """
    plain = decompress(
        section, tail.postscript.compression, tail.compression_block_bytes, path=tail.path
    )
    footer = pb.StripeFooter()
    try:
        footer.ParseFromString(plain)
    except DecodeError as error:
        raise CorruptFileError(path=tail.path, reason="a stripe footer cannot be parsed") from error
    return footer


def without_seconds(
    source: Source,
    tail: OrcTail,
    timestamps: Collection[int],
    values: Callable[[int, int], int],
) -> tuple[list[Piece], pb.Footer]:
    """Stripes in which every second of some timestamp columns reads as 0 (of ORC's own epoch).

    Seconds and nanoseconds are streams apart; the stream of seconds is replaced by zeros.

    Args:
        source: the open file.
        tail: its tail, with the stripes that are wanted.
        timestamps: column IDs.
        values: from stripe number and column ID to a number of values that is not too small.

    Returns:
        The pieces of the file up to its tail, and the footer that goes with them.

    Raises:
        CorruptFileError: a stripe footer is damaged.
    """
    pieces: list[Piece] = [_HEADER]
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    offset = len(_HEADER)
    for number, stripe in enumerate(footer.stripes):
        inside = stripe_footer(source, tail, stripe)
        at = stripe.offset
        for stream in inside.streams:
            old_length = stream.length
            if stream.kind == _STREAM_DATA and stream.column in timestamps:
                encoding = inside.columns[stream.column].kind
                zeros = _zeros(tail, encoding, values(number, stream.column))
                stream.length = len(zeros)
                pieces.append(zeros)
            else:
                pieces.append(Stretch(offset=at, length=old_length))
            at += old_length
        kind, block_bytes = Compression(tail.postscript.compression), tail.compression_block_bytes
        end = compress(inside.SerializeToString(), kind, block_bytes, path=tail.path)
        pieces.append(end)
        stripe.offset = offset
        # Arrow reads streams by the stripe footer alone; where the index ends does not matter then.
        stripe.data_length = sum(s.length for s in inside.streams) - stripe.index_length
        stripe.footer_length = len(end)
        offset += stripe.index_length + stripe.data_length + len(end)
    return [piece for piece in pieces if not isinstance(piece, Stretch) or piece.length], footer


def _zeros(tail: OrcTail, encoding: int, count: int) -> bytes:
    if encoding not in _ZERO_RUNS:
        raise CorruptFileError(
            path=tail.path,
            reason=f"timestamps have the encoding {encoding}, which they cannot have",
        )
    if count > _MOST_VALUES:
        raise CorruptFileError(
            path=tail.path, reason=f"a stripe of it claims {count} values of one column"
        )
    run, size = _ZERO_RUNS[encoding]
    plain = run * -(-count // size)
    if tail.postscript.compression == Compression.NONE:
        return plain
    # Chunks that are stored as they are.
    step = tail.compression_block_bytes
    chunks = [plain[start : start + step] for start in range(0, len(plain), step)]
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)
