"""What a file of a few kilobytes may cost whoever looks at it: 64 MB, whatever it says of itself.

Each look is a process of its own: what Protobuf and Arrow take, no tracer of Python's sees.
"""

from __future__ import annotations

import bz2
import io
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import fastavro
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, HiveAcidError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.orc.compression import Compression, compress
from airflow_hiveacid.storage.orc.footer import MAGIC
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import FOOTER, METADATA, count_objects, parse_tail, read_tail
from airflow_hiveacid.storage.plain.avro_rows import avro_rows_in
from airflow_hiveacid.storage.plain.parquet_footer import parquet_rows_in, read_facts
from tests.unit.storage.orc_tables import plain_file

FS: Final = pafs.LocalFileSystem()
SIZE: Final = 8192
MOST_MB: Final = 64
BASE: Final = pb.Footer(types=[pb.Type(kind=12)], header_length=3, content_length=3)
LONG_TEXT: Final = pb.UserMetadata(name="a", value=bytes(60_000_000))
_STRIPES = (b"\x0a" + b"\x80\x08" + b"\x0a\x00" * 512) * 512


def orc(footer: bytes, metadata: bytes = b"", kind: Compression = Compression.ZLIB) -> bytes:
    """A file whose tail is this, filled up to 8 KB in front of it."""
    block = 1 << 18
    parts = compress(metadata, kind, block), compress(footer, kind, block)
    postscript = pb.PostScript(
        metadata_length=len(parts[0]),
        footer_length=len(parts[1]),
        compression=kind,
        compression_block_size=block,
        magic=MAGIC,
    ).SerializeToString()
    tail = b"".join((*parts, postscript, bytes([len(postscript)])))
    return MAGIC + bytes(max(0, SIZE - len(MAGIC) - len(tail))) + tail


def footer(more: bytes) -> bytes:
    return bytes(BASE.SerializeToString()) + more


ORC_BOMBS: Final = {
    "stripes": lambda: orc(footer(b"\x1a\x00" * 4_000_000)),
    "stripes that are few enough to be parsed": lambda: orc(footer(b"\x1a\x00" * 196_000)),
    "statistics": lambda: orc(footer(b"\x3a\x00" * 200_000)),
    "statistics by Zstandard": lambda: orc(footer(b"\x3a\x00" * 4_000_000), kind=Compression.ZSTD),
    "statistics of stripes": lambda: orc(footer(b""), _STRIPES),
    "both": lambda: orc(footer(b"\x3a\x00" * 98_000), _STRIPES[: len(_STRIPES) // 3]),
    "a text by Zstandard": lambda: orc(
        footer(pb.Footer(metadata=[LONG_TEXT]).SerializeToString()),
        kind=Compression.ZSTD,
    ),
    "user metadata": lambda: orc(footer(b"\x2a\x00" * 196_000)),
    "types": lambda: orc(footer(b"\x22\x02\x08\x03" * 98_000)),
    "types with names": lambda: orc(footer(b"\x22\x05\x1a\x01a\x10\x01" * 39_000)),
    "children": lambda: orc(
        pb.Footer(types=[pb.Type(kind=12, children=[1] * 100_000)]).SerializeToString()
    ),
}


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def thrift_list(count: int) -> bytes:
    """The head of a list of structs, as Thrift's compact protocol has it."""
    return b"\xfc" + varint(count)


def parquet(metadata: bytes) -> bytes:
    return b"PAR1" + metadata + struct.pack("<I", len(metadata)) + b"PAR1"


SCHEMA: Final = (
    b"\x15\x02\x19" + thrift_list(2) + b"\x48\x01a\x15\x02\x00" + b"\x15\x02\x38\x01b\x00"
)
PARQUET_BOMBS: Final = {
    "columns": lambda: parquet(b"\x15\x02\x19" + thrift_list(999_999) + bytes(100)),
    "row groups": lambda: parquet(SCHEMA + b"\x16\x00\x19" + thrift_list(999_999) + bytes(100)),
}


def avro(codec: str, records: int, data: bytes) -> bytes:
    file = io.BytesIO()
    field = {"name": "a", "type": ["null", "string"]}
    schema = {"type": "record", "name": "r", "fields": [field]}
    fastavro.writer(file, schema, [], codec=codec, sync_marker=b"s" * 16)
    return file.getvalue() + varint(2 * records) + varint(2 * len(data)) + data + b"s" * 16


AVRO_BOMBS: Final = {
    "bzip2": lambda: avro("bzip2", 10, bz2.compress(bytes(200_000_000))),
    "snappy": lambda: avro("snappy", 10, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "records": lambda: avro("null", 1 << 60, bytes(100)),
}
BOMBS: Final[dict[str, dict[str, Callable[[], bytes]]]] = {
    "orc": ORC_BOMBS,
    "parquet": PARQUET_BOMBS,
    "avro": AVRO_BOMBS,
}


def look_at(kind: str, path: str) -> None:
    """Read what anybody reads first of such a file."""
    if kind == "orc":
        read_tail(FS, path)
    elif kind == "avro":
        avro_rows_in(FS, path, SIZE)
    else:
        parquet_rows_in(FS, path, SIZE)


# One process is ready, and a child of it looks at each file: a child's peak is its own.
_PROGRAM: Final = """
import importlib.util, os, resource, sys
spec = importlib.util.spec_from_file_location("small", sys.argv[1])
small = importlib.util.module_from_spec(spec)
spec.loader.exec_module(small)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for argument in sys.argv[2:]:
    kind, path = argument.split("=", 1)
    child = os.fork()
    if not child:
        before = peak()
        try:
            small.look_at(kind, path)
        except small.HiveAcidError:
            pass
        os.write(1, f"{argument} {peak() - before}\\n".encode())
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{argument}: the look ended badly")
"""
FULL: Final = "as much as may be"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    folder = tmp_path_factory.mktemp("small")
    made = {(kind, name): make() for kind, bombs in BOMBS.items() for name, make in bombs.items()}
    made["orc", FULL] = orc(footer(b"\x3a\x00" * 196_000))
    found = {}
    for number, (key, content) in enumerate(made.items()):
        found[key] = folder / f"{number}.{key[0]}"
        found[key].write_bytes(content)
    return found


@pytest.fixture(scope="module")
def costs_mb(files: dict[tuple[str, str], Path]) -> dict[tuple[str, str], float]:
    """What a process takes to look at each file, beyond what it took to be ready."""
    arguments = {f"{key[0]}={path}": key for key, path in files.items()}
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, __file__, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line.rsplit(" ", 1) for line in ran.stdout.splitlines()]
    return {arguments[argument]: float(cost) for argument, cost in lines}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, bombs in BOMBS.items() for name in bombs]
)
def test_refusing_a_malformed_file_of_8_kilobytes_needs_at_most_64_megabytes(
    files: dict[tuple[str, str], Path],
    costs_mb: dict[tuple[str, str], float],
    kind: str,
    name: str,
) -> None:
    path = files[kind, name]
    assert path.stat().st_size <= SIZE + 512
    assert costs_mb[kind, name] <= MOST_MB
    with pytest.raises(CorruptFileError, match=str(path)):
        look_at(kind, str(path))


