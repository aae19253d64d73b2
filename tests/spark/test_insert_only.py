"""Insert-only tables: what is written is read, by Spark's readers where they are right."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertMode, InsertSpec, MergeSpec, SourceSpec
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.reading import NUMBER, partition_at
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.reading.table_view import numbered_files
from airflow_hiveacid.spark.reading.live_files import PlainRows
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.stores.listing import list_table
from tests.judges.golden_plain import PlainCase, plain_cases
from tests.support.column_lists import columns_of
from tests.support.merge_clauses import INSERT_ALL, UPDATE_ALL
from tests.support.spark_lab import Lab, native_files, with_settings
from tests.support.steps import StopError, stop_at

INSERT_ONLY: Final = TransactionalKind.INSERT_ONLY
FORMATS: Final = [FileFormat.ORC, FileFormat.PARQUET]
BY_NAME: Final = {"orc": FileFormat.ORC, "parquet": FileFormat.PARQUET}
AB: Final = {"a": "int", "b": "string"}


def files_of(root: Path) -> list[str]:
    return sorted(
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and not str(file.relative_to(root)).startswith("_hiveacid/")
    )


@pytest.mark.promise("C14", "D1")
@pytest.mark.parametrize(
    ("server", "format_"),
    [("4.0.1", FileFormat.ORC), ("4.0.1", FileFormat.PARQUET), ("3.1.3", FileFormat.ORC)],
    indirect=["server"],
)
@pytest.mark.long_cases("3.1.3-*", "4.0.1-*ORC")
def test_rows_can_be_inserted_compacted_and_overwritten(lab: Lab, format_: FileFormat) -> None:
    lab.table("t", AB, kind=INSERT_ONLY, format_=format_, parameters={ONLY_HIVE_4_READS: "true"})
    done = lab.insert("t", [(1, "a"), (2, None)], ["a", "b"])
    assert (done.rows.inserted, done.rows.deleted) == (2, 0)
    assert lab.rows("t") == [(1, "a"), (2, None)]
    lab.overwrite("t", [(7, "g")], ["a", "b"])
    lab.insert("t", [(8, "h")], ["a", "b"])
    lab.insert("t", [(9, "i")], ["a", "b"])
    rows = lab.rows("t")
    assert rows == [(7, "g"), (8, "h"), (9, "i")]
    (one,) = lab.compact("t", CompactionChoice.MINOR).details["compactions"]
    (output,) = one["outputs"]
    is_3 = lab.client.generation.name == "V3"
    assert output.startswith("base_0000004" if is_3 else "delta_0000003_0000004_v")
    assert (one["rows"], one["files"]) == (3 if is_3 else 2, 1)
    assert lab.rows("t") == rows
    files = files_of(lab.root("t"))
    assert {file.partition("/")[0] for file in files} == {
        *(output, "base_0000002"),
        *(f"delta_{i:07d}_{i:07d}_0000" for i in (1, 3, 4)),
    }
    # No bucket files, and no mark of full-ACID ones.
    assert all(re.fullmatch(r"[^/]+/(00000\d_0|_metadata_acid)", file) for file in files)
    assert native_files(lab.frame("t"))
    lab.insert("t", [(10, "j")], ["a", "b"])
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    assert lab.rows("t") == [*rows, (10, "j")]
    assert "base_0000005" in lab.directories("t")
    lab.overwrite("t", [], ["a", "b"])
    assert lab.rows("t") == []
    assert "base_0000006/000000_0" in files_of(lab.root("t"))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.long_cases("*.PARQUET")
def test_static_and_dynamic_partitions_can_be_written_and_read(
    lab4: Lab, format_: FileFormat
) -> None:
    lab4.table("t", AB, partition={"p": "string"}, kind=INSERT_ONLY, format_=format_)
    lab4.insert("t", [(1, "a", "x"), (2, "b", "y/ 1"), (3, "c", None)], ["a", "b", "p"])
    lab4.overwrite("t", [(4, "d")], ["a", "b"], partition={"p": "x"})
    lab4.overwrite("t", [(5, "e", "y/ 1"), (6, "f", "z"), (7, "g", "z")], ["a", "b", "p"])
    assert lab4.rows("t") == [
        *((3, "c", None), (4, "d", "x"), (5, "e", "y/ 1"), (6, "f", "z"), (7, "g", "z"))
    ]
    lab4.overwrite("t", [], ["a", "b"], partition={"p": "x"})
    assert [row[0] for row in lab4.rows("t")] == [3, 5, 6, 7]
    with read_snapshot(lab4.endpoint, [f"{lab4.db}.t"], job_key="r") as snapshot:

        def read(where: str) -> DataFrame:
            return read_table(lab4.spark, f"{lab4.db}.t", snapshot, columns=["b"], where=where)

        in_one = read("p = 'z'")
        assert sorted(row.b for row in in_one.collect()) == ["f", "g"]
        assert all("/p=z/" in path for path in native_files(in_one))
        found = read("a >= 5 and b <> 'f'")
        assert sorted(row.b for row in found.collect()) == ["e", "g"]
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert "GreaterThanOrEqual(a,5)" in plan
        assert read("a < 0").count() == 0


@pytest.mark.promise("R7")
@pytest.mark.parametrize("format_", FORMATS)
def test_a_scan_reads_the_same_files_columns_and_bytes_as_a_scan_of_flat_files(
    lab4: Lab, format_: FileFormat
) -> None:
    """The same files, columns, filters and bytes as Spark's own of them; no row passes Python."""
    columns = {"id": "bigint", "name": "string", "noise": "string"}
    lab4.table("t", columns, partition={"p": "string"}, kind=INSERT_ONLY, format_=format_)
    query = (
        "select id, string(id) name, sha2(string(id), 512) noise, if(id % 10 < 6, 'x', 'y') p"
        " from range({}, {})"
    )
    for start, end in ((0, 50_000), (50_000, 100_000)):
        source = SourceSpec(values=((1,),), columns=("q",), query=query.format(start, end))
        lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    in_x = [str(lab4.root("t") / f) for f in files_of(lab4.root("t")) if f.startswith("p=x/")]
    with read_snapshot(lab4.endpoint, [f"{lab4.db}.t"], job_key="r7") as snapshot:

        def ours() -> DataFrame:
            where = "p = 'x' and id >= 45000"
            name = f"{lab4.db}.t"
            return read_table(lab4.spark, name, snapshot, columns=["noise"], where=where)

        def flat() -> DataFrame:
            schema = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
            files = lab4.spark.read.schema(schema).format(format_.value.lower()).load(in_x)
            return files.where("id >= 45000").select("noise")

        assert sorted(ours().collect()) == sorted(flat().collect())
        assert [*map(scans, (ours(), flat()))] == [scans(flat())] * 2
        assert len(scans(flat())) == 1
        for frame in (ours(), flat()):
            places = [re.sub(r"^file:/+", "/", file) for file in frame.inputFiles()]
            assert sorted(places) == sorted(in_x)
            assert "Python" not in frame._jdf.queryExecution().executedPlan().toString()
        read = [bytes_read(lab4.spark, ours())]
        # Our sessions build ORC's filters themselves, for tables only.
        with with_settings(lab4.spark, {"spark.sql.orc.filterPushdown": "true"}):
            read.append(bytes_read(lab4.spark, flat()))
        whole = sum(Path(file).stat().st_size for file in in_x)
        assert abs(read[0] - read[1]) < whole / 20, (read, whole)


