"""How batches become ORC stripes: what an encoder is, the one for Arrow, and the sink below them.

Takes record batches; gives finished stripes to a stream, and at the end the tail that describes
them. Must not know what the columns mean.

An encoder decides whether a stripe is full only when it has taken in one of its own batches, so it
is fed in exactly such pieces: bytes that arrive at the sink during a piece end a stripe with its
last row. That is how the key of each stripe's last row is known without reading the file again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
from pyarrow import orc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.orc.compression import WRITABLE, Compression
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.tail import parse_tail

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_ROWS: Final = 4096
"""Rows that an encoder takes in at once; stripes end between pieces."""

DICTIONARY_THRESHOLD: Final = 0.8
"""Text with a smaller share of distinct values gets a dictionary (orc.dictionary.key.threshold)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How a file is laid out.

    Attributes:
        compression: `none`, `zlib`, `snappy`, `lz4` or `zstd`; Hive 3.1 cannot read the last two.
        stripe_size_bytes: When a stripe is full, as compressed; what an encoder holds in memory.
        compression_block_bytes: Largest chunk before compression, a multiple of 64 KiB.
        row_index_stride: Rows per entry of the row index; 0 writes none.
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
        """The compression as files name it."""
        return _CODECS[self.compression]


_CODECS: Final = {kind.name.lower(): kind for kind in WRITABLE}
_MEMORY_BLOCK_BYTES: Final = 64 << 10
_LARGEST_BLOCK_BYTES: Final = (8 << 20) - (64 << 10)


class StripeSink:
    """The file an encoder believes it writes: hands stripes on, and keeps the tail back.

    The magic bytes at the start are dropped: of several encoders' stripes in one file, only the
    file has them. Once `hold` is called, what comes stays in memory: the last stripe and the tail,
    which nothing tells apart while they come.
    """

    closed = False

    def __init__(self, out: Callable[[bytes], object]) -> None:
        self._out = out
        self._magic_left = len(MAGIC)
        self._held: list[bytes] | None = None
        self.received = 0

    def write(self, data: bytes) -> int:
        """Take bytes; always all of them."""
        body = data[self._magic_left :]
        self._magic_left -= len(data) - len(body)
        self.received += len(body)
        if self._held is not None:
            self._held.append(bytes(body))
        elif body:
            self._out(body)
        return len(data)

    def hold(self) -> None:
        """From now on keep what comes."""
        self._held = []

    def release(self, path: str) -> OrcTail:
        """Hand the last stripe on and give the tail that came after it."""
        data = b"".join(self._held or ())
        self._held = None
        tail = parse_tail(path, data, len(MAGIC) + self.received)
        stripes = sum(stripe.length for stripe in tail.stripes)
        ends = len(data) - (self.received - stripes)
        self._out(data[:ends])
        self.received = stripes
        return tail

    def flush(self) -> None:
        """Nothing to do: bytes are handed on at once."""

    def close(self) -> None:
        """Nothing to do: the stream behind belongs to somebody else."""

    def readable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False

    def tell(self) -> int:
        """Bytes taken so far."""
        return len(MAGIC) - self._magic_left + self.received


class Encoder(Protocol):
    """Turns batches into stripes at a sink."""

    @property
    def wanted_rows(self) -> int:
        """The largest piece it takes now: after so many rows it sees whether its stripe is full."""

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; whether a stripe ended with its last row."""

    def finish(self) -> None:
        """Write the last stripe and the tail."""


class ArrowEncoder:
    """The encoder for nearly everything: Arrow columns go straight into ORC's C++ writer."""

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
        # The writer takes its types from the first table; without one it would write nothing at
        # all.
        self._writer.write(schema.empty_table())

    @property
    def wanted_rows(self) -> int:
        """Any piece of at most this many rows is one batch to this writer."""
        return PIECE_ROWS

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; whether a stripe ended with its last row."""
        before = self._sink.received
        self._writer.write(
            pa.Table.from_arrays(list(map(_whole, piece.columns)), schema=piece.schema)
        )
        return self._sink.received > before

    def finish(self) -> None:
        """Write the last stripe and the tail."""
        self._writer.close()


def _whole(array: pa.Array) -> pa.Array:
    """The same values with all buffers from their beginning, where it matters.

    Arrow's ORC writer puts the NULLs of a nested column into what is below it (NormalizeArray), and
    does not mind that either may be a slice: values would move to other rows. It is right about a
    struct that is never NULL, such as `row` of ACID files, whatever is below.
    """
    is_right = pa.types.is_struct(array.type) and not array.null_count
    if is_right or not pa.types.is_nested(array.type):
        return array
    return pa.concat_arrays([array, array.slice(0, 0)])
