"""What is written as text is read as the same values, by the rules of Hive, or is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.table import (
    FileFormat,
)
from airflow_hiveacid.storage.plain import text_rows
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm, check_text_writable
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.unit.storage.orc_tables import plain_file
from tests.unit.storage.writing import columns_of, partition_of, table_of, write_rows

TYPES: Final = {
    "bo": "boolean",
    "ti": "tinyint",
    "bi": "bigint",
    "fl": "float",
    "do": "double",
    "de": "decimal(38,18)",
    "dm": "decimal(7,2)",
    "st": "string",
    "vc": "varchar(10)",
    "ch": "char(4)",
    "da": "date",
    "ts": "timestamp",
}


def write(
    folder: Path, types: dict[str, str], rows: Sequence[Any], form: TextForm = DEFAULT_TEXT
) -> PlainFile:
    columns, path = columns_of(types), folder / "base_0000001" / "000000_0"
    named = [dict(zip(types, row, strict=True)) for row in rows]
    micros = {"timestamp": pa.timestamp("us")}
    wanted = pa.struct([(f.name, micros.get(types[f.name], f.type)) for f in row_type(columns)])
    array = pa.array(named, wanted)
    done = write_rows(path, FileFormat.TEXT, columns, array, table="d.t", text=form)
    assert (done.rows, done.size_bytes) == (len(rows), path.stat().st_size)
    return plain_file(path, FileFormat.TEXT, text=form)


def read(file: PlainFile, types: dict[str, str]) -> list[tuple[Any, ...]]:
    batches = read_rows(file, columns_of(types), timestamps=TimestampForm.MICROSECONDS)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_written_lines_equal_those_of_hive(tmp_path: Path) -> None:
    row = (
        *(True, -128, 1 << 62, 1.5, -2.25, Decimal("0.000000000000000001"), Decimal("-12345.60")),
        *("Grüße, 世界", "vary", "pad", dt.date(1500, 2, 28)),
        dt.datetime(1969, 7, 20, 20, 17, 40, 500_000),  # noqa: DTZ001 - a wall clock's
    )
    far = (
        *(False, 0, 0, float("inf"), 1e-5, Decimal(0), Decimal("0.10"), "", "", ""),
        *(dt.date(9999, 12, 31), dt.datetime(1, 1, 1)),  # noqa: DTZ001
    )
    nothing = (None,) * len(TYPES)
    file = write(tmp_path, TYPES, [row, far, nothing])
    lines = Path(file.path).read_bytes().decode().splitlines()
    assert lines[0].split("\x01") == [
        *("true", "-128", str(1 << 62), "1.5", "-2.25", "0.000000000000000001", "-12345.60"),
        *("Grüße, 世界", "vary", "pad ", "1500-02-28", "1969-07-20 20:17:40.5"),
    ]
    assert lines[1].split("\x01") == [
        *("false", "0", "0", "Infinity", "1.0E-5", "0.000000000000000000", "0.10", "", ""),
        *("    ", "9999-12-31", "0001-01-01 00:00:00"),
    ]
    assert lines[2].split("\x01") == ["\\N"] * len(TYPES)
    padded = [(*one[:9], one[9].ljust(4), *one[10:]) for one in (row, far)]
    assert read(file, TYPES) == [*padded, nothing]


@pytest.mark.parametrize(
    ("types", "rows"),
    [
        ({"s": "string"}, [("",), ("a",), ("",), (None,), (" b ",)]),
        ({"s": "string"}, [("",)]),
        ({"s": "string", "t": "string"}, [("", ""), (None, ""), ("", None), ("a\x00b", "\t")]),
        ({"i": "int", "s": "string"}, [(i, f'"{i}"') for i in range(40_000)]),
    ],
)
def test_empty_strings_quotes_and_blanks_are_read_as_they_were_written(
    tmp_path: Path, types: dict[str, str], rows: list[Any]
) -> None:
    assert read(write(tmp_path, types, rows), types) == rows


def test_the_delimiter_and_null_text_of_the_table_are_written(tmp_path: Path) -> None:
    form = TextForm(delimiter=",", null_text="nil")
    types = {"a": "int", "b": "string"}
    file = write(tmp_path, types, [(1, "\\N"), (None, "x\x01y"), (2, None)], form)
    assert Path(file.path).read_bytes() == b"1,\\N\nnil,x\x01y\n2,nil\n"
    assert read(file, types) == [(1, "\\N"), (None, "x\x01y"), (2, None)]


def test_without_rows_the_written_file_is_empty(tmp_path: Path) -> None:
    assert write(tmp_path, {"a": "int"}, []).length == 0


def _bytes(value: bytes) -> pa.Array:
    return pa.array([value], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("type_", "value", "form", "what"),
    [
        ("string", "a\nb", DEFAULT_TEXT, r"'\\n' in it, which ends"),
        ("string", "a\rb", DEFAULT_TEXT, r"'\\r' in it"),
        ("string", "a\x01b", DEFAULT_TEXT, r"'\\x01' in it"),
        ("varchar(9)", "a,b", TextForm(delimiter=","), "',' in it"),
        ("string", "\\N", DEFAULT_TEXT, "stands for NULL"),
        ("string", "", TextForm(null_text=""), "stands for NULL"),
        ("int", 7, TextForm(null_text="7"), "stands for NULL"),
        ("date", dt.date(2020, 1, 1), TextForm(delimiter="-"), "'-' in it"),
        ("double", 1.5, TextForm(delimiter="."), r"'\.' in it"),
        ("string", "\ufeffa", DEFAULT_TEXT, "U[+]FEFF"),
        ("varchar(2)", "abc", DEFAULT_TEXT, "a string of 3 characters; shorten it"),
    ],
)
def test_values_that_hive_would_read_differently_are_refused(
    tmp_path: Path, type_: str, value: object, form: TextForm, what: str
) -> None:
    types = {"c": type_, "d": "int"}
    with pytest.raises(TypeMismatchError, match=what) as caught:
        write(tmp_path, types, [(value, None)], form)
    assert type_ == "varchar(2)" or "; change the value, or store" in str(caught.value)
    assert not (tmp_path / "base_0000001" / "000000_0").exists()


def test_invalid_utf8_and_years_without_four_digits_are_refused(tmp_path: Path) -> None:
    days = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    for type_, values in (("string", _bytes(b"\xff")), ("date", days)):
        rows = pa.StructArray.from_arrays([values], names=["c"])
        with pytest.raises(TypeMismatchError, match="in text"):
            write_rows(tmp_path / "000000_0", FileFormat.TEXT, columns_of({"c": type_}), rows)


def test_a_line_above_the_length_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_rows, "LONGEST_LINE_BYTES", 10)
    assert write(tmp_path / "a", {"s": "string"}, [("123456789",)]).length == 10
    with pytest.raises(TypeMismatchError, match="more than 10 bytes"):
        write(tmp_path / "b", {"s": "string"}, [("1234567890",)])


# ---- which tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "parameters", "serde", "what"),
    [
        ("array<int>", {}, {}, r"its column a is of type array<int>"),
        ("binary", {}, {}, "its column a is of type binary"),
        ("int", {"skip.header.line.count": "1"}, {}, "skip the first rows"),
        ("int", {}, {"escape.delim": "\\"}, "escape.delim"),
        ("int", {}, {"serialization.encoding": "latin1"}, "serialization.encoding"),
    ],
)
def test_writing_text_tables_with_unsupported_types_or_properties_is_refused(
    type_: str, parameters: dict[str, str], serde: dict[str, str], what: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=what):
        check_text_writable(table_of({"a": type_}, FileFormat.TEXT, parameters, serde))


def test_a_partition_with_different_delimiters_is_refused() -> None:
    found = table_of({"a": "int"}, FileFormat.TEXT, serde={"field.delim": ","})
    alike, silent, other = (
        partition_of(FileFormat.TEXT, **serde)
        for serde in ({"field.delim": ","}, {}, {"field.delim": ";"})
    )
    check_text_writable(found, [alike, silent])
    with pytest.raises(UnsupportedTableError, match="partition p=x has other delimiters"):
        check_text_writable(found, [other])
