"""Compress and expand sections of an ORC file, in chunks with a three-byte header each.

A chunk's header holds the chunk's length and a flag. The flag is set if the chunk is stored
uncompressed, because compression did not help.

Example:
    >>> section = compress(b"x" * 100, Compression.ZLIB, block_bytes=64)
    >>> len(section), decompress(section, Compression.ZLIB, 64) == b"x" * 100
    (17, True)
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError

_HEADER_BYTES: Final = 3
_CHUNK_LIMIT: Final = (1 << 23) - 1
# In real files, no section of at least this size compresses as well as a run of zeros.
_LARGE_SECTION_BYTES: Final = 32 << 20
_MOST_EXPANSION: Final = 128
_LZ4_FULL_NIBBLE: Final = 15
_LZ4_FULL_BYTE: Final = 255
_LZ4_MINIMUM_MATCH: Final = 4
_CONTINUED: Final = 0x80
# A length has 32 bits, seven in each byte. A damaged one could take hours to decode.
_SNAPPY_LENGTH_BYTES: Final = 5
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SINGLE_SEGMENT: Final = 0x20
# The possible bytes of the content size and of the dictionary ID, by two bits of a header.
_ZSTD_SIZES: Final = (0, 2, 4, 8)
_ZSTD_DICTIONARY_SIZES: Final = (0, 1, 2, 4)
_ZSTD_OFFSET: Final = 256  # added to a length that is stored in two bytes

DEFAULT_BLOCK_BYTES: Final = 256 * 1024
"""The block size of a file whose postscript does not state one."""

MOST_BLOCK_BYTES: Final = 1 << 23
"""The largest block of any writer, because a chunk's header stores the length in 23 bits."""

MOST_SECTION_BYTES: Final = 256 << 20
"""The size limit for a section, both stored and expanded. A section of this size can hold millions
of numbers. Hive's own reader accepts a footer of 1 GiB."""


