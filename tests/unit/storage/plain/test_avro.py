"""Avro: what Hive wrote is read, what is written is read, and what has no known meaning refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    FileFormat,
    PartitionInfo,
    Storage,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.plain.avro_schema import (
    check_avro,
    check_avro_alike,
    schema_of,
    why_not,
)
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows, rows_of
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.support.cases import tables_of
from tests.unit.storage.orc_tables import plain_file
from tests.unit.storage.writing import FS, columns_of, lines_of, partition_of, table_of, write_rows

TYPES: Final = {
    "id": "int",
    "bo": "boolean",
    "ti": "tinyint",
    "si": "smallint",
    "bi": "bigint",
    "fl": "float",
    "do": "double",
    "de": "decimal(38,18)",
    "dm": "decimal(7,2)",
    "st": "string",
    "vc": "varchar(10)",
    "ch": "char(4)",
    "bn": "binary",
    "da": "date",
    "ts": "timestamp",
    "ar": "array<int>",
    "ma": "map<string,timestamp>",
    "sr": "struct<x:int,y:struct<z:date>>",
    "ne": "array<struct<k:string,m:map<string,array<decimal(5,1)>>>>",
}
NOON: Final = dt.datetime(1969, 7, 20, 12, 0, 0, 500_000)  # noqa: DTZ001 - a wall clock's
FULL: Final = (
    *(
        1,
        True,
        127,
        -32768,
        1 << 62,
        1.5,
        -2.25,
        Decimal("12345678901234567890.123456789012345678"),
    ),
    *(Decimal("-12345.60"), "Grüße, 世界", "vary", "pad", b"\x00\xff", dt.date(1582, 10, 15), NOON),
    *([1, None], [("k", NOON), ("n", None)], {"x": 7, "y": {"z": dt.date(9999, 12, 31)}}),
    [{"k": None, "m": [("q", [Decimal("1.5"), None])]}, None],
)
EMPTY: Final = (2, *(None,) * (len(TYPES) - 1))


def plain(path: Path, **other: Any) -> PlainFile:  # noqa: ANN401
    return plain_file(path, FileFormat.AVRO, **other)


def write(folder: Path, types: Mapping[str, str], *rows: Sequence[Any]) -> PlainFile:
    columns, path = columns_of(types), folder / "base_0000001" / "000000_0"
    named = [dict(zip(types, row, strict=True)) for row in rows]
    array = pa.array(named, _in_micros(row_type(columns)))
    done = write_rows(path, FileFormat.AVRO, columns, array, table="d.t")
    assert (done.rows, done.size_bytes) == (len(rows), path.stat().st_size)
    assert rows_of(FileFormat.AVRO)(FS, str(path), done.size_bytes) == len(rows)
    return plain(path)


def _in_micros(type_: pa.DataType) -> pa.DataType:
    """Timestamps as Spark has them."""
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _in_micros(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _in_micros(type_.item_type))
    return pa.timestamp("us") if pa.types.is_timestamp(type_) else type_


def read(file: PlainFile, types: Mapping[str, str], **options: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
    form = {"timestamps": TimestampForm.MICROSECONDS}
    batches = read_rows(file, columns_of(types), **{**form, **options})
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def stored(
    folder: Path, schema: object, *records: object, codec: str = "null", **said: str
) -> PlainFile:
    """A file of somebody's."""
    path = folder / "000000_0"
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), records, codec=codec, metadata=said)
    return plain(path)


