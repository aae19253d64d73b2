"""What would end the process in Arrow is refused before Arrow is asked."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs
from pyarrow.parquet import encryption

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_chunks import require_readable_chunks
from airflow_hiveacid.storage.plain.parquet_footer import read_facts
from airflow_hiveacid.storage.plain.rows import read_rows
from tests.unit.storage.orc_tables import plain_file

DAY = dt.date(2001, 2, 3)
# Types of fields in Thrift's compact protocol, and two physical types.
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_LONG, _TEXT = 2, 6


def with_footer(
    folder: Path,
    columns: dict[str, list[Any]],
    old: bytes,
    new: bytes,
    **how: Any,  # noqa: ANN401
) -> PlainFile:
    """A file of these columns with other bytes in its footer."""
    path = folder / "f"
    pq.write_table(pa.table(columns), path, store_schema=False, **how)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    assert old in footer
    footer = footer.replace(old, new)
    end = len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(content[: -8 - size] + footer + end)
    return plain_file(path, FileFormat.PARQUET)


def test_bounds_that_are_too_short_are_damage(tmp_path: Path) -> None:
    bound = (DAY - dt.date(1970, 1, 1)).days.to_bytes(4, "little")
    file = with_footer(tmp_path, {"c": [DAY]}, b"\x04" + bound, b"\x03" + bound[:3])
    with pytest.raises(CorruptFileError, match="column c has bounds that are too short"):
        read_facts(file)
    with pytest.raises(CorruptFileError, match="column c has bounds that are too short"):
        list(read_rows(file, [Column(name="c", type="date")]))


def test_numbers_of_levels_that_contradict_the_schema_are_damage(tmp_path: Path) -> None:
    file = with_footer(
        tmp_path, {"c": ["x", None, None, "y", "z"]}, b"\x26\x04\x06", b"\x16\x04"
    )  # a list of 2 and 3, of 2 alone
    with pytest.raises(CorruptFileError, match="column c has numbers of levels"):
        list(read_rows(file, [Column(name="c", type="string")]))


def test_a_chunk_of_another_type_than_in_the_schema_is_damage(tmp_path: Path) -> None:
    file = with_footer(
        tmp_path, {"c": [7]}, b"\x1c\x15\x04", b"\x1c\x15\x0a"
    )  # the description's INT64 as DOUBLE
    with pytest.raises(CorruptFileError, match="column c has another type"):
        list(read_rows(file, [Column(name="c", type="bigint")]))


def of_fields(fields: dict[int, tuple[int, bytes]]) -> bytes:
    """A struct in Thrift's compact protocol, from types and values by field number."""
    content, last = b"", 0
    for number, (kind, value) in fields.items():
        content += bytes([(number - last) << 4 | kind]) + value
        last = number
    return content + b"\x00"


def of_elements(kind: int, *elements: bytes) -> tuple[int, bytes]:
    return _LIST, bytes([len(elements) << 4 | kind]) + b"".join(elements)


def chunk(
    type_: int,
    *,
    bounds: dict[int, bytes] | None = None,
    sizes: dict[int, tuple[int, bytes]] | None = None,
) -> bytes:
    """The description of a column chunk; `bounds` are by their field numbers in the statistics."""
    statistics = {at: (_BINARY, bytes([len(one)]) + one) for at, one in (bounds or {}).items()}
    data: dict[int, tuple[int, bytes]] = {1: (_I32, bytes([type_ << 1]))}
    data[12] = (_STRUCT, of_fields(statistics))
    data[16] = (_STRUCT, of_fields(sizes or {}))
    return of_fields({3: (_STRUCT, of_fields(data))})


USUAL = (chunk(_LONG, bounds={5: bytes(8), 6: bytes(8)}), chunk(_TEXT, sizes={1: (_I64, b"\x02")}))


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([USUAL, (chunk(_TEXT), USUAL[1])], "column c has another type"),
        *(
            ([(chunk(_LONG, bounds={at: bytes(7)}), USUAL[1])], "column c has bounds that are too")
            for at in (1, 2, 5, 6)
        ),
        ([USUAL, USUAL[:1]], "a row group has 1 columns, the schema 2"),
        ([(*USUAL, USUAL[1])], "a row group has 3 columns, the schema 2"),
        ([(chunk(_LONG, sizes={1: (_I64, b"\x02")}), USUAL[1])], "column c has a size of texts"),
        *(
            (
                [(USUAL[0], chunk(_TEXT, sizes={at: of_elements(_I64, *[b"\x02"] * count)}))],
                "column d has numbers of levels",
            )
            for at, count in ((2, 2), (3, 1), (3, 3))  # of d, which may be NULL and never repeats
        ),
    ],
)
def test_each_contradiction_in_any_row_group_is_damage(
    tmp_path: Path, groups: list[tuple[bytes, ...]], why: str
) -> None:
    path = tmp_path / "f"
    pq.write_table(pa.table({"c": [7], "d": ["x"]}), path, store_schema=False)
    metadata = pq.ParquetFile(path).metadata
    for described_groups, is_damage in (([USUAL, USUAL], False), (groups, True)):
        columns = [of_fields({1: of_elements(_STRUCT, *one)}) for one in described_groups]
        footer = of_fields({4: of_elements(_STRUCT, *columns)})
        content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        with (
            pytest.raises(CorruptFileError, match=why) if is_damage else nullcontext(),
            pa.BufferReader(content) as source,
        ):
            require_readable_chunks(source, metadata, "f")


