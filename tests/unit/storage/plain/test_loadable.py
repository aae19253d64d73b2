"""Which files LOAD DATA takes, and why not the others; how they arrive."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.table import (
    FileFormat,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.orc.footer import OrcType, TypeKind
from airflow_hiveacid.storage.orc.tail import parse_tail
from airflow_hiveacid.storage.plain.loadable import LoadableFile, copy_file, loadable_files
from airflow_hiveacid.storage.plain.stored import is_stored_as
from airflow_hiveacid.storage.values.column_types import row_type
from tests.support.cases import tables_of
from tests.unit.storage.orc_tables import (
    insert,
    write_acid,
    write_last_second_before_1970,
    write_plain,
)
from tests.unit.storage.parquet_decimals import mark_as_decimal
from tests.unit.storage.writing import columns_of, table_of

TABLES = tables_of(__file__)
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
V3, V4 = MetastoreGeneration.V3, MetastoreGeneration.V4


def table(
    columns: dict[str, str] | None = None,
    format_: FileFormat = FileFormat.ORC,
    location: str = "file:/warehouse/t",
) -> TableInfo:
    is_orc = format_ is FileFormat.ORC
    return table_of(
        columns or {"id": "int", "name": "string"},
        format_,
        ref=TableRef("db", "t"),
        location=location,
        kind=TransactionalKind.FULL_ACID if is_orc else TransactionalKind.INSERT_ONLY,
    )


def found(
    location: Path, into: TableInfo | None = None, generation: MetastoreGeneration = V4
) -> list[tuple[str, int]]:
    files = loadable_files(into or table(), str(location), generation)
    return [(Path(file.uri).name, file.rows) for file in files]


def not_loaded(
    why: str, location: Path, into: TableInfo | None = None, generation: MetastoreGeneration = V4
) -> None:
    with pytest.raises(errors.SourceUnreadableError, match=why):
        found(location, into, generation)


def parquet(path: Path, columns: dict[str, pa.Array], **options: Any) -> Path:  # noqa: ANN401
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **{"store_schema": False, **options})
    return path


# ---- which files there are -----------------------------------------------------------------------


def test_the_visible_files_of_a_directory_are_loaded_in_the_order_of_their_names(
    tmp_path: Path,
) -> None:
    write_plain(tmp_path / "part-2.orc", ROWS)
    write_plain(tmp_path / "part-10.orc", ROWS[:1])
    for hidden in ("_SUCCESS", ".part-2.orc.crc"):
        (tmp_path / hidden).touch()
    (tmp_path / "_temporary").mkdir()
    assert found(tmp_path) == [("part-10.orc", 1), ("part-2.orc", 2)]
    assert found(tmp_path / "part-2.orc") == [("part-2.orc", 2)]
    (one,) = loadable_files(table(), f"file:{tmp_path}/part-2.orc", V4)
    assert (one.uri, one.length) == (
        f"file:{tmp_path}/part-2.orc",
        (tmp_path / "part-2.orc").stat().st_size,
    )


def test_a_missing_or_empty_directory_or_one_with_subdirectories_is_not_loaded(
    tmp_path: Path,
) -> None:
    with pytest.raises(errors.SourceNotFoundError, match="no such file or directory"):
        found(tmp_path / "missing*")
    with pytest.raises(errors.SourceNotFoundError, match="there is no file in it"):
        found(tmp_path)
    write_plain(tmp_path / "a/000000_0", ROWS)
    (tmp_path / "a/b").mkdir()
    not_loaded("holds the directory b", tmp_path / "a")


@pytest.mark.parametrize("below", ["", "delta_1_1_0", "delta_1_1_0/000000_0"])
def test_a_tables_own_files_are_not_loaded_into_it(tmp_path: Path, below: str) -> None:
    write_plain(tmp_path / "t/delta_1_1_0/000000_0", ROWS)
    own = table(location=f"file:{tmp_path}/t")
    with pytest.raises(errors.SourceUnreadableError, match=r"inside db\.t"):
        loadable_files(own, f"{tmp_path}/t/{below}".rstrip("/"), V4)
    write_plain(tmp_path / "t2/000000_0", ROWS)
    assert found(tmp_path / "t2", own) == [("000000_0", 2)]


def test_the_files_of_a_partition_outside_its_table_are_not_loaded_into_it(tmp_path: Path) -> None:
    write_plain(tmp_path / "elsewhere/000000_0", ROWS)
    partition = PartitionInfo(
        name=PartitionName(("p",), ("1",)), location=f"file:{tmp_path}/elsewhere"
    )
    with pytest.raises(
        errors.SourceUnreadableError, match=r"inside db\.t, so its rows are already"
    ):
        loadable_files(table(), f"{tmp_path}/elsewhere/000000_0", V4, partition)


@pytest.mark.parametrize("name", ["t2/../t/delta_1_1_0", "link", "link/000000_0"])
def test_another_spelling_of_a_tables_location_is_found(tmp_path: Path, name: str) -> None:
    write_plain(tmp_path / "t/delta_1_1_0/000000_0", ROWS)
    (tmp_path / "t2").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t/delta_1_1_0")
    with pytest.raises(errors.SourceUnreadableError, match=r"inside db\.t"):
        loadable_files(table(location=f"file:{tmp_path}/t"), f"{tmp_path}/{name}", V4)


@pytest.mark.parametrize(
    ("location", "home"),
    [("s3a://b/t/delta_1_1_0", "s3://b/t"), ("hdfs://n/a/../t/delta_1_1_0", "hdfs://n:8020/t")],
)
def test_a_tables_location_on_a_store_is_found(location: str, home: str) -> None:
    with pytest.raises(errors.SourceUnreadableError, match=r"inside db\.t"):
        loadable_files(table(location=home), location, V4)


# ---- ORC -----------------------------------------------------------------------------------------


def test_files_of_a_full_acid_table_are_not_loaded_as_flat_files(tmp_path: Path) -> None:
    write_acid(tmp_path / "bucket_00000", [insert(1, 0, 1)])
    not_loaded("columns of a full-ACID table's file", tmp_path)


@pytest.mark.parametrize(("stored", "columns", "why"), TABLES["different columns"])
def test_a_file_with_different_columns_is_not_loaded(
    tmp_path: Path, stored: dict[str, str], columns: dict[str, str] | None, why: str
) -> None:
    write_plain(tmp_path / "f", [dict.fromkeys(stored)], row=row_type(columns_of(stored)))
    not_loaded(why, tmp_path, table(columns))


@pytest.mark.parametrize(("stored", "columns"), TABLES["same columns"])
def test_a_file_with_the_types_of_the_table_is_loaded(
    tmp_path: Path, stored: dict[str, str], columns: dict[str, str] | None
) -> None:
    write_plain(tmp_path / "f", [dict.fromkeys(stored)], row=row_type(columns_of(stored)))
    assert found(tmp_path, table(columns)) == [("f", 1)]


@pytest.mark.parametrize(
    ("kind", "length", "type_", "is_loaded"),
    [
        (TypeKind.CHAR, 4, "char(4)", True),
        (TypeKind.CHAR, 3, "char(4)", False),
        (TypeKind.VARCHAR, 4, "char(4)", False),
        (TypeKind.VARCHAR, 4, "varchar(4)", True),
        (TypeKind.VARCHAR, 3, "varchar(4)", False),
        (TypeKind.STRING, 0, "varchar(4)", False),
    ],
)
def test_a_char_or_varchar_column_of_a_different_length_is_not_loaded(
    kind: TypeKind, length: int, type_: str, is_loaded: bool
) -> None:
    found = OrcType(
        kind=kind, children=(), field_names=(), maximum_length=length, precision=0, scale=0
    )
    assert is_stored_as([found], 0, parse_type(type_)) is is_loaded


@pytest.mark.parametrize(
    ("value", "is_loaded"),
    [
        (dt.date(1582, 10, 15), True),
        (dt.date(1582, 10, 14), False),
        (dt.datetime(1970, 1, 1), True),  # noqa: DTZ001 - a wall clock
        (dt.datetime(1969, 12, 31), False),  # noqa: DTZ001 - as above
        (None, True),
    ],
)
def test_old_times_of_an_unknown_calendar_are_not_loaded(
    tmp_path: Path, value: object, is_loaded: bool
) -> None:
    kind = "date" if type(value) is dt.date else "timestamp"
    type_ = pa.date32() if kind == "date" else pa.timestamp("ns")
    write_plain(tmp_path / "f", [{"c": value}], row=pa.struct([("c", type_)]))
    into = table({"c": kind})
    if is_loaded:
        assert found(tmp_path, into) == [("f", 1)]
    else:
        not_loaded("the calendar of its old times", tmp_path, into)


def test_times_without_statistics_are_treated_as_old(tmp_path: Path) -> None:
    day = pa.struct([("c", pa.date32())])
    stripe = [{"c": dt.date(2020, 1, 1)}]
    write_plain(tmp_path / "f", stripe, stripe, row=day)  # its footer holds no statistics
    not_loaded("the calendar of its old times", tmp_path, table({"c": "date"}))


def test_zstd_files_are_not_loaded_into_a_table_of_hive_3(tmp_path: Path) -> None:
    write_plain(tmp_path / "f", ROWS, compression="zstd")
    assert found(tmp_path) == [("f", 2)]
    not_loaded(r"ZSTD, which Hive 3\.1 does not know", tmp_path, generation=V3)


def test_a_file_of_a_different_format_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("1,a\n2,b\n" * 100)
    with pytest.raises(errors.CorruptFileError, match=r"f\.csv"):
        found(tmp_path)
    with pytest.raises(errors.CorruptFileError, match="Parquet"):
        found(tmp_path, table(format_=FileFormat.PARQUET))
    with pytest.raises(errors.UnsupportedFileError, match="stored as text"):
        found(tmp_path, table(format_=FileFormat.TEXT))
    (tmp_path / "f.csv").write_text("")
    not_loaded("it is empty", tmp_path)


# ---- Parquet -------------------------------------------------------------------------------------


def test_parquet_columns_are_matched_by_name(tmp_path: Path) -> None:
    into = table({"id": "bigint", "name": "string", "x": "int"}, FileFormat.PARQUET)
    parquet(tmp_path / "a/f", {"name": pa.array(["a"]), "ID": pa.array([1], pa.int32())})
    assert found(tmp_path / "a", into) == [("f", 1)]
    parquet(tmp_path / "b/f", {"id": pa.array([1]), "other": pa.array(["a"])})
    not_loaded("its column other is not in the table", tmp_path / "b", into)
    parquet(tmp_path / "c/f", {"id": pa.array(["1"])})
    not_loaded("column id is stored as string", tmp_path / "c", into)


def test_parquet_that_engines_would_read_differently_is_not_loaded(tmp_path: Path) -> None:
    into = table({"at": "timestamp", "f": "double", "day": "date"}, FileFormat.PARQUET)
    at = pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - a wall clock
    parquet(tmp_path / "a/f", {"at": at})
    not_loaded("64 bits", tmp_path / "a", into)
    parquet(tmp_path / "b/f", {"at": at}, use_deprecated_int96_timestamps=True)
    assert found(tmp_path / "b", into) == [("f", 1)]
    parquet(tmp_path / "c/f", {"f": pa.array([float("nan"), 1.0])})
    not_loaded("NaN", tmp_path / "c", into)
    parquet(tmp_path / "d/f", {"f": pa.array([float("nan"), 1.0])}, write_statistics=False)
    assert found(tmp_path / "d", into) == [("f", 2)]
    parquet(tmp_path / "e/f", {"day": pa.array([dt.date(1500, 1, 1)])})
    not_loaded("dates before 1582-10-15", tmp_path / "e", into)


def test_parquet_is_loaded_only_with_methods_that_the_generation_knows(tmp_path: Path) -> None:
    into = table({"f": "float"}, FileFormat.PARQUET)
    rows = {"f": pa.array([1.0, 2.0], pa.float32())}
    options: dict[str, Any] = {"write_statistics": False}
    parquet(tmp_path / "a/f", rows, compression="brotli", **options)
    not_loaded("BROTLI, for which Hive has no codec", tmp_path / "a", into)
    parquet(tmp_path / "b/f", rows, compression="lz4", **options)
    split = {"use_dictionary": False, "column_encoding": {"f": "BYTE_STREAM_SPLIT"}}
    parquet(tmp_path / "c/f", rows, **options, **split)
    for name in ("b", "c"):
        assert found(tmp_path / name, into) == [("f", 2)]
        not_loaded(r"which Hive 3\.1 does not know", tmp_path / name, into, V3)


def test_a_file_whose_values_our_reader_refuses_is_not_loaded(tmp_path: Path) -> None:
    """The footer is fine; only the conversion of the first instant shows that it cannot be read."""
    into = table({"id": "int", "ats": "array<timestamp>"}, FileFormat.PARQUET)
    times = pa.array([[dt.datetime(2020, 1, 1)]], pa.list_(pa.timestamp("us")))  # noqa: DTZ001
    zone = {"writer.time.zone": "Mars/Phobos", "writer.date.proleptic": "false"}
    path = parquet(tmp_path / "a/f", {"id": pa.array([1], pa.int32()), "ats": times})
    rows = pq.read_table(path)
    with pq.ParquetWriter(path, rows.schema, use_deprecated_int96_timestamps=True) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(zone)
    not_loaded(r"could not read or compact its rows.*Mars", tmp_path / "a", into)


def test_a_file_of_types_that_hive_reads_and_our_reader_does_not_is_not_loaded(
    tmp_path: Path,
) -> None:
    into = table({"c": "decimal(9,2)"}, FileFormat.PARQUET)
    padded = pa.array([(5).to_bytes(17, "big")], pa.binary(17))
    path = parquet(tmp_path / "a/f", {"c": padded}, use_dictionary=False)
    mark_as_decimal(path, 17)
    not_loaded("in 17 bytes", tmp_path / "a", into)


# ---- every row is read ---------------------------------------------------------------------------


def numbers(count: int) -> list[dict[str, Any]]:
    """Rows whose bytes do not compress well."""
    return [
        {"id": n * 7919 % 100_003, "name": f"{n * 104_729 % 1_000_003:x}"} for n in range(count)
    ]


def damaged(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    for position in range(at, at + 200):
        content[position] ^= 0xFF
    path.write_bytes(content)


def with_damaged_end(path: Path) -> None:
    """An ORC file of three stripes, of which the last one cannot be decoded."""
    content = write_plain(path, *[numbers(3000)] * 3).read_bytes()
    stripe = parse_tail("f", content, len(content)).footer.stripes[2]
    damaged(path, stripe.offset + stripe.index_length + 2000)


def test_a_file_that_is_damaged_after_its_first_batch_is_not_loaded(tmp_path: Path) -> None:
    with_damaged_end(tmp_path / "a/f")
    with pytest.raises(errors.CorruptFileError, match="its rows cannot be decoded"):
        found(tmp_path / "a")
    into = table(format_=FileFormat.PARQUET)
    (tmp_path / "b").mkdir()
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    with pq.ParquetWriter(tmp_path / "b/f", schema, compression="gzip") as writer:
        for _ in range(3):
            writer.write_table(pa.Table.from_pylist(numbers(3000), schema))
    assert found(tmp_path / "b", into) == [("f", 9000)]
    chunk = pq.ParquetFile(tmp_path / "b/f").metadata.row_group(2).column(1)
    damaged(tmp_path / "b/f", chunk.data_page_offset + 300)
    with pytest.raises(errors.CorruptFileError):
        found(tmp_path / "b", into)


def test_a_time_that_no_orc_file_of_ours_can_store_is_not_loaded(tmp_path: Path) -> None:
    write_last_second_before_1970(tmp_path / "f")
    not_loaded(
        r"1969-12-31 23:59:59\.5.*; round it to a whole", tmp_path, table({"t": "timestamp"})
    )


def times_96(path: Path, *groups: list[int], **metadata: str) -> Path:
    """A file of timestamps in nanoseconds, with a row group of each; 0 becomes 9999-12-31."""
    schema = pa.schema([("t", pa.timestamp("ns"))])
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    with pq.ParquetWriter(
        path, schema, use_deprecated_int96_timestamps=True, store_schema=False, **options
    ) as writer:
        for group in groups:
            writer.write_table(pa.table({"t": pa.array(group, pa.timestamp("ns"))}))
        writer.add_key_value_metadata(metadata)
    of_1970, of_9999 = (bytes(8) + day.to_bytes(4, "little") for day in (2_440_588, 5_373_484))
    path.write_bytes(path.read_bytes().replace(of_1970, of_9999))
    return path


def test_times_that_one_unit_of_parquet_cannot_store_are_not_loaded(tmp_path: Path) -> None:
    into, fine = table({"t": "timestamp"}, FileFormat.PARQUET), 1_577_836_800_000_000_001
    times_96(tmp_path / "a/f", [fine])
    times_96(tmp_path / "b/f", [0])
    assert found(tmp_path / "a", into) == found(tmp_path / "b", into) == [("f", 1)]
    times_96(tmp_path / "c/f", [fine], [0])
    not_loaded("64 bits of ns cannot hold", tmp_path / "c", into)
    times_96(tmp_path / "d/f", [fine])
    times_96(tmp_path / "d/g", [0])
    not_loaded("beside nanoseconds in another file", tmp_path / "d", into)
    times_96(tmp_path / "e/f", [fine])
    times_96(tmp_path / "e/g", [1_577_836_800_000_000_000])
    assert found(tmp_path / "e", into) == [("f", 1), ("g", 1)]


def test_old_times_that_our_parquet_cannot_store_are_not_loaded(tmp_path: Path) -> None:
    """Hive 4 states their calendar, so that they can be read."""
    old = pa.array([dt.datetime(1500, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - a wall clock
    path, rows = tmp_path / "f", pa.table({"t": old})
    with pq.ParquetWriter(path, rows.schema, use_deprecated_int96_timestamps=True) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {"writer.time.zone": "UTC", "writer.date.proleptic": "false"}
            | {"writer.zone.conversion.legacy": "false"}
        )
    not_loaded(
        r"before 1582-10-15, which Hive 3\.1",
        tmp_path,
        table({"t": "timestamp"}, FileFormat.PARQUET),
    )


# ---- the copy ------------------------------------------------------------------------------------


def test_a_file_is_copied_exactly_and_refused_if_it_has_changed(tmp_path: Path) -> None:
    path = write_plain(tmp_path / "in/f", ROWS)
    (file,) = loadable_files(table(), str(path), V4)
    target = tmp_path / "out/delta_1_1_0/000000_0"
    copy_file(file, str(target), FileFormat.ORC)
    assert target.read_bytes() == path.read_bytes()
    for changed in (
        LoadableFile(uri=file.uri, length=file.length, rows=3),
        LoadableFile(uri=file.uri, length=file.length + 1, rows=2),
    ):
        other = tmp_path / "other/000000_0"
        with pytest.raises(errors.SourceUnreadableError, match="changed while it was copied"):
            copy_file(changed, str(other), FileFormat.ORC)
        assert not other.exists()
