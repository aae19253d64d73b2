"""What is believed of a Parquet file, and what is refused: types, zones, calendars."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.format.errors import CorruptFileError, StorageError, UnsupportedFileError
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.orc.view import BATCH_BYTES
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_batches import fitting_rows
from airflow_hiveacid.storage.plain.parquet_footer import ParquetFacts, TimestampStorage, read_facts
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.unit.storage.counting import counting
from tests.unit.storage.orc_tables import plain_file
from tests.unit.storage.parquet_decimals import mark_as_decimal

OLD: Final = dt.datetime(1500, 3, 9, 12)  # noqa: DTZ001 - a wall clock's
NEW: Final = dt.datetime(2020, 7, 1, 12)  # noqa: DTZ001 - as above
HIVE_3: Final = {"writer.time.zone": "UTC"}
HIVE_4: Final = {**HIVE_3, "writer.date.proleptic": "false"}


def file_of(
    folder: Path, columns: dict[str, pa.Array], notes: dict[str, str], **how: object
) -> PlainFile:
    path = folder / "000000_0"
    table = pa.table(columns)
    options = {"use_deprecated_int96_timestamps": True, "store_schema": False, **how}
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(notes)
    return plain_file(path, FileFormat.PARQUET)


def values(file: PlainFile, type_: str, name: str = "c") -> list[Any]:
    columns = [Column(name=name, type=type_)]
    form = TimestampForm.MICROSECONDS
    found = read_rows(file, columns, timestamps=form)
    return [row[name] for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("stored", "type_"),
    [
        (pa.int8(), "bigint"),
        (pa.int32(), "bigint"),
        (pa.int16(), "int"),
        (pa.float32(), "double"),
        (pa.decimal128(5, 2), "decimal(9,2)"),
    ],
)
def test_numbers_may_be_wider_in_the_table(tmp_path: Path, stored: pa.DataType, type_: str) -> None:
    file = file_of(tmp_path, {"C": pa.array([1, None, 3], stored)}, HIVE_4)
    assert values(file, type_) == [1, None, 3]


@pytest.mark.parametrize(
    ("stored", "type_"),
    [
        *((stored, "int") for stored in ("bigint", "string", "array<int>", "binary", "date")),
        *((stored, "int") for stored in ("timestamp", "map<string,double>")),
        ("struct<a:decimal(9,2)>", "int"),
        ("int", "string"),
        ("double", "float"),
        ("decimal(9,2)", "decimal(5,2)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("string", "uniontype<int,string>"),
    ],
)
def test_a_column_stored_with_an_incompatible_type_is_refused_with_the_type_as_in_hive(
    tmp_path: Path, stored: str, type_: str
) -> None:
    nulls = pa.nulls(2, arrow_type(parse_type(stored)))
    file = file_of(tmp_path, {"c": nulls}, HIVE_4, use_deprecated_int96_timestamps=False)
    message = f"stored as {stored}, which cannot be read as {type_}"
    with pytest.raises(UnsupportedFileError, match=re.escape(message)):
        values(file, type_)


def test_a_missing_column_is_null_and_a_duplicate_column_name_is_refused(tmp_path: Path) -> None:
    numbers = pa.array([1, 2])
    assert values(file_of(tmp_path, {"other": numbers}, {}), "int") == [None, None]
    with pytest.raises(UnsupportedFileError, match="several columns 'c'"):
        values(file_of(tmp_path, {"c": numbers, "C": numbers}, {}), "int")


def test_a_column_missing_from_the_partition_definition_is_null(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"a": pa.array([1]), "b": pa.array([7])}, {})
    a, b = (Column(name=name, type="bigint") for name in "ab")
    for own, found in ((None, 7), ((a, b), 7), ((a,), None)):
        (batch,) = read_rows(dataclasses.replace(file, columns=own), [a, b])
        assert batch.to_pylist() == [{"a": 1, "b": found}]


def test_a_column_name_with_a_dot_is_not_split(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"a.b": pa.array([1]), "a": pa.array([2])}, {})
    assert values(file, "bigint", "a.b") == [1]


@pytest.mark.parametrize(
    ("notes", "zone", "shown"),
    [
        (HIVE_4, "UTC", 12),
        ({**HIVE_4, "writer.time.zone": "America/New_York"}, "America/New_York", 8),
        ({}, "UTC", 12),  # not written by Java
    ],
)
def test_an_instant_is_read_as_local_time_in_the_time_zone_of_its_writer(
    tmp_path: Path, notes: dict[str, str], zone: str, shown: int
) -> None:
    file = file_of(tmp_path, {"c": pa.array([NEW], pa.timestamp("us"))}, notes)
    assert read_facts(file).zone == zone
    assert values(file, "timestamp") == [NEW.replace(hour=shown)]


@pytest.mark.parametrize(
    ("zone", "instant", "shown"),
    [
        ("Europe/Amsterdam", "1930-01-01 00:00", "1930-01-01 00:00"),
        ("America/Chicago", "2100-07-01 12:00", "2100-07-01 07:00"),
        ("Australia/Sydney", "9999-12-31 12:59:59", "9999-12-31 23:59:59"),
        ("-05:00", "2020-07-01 12:00", "2020-07-01 07:00"),
        ("GMT+08:00", "2020-07-01 12:00", "2020-07-01 20:00"),
    ],
)
def test_an_instant_is_converted_by_the_rules_of_javas_newer_classes(
    tmp_path: Path, zone: str, instant: str, shown: str
) -> None:
    stored = pa.array([dt.datetime.fromisoformat(instant)], pa.timestamp("us"))
    file = file_of(tmp_path, {"c": stored}, {**HIVE_4, "writer.time.zone": zone})
    assert values(file, "timestamp") == [dt.datetime.fromisoformat(shown)]


def test_an_unknown_time_zone_is_refused(tmp_path: Path) -> None:
    notes = {**HIVE_4, "writer.time.zone": "Mars/Olympus_Mons"}
    file = file_of(tmp_path, {"c": pa.array([NEW], pa.timestamp("us"))}, notes)
    with pytest.raises(UnsupportedFileError, match="time zone 'Mars/Olympus_Mons', which is not"):
        values(file, "timestamp")


def test_instants_of_legacy_time_zone_rules_are_read_only_if_unambiguous(
    tmp_path: Path,
) -> None:
    notes = {**HIVE_4, "writer.zone.conversion.legacy": "true"}
    elsewhere = {**notes, "writer.time.zone": "Asia/Singapore"}
    new, old = (pa.array([when], pa.timestamp("us")) for when in (NEW, OLD))
    assert values(file_of(tmp_path, {"c": new}, notes), "timestamp") == [NEW]
    with pytest.raises(UnsupportedFileError, match="legacy=true"):
        values(file_of(tmp_path, {"c": new}, elsewhere), "timestamp")
    with pytest.raises(UnsupportedFileError, match="does not state their calendar"):
        values(file_of(tmp_path, {"c": old}, notes), "timestamp")
    usual = {**elsewhere, "writer.zone.conversion.legacy": "false"}
    assert values(file_of(tmp_path, {"c": new}, usual), "timestamp") == [NEW.replace(hour=20)]


def test_a_java_writer_without_a_stated_time_zone_has_an_unknown_time_zone() -> None:
    facts = ParquetFacts(
        schema=pa.schema([]),
        rows=1,
        clock=TimestampStorage.INSTANT,
        created_by="parquet-mr version 1.10.0",
        notes={},
        least_day=0,
    )
    assert facts.zone is None


@pytest.mark.parametrize("type_", ["string", "varchar(9)", "char(2)"])
def test_texts_without_the_mark_utf8_are_read_as_text(tmp_path: Path, type_: str) -> None:
    """Impala does not mark texts by default."""
    file = file_of(tmp_path, {"c": pa.array([b"ab", None, "ä".encode()])}, {})
    assert values(file, type_) == ["ab", None, "ä " if type_ == "char(2)" else "ä"]


def test_bytes_that_are_not_utf8_do_not_make_a_file_unreadable(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"c": pa.array([b"\xff"])}, {})
    (batch,) = read_rows(file, [Column(name="c", type="string")])
    assert batch.column(0).cast(pa.binary()).to_pylist() == [b"\xff"]


@pytest.mark.parametrize("length", [4, 8, 16, 17, 33])
def test_a_decimal_in_more_bytes_than_needed_is_read_or_refused(
    tmp_path: Path, length: int
) -> None:
    file = file_of(tmp_path, {"c": _padded([123, -5], length)}, {}, use_dictionary=False)
    mark_as_decimal(Path(file.path), length)
    if length <= 16:
        assert values(file, "decimal(9,2)") == [Decimal("1.23"), Decimal("-0.05")]
    else:
        told = rf"decimal\(9,2\) in {length} bytes, more than 16 bytes, which this reader cannot"
        with pytest.raises(UnsupportedFileError, match=told):
            values(file, "decimal(9,2)")


def _padded(numbers: list[int], length: int) -> pa.Array:
    return pa.array([n.to_bytes(length, "big", signed=True) for n in numbers], pa.binary(length))


def test_instants_of_64_bits_are_shown_in_utc(tmp_path: Path) -> None:
    how = {"use_deprecated_int96_timestamps": False}
    for unit in ("ms", "us", "ns"):
        file = file_of(tmp_path, {"c": pa.array([NEW], pa.timestamp(unit, "UTC"))}, {}, **how)
        assert values(file, "timestamp") == [NEW]


def test_local_times_of_64_bits_are_read(
    tmp_path: Path,
) -> None:
    how = {"use_deprecated_int96_timestamps": False}
    wall = file_of(tmp_path, {"c": pa.array([NEW], pa.timestamp("us"))}, {}, **how)
    assert values(wall, "timestamp") == [NEW]


@pytest.mark.parametrize("type_", ["timestamp", "date"])
def test_old_dates_and_timestamps_are_read_in_the_calendar_of_their_writer(
    tmp_path: Path, type_: str
) -> None:
    stored = pa.array([OLD], pa.timestamp("us"))
    column = stored if type_ == "timestamp" else stored.cast(pa.date32())
    days = {
        name: str(values(file_of(tmp_path, {"c": column}, notes), type_)[0])[:10]
        for name, notes in (("4", HIVE_4), ("3", HIVE_3))
    }
    assert days == {"4": "1500-02-28", "3": "1500-03-09"}
    with pytest.raises(UnsupportedFileError, match="does not state their calendar"):
        values(file_of(tmp_path, {"c": column}, {}), type_)


def test_a_proleptic_calendar_for_dates_does_not_apply_to_instants(tmp_path: Path) -> None:
    notes = {**HIVE_3, "writer.date.proleptic": "true"}
    stored = pa.array([OLD], pa.timestamp("us"))
    days = file_of(tmp_path, {"c": stored.cast(pa.date32())}, notes)
    assert values(days, "date") == [OLD.date()]
    with pytest.raises(UnsupportedFileError, match="does not state their calendar"):
        values(file_of(tmp_path, {"c": stored}, notes), "timestamp")


@pytest.mark.parametrize("days", [(-200_000, 5, 7), (5, -200_000, 7), (5, 7, -200_000)])
def test_the_earliest_day_is_found_over_all_row_groups_and_columns(
    tmp_path: Path, days: tuple[int, ...]
) -> None:
    stored = pa.array(days, pa.int32()).cast(pa.date32())
    file = file_of(tmp_path, {"c": stored, "d": stored[::-1]}, HIVE_4)
    assert read_facts(file).least_day == -200_000
    with pq.ParquetWriter(file.path, pa.schema([("c", pa.date32())])) as writer:
        for day in days:
            writer.write_table(pa.table({"c": pa.array([day], pa.int32()).cast(pa.date32())}))
    assert read_facts(file).least_day == -200_000


def test_lists_and_maps_are_read_correctly_in_small_batches(tmp_path: Path) -> None:
    lists = [[i, None] if i % 3 else None if i % 2 else [] for i in range(50)]
    maps = [[("k", i)] if i % 4 else None for i in range(50)]
    columns = {"l": pa.array(lists), "m": pa.array(maps, pa.map_(pa.string(), pa.int64()))}
    file = file_of(tmp_path, columns, {})
    types = [Column(name="l", type="array<bigint>"), Column(name="m", type="map<string,bigint>")]
    found = [row for batch in read_rows(file, types, batch_rows=7) for row in batch.to_pylist()]
    assert [row["l"] for row in found] == lists
    assert [row["m"] for row in found] == maps


def test_a_row_group_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"c": pa.array(range(1_000_000))}
    file = file_of(tmp_path, numbers, {}, compression="none", use_dictionary=False)
    fs, asked = counting()
    monkeypatch.setattr(locations, "_local", lambda: fs)
    batches = read_rows(file, [Column(name="c", type="bigint")])
    assert next(batches).num_rows < 100_000
    assert asked.bytes_read < file.length / 2
    batches.close()


def test_the_rows_of_a_batch_depend_on_the_size_of_their_values(tmp_path: Path) -> None:
    texts = pa.array([f"{i:04}" * 25_000 for i in range(500)])
    file = file_of(tmp_path, {"c": texts, "n": pa.array(range(500))}, {}, use_dictionary=False)
    read = [b.nbytes for b in read_rows(file, [Column(name="c", type="string")])]
    assert sum(read) > len(texts) * 100_000
    assert max(read) < 1.01 * BATCH_BYTES
    metadata = pq.read_metadata(file.path)
    rows = [fitting_rows(metadata, names, 9_999) for names in (["n"], ["c"], ["c", "n"], None, [])]
    assert rows[0] == rows[4] == 9_999
    assert 300 < rows[1] == rows[2] == rows[3] < 340


@pytest.mark.parametrize("told", [0, 2, 4])
def test_a_file_whose_row_groups_do_not_add_up_to_its_row_count_is_corrupt(
    tmp_path: Path, told: int
) -> None:
    file = file_of(tmp_path, {"c": pa.array([1, 2, 3])}, {})
    path = Path(file.path)
    content = path.read_bytes()
    said = b"\x16\x06"  # Thrift's third field, three rows: first of the file, then of its group
    start = content.index(said, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    path.write_bytes(content[:start] + bytes([0x16, 2 * told]) + content[start + 2 :])
    with pytest.raises(CorruptFileError, match=f"its footer states {told} rows, but it has 3"):
        read_facts(file)


def test_a_file_that_is_not_parquet_is_corrupt(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"c": pa.array([1])}, {})
    Path(file.path).write_bytes(b"PAR1 and then nothing")
    with pytest.raises(CorruptFileError, match="Parquet"):
        values(file, "bigint")


def test_a_damaged_page_is_corrupt_and_a_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"c": pa.array([1, 2, 3])}, {}, use_dictionary=False)
    path = Path(file.path)
    path.write_bytes(b"PAR1" + b"\xff" * 8 + path.read_bytes()[12:])
    with pytest.raises(CorruptFileError, match="Parquet"):
        values(file, "bigint")
    path.unlink()
    with pytest.raises(StorageError, match="it does not exist"):
        values(file, "bigint")


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (pa.array(["x", None], pa.large_string()), "string", ["x", None]),
        (pa.array(["x", None], pa.string_view()), "string", ["x", None]),
        (pa.array(["xy", None]).dictionary_encode(), "varchar(1)", ["x", None]),
        (pa.array(["{}", None], pa.json_()), "string", ["{}", None]),
        (pa.array([b"x"], pa.large_binary()), "binary", [b"x"]),
        (pa.array([5], pa.duration("us")), "bigint", [5]),
        (pa.array([["x"], None], pa.large_list(pa.large_string())), "array<string>", [["x"], None]),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "array<int>", [[1, 2]]),
        (
            pa.array([{"f": "x"}], pa.struct([("f", pa.large_string())])),
            "struct<f:string>",
            [{"f": "x"}],
        ),
    ],
)
def test_types_that_a_writer_had_in_memory_are_read_as_those_of_parquet(
    tmp_path: Path, stored: pa.Array, wanted: str, expected: list[object]
) -> None:
    file = file_of(tmp_path, {"c": stored}, {}, store_schema=True)
    assert values(file, wanted) == expected


def test_a_note_about_types_in_a_long_footer_is_left_aside(tmp_path: Path) -> None:
    texts = pa.array(["x"], pa.large_string())
    columns = {"c": texts} | {f"c{at:0100}": texts for at in range(300)}
    file = file_of(tmp_path, columns, {}, store_schema=True)
    assert {field.type for field in read_facts(file).schema} == {pa.string()}
