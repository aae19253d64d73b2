"""Spark reads a file of an insert-only table only if it returns the same values as Hive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.reading import KeyRange, ReadRequest
from airflow_hiveacid.reading.orc_fit import PlainVerdict, judged_plain
from tests.judges.golden_plain import GOLDEN_PLAIN, PlainCase
from tests.unit.storage.orc_tables import plain_file

FORMATS: Final = {
    "orc": FileFormat.ORC,
    "parquet": FileFormat.PARQUET,
    "avro": FileFormat.AVRO,
    "text": FileFormat.TEXT,
}


def judged(
    name: str,
    columns: Sequence[str] | None = None,
    *,
    version: str = "4.0.1",
    ranges: Mapping[str, KeyRange] | None = None,
    types: Mapping[str, str] | None = None,
    in_utc: bool = True,
    moves_instants: bool = False,
    minds_case: bool = False,
    as_table: Mapping[str, str] | None = None,
) -> list[PlainVerdict]:
    case = PlainCase.read(GOLDEN_PLAIN / version / name)
    table = tuple(
        Column(name=(as_table or {}).get(n, n), type=(types or {}).get(n, t))
        for n, t in case.columns
    )
    paths = sorted(case.folder.glob("table/*_*/0*"))
    files = [plain_file(path, FORMATS[case.format]) for path in paths]
    asked = ReadRequest(
        table_columns=table,
        columns=tuple(c for c in table if columns is None or c.name in columns),
        ranges=ranges or {},
        in_utc=in_utc,
    )
    return judged_plain(asked, files, moves_instants=moves_instants, minds_case=minds_case)


def judged_file(
    path: Path,
    types: Mapping[str, str],
    format_: FileFormat = FileFormat.PARQUET,
    own: tuple[Column, ...] | None = None,
) -> list[PlainVerdict]:
    """Of a file that is asked for these columns."""
    columns = tuple(Column(name=name, type=type_) for name, type_ in types.items())
    asked = ReadRequest(table_columns=columns, columns=columns, ranges={}, in_utc=True)
    return judged_plain(asked, [plain_file(path, format_, columns=own)])


def reasons(name: str, *columns: str, **how: object) -> set[str | None]:
    found = judged(name, columns or None, **how)  # type: ignore[arg-type]
    return {verdict.why_not for verdict in found}


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("format_", ["orc", "parquet"])
def test_spark_reads_the_orc_and_parquet_files_that_hive_3_and_4_write(
    version: str, format_: str
) -> None:
    assert reasons(f"types_{format_}", version=version) == {None}
    assert reasons(f"life_{format_}", version=version) == {None}


def test_old_parquet_dates_are_left_to_our_reader_and_old_timestamps_to_spark() -> None:
    assert reasons("ancient_parquet", "da") == {"it may contain dates of another calendar"}
    assert reasons("ancient_parquet", "ts") == {None}
    (verdict,) = judged("ancient_parquet", ["ts"])
    assert verdict.manner.rebase == "LEGACY"
    (verdict,) = judged("ancient_parquet", ["ts"], version="3.1.3")
    assert verdict.manner.rebase == "CORRECTED"
    assert reasons("ancient_parquet", "ts", in_utc=False) == {"Spark's JVM does not run in UTC"}
    assert reasons("ancient_parquet", "id", in_utc=False) == {None}


def test_timestamps_outside_utc_or_moved_by_the_session_are_left_to_our_reader() -> None:
    where = "types_parquet_new_york"
    assert reasons(where, "ts") == {"its timestamps were not written in UTC"}
    assert reasons(where, "id", "da") == {None}
    assert reasons("types_parquet", moves_instants=True) == {
        "the session moves timestamps of Parquet"
    }


def test_in_a_case_sensitive_session_spark_reads_only_column_names_in_the_same_case() -> None:
    def why(*, minds_case: bool) -> set[str | None]:
        return reasons("life_parquet", minds_case=minds_case, as_table={"a": "A"})

    assert why(minds_case=False) == {None}
    assert why(minds_case=True) == {
        "it spells column A differently, and the session is case-sensitive"
    }
    assert reasons("life_parquet", minds_case=True) == {None}


def test_spark_does_not_read_a_stored_column_that_the_partition_lacks(tmp_path: Path) -> None:
    path = tmp_path / "000000_0"
    pq.write_table(pa.table({"a": [1], "b": [2]}), path, store_schema=False)
    types = {"a": "bigint", "b": "bigint"}
    known = (Column(name="a", type="bigint"),)
    (verdict,) = judged_file(path, types, own=known)
    assert verdict.why_not == "its partition was created before column b was added"
    (verdict,) = judged_file(path, {"a": "bigint", "c": "bigint"}, own=known)
    assert verdict.why_not is None  # it has none


def test_spark_does_not_read_float_columns_whose_statistics_ignore_nan(tmp_path: Path) -> None:
    numbers = pa.table({"n": [1.0, float("nan")], "s": [{"x": 1.0}] * 2, "i": [1, 2]})
    whys = {}
    for name, bounds in (("all", True), ("some", ["i"])):
        path = tmp_path / name
        pq.write_table(numbers, path, store_schema=False, write_statistics=bounds)
        for column, type_ in {"n": "double", "s": "struct<x:double>"}.items():
            (verdict,) = judged_file(path, {column: type_})
            whys[name, column] = verdict.why_not
    assert whys == {
        ("all", "n"): "Spark would skip its NaN values",
        ("all", "s"): "Spark would skip its NaN values",
        ("some", "n"): None,
        ("some", "s"): None,
    }
    # Java's have none where there is NaN.
    assert reasons("types_parquet", "do") == {None}


@pytest.mark.parametrize(
    ("column", "type_"),
    [("ti", "int"), ("dm", "decimal(9,2)"), ("fl", "double"), ("ne", "array<string>")],
)
def test_a_column_whose_type_changed_since_the_write_is_left_to_our_reader(
    column: str, type_: str
) -> None:
    for format_ in ("orc", "parquet"):
        (why,) = reasons(f"types_{format_}", column, types={column: type_})
        assert why is not None
        assert f"column {column} is not stored as {type_}" in why
        assert reasons(f"types_{format_}", "id", types={column: type_}) == {None}


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_of_64_bit_nanoseconds_are_left_to_our_reader(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "000000_0"
    times = pa.table({"t": pa.array([0], pa.timestamp(unit))})
    pq.write_table(times, path, store_schema=False, version="2.6")
    (verdict,) = judged_file(path, {"t": "timestamp"})
    fine = "column t is not stored as timestamp"
    assert verdict.why_not == (fine if unit == "ns" else None)
    assert not verdict.manner.has_instants


def test_nested_varchars_that_spark_would_not_truncate_are_left_to_our_reader() -> None:
    (why,) = reasons("types_parquet", "ma", types={"ma": "map<varchar(9),int>"})
    assert why == "column ma is not stored as map<varchar(9),int>"
    assert reasons("types_parquet", "vc", "ch") == {None}


def test_structs_with_different_field_names_or_order_are_left_to_our_reader() -> None:
    for type_ in ("struct<y:string,x:int>", "struct<x:int,z:string>", "struct<x:int>"):
        (why,) = reasons("types_parquet", "sr", types={"sr": type_})
        assert why == f"column sr is not stored as {type_}"


def test_orc_files_older_than_a_column_are_left_to_our_reader_unlike_parquet_files() -> None:
    # Of ORC there are two ways to find columns; of Parquet there is one.
    assert reasons("added_orc") == {None, "it was written before column c was added"}
    assert reasons("added_parquet") == {None}
    assert reasons("renamed_orc") == {None, "its columns differ from the table's"}


def test_a_file_with_a_type_unknown_to_spark_is_left_to_our_reader_for_every_column(
    tmp_path: Path,
) -> None:
    path = tmp_path / "000000_0"
    instants = pa.array([0], pa.timestamp("ns", "UTC"))
    orc.write_table(pa.table({"i": pa.array([1], pa.int32()), "t": instants}), path)
    (verdict,) = judged_file(path, {"i": "int"}, FileFormat.ORC)
    assert verdict.why_not == "it has a union or a local timestamp"


def test_a_file_without_rows_in_the_key_range_is_skipped() -> None:
    outside = [v.is_outside for v in judged("life_orc", ranges={"a": KeyRange(low=4, high=9)})]
    assert outside == [True, True, True, False]


def test_text_files_are_left_to_our_reader() -> None:
    assert reasons("life_text") == {"it is text"}


def test_columns_with_names_that_spark_reserves_are_left_to_our_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_hiveacid.reading.orc_fit._TAKEN", frozenset({"a"}), raising=True)
    assert reasons("life_parquet", "a") == {"a column has a name that Spark needs"}
    assert reasons("life_parquet", "b") == {None}