class Compression(enum.IntEnum):
    """The compression methods for a file's streams and tail, by their number in a file."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5


# ORC has also given BROTLI a number.
_NAMES: Final[Mapping[int, str]] = {Compression.LZO: "LZO", 6: "BROTLI"}


def most_expanded_bytes(data: bytes, kind: int, block_bytes: int, *, path: str = "") -> int:
    """Return an upper bound of the size of one section, expanded."""
    if kind == Compression.NONE:
        return len(data)
    return sum(len(chunk) if stored else block_bytes for stored, chunk in _chunks(data, path=path))


def decompress(
    data: bytes, kind: int, block_bytes: int, *, path: str = "", small_bytes: int | None = None
) -> bytes:
    """Expand one section.

    `kind` may be a number that only later ORC releases define. `block_bytes` is the largest size of
    an expanded chunk; without this limit, a few bytes could expand to gigabytes. Every section may
    expand to `small_bytes`, or 32 MiB if it is None; a larger one only to `_MOST_EXPANSION` times
    its stored size. Raises UnsupportedFileError if the compression is LZO or an unknown method.
    """
    if kind == Compression.NONE:
        return data
    expand = _EXPAND.get(kind)
    if expand is None:
        name = _NAMES.get(kind, f"a method that ORC's number {kind} stands for")
        raise UnsupportedFileError(
            path=path,
            reason=f"it is compressed with {name}, which this provider cannot expand. Rewrite the"
            " file in Hive with another orc.compress",
        )
    parts: list[bytes] = []
    size = 0
    small = _LARGE_SECTION_BYTES if small_bytes is None else small_bytes
    limit = min(MOST_SECTION_BYTES, max(small, _MOST_EXPANSION * len(data)))
    for stored, chunk in _chunks(data, path=path):
        try:
            parts.append(chunk if stored else expand(chunk, block_bytes))
        except (zlib.error, OSError, pa.ArrowException, IndexError) as error:
            raise CorruptFileError(path=path, reason="a section cannot be decompressed") from error
        size += len(parts[-1])
        if size > limit or (not stored and len(parts[-1]) > block_bytes):
            raise CorruptFileError(
                path=path, reason="a section expands to more than the allowed size"
            )
    return b"".join(parts)


def compress(data: bytes, kind: Compression, block_bytes: int, *, path: str = "") -> bytes:
    """Compress one section in chunks of at most `block_bytes` uncompressed bytes."""
    if kind == Compression.NONE:
        return data
    shrink = _SHRINK.get(kind)
    if shrink is None:
        raise UnsupportedFileError(path=path, reason=f"{kind.name} cannot be written")
    parts: list[bytes] = []
    step = min(block_bytes, _CHUNK_LIMIT)
    for start in range(0, len(data), step):
        plain = data[start : start + step]
        small = shrink(plain)
        stored = len(small) >= len(plain)
        chunk = plain if stored else small
        parts += ((len(chunk) << 1 | stored).to_bytes(_HEADER_BYTES, "little"), chunk)
    return b"".join(parts)


def _chunks(data: bytes, *, path: str) -> Iterator[tuple[bool, bytes]]:
    offset = 0
    while offset < len(data):
        header = int.from_bytes(data[offset : offset + _HEADER_BYTES], "little")
        offset += _HEADER_BYTES
        end = offset + (header >> 1)
        if end > len(data):
            raise CorruptFileError(path=path, reason="a compressed chunk is cut off")
        yield bool(header & 1), data[offset:end]
        offset = end


def _expand_zlib(chunk: bytes, most: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(chunk, most + 1)
    if not inflater.eof and len(plain) <= most:
        raise IndexError  # the chunk is truncated
    return plain


def _expand_zstd(chunk: bytes, most: int) -> bytes:
    length = _zstd_length(chunk)
    if length is not None and length <= most:
        return _arrow_decompress("zstd", chunk, length, most)
    # Expand as a stream, because a frame may omit the length for Arrow's one-shot call. Streams
    # take ten times as long, and a plan reads hundreds of thousands of footers.
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        return bytes(stream.read(most + 1))


def _shrink_zlib(plain: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(plain) + deflater.flush()


def _arrow_decompress(codec: str, chunk: bytes, length: int, most: int) -> bytes:
    if length > most:
        raise IndexError  # no writer makes such a chunk, so its length is not reliable
    return bytes(pa.Codec(codec).decompress(chunk, decompressed_size=length, asbytes=True))


def _arrow_compress(codec: str, plain: bytes) -> bytes:
    return bytes(pa.Codec(codec).compress(plain, asbytes=True))


_EXPAND: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    Compression.ZLIB: _expand_zlib,
    Compression.SNAPPY: lambda chunk, most: _arrow_decompress(
        "snappy", chunk, snappy_length(chunk), most
    ),
    Compression.LZ4: lambda chunk, most: _arrow_decompress(
        "lz4_raw", chunk, _lz4_length(chunk), most
    ),
    Compression.ZSTD: _expand_zstd,
}
_SHRINK: Final[Mapping[Compression, Callable[[bytes], bytes]]] = {
    Compression.ZLIB: _shrink_zlib,
    Compression.SNAPPY: partial(_arrow_compress, "snappy"),
    Compression.LZ4: partial(_arrow_compress, "lz4_raw"),
    Compression.ZSTD: partial(_arrow_compress, "zstd"),
}


def snappy_length(chunk: bytes) -> int:
    """Return the length at the start of a raw Snappy block; raise IndexError without one."""
    length = 0
    for index, byte in enumerate(chunk[:_SNAPPY_LENGTH_BYTES]):
        length |= (byte & ~_CONTINUED) << (7 * index)
        if not byte & _CONTINUED:
            return length
    raise IndexError


def _zstd_length(chunk: bytes) -> int | None:
    """Return the length in the frame's header (RFC 8878, 3.1.1.1); None if it is absent."""
    if chunk[: len(_ZSTD_MAGIC)] != _ZSTD_MAGIC:
        return None
    descriptor = chunk[len(_ZSTD_MAGIC)]
    # A frame of one segment states its length in at least one byte, and has no byte for a window.
    is_whole = bool(descriptor & _ZSTD_SINGLE_SEGMENT)
    size = _ZSTD_SIZES[descriptor >> 6] or int(is_whole)
    offset = len(_ZSTD_MAGIC) + 1 + (not is_whole) + _ZSTD_DICTIONARY_SIZES[descriptor & 3]
    if not size or offset + size > len(chunk):
        return None
    length = int.from_bytes(chunk[offset : offset + size], "little")
    return length + _ZSTD_OFFSET if size == _ZSTD_SIZES[1] else length


def _lz4_length(chunk: bytes) -> int:
    """Return the expanded length of a raw LZ4 block, the sum over its sequences."""
    # A sequence is a token, literals, two bytes of offset, a match. The last ends with literals.
    offset = length = 0
    while True:
        token = chunk[offset]
        literals, offset = _lz4_count(chunk, offset + 1, token >> 4)
        length += literals
        offset += literals
        if offset >= len(chunk):
            return length
        match, offset = _lz4_count(chunk, offset + 2, token & _LZ4_FULL_NIBBLE)
        length += match + _LZ4_MINIMUM_MATCH


def _lz4_count(chunk: bytes, offset: int, nibble: int) -> tuple[int, int]:
    """Return a length and its end position; a part with the maximum value continues in the next."""
    count = nibble
    has_more = nibble == _LZ4_FULL_NIBBLE
    while has_more:
        count += chunk[offset]
        has_more = chunk[offset] == _LZ4_FULL_BYTE
        offset += 1
    return count, offset


WRITABLE: Final = (Compression.NONE, *_SHRINK)
"""The compression methods that `compress` supports."""