@pytest.mark.parametrize(
    "end",
    [
        b"\xb8\xff\xff\xff\xff\x0f\x11\x01\x00",  # a map of billions of booleans
        b"\x99\xfd\xff\xff\xff\xff\xff\xff\x0f",  # a list of more elements, of an unknown type
        b"\x9c" * 5000,  # structs in structs
        b"\x98\xff",
    ],
)
def test_bytes_that_are_no_footer_are_read_once(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "f"
    pq.write_table(pa.table({"c": [7]}), path, store_schema=False)
    metadata = pq.ParquetFile(path).metadata
    path.write_bytes(b"PAR1" + end + len(end).to_bytes(4, "little") + b"PAR1")
    with (
        pafs.LocalFileSystem().open_input_file(str(path)) as source,
        pytest.raises(CorruptFileError, match="footer cannot be parsed"),
    ):
        require_readable_chunks(source, metadata, "f")


class _Keys(encryption.KmsClient):
    """A service that does not wrap keys."""

    def wrap_key(self, key_bytes: bytes, _master: str) -> str:
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key: str, _master: str) -> bytes:
        return bytes.fromhex(wrapped_key)


def test_an_encrypted_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    properties = encryption.CryptoFactory(lambda _: _Keys()).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="k", column_keys={"k": ["d"]}, plaintext_footer=True
        ),
    )
    table = pa.table({"c": [1], "d": [DAY]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    for look in (read_facts, lambda file: list(read_rows(file, [Column(name="d", type="date")]))):
        with pytest.raises(UnsupportedFileError, match="column d is encrypted"):
            look(plain_file(path, FileFormat.PARQUET))


def test_all_usual_descriptions_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "f"
    table = pa.table(
        {
            "a": pa.array([1, None, 3] * 50, pa.int8()),
            "b": [True, False, None] * 50,
            "c": [[{"x": 1.5, "y": b"\x00"}], [], None] * 50,
            "m": pa.array([[("k", 1)], None, []] * 50, pa.map_(pa.string(), pa.int64())),
            **{f"n{at}": [""] * 150 for at in range(20)},
        }
    )
    for version in ("1.0", "2.6"):
        pq.write_table(table, path, version=version, row_group_size=40, write_page_index=True)
        with pafs.LocalFileSystem().open_input_file(str(path)) as source:
            require_readable_chunks(source, pq.ParquetFile(source).metadata, "f")


@pytest.mark.parametrize("codec", [b"\x06", b"\x10"])  # LZO, and one that is not known yet
def test_a_compression_that_arrow_lacks_is_not_called_damage(tmp_path: Path, codec: bytes) -> None:
    new = b"\x18\x01c\x15" + codec + b"\x16"
    old = b"\x18\x01c\x15\x00\x16"
    file = with_footer(tmp_path, {"c": [7]}, old, new, compression="none")
    with pytest.raises(UnsupportedFileError, match=r"this reader cannot decode it.*compression"):
        list(read_rows(file, [Column(name="c", type="bigint")]))


def test_a_writer_whose_name_is_not_utf8_is_read(tmp_path: Path) -> None:
    file = with_footer(tmp_path, {"c": [7.5]}, b"parquet-cpp", b"parqu\xe9t-cpp")
    assert read_facts(file).created_by.startswith("parqu\ufffdt-cpp")
    rows = read_rows(file, [Column(name="c", type="double")])
    assert [row for batch in rows for row in batch.column(0).to_pylist()] == [7.5]


@pytest.mark.parametrize("other", [[1], [1.5], [{"f": 1}]])
def test_a_column_whose_name_is_not_utf8_is_refused_by_its_name(
    tmp_path: Path, other: list[object]
) -> None:
    file = with_footer(tmp_path, {"c": [7], "cafe": other}, b"cafe", b"caf\xe9")
    for read in (read_facts, lambda file: list(read_rows(file, [Column(name="c", type="bigint")]))):
        with pytest.raises(UnsupportedFileError, match="'caf\ufffd', whose name is not UTF-8"):
            read(file)