def test_reading_the_largest_allowed_tail_needs_at_most_64_megabytes(
    files: dict[tuple[str, str], Path], costs_mb: dict[tuple[str, str], float]
) -> None:
    assert len(read_tail(FS, str(files["orc", FULL])).footer.statistics) == 196_000
    assert 1 < costs_mb["orc", FULL] <= MOST_MB


def test_a_parquet_footer_too_large_for_its_file_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(PARQUET_BOMBS["columns"]())
    with pytest.raises(CorruptFileError, match="Exceeded size limit"):
        read_facts(plain_file(path, FileFormat.PARQUET))


def test_a_highly_compressed_tail_of_a_wide_table_is_read() -> None:
    """A wide table's columns without a value: all statistics are alike."""
    columns, stripes = 3000, 20
    types = [pb.Type(kind=12, children=range(1, columns + 1))]
    types[0].field_names.extend(f"column_{number}" for number in range(columns))
    types += [pb.Type(kind=3)] * columns
    statistics = [pb.ColumnStatistics(values=0, has_null=True)] * (columns + 1)
    whole = pb.Footer(types=types, header_length=3, statistics=statistics)
    metadata = pb.Metadata(stripes=[pb.StripeStatistics(columns=statistics)] * stripes)
    whole.stripes.extend(
        pb.Stripe(offset=3 + 300 * at, index_length=0, data_length=100, footer_length=200)
        for at in range(stripes)
    )
    last = orc(whole.SerializeToString(), metadata.SerializeToString())
    data = MAGIC + bytes(300 * stripes) + last[len(MAGIC) :]
    assert len(data) < 64 * 1024
    tail = parse_tail("f.orc", data, len(data))
    assert (len(tail.stripes), len(tail.types)) == (stripes, columns + 1)


def test_the_objects_of_a_protobuf_message_are_counted_up_to_a_limit() -> None:
    whole = pb.Footer(
        types=[pb.Type(kind=12, children=[1, 2], field_names=["a", "b"])],
        stripes=[pb.Stripe(rows=7)],
        statistics=[pb.ColumnStatistics(values=1)],
    )
    whole.statistics[0].integers.minimum = 1
    whole.metadata.add(name="key", value=b"value")
    text = whole.SerializeToString()
    assert count_objects(text, FOOTER, 99) == 1 + 2 + 2 + 1 + 2 + 1
    assert count_objects(text, FOOTER, 3) == 4  # and no further
    metadata = pb.Metadata(stripes=[pb.StripeStatistics(columns=whole.statistics)] * 2)
    assert count_objects(metadata.SerializeToString(), METADATA, 99) == 2 * 3


def test_an_invalid_tail_raises_a_typed_error() -> None:
    for junk in (b"\x1a\x05a", b"\x1b", b"\xff" * 12, b"\x80"):
        data = orc(footer(b"\x1a\x00" * 200_000 + junk))
        with pytest.raises(HiveAcidError):
            parse_tail("f.orc", data, len(data))
