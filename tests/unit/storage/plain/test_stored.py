"""Every row that a file stores, whichever directory it is in, or an error."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, StorageError, UnsupportedFileError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.stored import (
    columns_in,
    format_by_content,
    row_path,
    stored_rows,
    why_not_as_defined,
)
from airflow_hiveacid.storage.plain.text_form import TextForm
from airflow_hiveacid.storage.stores.locations import locate
from airflow_hiveacid.storage.values.column_types import row_type
from tests.unit.storage.orc_tables import COLUMNS, event, insert, tombstone, write_acid, write_plain
from tests.unit.storage.writing import columns_of, write_rows

LOCAL = pafs.LocalFileSystem()


def described(path: Path, format_: FileFormat = FileFormat.ORC, key: str = "x/f") -> PlainFile:
    store, root = locate(f"file:{path}")
    length = path.stat().st_size
    return PlainFile(store=store, path=root, key=key, length=length, format=format_)


def names_in(file: PlainFile) -> list[str | None]:
    batches = stored_rows(file, COLUMNS, data_columns=["name"], batch_rows=100)
    return [row["name"] for batch in batches for row in batch.to_pylist()]


def test_all_rows_of_a_file_are_read_whatever_write_wrote_them(tmp_path: Path) -> None:
    file = described(write_acid(tmp_path / "f", [insert(7, 0, 1), insert(900, 0, 2)]))
    assert names_in(file) == ["n1", "n2"]
    assert row_path(file.tail()) == ("row",)
    assert columns_in(file, file.tail()) == ("id", "name")


def test_a_file_without_acid_columns_is_read_too(tmp_path: Path) -> None:
    file = described(write_plain(tmp_path / "f", [{"id": 1, "name": "Zoe"}]))
    assert names_in(file) == ["Zoe"]
    assert row_path(file.tail()) == ()


def test_delete_events_are_no_rows(tmp_path: Path) -> None:
    file = described(write_acid(tmp_path / "f", [tombstone(1, 0, 2), tombstone(1, 1, 2)]))
    assert names_in(file) == []


@pytest.mark.promise("K10")
@pytest.mark.parametrize("operation", [1, 2])
def test_a_row_of_an_update_or_delete_event_of_hive_2_is_never_skipped(
    tmp_path: Path, operation: int
) -> None:
    old = event(1, 0, {"id": 1, "name": "Zoe"}, operation=operation)
    file = described(write_acid(tmp_path / "f", [old, tombstone(1, 1, 1)]))
    with pytest.raises((UnsupportedFileError, CorruptFileError)):
        names_in(file)


@pytest.mark.promise("K10")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_stripe_without_rows_does_not_end_the_search_for_rows(
    tmp_path: Path, is_first: bool
) -> None:
    old = [event(1, 0, {"id": 1, "name": "Zoe"}, operation=1)]
    deleted = [tombstone(2, 0, 2)]
    file = described(
        write_acid(tmp_path / "f", *((old, deleted) if is_first else ([tombstone(0, 0, 2)], old)))
    )
    with pytest.raises((UnsupportedFileError, CorruptFileError)):
        names_in(file)


def test_an_update_event_in_a_base_is_a_row(tmp_path: Path) -> None:
    row = event(1, 0, {"id": 1, "name": "Zoe"}, operation=1)
    path = write_acid(tmp_path / "f", [row])
    assert names_in(described(path, key="base_0000001/f")) == ["Zoe"]


@pytest.mark.promise("K10")
def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = write_acid(tmp_path / "f", [insert(1, n, n) for n in range(50)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError):
        names_in(described(path))
    path.unlink()
    with pytest.raises(StorageError):
        format_by_content(LOCAL, str(path))


def test_the_first_bytes_show_the_format(tmp_path: Path) -> None:
    path = tmp_path / "f"
    pq.write_table(pa.table({"id": [1], "name": ["Zoe"]}), path)
    assert format_by_content(LOCAL, str(path)) is FileFormat.PARQUET
    file = described(path, FileFormat.PARQUET)
    assert columns_in(file, None) == ("id", "name")
    assert names_in(file) == ["Zoe"]
    assert format_by_content(LOCAL, str(write_acid(path, [insert(1, 0, 1)]))) is FileFormat.ORC
    path.write_bytes(b"Obj\x01")
    assert format_by_content(LOCAL, str(path)) is FileFormat.AVRO
    path.write_bytes(b"or")
    assert format_by_content(LOCAL, str(path)) is None


def stored(
    path: Path, types: dict[str, str], row: dict[str, object], format_: FileFormat
) -> PlainFile:
    """A file of one row, as our writers write it for a table of these columns."""
    columns = columns_of(types)
    write_rows(path, format_, columns, pa.array([row], row_type(columns)))
    return described(path, format_)


def compared(file: PlainFile, table: dict[str, str], *used: str, is_outside: bool = False) -> str:
    """Why a file's values cannot be compared with these columns of a table; blank if they can."""
    columns = columns_of(table)
    wanted = [column for column in columns if column.name in used]
    tail = file.tail() if file.format is FileFormat.ORC else None
    try:
        why = why_not_as_defined(file, tail, columns, wanted, is_outside=is_outside)
        for _ in stored_rows(file, columns, data_columns=used, batch_rows=9) if why is None else ():
            pass
    except UnsupportedFileError as error:
        return str(error)
    return why or ""


