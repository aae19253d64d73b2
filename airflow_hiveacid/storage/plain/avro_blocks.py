"""Read and decompress the blocks of an Avro file, within limits that depend on the file size.

A few hundred bytes of bzip2 can expand to gigabytes. A block can also state that it contains
billions of records without any bytes.
"""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.storage.orc.compression import snappy_length
from airflow_hiveacid.storage.plain.avro_schema import cramjam

SNAPPY: Final = "snappy"
SYNC_BYTES: Final = 16

# zlib's maximum ratio is 1032. Writers end a block after 64 KB, or after one long record.
_MOST_EXPANSION: Final = 1100
_SMALL_BLOCK_BYTES: Final = 4 << 20
# Records have no bytes only if all their fields have the type null.
_MOST_EMPTY_RECORDS: Final = 1 << 16
_CHECKSUM_BYTES: Final = 4
_CONTINUED: Final = 0x80
_LONGEST_NUMBER: Final = 10


class BoundedSource:
    """A source that limits reads, as fastavro trusts any length; `last` is what was read last."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._left = source, int(source.size())
        self.last = b""

    def tell(self) -> int:
        """Return the position."""
        return int(self._source.tell())

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or all remaining bytes if there are fewer."""
        if size < 0:
            raise EOFError(f"{size} bytes")
        content: bytes = self._source.read(min(size, self._left))
        self._left -= len(content)
        self.last = content
        return content


@dataclass(frozen=True, slots=True)
class Block:
    """One block: the number of records, and the bytes of the records."""

    records: int
    content: io.BytesIO


def blocks_of(source: BoundedSource, codec: str) -> Iterator[Block]:
    """Yield the blocks of a file; the header must have been read already."""
    sync = source.last[-SYNC_BYTES:]
    while (records := _number(source, may_end=True)) is not None:
        size = _number(source) or 0
        data = source.read(size)
        if len(data) < size or source.read(SYNC_BYTES) != sync:
            raise ValueError("a block does not end where its header states")
        limit = max(_SMALL_BLOCK_BYTES, _MOST_EXPANSION * len(data))
        content = _EXPAND[codec](data, limit)
        if len(content) > limit:
            raise ValueError("a block expands to more than the allowed size")
        if not 0 <= records <= max(_MOST_EMPTY_RECORDS, len(content)):
            raise ValueError(f"a block of {len(content)} bytes counts {records} records")
        yield Block(records, io.BytesIO(content))


def _number(source: BoundedSource, *, may_end: bool = False) -> int | None:
    """Read a number in Avro's encoding: zigzag, with seven bits per byte and low bits first."""
    value = 0
    for number in range(_LONGEST_NUMBER):
        byte = source.read(1)
        if not byte:
            if may_end and not number:
                return None
            raise EOFError("a number is cut off")
        value |= (byte[0] & ~_CONTINUED) << (7 * number)
        if not byte[0] & _CONTINUED:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("a number of more than 64 bits")


def _of_bzip2(data: bytes, most: int) -> bytes:
    parts, size = [], 0
    while data and size <= most:
        expander = bz2.BZ2Decompressor()
        parts.append(expander.decompress(data, most + 1 - size))
        size += len(parts[-1])
        if not expander.eof and size <= most:
            raise ValueError("a block ends before its data does")
        data = expander.unused_data
    return b"".join(parts)


def _of_snappy(data: bytes, most: int) -> bytes:
    if snappy_length(data) > most:
        raise ValueError("a block expands to more than the allowed size")
    return bytes(cramjam().snappy.decompress_raw(data[:-_CHECKSUM_BYTES]))


_EXPAND: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "null": lambda data, _: data,
    "deflate": lambda data, most: zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most + 1),
    "bzip2": _of_bzip2,
    SNAPPY: _of_snappy,
}

CODECS: Final = frozenset(_EXPAND)
"""The supported compressions of blocks."""
