"""Lines of text as Hive reads them, or refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError, UnsupportedTableError
from airflow_hiveacid.format.table import Column, FileFormat, Storage
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm, text_form
from tests.support.cases import tables_of
from tests.unit.storage.orc_tables import plain_file

TABLES: Final = tables_of(__file__)
COMMAS: Final = TextForm(delimiter=",")


def rows(
    folder: Path,
    content: bytes,
    *types: str,
    form: TextForm = COMMAS,
    name: str = "000000_0",
    only: list[str] | None = None,
) -> list[list[Any]]:
    path = folder / name
    path.write_bytes(content)
    file = plain_file(path, FileFormat.TEXT, text=form)
    columns = [Column(name=f"c{at}", type=type_) for at, type_ in enumerate(types)]
    found = read_rows(file, columns, data_columns=only)
    return [list(row.values()) for batch in found for row in batch.to_pylist()]


def test_the_null_text_and_empty_numbers_are_read_as_null(tmp_path: Path) -> None:
    assert rows(tmp_path, b"\\N,\\N\n,\n1,x\n", "int", "string") == [
        [None, None],
        [None, ""],
        [1, "x"],
    ]
    assert rows(tmp_path, b"\\N,\\N\n,y\n1,x\n2,", "int", "string") == [
        [None, None],
        [None, "y"],
        [1, "x"],
        [2, ""],
    ]
    form = TextForm(delimiter=",", null_text="nil")
    assert rows(tmp_path, b"nil,\\N\n", "int", "string", form=form) == [[None, "\\N"]]


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("header", [b"", b"h\n"])
def test_a_line_without_a_line_end_is_read_if_it_is_the_only_one(
    tmp_path: Path, size: int, header: bytes
) -> None:
    form = TextForm(delimiter=",", header_lines=int(bool(header)))
    line = b"a" * size + b",2"
    assert rows(tmp_path, header + line, "string", "int", form=form) == [["a" * size, 2]]
    assert rows(tmp_path, header, "string", "int", form=form) == []


def test_quotes_and_blanks_are_read_as_part_of_a_string(tmp_path: Path) -> None:
    assert rows(tmp_path, b'"a" , NULL\n', "string", "string") == [['"a" ', " NULL"]]


def test_missing_fields_are_null_and_extra_fields_are_ignored(tmp_path: Path) -> None:
    assert rows(tmp_path, b"1,a\n2,b\n", "int", "string", "int") == [[1, "a", None], [2, "b", None]]
    assert rows(tmp_path, b"1,a\n2,b\n", "int") == [[1], [2]]
    assert rows(tmp_path, b"1,a\n2,b\n", "int", "string", only=["c1"]) == [["a"], ["b"]]
    assert rows(tmp_path, b"", "int") == []


def test_a_boolean_is_read_in_any_case(tmp_path: Path) -> None:
    found = rows(tmp_path, b"TRUE\ntrue\nFalse\n\n", "boolean")
    assert found == [[True], [True], [False], [None]]


def test_a_line_with_too_many_fields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileError, match="too many fields"):
        rows(tmp_path, b"1,2\n", "int", form=TextForm(delimiter=",", most_fields=1))


def test_a_column_missing_from_the_partition_definition_is_null(tmp_path: Path) -> None:
    path = tmp_path / "000000_0"
    path.write_bytes(b"1,a,7\n")
    columns = tuple(Column(name=f"c{at}", type="string") for at in range(3))
    for own, found in ((None, "7"), (columns, "7"), (columns[:2], None)):
        file = plain_file(path, FileFormat.TEXT, text=COMMAS, columns=own)
        (batch,) = read_rows(file, columns)
        assert batch.to_pylist() == [{"c0": "1", "c1": "a", "c2": found}]


@pytest.mark.parametrize(("before", "now", "text", "found"), TABLES["changed types"])
def test_a_column_with_a_changed_type_is_refused_unless_the_value_is_safely_widened(
    tmp_path: Path, before: str, now: str, text: str, found: object
) -> None:
    path = tmp_path / "000000_0"
    path.write_text(f"{text}\n")
    own = (Column(name="c", type=before),)
    file = plain_file(path, FileFormat.TEXT, columns=own)
    columns = [Column(name="c", type=now)]
    if found is None:
        with pytest.raises(UnsupportedFileError, match="'c'"):
            list(read_rows(file, columns))
    else:
        (batch,) = read_rows(file, columns)
        assert batch.to_pylist() == [{"c": found}]


def test_lines_with_different_numbers_of_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileError, match="lines cannot be parsed as Hive parses them"):
        rows(tmp_path, b"1,a\n2\n", "int", "string")


def test_varchar_values_are_truncated_and_char_values_are_padded(tmp_path: Path) -> None:
    assert rows(tmp_path, b"abcd ,ab \n", "varchar(3)", "char(4)") == [["abc", "ab  "]]


@pytest.mark.parametrize(("type_", "text"), TABLES["not of Hive"])
def test_a_value_that_hive_does_not_write_is_refused(tmp_path: Path, type_: str, text: str) -> None:
    with pytest.raises(UnsupportedFileError, match="that Hive does not write"):
        rows(tmp_path, f"{text}\n".encode(), type_)


@pytest.mark.parametrize("type_", ["binary", "array<int>", "map<int,int>", "struct<x:int>"])
def test_binary_and_nested_types_in_text_are_refused(tmp_path: Path, type_: str) -> None:
    with pytest.raises(UnsupportedFileError, match="not read from text"):
        rows(tmp_path, b"x\n", type_)


def test_compression_is_detected_by_the_file_name(tmp_path: Path) -> None:
    assert rows(tmp_path, gzip.compress(b"1\n"), "int", name="000000_0.gz") == [[1]]
    with pytest.raises(UnsupportedFileError, match=r"text in \.deflate"):
        rows(tmp_path, b"x", "int", name="000000_0.deflate")
    for loaded in ("flights.csv", "part.1", "000000_0_copy_1", "x.GZ"):
        assert rows(tmp_path, b"1\n", "int", name=loaded) == [[1]]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_of_empty_fields_is_read_and_an_empty_line_is_refused(
    tmp_path: Path, end: bytes
) -> None:
    lines = [b"a,b", b",", b"c,d", b","]
    whole = [["a", "b"], ["", ""], ["c", "d"], ["", ""]]
    many = end.join(lines * 9000) + end
    assert rows(tmp_path, many, "string", "string") == whole * 9000
    for at in range(1, 5):
        content = end.join([*lines[:at], b"", *lines[at:]]) + end
        with pytest.raises(UnsupportedFileError, match="empty lines"):
            rows(tmp_path, content, "string", "string")


def test_an_empty_line_at_the_border_of_two_buffers_is_refused(tmp_path: Path) -> None:
    for lines in (16_383, 16_384, 16_385):  # of four bytes; 64 KiB are looked at at a time
        with pytest.raises(UnsupportedFileError, match="empty lines"):
            rows(tmp_path, b"a,b\n" * lines + b"\n,\n", "string", "string")


def test_the_last_line_may_lack_a_line_end(tmp_path: Path) -> None:
    assert rows(tmp_path, b"7", "int") == [[7]]
    assert rows(tmp_path, b"h\n7", "int", form=TextForm(delimiter=",", header_lines=1)) == [[7]]
    assert rows(tmp_path, gzip.compress(b"7,a"), "int", "string", name="x.gz") == [[7, "a"]]
    many = b"a,b\n" * 20_000
    assert len(rows(tmp_path, many + b"c,d", "string", "string")) == 20_001


def test_a_line_of_several_megabytes_is_read(tmp_path: Path) -> None:
    long = b"x" * (3 << 20)
    found = rows(tmp_path, b"1," + long + b"\n2,b\n", "int", "string")
    assert [[row[0], len(row[1])] for row in found] == [[1, 3 << 20], [2, 1]]


def form_of(**parameters: str) -> TextForm:
    storage = Storage(format=FileFormat.TEXT, parameters=tuple(parameters.items()))
    return text_form("d.t", storage, {})


@pytest.mark.parametrize(("parameters", "delimiter"), TABLES["delimiters"])
def test_a_delimiter_is_given_as_a_character_or_as_its_number(
    parameters: dict[str, str], delimiter: str
) -> None:
    assert form_of(**parameters).delimiter == delimiter


@pytest.mark.parametrize(("name", "value"), TABLES["unsupported properties"])
def test_unsupported_text_properties_are_refused_for_text_tables_only(
    name: str, value: str
) -> None:
    with pytest.raises(UnsupportedTableError):
        form_of(**{name: value})
    # Other formats do not ask.
    storage = Storage(format=FileFormat.ORC, parameters=((name, value),))
    assert text_form("d.t", storage, {}) is DEFAULT_TEXT


def test_the_header_lines_of_each_file_are_skipped(tmp_path: Path) -> None:
    form = TextForm(delimiter=",", header_lines=2)
    assert rows(tmp_path, b"h,h\n\n1,a\n", "int", "string", form=form) == [[1, "a"]]
    for nothing in (b"h\nh\n", b"h\nh", b"h", b"\n\n"):
        assert rows(tmp_path, nothing, "int", "string", form=form) == []


def test_a_line_end_at_the_border_of_two_buffers_ends_one_header_line(tmp_path: Path) -> None:
    form = TextForm(delimiter=",", header_lines=1)
    for length in (65_534, 65_535, 65_536):  # 64 KiB are looked at at a time
        assert rows(tmp_path, b"h" * length + b"\r\n", "int", form=form) == []


def test_the_null_text_comes_from_the_partition_then_the_table_then_the_serde() -> None:
    name, header = "serialization.null.format", "skip.header.line.count"

    def form(serde: dict[str, str], table: dict[str, str], own: dict[str, str] | None) -> TextForm:
        storage, partition = (
            Storage(format=FileFormat.TEXT, parameters=tuple((said or {}).items()))
            for said in (serde, own)
        )
        return text_form("d.t", storage, table, None if own is None else partition)

    assert form({name: "s"}, {}, None).null_text == "s"
    assert form({name: "s"}, {name: "t"}, None).null_text == "t"
    assert form({name: "s"}, {}, {}).null_text == "s"
    assert form({name: "s"}, {name: "t"}, {}).null_text == "t"
    assert form({name: "s"}, {name: "t"}, {name: "p"}).null_text == "p"
    assert form({}, {header: "2"}, {header: "1"}).header_lines == 2
    orc = Storage(format=FileFormat.ORC)
    assert text_form("d.t", Storage(format=FileFormat.TEXT), {header: "1"}, orc) is DEFAULT_TEXT
    assert text_form("d.t", orc, {header: "1"}, Storage(format=FileFormat.TEXT)).header_lines == 1