def of_one(type_: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    return {"type": "record", "name": "r", "fields": [{"name": "c", "type": type_}]}


# ---- both ways -----------------------------------------------------------------------------------


def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = write(tmp_path, TYPES, FULL, EMPTY)
    padded = (*FULL[:11], "pad ", *FULL[12:])
    assert read(file, TYPES) == [padded, EMPTY]
    assert read(file, TYPES, data_columns=["st", "id"]) == [("Grüße, 世界", 1), (None, 2)]
    assert read(file, TYPES, data_columns=[]) == [(), ()]
    assert read(file, {"young": "int", "id": "bigint"}) == [(None, 1), (None, 2)]
    with Path(file.path).open("rb") as source:
        said = fastavro.reader(source).metadata
    assert said["writer.time.zone"] == "UTC"


def test_the_schema_equals_that_of_hive(tmp_path: Path) -> None:
    schema = schema_of("rows", columns_of({"a": "int", "s": "struct<y:struct<z:char(3)>>"}))
    char = {"type": "string", "logicalType": "char", "maxLength": 3}
    inner = {"name": "z", "type": ["null", char], "default": None}
    record = {"type": "record", "name": "record_0", "namespace": "", "fields": [inner]}
    outer = {"name": "y", "type": ["null", record], "default": None}
    assert schema["fields"] == [
        {"name": "a", "type": ["null", "int"], "default": None},
        {
            "name": "s",
            "type": ["null", {**record, "name": "record_1", "fields": [outer]}],
            "default": None,
        },
    ]
    assert fastavro.parse_schema(schema)
    assert json.dumps(schema)
    assert write(tmp_path, {"a": "int"}).length > 0


def test_many_rows_are_read_in_batches_of_limited_size(tmp_path: Path) -> None:
    rows = [(i, f"n{i}") for i in range(10_000)]
    file = write(tmp_path, {"i": "int", "s": "string"}, *rows)
    batches = list(read_rows(file, columns_of({"i": "int", "s": "string"})))
    assert max(batch.num_rows for batch in batches) <= 4096
    assert [tuple(r.values()) for b in batches for r in b.to_pylist()] == rows


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
def test_dates_are_read_in_the_calendar_that_the_writer_declares(
    tmp_path: Path, version: str
) -> None:
    types = {"da": "date", "ts": "timestamp"}
    schema = schema_of("r", columns_of(types))
    day, time = dt.date(1500, 3, 9), dt.datetime(1500, 3, 9, 12, tzinfo=dt.UTC)
    record = {"da": day, "ts": time}
    said = {"writer.time.zone": "UTC"}
    if version == "4.0.1":
        file = stored(tmp_path, schema, record, **said, **{"writer.proleptic": "false"})
        assert read(file, types) == [(dt.date(1500, 2, 28), dt.datetime(1500, 2, 28, 12))]  # noqa: DTZ001
        file = stored(tmp_path, schema, record, **said, **{"writer.proleptic": "true"})
        assert read(file, types) == [(day, time.replace(tzinfo=None))]
        return
    file = stored(tmp_path, schema, record, **said)
    for column in types:
        with pytest.raises(errors.UnsupportedFileError, match=f"'{column}' has values before 1582"):
            read(file, types, data_columns=[column])


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value", "what"),
    [
        ("timestamp", dt.datetime(2020, 1, 1, 0, 0, 0, 1), "milliseconds.*; change the"),  # noqa: DTZ001
        ("timestamp", dt.datetime(1582, 10, 14), "; store the table as ORC"),  # noqa: DTZ001
        ("array<struct<d:date>>", [{"d": dt.date(1, 1, 1)}], "before 1582-10-15"),
        ("map<string,int>", [("k", 1), ("k", 2)], "cannot store.*; change the value"),
        ("varchar(2)", "abc", "3 characters"),
    ],
)
def test_values_that_avro_cannot_store_are_refused_and_leave_no_file(
    tmp_path: Path, type_: str, value: object, what: str
) -> None:
    with pytest.raises(errors.TypeMismatchError, match=what):
        write(tmp_path, {"c": type_}, (value,))
    assert not (tmp_path / "base_0000001" / "000000_0").exists()


def test_strings_with_invalid_utf8_are_refused(tmp_path: Path) -> None:
    texts = pa.array([b"\xff"], pa.binary()).view(pa.string())
    rows = pa.StructArray.from_arrays([texts], names=["c"])
    with pytest.raises(errors.TypeMismatchError, match="UTF-8"):
        write_rows(tmp_path / "f", FileFormat.AVRO, columns_of({"c": "string"}), rows)


@pytest.mark.parametrize(("schema", "wanted", "why"), tables_of(__file__)["stored types"])
def test_a_column_stored_with_an_unexpected_type_is_refused(
    schema: Any,  # noqa: ANN401 - as JSON has it
    wanted: str,
    why: str | None,
) -> None:
    found = why_not(schema, parse_type(wanted))
    assert found is None if why is None else found is not None and why in found, found


def test_files_with_unknown_time_zone_unfit_values_or_no_records_are_refused(
    tmp_path: Path,
) -> None:
    times = {"type": "long", "logicalType": "timestamp-millis"}
    record = {"c": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}
    for said in ({}, {"writer.time.zone": "America/New_York"}):
        file = stored(tmp_path, of_one(times), record, **said)
        with pytest.raises(errors.UnsupportedFileError, match="zone was"):
            read(file, {"c": "timestamp"})
    with pytest.raises(errors.UnsupportedFileError, match="'c' is stored as long"):
        read(stored(tmp_path, of_one("long"), {"c": 1}), {"c": "int"})
    with pytest.raises(errors.UnsupportedFileError, match="does not fit its column"):
        read(stored(tmp_path, of_one("int"), {"c": 300}), {"c": "tinyint"})
    with pytest.raises(errors.UnsupportedFileError, match="no records"):
        read(stored(tmp_path, "int", 1), {"c": "int"})


