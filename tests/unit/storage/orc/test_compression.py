from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc import compression
from airflow_hiveacid.storage.orc.compression import Compression, compress, decompress

SQUEEZABLE = b"hello world " * 5_000
NOISE = bytes((i * i * 7919 + i) % 251 for i in range(3_000))
WRITABLE = [kind for kind in Compression if kind is not Compression.LZO]


@pytest.mark.parametrize("kind", WRITABLE)
@pytest.mark.parametrize("data", [b"", b"a", SQUEEZABLE, NOISE, SQUEEZABLE + NOISE])
@pytest.mark.parametrize("block_bytes", [100, 65536])
def test_decompression_restores_the_compressed_data(
    kind: Compression, data: bytes, block_bytes: int
) -> None:
    assert decompress(compress(data, kind, block_bytes), kind, block_bytes) == data


def test_a_chunk_that_would_grow_is_stored_uncompressed() -> None:
    data = b"abc"
    assert compress(data, Compression.ZLIB, 1024) == bytes([len(data) << 1 | 1, 0, 0]) + data


def test_a_section_of_three_blocks_grows_at_most_by_three_chunk_headers() -> None:
    section = compress(NOISE, Compression.ZLIB, 1_000)
    assert section.count(NOISE[1_000:1_100]) <= 1
    assert len(section) <= len(NOISE) + 3 * 3


@pytest.mark.parametrize(("kind", "name"), [(3, "LZO"), (6, "BROTLI"), (17, "number 17")])
def test_the_error_for_an_unknown_compression_names_the_file_and_the_kind(
    kind: int, name: str
) -> None:
    with pytest.raises(UnsupportedFileError, match=rf"f\.orc.*{name}.*orc\.compress"):
        decompress(b"\x01\x00\x00", kind, 1024, path="f.orc")


@pytest.mark.parametrize("size", [0, 1, 255, 256, 300, 65_791, 65_792, 200_000])
@pytest.mark.parametrize("states_its_length", [True, False])
def test_zstd_is_decompressed_whether_or_not_a_frame_states_its_length(
    size: int,
    states_its_length: bool,
) -> None:
    data = (NOISE * 80)[:size]
    if states_its_length:
        frame = bytes(pa.Codec("zstd").compress(data, asbytes=True))
    else:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, "zstd") as stream:
            stream.write(data)
        frame = out.getvalue().to_pybytes()
    # An empty stream says so.
    assert (compression._zstd_length(frame) == size) is (states_its_length or not size)
    section = (len(frame) << 1).to_bytes(3, "little") + frame
    assert decompress(section, Compression.ZSTD, 1 << 20) == data


def test_lzo_cannot_be_written() -> None:
    with pytest.raises(UnsupportedFileError, match="LZO"):
        compress(b"a", Compression.LZO, 1024)


@pytest.mark.parametrize("kind", [k for k in WRITABLE if k is not Compression.NONE])
def test_truncated_or_damaged_data_raises_an_error(kind: Compression) -> None:
    section = compress(SQUEEZABLE, kind, 1 << 20)
    with pytest.raises(CorruptFileError, match="cut off"):
        decompress(section[:-5], kind, 1 << 20, path="f.orc")
    mangled = section[:3] + bytes(len(section) - 3)
    with pytest.raises(CorruptFileError, match="decompressed"):
        decompress(mangled, kind, 1 << 20, path="f.orc")


@pytest.mark.parametrize("kind", [k for k in WRITABLE if k is not Compression.NONE])
def test_a_chunk_that_expands_beyond_the_block_size_is_refused(kind: Compression) -> None:
    section = compress(bytes(1_000), kind, 1_000)
    assert decompress(section, kind, 1_000) == bytes(1_000)
    with pytest.raises(CorruptFileError):
        decompress(section, kind, 999, path="f.orc")


@pytest.mark.parametrize("kind", [Compression.ZLIB, Compression.ZSTD])
def test_a_decompression_bomb_is_refused_without_allocating_its_size(kind: Compression) -> None:
    bomb = compress(bytes(8_000_000), kind, 8_000_000)
    assert len(bomb) < 10_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    with pytest.raises(CorruptFileError, match="more than the allowed size"):
        decompress(bomb, kind, 64 * 1024, path="f.orc")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_a_section_of_many_chunks_beyond_the_size_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compression, "MOST_SECTION_BYTES", 100_000)
    section = compress(bytes(100_001), Compression.ZLIB, 1_000)
    with pytest.raises(CorruptFileError, match="more than the allowed size"):
        decompress(section, Compression.ZLIB, 1_000)


def test_a_large_section_is_refused_only_if_its_compression_ratio_is_extreme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compression, "_LARGE_SECTION_BYTES", 100_000)
    section = compress(bytes(1_000_000), Compression.ZSTD, 1 << 20)
    assert len(section) < 1_000
    with pytest.raises(CorruptFileError, match="more than the allowed size"):
        decompress(section, Compression.ZSTD, 1 << 20)
    noise = np.random.default_rng(7).bytes(1_000_000)
    section = compress(noise, Compression.ZSTD, 1 << 20)
    assert decompress(section, Compression.ZSTD, 1 << 20) == noise


def test_a_snappy_length_of_more_than_32_bits_is_refused() -> None:
    chunk = b"\xff" * 1000 + b"\x00"
    with pytest.raises(IndexError):
        compression.snappy_length(chunk)
    section = (len(chunk) << 1).to_bytes(3, "little") + chunk
    with pytest.raises(CorruptFileError, match="decompressed"):
        decompress(section, Compression.SNAPPY, 1 << 20)


def test_a_chunk_with_truncated_data_is_refused() -> None:
    whole = compress(SQUEEZABLE, Compression.ZLIB, 1 << 20)[3:-4]
    cut = (len(whole) << 1).to_bytes(3, "little") + whole
    with pytest.raises(CorruptFileError, match="decompressed"):
        decompress(cut, Compression.ZLIB, 1 << 20)
