"""Encode constant or evenly increasing integer columns as streams of an ORC stripe.

No encoder is needed, because the data are runs with a fixed delta (RLE version 2).

Example:
    >>> layout = RunLayout(compression=Compression.ZLIB, block_bytes=65536, stride=10000)
    >>> column_of_runs(Series(first=7, step=1, rows=3), layout).statistics.integers.maximum
    9
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.storage.orc.compression import Compression, compress
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

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
