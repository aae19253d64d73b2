from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc_compression import Compression, compress, decompress

SQUEEZABLE = b"hello world " * 5_000
NOISE = bytes((i * i * 7919 + i) % 251 for i in range(3_000))
WRITABLE = [kind for kind in Compression if kind is not Compression.LZO]


@pytest.mark.parametrize("kind", WRITABLE)
@pytest.mark.parametrize("data", [b"", b"a", SQUEEZABLE, NOISE, SQUEEZABLE + NOISE])
@pytest.mark.parametrize("block_bytes", [100, 65536])
def test_what_was_compressed_comes_back(kind: Compression, data: bytes, block_bytes: int) -> None:
    assert decompress(compress(data, kind, block_bytes), kind) == data


def test_a_chunk_that_would_grow_is_stored_as_it_is() -> None:
    data = b"abc"
    assert compress(data, Compression.ZLIB, 1024) == bytes([len(data) << 1 | 1, 0, 0]) + data


def test_blocks_bound_the_chunks() -> None:
    section = compress(NOISE, Compression.ZLIB, 1_000)
    assert section.count(NOISE[1_000:1_100]) <= 1
    assert len(section) <= len(NOISE) + 3 * 3


@pytest.mark.parametrize("kind", [Compression.LZO, 17])
def test_an_unknown_compression_is_named(kind: int) -> None:
    with pytest.raises(UnsupportedFileError, match=rf"f\.orc.*{int(kind)}"):
        decompress(b"\x01\x00\x00", kind, path="f.orc")


def test_lzo_cannot_be_written() -> None:
    with pytest.raises(UnsupportedFileError, match="LZO"):
        compress(b"a", Compression.LZO, 1024)


@pytest.mark.parametrize("kind", [k for k in WRITABLE if k is not Compression.NONE])
def test_damage_is_found(kind: Compression) -> None:
    section = compress(SQUEEZABLE, kind, 1 << 20)
    with pytest.raises(CorruptFileError, match="cut off"):
        decompress(section[:-5], kind, path="f.orc")
    mangled = section[:3] + bytes(len(section) - 3)
    with pytest.raises(CorruptFileError, match="decompressed"):
        decompress(mangled, kind, path="f.orc")
