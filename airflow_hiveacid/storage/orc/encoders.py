"""Encoders that write batches as ORC stripes: the protocol, the Arrow encoder and the sink.

An encoder writes finished stripes to a stream, and at last their tail. It ends a stripe only at the
end of its internal batch, so callers pass pieces of that size: if the sink receives bytes
meanwhile, the stripe has ended with the piece's last row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import orc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.orc.compression import WRITABLE, Compression
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
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
    number of rows per entry of the row index; with 0, no index is written.
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
        if self.stripe_size_bytes <= 0 or self.row_index_stride < 0:
            raise ConfigurationError("stripe size and row index stride must be positive")

    @property
    def kind(self) -> Compression:
        """The compression as a value of `Compression`."""
        return _CODECS[self.compression]


_CODECS: Final = {kind.name.lower(): kind for kind in WRITABLE}
_MEMORY_BLOCK_BYTES: Final = 64 << 10
_LARGEST_BLOCK_BYTES: Final = (8 << 20) - (64 << 10)


class StripeSink(OpenFile):
    """The file that an encoder writes to: one stripe and its tail, whose bounds are made right."""

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