def scans(frame: DataFrame) -> list[tuple[str, ...]]:
    """What each scan of files asks its reader for: filters and columns."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [
        tuple(part for name in ("PushedFilters", "ReadSchema") for part in told_of(name, line))
        for line in plan.splitlines()
        if "FileScan" in line
    ]


def told_of(name: str, line: str) -> list[str]:
    # Who asks for the file of a row gets its number in a file of Parquet, too, which none stores.
    line = line.replace(",_tmp_metadata_row_index:bigint", "")
    return re.findall(rf"{name}: (\[.*?\]|struct<.*?>)", line)


def bytes_read(spark: SparkSession, frame: DataFrame) -> int:
    """What the JVM reads for the rows of a frame, after it has loaded what it needs for that."""
    totals = []
    for _ in range(2):
        before = _read_so_far(spark)
        frame.write.format("noop").mode("overwrite").save()
        totals.append(_read_so_far(spark) - before)
    return totals[-1]


def _read_so_far(spark: SparkSession) -> int:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.parametrize("format_", FORMATS)
def test_every_type_is_read_as_it_was_written(lab4: Lab, format_: FileFormat) -> None:
    columns = columns_of(
        "bo boolean, ti tinyint, bi bigint, do double, de decimal(38,18), dm decimal(7,2), "
        "st string, vc varchar(10), ch char(6), bn binary, da date, ts timestamp, "
        "ar array<int>, ma map<string,int>, sr struct<x:int,y:date>"
    )
    lab4.table("t", columns, kind=INSERT_ONLY, format_=format_)
    when = dt.datetime(1969, 7, 20, 20, 17, 40, 500_000)  # noqa: DTZ001 - a wall clock's
    row: tuple[Any, ...] = (
        *(True, -128, 1 << 62, -0.5, Decimal("1.000000000000000001"), Decimal("-12345.60")),
        *("Grüße", "vary", "pad", bytearray(b"\x00\xff"), dt.date(9999, 12, 31), when),
        *([1, None], {"k": None}, (1, dt.date(1600, 1, 1))),
    )
    empty = (None,) * len(row)
    source = lab4.spark.createDataFrame([row, empty], lab4.frame("t").schema)
    place = str(lab4.root("t").parent / "source")
    source.write.parquet(place)
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=SourceSpec(format="parquet", location=place)))
    frame = lab4.frame("t")
    found = sorted((tuple(r) for r in frame.collect()), key=lambda r: r[0] is None)
    assert found[0][:-1] == row[:-1]
    assert tuple(found[0][-1]) == row[-1]
    assert found[1] == empty
    assert len(native_files(frame)) >= 1


@pytest.mark.promise("D4")
def test_update_delete_and_merge_are_refused_with_a_reason(lab4: Lab) -> None:
    lab4.table("t", AB, kind=INSERT_ONLY, format_=FileFormat.PARQUET)
    lab4.insert("t", [(1, "a")], ["a", "b"])
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so UPDATE"):
        lab4.update("t", {"b": "'x'"})
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so DELETE"):
        lab4.delete("t")
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so MERGE"):
        lab4.merge("t", [(1, "x")], ["a", "b"], ["a"], [INSERT_ALL])
    # As a source it is like any other table.
    lab4.table("full", AB)
    lab4.insert("full", [(1, "old")], ["a", "b"])
    lab4.run(
        MergeSpec(
            target=f"{lab4.db}.full",
            source=SourceSpec(table=f"{lab4.db}.t"),
            keys=("a",),
            clauses=(UPDATE_ALL,),
        )
    )
    assert lab4.rows("full") == [(1, "a")]


@pytest.mark.promise("D1")
def test_text_tables_can_be_written_compacted_and_read(lab4: Lab) -> None:
    parameters = {ONLY_HIVE_4_READS: "true"}
    lab4.table(
        *("t", AB),
        partition={"p": "string"},
        kind=INSERT_ONLY,
        format_=FileFormat.TEXT,
        parameters=parameters,
    )
    lab4.insert("t", [(1, "a", "x"), (2, None, "y"), (None, "", "y")], ["a", "b", "p"])
    lab4.insert("t", [(3, "c", "y")], ["a", "b", "p"])
    with pytest.raises(errors.TypeMismatchError, match="ends a field or a row"):
        lab4.insert("t", [(4, "two\nlines", "x")], ["a", "b", "p"])
    lab4.compact("t", CompactionChoice.MINOR, "p=y")
    rows = [(None, "", "y"), (1, "a", "x"), (2, None, "y"), (3, "c", "y")]
    assert lab4.rows("t") == rows
    (file,) = (f for f in files_of(lab4.root("t")) if re.search(r"_v\d+/000000_0$", f))
    assert (lab4.root("t") / file).read_bytes() == b"2\x01\\N\n\\N\x01\n3\x01c\n"
    lab4.overwrite("t", [(5, "e")], ["a", "b"], partition={"p": "x"})
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert lab4.rows("t") == [rows[0], *rows[2:], (5, "e", "x")]
    assert lab4.frame("t").where("b = 'c'").count() == 1
    lab4.truncate("t", {"p": "y"})
    assert lab4.rows("t") == [(5, "e", "x")]
    lab4.table("n", {"a": "array<int>"}, kind=INSERT_ONLY, format_=FileFormat.TEXT)
    with pytest.raises(errors.UnsupportedTableError, match="its column a is of type array"):
        lab4.overwrite("n", [], ["a"])


@pytest.mark.promise("D1")
def test_avro_tables_can_be_written_compacted_and_read(lab4: Lab) -> None:
    lab4.table(
        *("t", {"a": "int", "b": "struct<x:string,y:array<date>>"}),
        partition={"p": "string"},
        kind=INSERT_ONLY,
        format_=FileFormat.AVRO,
        parameters={ONLY_HIVE_4_READS: "true"},
    )
    query = (
        "select a, if(a = 2, null, named_struct('x', b, 'y', array(date'2020-02-29', null))) b, p"
        " from source"
    )

    def source(*rows: tuple[Any, ...]) -> SourceSpec:
        return SourceSpec(values=rows, columns=("a", "b", "p"), query=query)

    name = f"{lab4.db}.t"
    lab4.run(InsertSpec(target=name, source=source((1, "a", "x"), (2, "b", "y"))))
    lab4.run(InsertSpec(target=name, source=source((3, "c", "y"))))
    lab4.compact("t", CompactionChoice.MINOR, "p=y")
    day = [dt.date(2020, 2, 29), None]
    assert lab4.rows("t") == [(1, ("a", day), "x"), (2, None, "y"), (3, ("c", day), "y")]
    static = source((5, "e", "x"))
    lab4.run(InsertSpec(target=name, source=static, mode=InsertMode.OVERWRITE))
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert lab4.rows("t") == [(2, None, "y"), (3, ("c", day), "y"), (5, ("e", day), "x")]
    assert lab4.frame("t").where("b.x = 'c'").count() == 1
    lab4.truncate("t", {"p": "y"})
    assert lab4.rows("t") == [(5, ("e", day), "x")]


def test_a_failed_insert_leaves_no_files(lab4: Lab) -> None:
    lab4.table("t", AB, kind=INSERT_ONLY)
    lab4.insert("t", [(1, "a")], ["a", "b"])
    with pytest.raises(StopError):
        lab4.insert("t", [(2, "b")], ["a", "b"], on_step=stop_at("published"))
    assert lab4.rows("t") == [(1, "a")]
    assert lab4.directories("t") == ["delta_0000001_0000001_0000"]


# ---- what Hive wrote -----------------------------------------------------------------------------

GOLDEN: Final = [c for c in plain_cases() if not c.name.startswith(("stray", "renamed_orc"))]


def rows_of(spark: SparkSession, cases: Sequence[PlainCase]) -> PlainRows:
    """All of them as partitions of one table, each under its own snapshot."""
    places = [(case, str(place)) for case in cases for _, place in case.places()]
    table = TableInfo(
        ref=TableRef("g", "golden"),
        location=places[0][1],
        columns=tuple(Column(name=name, type=kind) for name, kind in cases[0].columns),
        kind=INSERT_ONLY,
    )
    partitions = [
        PartitionInfo(
            name=PartitionName(("case",), (f"{case.version} {case.name}",)),
            location=place,
            storage=Storage(format=BY_NAME[case.format]),
        )
        for case, place in places
    ]
    states = [
        resolve(
            list_table(place),
            ValidWriteIdList.parse(case.write_ids),
            ValidTxnList.parse(case.txns),
            INSERT_ONLY,
        )
        for case, place in places
    ]
    files = numbered_files(table, partitions, states)
    return PlainRows(spark=spark, table=table, partitions=partitions, files=files, ranges={})


@pytest.mark.parametrize("format_", BY_NAME)
def test_sparks_readers_and_our_reader_return_the_same_rows_of_hives_files(
    spark: SparkSession, format_: str
) -> None:
    native = set()
    golden = [case for case in GOLDEN if case.format == format_]
    for columns in dict.fromkeys(case.columns for case in golden):
        cases = [case for case in golden if case.columns == columns]
        rows = rows_of(spark, cases)
        names = [name for name, _ in columns]
        whole, ours = rows.rows(names, "position"), rows.with_arrow(names, "position")
        assert whole.schema.names == ours.schema.names
        found = told(rows, whole)
        assert found == told(rows, ours)
        assert {case: len(lines) for case, lines in found.items()} == {
            f"{case.version} {case.name}": len(case.rows) for case in cases if case.rows
        }
        native |= {
            (case.version, case.name.partition("_")[0])
            for case in cases
            for path in native_files(whole)
            if f"/{case.version}/{case.name}/" in path
        }
    kinds = ("life", "major", "overwrite", "part", "types", "buckets")
    assert {(version, kind) for version in ("4.0.1", "3.1.3") for kind in kinds} <= native


def told(rows: PlainRows, frame: DataFrame) -> dict[str | None, list[str]]:
    """Rows by their case, as texts, in which NaN equals itself."""
    found: dict[str | None, list[str]] = {}
    for place, *values in frame.collect():
        (case,) = rows.partitions[partition_at(place[NUMBER])].name.values
        found.setdefault(case, []).append(repr(values))
    return {case: sorted(lines) for case, lines in found.items()}


ODD_VALUES: Final[dict[str, tuple[str, list[Any]]]] = {
    "s": ("string", ["a", "\uff21\u793e", "\U0001f600 smile", "b\uff08c", "\ud7ff", ""]),
    "v": ("varchar(9)", ["a", "\uff21\u793e", "\U0001f600", "b\uff08c"]),
    "c": ("char(6)", ["a", "\uff21\u793e", "\U0001f600", "b \uff08"]),
    "d": ("double", ["0.0", "-0.0", "NaN", "Infinity", "-1.5"]),
    "f": ("float", ["-0.0", "0.0", "NaN", "2.5"]),
    "n": ("decimal(38,10)", ["-0.5", "-12345678901234567890.5", "0", "0.0000000001"]),
    "da": ("date", ["0001-01-01", "1582-10-15", "1969-12-31", "9999-12-31"]),
    "ts": (
        "timestamp_ntz",
        ["1600-01-01 00:00:00", "1969-12-31 23:59:58.5", "1970-01-01 00:00:00.5"],
    ),
    "b": ("boolean", ["true", "false"]),
    "bi": ("binary", ["", "a", "\uff21"]),
}
OF_RANGES: Final = ("=", "<>", "<", "<=", ">", ">=")


def odd(name: str, value: str) -> str:
    """The value as SQL, in the type of its column."""
    kind = ODD_VALUES[name][0]
    return f"cast('{value}' as {'string' if kind.startswith(('char', 'varchar')) else kind})"


def made_odd(lab: Lab, kind: TransactionalKind, format_: FileFormat, *, few: bool) -> list[str]:
    """Make a table of files with odd values; return all conditions on each value, or few."""
    columns = {"id": "bigint"} | {
        name: hive.removesuffix("_ntz")
        for name, (hive, _) in ODD_VALUES.items()
        if not (name == "ts" and format_ is FileFormat.PARQUET)  # old times are refused
    }
    lab.table("odd", columns, kind=kind, format_=format_)
    values = ", ".join(
        f"element_at(array({', '.join(odd(name, value) for value in ODD_VALUES[name][1])}),"
        f" cast(id % {len(ODD_VALUES[name][1])} + 1 as int)) {name}"
        for name in columns
        if name != "id"
    )
    query = f"select id, {values} from (select cast(n as bigint) id from source)"
    for numbers in ([0], [1], [2, 3], [4, 5, 6, 7, 8, 9, 10, 11]):
        source = SourceSpec(values=tuple((n,) for n in numbers), columns=("n",), query=query)
        lab.run(InsertSpec(target=f"{lab.db}.odd", source=source))
    return [
        f"{name} {operator} {odd(name, value)}"
        for name in columns
        if name != "id"
        for number, value in enumerate(ODD_VALUES[name][1])
        for operator in operators(name, number, few=few)
    ]


def operators(name: str, number: int, *, few: bool) -> Sequence[str]:
    """The comparisons of a column with its value of this number; few of them take turns."""
    if name not in {"s", "d"}:
        return ("=", ">=")[number % 2 :][:1] if few else ("=", ">=")
    equal, *others = OF_RANGES
    return (equal, others[number % len(others)]) if few else OF_RANGES


def answers(frame: DataFrame, filters: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each filter, over a scan of its own, so that Spark may push it to the files."""
    scans = [frame.where(one).selectExpr(f"{n} n", "id") for n, one in enumerate(filters)]
    found: dict[str, list[int]] = {one: [] for one in filters}
    for number, row_id in reduce(DataFrame.union, scans).collect():
        found[filters[number]].append(row_id)
    return {one: sorted(ids) for one, ids in found.items()}


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        (TransactionalKind.FULL_ACID, FileFormat.ORC),
        (INSERT_ONLY, FileFormat.ORC),
        (INSERT_ONLY, FileFormat.PARQUET),
    ],
)
@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
@pytest.mark.long_cases("*.FULL_ACID-*", "*.PARQUET", "all-*")
def test_a_filter_hides_no_row_of_odd_values_before_or_after_a_compaction(
    lab4: Lab, kind: TransactionalKind, format_: FileFormat, *, few: bool
) -> None:
    filters = made_odd(lab4, kind, format_, few=few)
    rows = lab4.frame("odd")
    # Of rows in memory there is nothing to push a filter to, so one scan answers all of them.
    held = lab4.spark.createDataFrame(rows.collect(), rows.schema).selectExpr("id", *filters)
    kept = held.collect()
    expected = {one: sorted(row[0] for row in kept if row[n]) for n, one in enumerate(filters, 1)}
    assert expected["s = cast('\uff21\u793e' as string)"]
    assert answers(rows, filters) == expected
    with with_settings(lab4.spark, {"spark.sql.orc.filterPushdown": "true"}):
        assert answers(lab4.frame("odd"), filters) == expected
    lab4.compact("odd", CompactionChoice.MAJOR)
    assert answers(lab4.frame("odd"), filters) == expected


def test_a_filter_on_a_source_hides_no_row(lab4: Lab, tmp_path: Path) -> None:
    zeros = pa.table({"id": [1, 2], "d": [-0.0, -0.0], "s": ["a", "\U0001f600"]})
    pq.write_table(zeros, tmp_path / "f.parquet")
    orc.write_table(zeros, tmp_path / "f.orc")
    lab4.table("t", {"id": "bigint"})
    for name in ("parquet", "orc"):
        source = SourceSpec(
            format=name,
            location=f"file:{tmp_path}/f.{name}",
            query="select id from source where d = 0.0D and s >= '\uff21'",
        )
        lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source, mode=InsertMode.OVERWRITE))
        assert lab4.rows("t") == [(2,)]
