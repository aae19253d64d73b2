"""Spark's own reader and ours read the same rows, and what nobody asks for stays unread."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.reading import KeyRange, arrow_scan
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import POSITION, Target, resolve_target
from tests.judges.golden import GoldenCase, cases
from tests.support.column_lists import columns_of
from tests.support.spark_lab import Lab, make_lab, native_files

# A file with a union is read by nobody in Spark.
GOLDEN = [case for case in cases() if not any("union" in kind for _, kind in case.columns)]


def golden_target(spark: SparkSession, case: GoldenCase, folder: Path) -> Target:
    root = f"file:{case.checkout(folder)}"
    names = [
        (PartitionName.parse(p.location), f"{root}/{p.location}") for p in case.partitions
    ] or [(PartitionName(), root)]
    return Target(
        spark=spark,
        table=TableInfo(
            ref=TableRef("db", "t"),
            location=root,
            columns=tuple(Column(name=n, type=t) for n, t in case.columns),
            partition_columns=tuple(Column(name=n, type=t) for n, t in case.partition_columns),
            kind=TransactionalKind.FULL_ACID,
        ),
        write_ids=ValidWriteIdList.parse(case.write_ids),
        txns=ValidTxnList.parse(case.txns),
        partitions=tuple(PartitionInfo(name=name, location=place) for name, place in names),
    )


def fitting(target: Target) -> int:
    """How many data files Spark's reader reads."""
    return len(native_files(target.rows()))


def texts(frame: DataFrame) -> list[str]:
    """Every row as text; columns in the order of their names."""
    rows = frame.select(*sorted(frame.columns)).collect()
    return sorted(str(row) for row in rows)


def agree(target: Target) -> int:
    """Both readers read the same rows, this many."""
    names = [c.name for c in target.table.columns]
    scan, arrow = target.scan(names), target.read_with_arrow(names, position=POSITION)
    rows = texts(scan.drop(*[c.name for c in target.table.partition_columns]))
    assert rows == texts(arrow)
    return len(rows)


# Of most of these, Spark's reader reads other files than of the same tables of Hive 4.
OF_HIVE_3 = (
    "all_types",
    "bucketed_compacted",
    "compacted_twice",
    "deleted_without_where",
    "evolved",
    "evolved_partitions_major",
    "minor",
    "overwrite_with_nothing",
)
CHOSEN = [case for case in GOLDEN if case.version == "4.0.1" or case.name in OF_HIVE_3]


@pytest.mark.promise("R1")
@pytest.mark.parametrize(
    "golden",
    [CHOSEN, [case for case in GOLDEN if case not in CHOSEN]],
    ids=["chosen", "others of Hive 3"],
)
@pytest.mark.long_cases("others of Hive 3")
def test_sparks_reader_and_our_reader_return_the_same_rows_of_hives_files(
    spark: SparkSession, tmp_path: Path, golden: list[GoldenCase]
) -> None:
    fits = 0
    for case in golden:
        target = golden_target(spark, case, tmp_path)
        fits += fitting(target) > 0
        assert agree(target) == len(case.rows), case.id
    # Else all of the above would say nothing of Spark's reader.
    assert fits > len(golden) / 3


