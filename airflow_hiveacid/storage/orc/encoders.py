"""Encoders that write batches as ORC stripes, and columns that are constant or evenly increasing.

An encoder writes finished stripes to a stream, and at last their tail. It ends a stripe only at the
end of its internal batch, so callers pass pieces of that size: if the sink receives bytes
meanwhile, the stripe has ended with the piece's last row.

Columns of runs need no encoder: they are runs with a fixed delta (RLE version 2).

Example:
    >>> layout = RunLayout(compression=Compression.ZLIB, block_bytes=65536, stride=10000)
    >>> column_of_runs(Series(first=7, step=1, rows=3), layout).statistics.integers.maximum
    9
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol, Self

import pyarrow as pa
from pyarrow import orc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.orc.compression import WRITABLE, Compression, compress
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import parse_tail
from airflow_hiveacid.storage.stores.open_files import OpenFile

PIECE_ROWS: Final = 4096
"""The number of rows that an encoder takes at once."""

DICTIONARY_THRESHOLD: Final = 0.8
"""A text column gets a dictionary if its share of distinct values is lower than this threshold
(`orc.dictionary.key.threshold`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """The layout of an ORC file.

    `compression` is `none`, `zlib`, `snappy`, `lz4` or `zstd`; Hive 3.1 cannot read `lz4` or
    `zstd`. `stripe_size_bytes` is the compressed size of a full stripe. `compression_block_bytes`
    is the largest uncompressed size of a chunk, a multiple of 64 KiB. `row_index_stride` is the
    number of rows per entry of the row index; Arrow's writer raises ValueError for 0.
    """

    compression: str = "zlib"
    stripe_size_bytes: int = 64 << 20
    compression_block_bytes: int = 64 << 10
    row_index_stride: int = 10_000

    def __post_init__(self) -> None:
        if self.compression not in _CODECS:
            raise ConfigurationError(
                f"ORC files cannot be written with compression {self.compression!r}; use one of"
                f" {', '.join(_CODECS)} (table property orc.compress)"
            )
        block = self.compression_block_bytes
        if block <= 0 or block % _MEMORY_BLOCK_BYTES or block > _LARGEST_BLOCK_BYTES:
            raise ConfigurationError(
                f"the compression block of an ORC file must be a multiple of 64 KiB below 8 MiB,"
                f" not {block} bytes (table property orc.compress.size)"
            )
        if self.stripe_size_bytes <= 0 or self.row_index_stride <= 0:
            raise ConfigurationError("stripe size and row index stride must be positive")

    @property
    def kind(self) -> Compression:
        """The compression as a value of `Compression`."""
        return _CODECS[self.compression]


_CODECS: Final = {kind.name.lower(): kind for kind in WRITABLE}
_MEMORY_BLOCK_BYTES: Final = 64 << 10
_LARGEST_BLOCK_BYTES: Final = (8 << 20) - (64 << 10)


class StripeSink(OpenFile):
    """The file in memory that an encoder writes to: one stripe and its tail."""

    READS = False

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []

    @property
    def has_stripe(self) -> bool:
        """True if a stripe has arrived."""
        return self._at > len(MAGIC)

    def write(self, data: bytes) -> int:
        """Accept all of `data`; return its length in bytes."""
        self._held.append(bytes(data))
        self._at += len(data)
        return len(data)

    def release(self, path: str) -> tuple[pa.NativeFile, OrcTail]:
        """Return the bytes that have arrived, as a file, and its tail."""
        data = b"".join(self._held)
        self._held.clear()
        return pa.BufferReader(data), parse_tail(path, data, len(data))

    def close(self) -> None:
        """Do nothing, because `release` needs the bytes."""


class Encoder(Protocol):
    """An encoder of batches that writes stripes to a sink."""

    @property
    def wanted_rows(self) -> int:
        """The number of rows that the next piece should have."""

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; return True if a stripe ended with the last row of the piece."""

    def finish(self) -> None:
        """Write the last stripe and the tail."""


class ArrowEncoder:
    """The encoder for nearly all batches; it passes Arrow columns directly to ORC's C++ writer."""

    def __init__(self, sink: StripeSink, schema: pa.Schema, options: WriterOptions) -> None:
        self._sink = sink
        self._writer = orc.ORCWriter(
            sink,
            batch_size=PIECE_ROWS,
            stripe_size=options.stripe_size_bytes,
            compression="uncompressed" if options.kind is Compression.NONE else options.compression,
            compression_block_size=options.compression_block_bytes,
            row_index_stride=options.row_index_stride,
            dictionary_key_size_threshold=DICTIONARY_THRESHOLD,
        )
        # Arrow's writer takes the types from the first table; without one, it writes nothing.
        self._writer.write(schema.empty_table())

    @property
    def wanted_rows(self) -> int:
        """The number of rows in one batch of ORC's C++ writer."""
        return PIECE_ROWS

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; return True if a stripe ended with the last row of the piece."""
        self._writer.write(
            pa.Table.from_arrays(list(map(_whole, piece.columns)), schema=piece.schema)
        )
        return self._sink.has_stripe

    def finish(self) -> None:
        """Write the last stripe and the tail."""
        self._writer.close()


def _whole(array: pa.Array) -> pa.Array:
    # Arrow's ORC writer copies a nested column's NULLs to its children (NormalizeArray), ignoring
    # the offset of a slice, so values would move to different rows. A struct without NULL is
    # written correctly even if its children are sliced.
    is_right = pa.types.is_struct(array.type) and not array.null_count
    if is_right or not pa.types.is_nested(array.type):
        return array
    return pa.concat_arrays([array, array.slice(0, 0)])


# The header of a run with a fixed delta: 2 bits kind, 5 bits width (0), 9 bits length - 1.
_FIXED_DELTA: Final = 0b11 << 14
_MOST_IN_A_RUN: Final = 512
_LONG: Final = range(-(1 << 63), 1 << 63)
_SIGN_BIT: Final = 63
_GROUP_BITS: Final = 7
_GROUP_MASK: Final = 0x7F
_CONTINUED: Final = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLayout:
    """The layout of a file's streams; `stride` is the number of rows per entry of the row index."""

    compression: Compression
    block_bytes: int
    stride: int

    @classmethod
    def of(cls, tail: OrcTail) -> Self:
        """Return the layout of the file with this tail."""
        return cls(
            compression=tail.compression,
            block_bytes=tail.compression_block_bytes,
            stride=tail.row_index_stride,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values `first`, `first + step`, and so on: one value per row; `rows` is at least 1."""

    first: int
    step: int
    rows: int

    def at(self, row: int) -> int:
        """Return the value in a row (0-based)."""
        return self.first + row * self.step

    def statistics(self, start: int, stop: int) -> pb.ColumnStatistics:
        """Return statistics of the rows from `start` to `stop`, excluding `stop`."""
        low, high = sorted((self.at(start), self.at(stop - 1)))
        total = (stop - start) * (low + high) // 2
        integers = pb.IntegerStatistics(minimum=low, maximum=high)
        if total in _LONG:
            integers.sum = total
        return pb.ColumnStatistics(values=stop - start, integers=integers, has_null=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumn:
    """One column in one stripe: its two streams as stored in the file, and its statistics."""

    data: bytes
    row_index: bytes
    statistics: pb.ColumnStatistics


def column_of_runs(series: Series, layout: RunLayout) -> RunColumn:
    """Encode a series as a column of signed integers for one stripe."""
    runs = [_run(series, start) for start in range(0, series.rows, _MOST_IN_A_RUN)]
    plain = b"".join(runs)
    chunks, starts = _chunks(plain, layout)
    offsets = [0]
    for run in runs:
        offsets.append(offsets[-1] + len(run))
    index = pb.RowIndex()
    for start in range(0, series.rows, layout.stride):
        number, values = divmod(start, _MOST_IN_A_RUN)
        entry = index.entries.add()
        entry.positions.extend((*_positions(offsets[number], starts, layout), values))
        stop = min(start + layout.stride, series.rows)
        entry.statistics.CopyFrom(series.statistics(start, stop))
    statistics = series.statistics(0, series.rows)
    statistics.bytes_on_disk = len(chunks)
    return RunColumn(
        data=chunks,
        row_index=compress(index.SerializeToString(), layout.compression, layout.block_bytes),
        statistics=statistics,
    )


def _run(series: Series, start: int) -> bytes:
    count = min(_MOST_IN_A_RUN, series.rows - start)
    head = (_FIXED_DELTA | count - 1).to_bytes(2, "big")
    return head + bytes((*_signed(series.at(start)), *_signed(series.step)))


def _signed(value: int) -> Iterator[int]:
    """Yield the bytes of a signed varint in ORC: zigzag, seven bits per byte, low bits first."""
    remainder = value << 1 ^ value >> _SIGN_BIT
    while remainder > _GROUP_MASK:
        yield remainder & _GROUP_MASK | _CONTINUED
        remainder >>= _GROUP_BITS
    yield remainder


def _chunks(plain: bytes, layout: RunLayout) -> tuple[bytes, list[int]]:
    """Return the compressed stream, and the offset of each compression block in it."""
    if layout.compression is Compression.NONE:
        return plain, [0]
    stored = b""
    starts = []
    for offset in range(0, len(plain), layout.block_bytes):
        starts.append(len(stored))
        block = plain[offset : offset + layout.block_bytes]
        stored += compress(block, layout.compression, layout.block_bytes)
    return stored, starts


def _positions(offset: int, starts: list[int], layout: RunLayout) -> tuple[int, ...]:
    """Convert an offset in the uncompressed stream to the position that the row index stores."""
    if layout.compression is Compression.NONE:
        return (offset,)
    block, inside = divmod(offset, layout.block_bytes)
    return starts[block], inside