@pytest.mark.parametrize("keep", [0, 3, 40, -16, -3])
def test_a_truncated_file_is_reported_as_corrupt(tmp_path: Path, keep: int) -> None:
    file = write(tmp_path, {"c": "string"}, ("a" * 500,), ("b",))
    content = Path(file.path).read_bytes()
    Path(file.path).write_bytes(content[:keep])
    with pytest.raises(errors.CorruptFileError, match="not an Avro file"):
        read(file, {"c": "string"})


def test_a_block_with_more_rows_than_it_states_is_corrupt(tmp_path: Path) -> None:
    file = stored(tmp_path, of_one("int"), {"c": 7}, {"c": 8})
    content = bytearray(Path(file.path).read_bytes())
    count = content.index(content[-16:]) + 16  # behind the mark that ends the header
    assert content[count] == 2 << 1
    content[count] = 1 << 1
    Path(file.path).write_bytes(content)
    with pytest.raises(errors.CorruptFileError, match="continues after its 1 records"):
        read(plain(Path(file.path)), {"c": "int"})


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "snappy"])
def test_files_with_every_supported_compression_are_read(tmp_path: Path, codec: str) -> None:
    file = stored(tmp_path, of_one(["null", "int"]), {"c": 7}, {"c": None}, codec=codec)
    path = Path(file.path)
    assert read(file, {"c": "int"}) == [(7,), (None,)]
    content = bytearray(path.read_bytes())
    at = content.index(content[-16:]) + 16 + 2  # behind the first mark and two lengths
    content[at : at + 2] = b"\xff\xff"
    path.write_bytes(content)
    # bzip2 says it in the words of a disk.
    with pytest.raises(
        (errors.CorruptFileError, errors.StorageError),
        match=r"not an Avro file|Invalid data stream",
    ):
        read(plain(path), {"c": "int"})


def test_the_error_for_an_unsupported_compression_names_it(tmp_path: Path) -> None:
    file = stored(tmp_path, of_one("int"), {"c": 7}, codec="xz")
    with pytest.raises(errors.UnsupportedFileError, match="Avro compressed with xz cannot be read"):
        read(file, {"c": "int"})


def test_damage_at_any_position_raises_only_typed_errors(tmp_path: Path) -> None:
    """fastavro believes lengths, below zero and beyond memory, and names of its own schemas."""
    file = write(tmp_path, TYPES, FULL, EMPTY)
    whole, dice, refused = Path(file.path).read_bytes(), random.Random(7), 0
    for _ in range(300):
        content = bytearray(whole)
        at = dice.randrange(len(content))
        content[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        Path(file.path).write_bytes(content)
        try:
            read(plain(Path(file.path)), TYPES)
        except (errors.CorruptFileError, errors.UnsupportedFileError):
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("type_", "parameters", "what"),
    [
        ("map<int,int>", {}, "a map with keys of int, not string"),
        ("array<uniontype<int,string>>", {}, "uniontype"),
        ("timestamp with local time zone", {}, "cannot be read from Avro"),
        ("int", {"avro.schema.url": "hdfs:///s.avsc"}, "avro.schema.url"),
        ("int", {"avro.schema.literal": "{}"}, "avro.schema.literal"),
    ],
)
def test_tables_with_unsupported_types_or_schema_properties_are_refused(
    type_: str, parameters: dict[str, str], what: str
) -> None:
    columns = columns_of({"c": type_})
    avro = Storage(format=FileFormat.AVRO)
    with pytest.raises(errors.UnsupportedTableError, match=what):
        check_avro("d.t", avro, parameters, columns)
    told = Storage(format=FileFormat.AVRO, parameters=tuple(parameters.items()))
    with pytest.raises(errors.UnsupportedTableError, match=what):
        check_avro("d.t", told, {}, columns)
    check_avro("d.t", Storage(format=FileFormat.ORC), parameters, columns)


def test_writing_a_partition_with_different_column_types_is_refused() -> None:
    table = table_of({"a": "bigint", "b": "string"}, FileFormat.AVRO)
    alike, other = (partition_of(FileFormat.AVRO, {"a": type_}) for type_ in ("bigint", "int"))
    check_avro_alike(table, [alike, PartitionInfo(name=UNPARTITIONED, location="")])
    with pytest.raises(
        errors.UnsupportedTableError, match="p=x has the type int for column a, not bigi"
    ):
        check_avro_alike(table, [other])
    orc = dataclasses.replace(table, storage=Storage(format=FileFormat.ORC))
    check_avro_alike(orc, [other])


def test_rows_are_converted_to_json_as_hive_shows_them(tmp_path: Path) -> None:
    file = write(tmp_path, TYPES, FULL)
    batches = read_rows(file, columns_of(TYPES), timestamps=TimestampForm.PAIR)
    (line,) = lines_of(batches, columns_of(TYPES))
    shown = json.loads(line)
    assert shown[11] == "pad "
    assert shown[14] == "1969-07-20 12:00:00.5"