@pytest.mark.parametrize(
    "name",
    [
        "ancient",  # days of the old calendar
        "added_column",
        "widened_column",
        "converted",
        "loaded",
        "streaming",
    ],
)
def test_files_that_sparks_reader_would_misread_are_read_by_our_reader(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    found = [case for case in GOLDEN if case.name == name]
    assert found, sorted({case.name for case in GOLDEN})
    for case in found:
        target = golden_target(spark, case, tmp_path)
        assert fitting(target) < len(target.files), case.id


@pytest.mark.promise("R3")
def test_a_file_is_read_by_many_tasks_and_each_omits_its_deleted_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [case for case in GOLDEN if case.id == "4.0.1/many_stripes"]
    target = golden_target(spark, case, tmp_path)
    (large,) = [f for f in target.files if len(f.data.tail().stripes) > 3]
    monkeypatch.setattr(arrow_scan, "_SPLIT_BYTES", 1)
    key = "spark.sql.files.maxPartitionBytes"
    spark.conf.set(key, str(large.data.length // 4))
    try:
        assert fitting(target)
        assert target.rows().rdd.getNumPartitions() >= 4
        assert agree(target) == len(case.rows)
    finally:
        spark.conf.unset(key)


COLUMNS = columns_of(
    "id bigint, bo boolean, ti tinyint, si smallint, it int, fl float, do double, "
    "de decimal(38,18), st string, vc varchar(5), bi binary, da date, ts timestamp, ch char(6), "
    "at array<struct<t:timestamp>>, ar array<int>, ma map<string,array<bigint>>, "
    "sr struct<x:int,y:struct<z:string>>, "
    "dk map<int,array<struct<v:double,d:date,t:timestamp>>>, "
    "al array<map<date,struct<v:decimal(20,3),f:float>>>"
)
SCHEMA = ", ".join(
    f"{n} {'string' if 'char' in t else t.replace('timestamp', 'timestamp_ntz')}"
    for n, t in COLUMNS.items()
)


DAY = dt.date(1969, 12, 31)


def clock(*parts: int) -> dt.datetime:
    """A wall-clock time, which has no zone."""
    return dt.datetime(*parts, tzinfo=None)  # type: ignore[misc,arg-type] # noqa: DTZ001


def row(i: int) -> tuple[object, ...]:
    if i % 5 == 4:
        return (i, *[None] * (len(COLUMNS) - 1))
    return (
        i,
        i % 2 == 0,
        i % 256 - 128,
        -i,
        i * 1000,
        [0.5, math.nan, math.inf, -0.0][i % 4],
        [1e300, -math.inf, math.nan, 0.1][i % 4],
        Decimal(i) / 7 * (-1) ** i,
        ["", "ünï\n", "a\tb", "long " * 50][i % 4],
        "x" * (i % 6),
        bytes(range(i % 200)),
        dt.date(1600, 1, 1) + dt.timedelta(days=i * 999),
        clock(1601, 3, 25, 2, 30) + dt.timedelta(days=i * 999, microseconds=i * 7 + 1),
        ["", "a", "ü b", " x"][i % 4],
        [None, (clock(1969, 12, 31, 23, 59, 58, 999_999),), (None,)],
        [None, i, *range(i % 3)],
        {"k": [i, None], "": []},
        (i, (str(i),)),
        {
            i: [([math.nan, math.inf, -0.0][i % 3], DAY, clock(2000, 1, 1)), None, (None,) * 3],
            -1: None,
        },
        [None, {}, {DAY: (Decimal(i) / 8, [math.nan, -0.0][i % 2]), dt.date(9999, 12, 31): None}],
    )


def filled(lab: Lab, *, partition: bool = False) -> Target:
    """A table with every type that Spark's reader reads, with updates and deletes."""
    table = lab.table("t", COLUMNS, partition={"p": "string"} if partition else None)
    for start in (0, 150):
        rows = [row(i) for i in range(start, start + 150)]
        frame = lab.spark.createDataFrame(rows, SCHEMA)
        if partition:
            value = F.when(F.col("id") % 3 == 0, None).otherwise(F.lit("a b/[c]=%41"))
            frame = frame.withColumn("p", value)
        place = lab.root("t").parent / f"source_{start}"
        frame.write.parquet(place.as_uri())
        source = SourceSpec(format="parquet", location=place.as_uri())
        lab.run(InsertSpec(target=f"{lab.db}.t", source=source))
    lab.update("t", {"it": "7", "st": "'new'"}, "id % 10 = 3")
    lab.delete("t", "id % 7 = 0")
    return resolve_target(lab.spark, lab.client, table, lab.snapshot("t"))


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.long_cases("False")
def test_both_readers_return_the_same_values_of_every_type(lab4: Lab, *, partition: bool) -> None:
    target = filled(lab4, partition=partition)
    assert fitting(target) == len(target.files)
    agree(target)
    for name in ("ar", "id", "sr"):
        assert texts(target.rows([name])) == texts(target.read_with_arrow([name]).select(name))
    lab4.compact("t", CompactionChoice.MINOR)
    agree(resolve_target(lab4.spark, lab4.client, target.table, lab4.snapshot("t")))
    lab4.compact("t", CompactionChoice.MAJOR)
    agree(resolve_target(lab4.spark, lab4.client, target.table, lab4.snapshot("t")))


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Target]:
    """One table for the tests that only read it."""
    for lab in make_lab(spark, hive_metastore):
        yield filled(lab)


def test_both_readers_return_the_same_rows_for_a_key_range(unchanged: Target) -> None:
    target = unchanged
    ranges = {"id": KeyRange(low=50, high=120), "st": KeyRange(low="a", high="zz")}
    narrowed = dataclasses.replace(target, ranges=ranges)
    assert 0 < len(native_files(narrowed.scan(["it"]))) < len(target.files)
    rows = texts(narrowed.scan(["it"]).select("it", POSITION))
    assert rows == texts(narrowed.read_with_arrow(["it"]).select("it", POSITION))
    assert 0 < len(rows) < 71
    for one in (KeyRange(is_empty=True), KeyRange(low=10_000)):
        nothing = dataclasses.replace(target, ranges={"id": one})
        assert texts(nothing.scan(["it"])) == []
        assert texts(nothing.read_with_arrow(["it"])) == []


@pytest.mark.promise("R4")
def test_columns_that_a_query_does_not_use_are_not_read(unchanged: Target) -> None:
    rows = unchanged.rows()
    assert "row:struct<it:int,__absent:int>>" in scans(rows.select("it"))[0]
    assert "row:struct<__absent:int>>" in scans(rows.select(F.count("*")))[0]
    assert rows.count() == 300 - 43


@pytest.mark.promise("R5", "F10")
def test_row_groups_without_a_matching_row_are_not_read(lab4: Lab) -> None:
    """One file of ten row groups; what one of them holds costs a fraction of all.

    The first compaction copies the file's stripe as bytes, the second one encodes it again.
    """
    lab4.table("t", {"id": "bigint", "name": "string", "day": "date", "noise": "string"})
    query = (
        "select id, format_string('n%08d', id) as name, date_add(date'2000-01-01', int(id)) as day,"
        " sha2(string(id), 512) as noise from range(100000)"
    )
    source = SourceSpec(values=((1,),), columns=("x",), query=query)
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    _check_pruning(lab4, 100_000)
    assert lab4.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    lab4.clean("t")
    _check_pruning(lab4, 100_000)
    lab4.delete("t", "id = 99999")
    assert lab4.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    _check_pruning(lab4, 99_999)


def _check_pruning(lab: Lab, count: int) -> None:
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key="r5") as snapshot:

        def read(where: str | None) -> tuple[int, int]:
            before = bytes_read(lab.spark)
            frame = read_table(lab.spark, f"{lab.db}.t", snapshot, columns=["NOISE"], where=where)
            return frame.distinct().count(), bytes_read(lab.spark) - before

        rows, everything = read(None)
        assert rows == count
        for where, expected in {
            "id = 12345": 1,
            "id between 12345 and 12350 and noise <> ''": 6,
            "day in (date'2000-01-05', date'2000-01-03')": 2,
            "day between date'2273-10-05' and date'2273-10-07'": 3,
        }.items():
            rows, some = read(where)
            assert rows == expected, where
            assert some < everything / 3, where
        assert read("id < 0")[0] == 0
        assert read("name between 'n00012345' and 'n00012350'")[0] == 6


def bytes_read(spark: SparkSession) -> int:
    """What the JVM has read so far, of files and all else; Hadoop does not count all of it."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["rchar"])


def test_files_of_partitions_without_a_matching_row_are_not_opened(lab4: Lab) -> None:
    target = filled(lab4, partition=True)
    rows = target.rows()
    for where, partition in {"p is null": "p=__HIVE", "p like 'a b%'": "p=a b"}.items():
        found = rows.where(where)
        assert 80 < found.count() < 175
        assert files_opened(found) == sum(partition in f.data.path for f in target.files)
        narrow = target.rows_where(where, Moment.now(lab4.spark))
        assert texts(narrow) == texts(found)
        assert len(native_files(narrow)) == sum(partition in f.data.path for f in target.files)


def files_opened(frame: DataFrame) -> int:
    """How many data files the first reading of a frame has opened, once it is computed."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    found = plan.finalPhysicalPlan() if hasattr(plan, "finalPhysicalPlan") else plan
    leaves = found.collectLeaves()
    counts = [leaves.apply(i).metrics().get("numFiles") for i in range(leaves.size())]
    return next(int(one.get().value()) for one in counts if one.isDefined())


def scans(frame: DataFrame) -> list[str]:
    """What the plan says of each reading of files."""
    mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    plan: str = frame._jdf.queryExecution().explainString(mode.fromString("formatted"))
    return re.findall(r"^\(\d+\) Scan orc.*?(?=^$)", plan, re.MULTILINE | re.DOTALL)


def test_a_missing_file_raises_an_error_even_if_the_session_ignores_missing_files(
    lab4: Lab,
) -> None:
    lab4.table("t", {"id": "bigint"})
    lab4.insert("t", [(1,)], ["id"])
    rows = lab4.frame("t")
    (file,) = lab4.root("t").glob("delta_*/bucket_*")
    file.unlink()
    lab4.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match="bucket_0000"):
            rows.collect()
    finally:
        lab4.spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_cached_frame_keeps_its_rows_when_spark_refreshes_it(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint"})
    lab4.insert("t", [(1,), (2,), (3,)], ["id"])
    lab4.delete("t", "id = 2")
    rows, catalog = lab4.frame("t").cache(), lab4.spark.catalog
    assert rows.count() == 2
    rows.createOrReplaceTempView("refreshed")
    try:
        catalog.refreshByPath("/")
        assert rows.count() == 2
        with pytest.raises(UnsupportedOperationException):
            catalog.refreshTable("refreshed")
        assert rows.count() == 2
        assert lab4.spark.table("refreshed").count() == 2
    finally:
        rows.unpersist()
        catalog.dropTempView("refreshed")


def test_a_table_with_a_local_time_zone_timestamp_is_read_by_our_reader(lab4: Lab) -> None:
    """Whatever is asked of a file, Spark fails on this type in it."""
    kind = "timestamp with local time zone"
    lab4.table("t", {"id": "int", "at": kind})
    lab4.insert("t", [(1, "2021-03-28 02:30:00.123456"), (2, None), (3, None)], ["id", "at"])
    lab4.update("t", {"id": "id + 10"}, "id = 1")
    lab4.delete("t", "id = 3")
    rows = lab4.frame("t")
    assert native_files(rows) == []
    assert sorted(r.id for r in rows.select("id").collect()) == [2, 11]
    found = rows.selectExpr("id", "cast(at as string)").orderBy("id").collect()
    assert [tuple(r) for r in found] == [(2, None), (11, "2021-03-28 02:30:00.123456")]


def test_two_partitions_with_the_same_location_have_the_same_rows(lab4: Lab) -> None:
    lab4.table("t", {"id": "int"}, partition={"p": "int"})
    lab4.insert("t", [(i, 1) for i in range(4)], ["id", "p"])
    lab4.delete("t", "id = 0")
    target = resolve_target(lab4.spark, lab4.client, lab4.info("t"), lab4.snapshot("t"))
    (one,) = target.partitions
    other = PartitionInfo(name=target.table.partition_name(["2"]), location=one.location)
    both = dataclasses.replace(target, partitions=(one, other))
    rows = sorted(map(tuple, both.rows().collect()))
    assert rows == sorted((i, p) for i in (1, 2, 3) for p in (1, 2))


def test_row_ids_that_do_not_fit_into_one_long_are_joined_on_their_three_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [c for c in GOLDEN if c.id == "4.0.1/updated_again"]
    target = golden_target(spark, case, tmp_path)
    monkeypatch.setattr("airflow_hiveacid.spark.reading.orc_frame._LONGS", 1)
    apart = dataclasses.replace(target)
    assert "__rowId_key" in apart.rows()._jdf.queryExecution().toString()
    assert texts(apart.rows()) == texts(target.rows())
    agree(apart)


def test_orc_settings_of_the_session_do_not_change_the_rows_that_are_read(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint"}, partition={"p": "int"})
    lab4.insert("t", [(i, i % 4) for i in range(20)], ["id", "p"])
    for key, value in {
        "spark.sql.orc.impl": "hive",
        "spark.sql.sources.useV1SourceList": "",
        "spark.sql.orc.enableVectorizedReader": "false",
        "spark.sql.hive.manageFilesourcePartitions": "false",
    }.items():
        lab4.spark.conf.set(key, value)
        try:
            rows = lab4.frame("t")
            assert sorted(map(tuple, rows.collect())) == sorted((i, i % 4) for i in range(20)), key
            assert len(native_files(rows)) >= 4
        finally:
            lab4.spark.conf.unset(key)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Atlantic/Reykjavik"])
def test_timestamps_are_read_correctly_in_any_time_zone_of_the_session_and_the_jvm(
    lab4: Lab, zone: str
) -> None:
    lab4.table("t", {"id": "int", "ts": "timestamp"})
    # The first does not exist in Berlin, the second is there twice; Reykjavik once had summers.
    times = [clock(2021, 3, 28, 2, 30), clock(2021, 10, 31, 2, 30), clock(1967, 7, 1, 12)]
    lab4.insert("t", [(i, f"{time}") for i, time in enumerate(times)], ["id", "ts"])
    zones = lab4.spark._jvm.java.util.TimeZone
    utc = zones.getDefault()
    lab4.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert [r.ts for r in lab4.frame("t").orderBy("id").collect()] == times
        assert native_files(lab4.frame("t"))
        zones.setDefault(zones.getTimeZone(zone))
        assert native_files(lab4.frame("t")) == []
        assert [r.ts for r in lab4.frame("t").orderBy("id").collect()] == times
    finally:
        zones.setDefault(utc)
        lab4.spark.conf.set("spark.sql.session.timeZone", "UTC")
