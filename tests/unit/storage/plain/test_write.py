"""What is written into insert-only tables is what is read out of them, in every type."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.limits import padded, unpadded
from airflow_hiveacid.storage.values.timestamps import TimestampForm, with_pairs
from tests.support.writer_cases import (
    CASES,
    DATES,
    DEEP,
    DEEP_EARLY,
    LISTS_AND_STRUCTS,
    MICROSECONDS,
    NESTED,
    NUMBERS,
    TEXT,
    WriterCase,
    case_of,
    nanoseconds,
)
from tests.unit.storage.orc_tables import plain_file
from tests.unit.storage.writing import FS, columns_of, lines_of, write_rows

IN_PARQUET: Final = (NUMBERS, TEXT, DATES, MICROSECONDS, LISTS_AND_STRUCTS, NESTED)


def written(path: Path, case: WriterCase, format_: FileFormat) -> PlainFile:
    file = str(path / "base_0000001" / "000000_0")
    rows = case.batch().to_struct_array()
    done = write_rows(file, format_, case.columns, rows.slice(0, 2), rows.slice(2))
    length = Path(file).stat().st_size
    assert (done.rows, done.size_bytes) == (len(rows), length)
    return plain_file(file, format_, key="base_0000001/000000_0")


def read(file: PlainFile, case: WriterCase) -> list[str]:
    batches = read_rows(file, case.columns, timestamps=TimestampForm.PAIR)
    return _without_padding(lines_of(batches, case.columns), case)


def told(case: WriterCase) -> list[str]:
    """The rows of a case, as they are read: a char with its padding."""
    types = [parse_type(column.type) for column in case.columns]
    columns = [
        padded(unpadded(values), type_.length)
        if isinstance(type_, CharType)
        else with_pairs(values)
        for values, type_ in zip(case.batch().columns, types, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in case.columns])
    return _without_padding(lines_of([batch], case.columns), case)


def _without_padding(lines: list[str], case: WriterCase) -> list[str]:
    """A char below a list comes with its padding."""
    is_nested = case in (NESTED, DEEP, DEEP_EARLY)
    return [re.sub(' +"', '"', line) for line in lines] if is_nested else lines


@pytest.mark.parametrize("case", [*CASES, *IN_PARQUET], ids=lambda c: c.name)
def test_orc_values_are_read_as_they_were_written(tmp_path: Path, case: WriterCase) -> None:
    if case is MICROSECONDS:
        case = dataclasses.replace(case, values=(case.values[0][1:],))  # ORC has no 23:59:59.5
    assert read(written(tmp_path, case, FileFormat.ORC), case) == told(case)


@pytest.mark.parametrize("case", IN_PARQUET, ids=lambda c: c.name)
def test_parquet_values_are_read_as_they_were_written(tmp_path: Path, case: WriterCase) -> None:
    assert read(written(tmp_path, case, FileFormat.PARQUET), case) == told(case)


_INNER: Final = "struct<x:int,y:struct<z:string>,l:array<struct<q:int>>>"


def _inner(seed: int) -> dict[str, object] | None:
    def unless(by: int, value: object) -> object:
        return None if seed % by == 0 else value

    items = unless(5, [unless(2, {"q": seed})])
    inner = {"x": unless(7, seed), "y": unless(4, {"z": unless(6, str(seed))}), "l": items}
    return None if seed % 3 == 0 else inner


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
@pytest.mark.parametrize("has_nulls", [True, False])
@pytest.mark.parametrize("start", [0, 5, 4097])
@pytest.mark.long_cases("0-*", "5-False-*")
def test_slices_of_nested_values_are_read_as_they_were_written(
    tmp_path: Path, format_: FileFormat, start: int, *, has_nulls: bool
) -> None:
    columns = columns_of({"s": _INNER, "a": f"array<{_INNER}>", "m": f"map<int,{_INNER}>"})

    def row(i: int) -> dict[str, object]:
        if has_nulls and i % 7 == 0:
            return {"s": None, "a": None, "m": None}
        many = [_inner(i + k) for k in range(i % 3)]
        return {"s": _inner(i) or {"x": i}, "a": many, "m": list(enumerate(many))}

    rows = pa.array([row(i) for i in range(9000)], row_type(columns)).slice(start)
    path = tmp_path / "000000_0"
    write_rows(path, format_, columns, rows.slice(0, 3001), rows.slice(3001))
    file = plain_file(path, format_)
    found = pa.Table.from_batches(read_rows(file, columns))
    assert found.to_pylist() == rows.to_pylist()


def test_orc_declares_the_type_lengths_of_the_table(tmp_path: Path) -> None:
    file = written(tmp_path, TEXT, FileFormat.ORC)
    tail = read_tail(FS, file.path, file.length)
    kinds = {c.name: tail.types[tail.types[0].by_name[c.name]] for c in TEXT.columns}
    lengths = {c.name: parse_type(c.type) for c in TEXT.columns}
    assert {n: k.maximum_length for n, k in kinds.items()} == {
        n: getattr(t, "length", 0) for n, t in lengths.items()
    }
    assert not tail.user_metadata


def test_parquet_declares_time_zone_and_calendar_and_stores_decimals_as_hive_does(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, MICROSECONDS, FileFormat.PARQUET)
    metadata = pq.read_metadata(file.path)
    assert metadata.metadata == {b"writer.time.zone": b"UTC", b"writer.date.proleptic": b"true"}
    assert metadata.schema.column(0).physical_type == "INT96"
    schema = pq.read_metadata(written(tmp_path / "n", NUMBERS, FileFormat.PARQUET).path).schema
    kinds = {
        schema.column(at).physical_type
        for at in range(len(schema))
        if schema.column(at).logical_type.type == "DECIMAL"
    }
    assert kinds == {"FIXED_LEN_BYTE_ARRAY"}


def test_floating_point_columns_have_no_bounds_or_dictionaries_in_parquet(
    tmp_path: Path,
) -> None:
    types = {
        "i": "int",
        "d": "double",
        "s": "struct<f:float,y:date>",
        "l": "array<struct<q:date,r:double>>",
        "m": "map<string,double>",
    }
    columns = columns_of(types)
    item = {"q": dt.date(2020, 1, 1), "r": 1.0}
    row = {"i": 1, "d": float("nan"), "s": {"f": 2.0, "y": item["q"]}, "l": [item], "m": [("k", 1)]}
    path = tmp_path / "000000_0"
    write_rows(path, FileFormat.PARQUET, columns, pa.array([row], row_type(columns)))
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    # NaN is greater than 1: who passes over what ends at 1 has passed over it. A dictionary of -0.0
    # does not contain 0.0, although they are equal.
    found = {chunk.path_in_schema: chunk.is_stats_set for chunk in chunks}
    assert found == {c.path_in_schema: c.has_dictionary_page for c in chunks}
    assert found == {
        "i": True,
        "d": False,
        "s.f": False,
        "s.y": True,
        "l.list.element.q": True,
        "l.list.element.r": False,
        "m.key_value.key": True,
        "m.key_value.value": False,
    }


def test_a_char_is_stored_padded_in_orc_and_trimmed_in_parquet(tmp_path: Path) -> None:
    columns = columns_of({"c": "char(4)"})
    for format_, stored in ((FileFormat.ORC, "ab  "), (FileFormat.PARQUET, "ab")):
        path = tmp_path / format_.value
        write_rows(path, format_, columns, pa.array([{"c": "ab "}]))
        read_back = orc.read_table if format_ is FileFormat.ORC else pq.read_table
        assert read_back(path).column("c").to_pylist() == [stored]


def test_several_batches_share_one_row_group(tmp_path: Path) -> None:
    file = written(tmp_path, NUMBERS, FileFormat.PARQUET)
    assert pq.read_metadata(file.path).num_row_groups == 1


def test_strings_with_a_nul_character_have_no_bounds_in_orc(tmp_path: Path) -> None:
    columns, path = columns_of({"nul": "string", "none": "string"}), tmp_path / "000000_0"
    rows = pa.array([{"nul": "a\0b", "none": "b"}, {"nul": "a\0a", "none": "a"}])
    write_rows(path, FileFormat.ORC, columns, rows)
    tail = read_tail(FS, str(path))
    # ORC's C++ writer compares up to the NUL: readers would pass over rows that they ask for.
    found = [tail.statistics(column_id) for column_id in (1, 2)]
    assert [s is not None and s.strings.HasField("minimum") for s in found] == [False, True]


def test_invalid_utf8_is_preserved_in_rows_with_early_fractional_timestamps(tmp_path: Path) -> None:
    columns = columns_of({"s": "string", "t": "timestamp"})
    texts = pa.array([b"\xff\x00", b"ok"], pa.binary()).view(pa.string())
    times = pa.array([-500_000_123, 7], pa.timestamp("us"))  # before 1970, with a fraction
    rows = pa.StructArray.from_arrays([texts, times], names=["s", "t"])
    path = tmp_path / "000000_0"
    write_rows(path, FileFormat.ORC, columns, rows)
    file = plain_file(path, FileFormat.ORC)
    (batch,) = read_rows(file, columns, timestamps=TimestampForm.MICROSECONDS)
    assert batch.column("s").view(pa.binary()).to_pylist() == [b"\xff\x00", b"ok"]
    assert batch.column("t").cast(pa.int64()).to_pylist() == [-500_000_123, 7]


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_rows_with_a_different_type_are_refused(tmp_path: Path, format_: FileFormat) -> None:
    rows = pa.array([{"i": 1}], pa.struct([("i", pa.int64())]))
    with pytest.raises(TypeMismatchError):
        write_rows(tmp_path / "000000_0", format_, columns_of({"i": "int"}), rows)


def test_a_row_group_ends_at_its_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_hiveacid.storage.plain.write._ROW_GROUP_BYTES", 1)
    assert pq.read_metadata(written(tmp_path, NUMBERS, FileFormat.PARQUET).path).num_row_groups == 2


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_a_file_without_rows_can_be_read(tmp_path: Path, format_: FileFormat) -> None:
    case = dataclasses.replace(NESTED, values=tuple(() for _ in NESTED.values))
    assert read(written(tmp_path, case, format_), case) == []


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_a_string_that_is_too_long_is_refused_and_leaves_no_file(
    tmp_path: Path, format_: FileFormat
) -> None:
    columns, rows = columns_of({"v": "varchar(3)"}), pa.array([{"v": "long"}])
    with pytest.raises(TypeMismatchError, match="4 characters"):
        write_rows(tmp_path / "000000_0", format_, columns, rows)
    assert list(tmp_path.iterdir()) == []


def test_parquet_timestamps_that_hive_versions_read_differently_are_refused(
    tmp_path: Path,
) -> None:
    old = case_of(
        "old",
        ("t", "timestamp", (nanoseconds("1500-01-01 00:00:00"),)),
        timestamps=pa.timestamp("us"),
    )
    with pytest.raises(TypeMismatchError, match=r"before 1582-10-15.*; store the table as ORC"):
        written(tmp_path, old, FileFormat.PARQUET)
    when, us = dt.datetime(1500, 1, 1), pa.timestamp("us")  # noqa: DTZ001 - a wall clock's
    for type_, arrow, value in (
        ("array<timestamp>", pa.list_(us), [None, when]),
        ("map<int,timestamp>", pa.map_(pa.int32(), us), [(1, when)]),
        ("map<timestamp,int>", pa.map_(us, pa.int32()), [(when, 1)]),
        ("struct<x:array<timestamp>>", pa.struct([("x", pa.list_(us))]), {"x": [when]}),
    ):
        rows = pa.array([{"c": value}], pa.struct([("c", arrow)]))
        with pytest.raises(TypeMismatchError, match="before 1582-10-15"):
            write_rows(tmp_path / "x", FileFormat.PARQUET, columns_of({"c": type_}), rows)
    local = columns_of({"t": "timestamp with local time zone"})
    with pytest.raises(UnsupportedTableError, match="local time zone in Parquet"):
        write_rows(tmp_path / "x", FileFormat.PARQUET, local)


def test_nanoseconds_that_parquet_would_truncate_are_refused(tmp_path: Path) -> None:
    fine = case_of(
        "nanoseconds",
        ("t", "timestamp", (nanoseconds("2020-01-01 00:00:00.000000001"),)),
        timestamps=pa.timestamp("ns"),
    )
    with pytest.raises(TypeMismatchError, match=r"microseconds.*; change the value, or store"):
        written(tmp_path, fine, FileFormat.PARQUET)


def test_writing_an_unsupported_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="stored as other"):
        write_rows(tmp_path / "x", FileFormat.OTHER, NUMBERS.columns)