BINARY = (FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO)
ALL = (*BINARY, FileFormat.TEXT)


@pytest.mark.promise("K10")
@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize(
    ("stored_as", "value", "now"),
    [
        ("varchar(30)", "Zoe-7f3a", "varchar(4)"),
        ("char(30)", "Zoe-7f3a", "char(4)"),
        ("string", "Zoe-7f3a", "varchar(4)"),
        ("decimal(20,5)", Decimal("1234.56789"), "decimal(20,2)"),
        ("decimal(20,2)", Decimal("1234567.89"), "decimal(6,2)"),
        ("string", "12x", "int"),
        ("double", 1.5, "int"),
        ("timestamp", dt.datetime(2020, 1, 1, 10), "date"),  # noqa: DTZ001
    ],
)
def test_a_value_that_the_type_of_the_table_would_change_is_not_compared(
    tmp_path: Path, format_: FileFormat, stored_as: str, value: object, now: str
) -> None:
    file = stored(tmp_path / "f", {"id": "bigint", "x": stored_as}, {"id": 1, "x": value}, format_)
    assert compared(file, {"id": "bigint", "x": now}, "x")
    assert not compared(file, {"id": "bigint", "x": stored_as}, "x")
    assert not compared(file, {"id": "bigint", "x": now}, "id")


@pytest.mark.promise("K10")
@pytest.mark.parametrize(
    ("stored_as", "value", "now"),
    [
        ("int", 7, "bigint"),
        ("varchar(4)", "Zoe", "varchar(30)"),
        ("varchar(4)", "Zoe", "string"),
        ("decimal(5,2)", Decimal("1.50"), "decimal(9,3)"),
    ],
)
def test_a_value_that_the_type_of_the_table_keeps_is_compared(
    tmp_path: Path, stored_as: str, value: object, now: str
) -> None:
    file = stored(tmp_path / "f", {"x": stored_as}, {"x": value}, FileFormat.ORC)
    assert not compared(file, {"x": now}, "x")


@pytest.mark.promise("K10")
@pytest.mark.parametrize("format_", BINARY)
@pytest.mark.parametrize(
    "now",
    [
        "struct<a:int>",
        "struct<a:int,c:string>",
        "struct<b:string,a:int>",
        "struct<a:int,b:varchar(2)>",
        "struct<a:bigint,b:string>",
    ],
)
def test_a_struct_with_other_fields_than_in_the_table_is_not_compared(
    tmp_path: Path, format_: FileFormat, now: str
) -> None:
    value = {"x": {"a": 1, "b": "Zoe"}}
    file = stored(tmp_path / "f", {"x": "struct<a:int,b:string>"}, value, format_)
    assert compared(file, {"x": now}, "x")


@pytest.mark.promise("K10")
@pytest.mark.parametrize(("zone", "is_compared"), [("UTC", False), (None, True)])
def test_an_instant_that_hive_shows_in_another_time_zone_is_not_compared(
    tmp_path: Path, zone: str | None, is_compared: bool
) -> None:
    when = pa.array([dt.datetime.fromisoformat("2024-01-05")], pa.timestamp("us", zone))
    pq.write_table(pa.table({"t": when, "id": [1]}), tmp_path / "f")
    file = described(tmp_path / "f", FileFormat.PARQUET)
    now = {"t": "timestamp", "id": "bigint"}
    assert (compared(file, now, "t") == "") is is_compared
    assert not compared(file, now, "id")


@pytest.mark.promise("K10")
@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize(
    "now",
    [
        {"id": "bigint"},  # name was dropped
        {"name": "string", "id": "bigint"},
        {"id": "bigint", "alias": "string", "name": "string"},  # renamed, and added again
    ],
)
def test_a_file_whose_columns_are_not_those_of_the_table_is_not_compared(
    tmp_path: Path, format_: FileFormat, now: dict[str, str]
) -> None:
    row: dict[str, object] = {"id": 1, "name": "Zoe"}
    file = stored(tmp_path / "f", {"id": "bigint", "name": "string"}, row, format_)
    assert compared(file, now, *now)
    if format_ is not FileFormat.TEXT:
        assert not compared(file, {"id": "bigint", "name": "string", "new": "int"}, "name", "new")


@pytest.mark.promise("K10")
@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_a_file_outside_the_table_may_have_more_columns(
    tmp_path: Path, format_: FileFormat
) -> None:
    row: dict[str, object] = {"id": 1, "name": "Zoe", "more": 2}
    has = {"id": "bigint", "name": "string", "more": "int"}
    file = stored(tmp_path / "f", has, row, format_)
    now = {"id": "bigint", "name": "string"}
    assert not compared(file, now, *now, is_outside=True)
    assert compared(file, now, *now)


@pytest.mark.promise("K10")
@pytest.mark.parametrize(
    "form",
    [
        TextForm(delimiter=","),
        TextForm(null_text="Zoe"),
        TextForm(header_lines=1),
    ],
)
def test_a_text_file_that_may_have_another_form_is_not_compared(
    tmp_path: Path, form: TextForm
) -> None:
    columns = {"id": "string", "name": "string"}
    file = stored(tmp_path / "f", columns, {"id": "1", "name": "Zoe,x"}, FileFormat.TEXT)
    assert not compared(file, columns, "name")
    assert compared(replace(file, text=form), columns, "name")
