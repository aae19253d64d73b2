"""Spark's own reader and ours read the same rows, and what nobody asks for stays unread."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.specs import CompactionChoice, InsertSpec, SourceSpec
from airflow_hiveacid.spark.reading.orc_fit import readable_part
from airflow_hiveacid.spark.reading.target import PLACE, Target, resolve_target
from judges.golden import GoldenCase, cases

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_lab import Lab

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
    """How many partitions Spark's reader reads."""
    found = [
        readable_part(target.table, target.table.columns, *one)
        for one in zip(target.partitions, target.states, target.buckets, strict=True)
    ]
    return sum(part is not None and bool(part.data) for part in found)


def texts(frame: DataFrame) -> list[str]:
    """Every row as text; columns in the order of their names."""
    rows = frame.select(*sorted(frame.columns)).collect()
    return sorted(str(row) for row in rows)


def agree(target: Target) -> int:
    """Both readers read the same rows, this many."""
    names = [c.name for c in target.table.columns]
    rows = texts(target.scan(names))
    assert rows == texts(target.read_with_arrow(names, place=PLACE))
    return len(rows)


@pytest.mark.promise("R1")
def test_what_hive_wrote_reads_alike_in_both_readers(spark: SparkSession, tmp_path: Path) -> None:
    fits = 0
    for case in GOLDEN:
        target = golden_target(spark, case, tmp_path)
        fits += fitting(target)
        assert agree(target) == len(case.rows), case.id
    # Else all of the above would say nothing of Spark's reader.
    assert fits > len(GOLDEN) / 3


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
def test_what_sparks_reader_would_read_wrong_is_left_to_ours(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    found = [case for case in GOLDEN if case.name == name]
    assert found, sorted({case.name for case in GOLDEN})
    for case in found:
        assert fitting(golden_target(spark, case, tmp_path)) == 0, case.id


COLUMNS = {
    "id": "bigint",
    "bo": "boolean",
    "ti": "tinyint",
    "si": "smallint",
    "it": "int",
    "fl": "float",
    "do": "double",
    "de": "decimal(38,18)",
    "st": "string",
    "vc": "varchar(5)",
    "bi": "binary",
    "da": "date",
    "ar": "array<int>",
    "ma": "map<string,array<bigint>>",
    "sr": "struct<x:int,y:struct<z:string>>",
}
SCHEMA = ", ".join(f"{n} {'string' if 'char' in t else t}" for n, t in COLUMNS.items())


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
        [None, i, *range(i % 3)],
        {"k": [i, None], "": []},
        (i, (str(i),)),
    )


def filled(lab: Lab, *, partition: bool = False) -> Target:
    """A table with every type that Spark's reader reads, with updates and deletes."""
    table = lab.table("t", COLUMNS, partition={"p": "string"} if partition else None)
    for start in (0, 100, 200):
        rows = [row(i) for i in range(start, start + 100)]
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
def test_every_type_reads_alike_in_both_readers(lab4: Lab, *, partition: bool) -> None:
    target = filled(lab4, partition=partition)
    assert fitting(target) == (2 if partition else 1)
    agree(target)
    for name in ("ar", "id", "sr"):
        assert texts(target.rows([name])) == texts(target.read_with_arrow([name]).select(name))
    lab4.compact("t", CompactionChoice.MINOR)
    agree(resolve_target(lab4.spark, lab4.client, target.table, lab4.snapshot("t")))
    lab4.compact("t", CompactionChoice.MAJOR)
    agree(resolve_target(lab4.spark, lab4.client, target.table, lab4.snapshot("t")))


def test_a_range_keeps_the_rows_in_it_whoever_reads(lab4: Lab) -> None:
    target = filled(lab4)
    narrowed = dataclasses.replace(target, ranges={"id": (50, 120), "st": ("a", "zz")})
    (scan,) = scans(narrowed.scan(["it"]))
    assert "GreaterThanOrEqual(row.id,50)" in scan
    rows = texts(narrowed.scan(["it"]))
    assert rows == texts(narrowed.read_with_arrow(["it"], place=PLACE))
    assert 0 < len(rows) < 71
    nothing = dataclasses.replace(target, ranges={"id": (None, None)})
    assert texts(nothing.scan(["it"])) == []


@pytest.mark.promise("R4")
def test_columns_that_nobody_asks_for_are_not_read(lab4: Lab) -> None:
    rows = filled(lab4).rows()
    (scan,) = scans(rows.select("it"))
    assert "row:struct<bo:boolean,it:int>>" in scan
    (scan,) = scans(rows.select(F.count("*")))
    assert "row:struct<bo:boolean>>" in scan
    assert rows.count() == 300 - 43


def test_filters_reach_the_files_and_partitions_without_a_match_are_not_read(lab4: Lab) -> None:
    rows = filled(lab4, partition=True).rows()
    found = scans(rows.where("id = 5"))
    assert ["EqualTo(row.id,5)" in scan for scan in found] == [True, True]
    assert len(scans(rows.where("p is null"))) == 1


def scans(frame: DataFrame) -> list[str]:
    """What the plan says of each reading of files."""
    mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    plan: str = frame._jdf.queryExecution().explainString(mode.fromString("formatted"))
    return re.findall(r"^\(\d+\) Scan orc.*?(?=^$)", plan, re.MULTILINE | re.DOTALL)


def test_sessions_that_forgive_lost_files_still_get_an_error(lab4: Lab) -> None:
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


def test_identities_far_apart_are_joined_on_their_three_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [c for c in GOLDEN if c.id == "4.0.1/updated_again"]
    target = golden_target(spark, case, tmp_path)
    monkeypatch.setattr("airflow_hiveacid.spark.reading.orc_frame._LONGS", 1)
    apart = dataclasses.replace(target)
    assert "__rowId" in apart.rows()._jdf.queryExecution().toString()
    assert texts(apart.rows()) == texts(target.rows())
    agree(apart)


def test_beyond_so_many_partitions_or_in_another_session_our_reader_takes_over(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_hiveacid.spark.reading.target._MOST_FRAMES", 2)
    lab4.table("t", {"id": "bigint"}, partition={"p": "int"})
    lab4.insert("t", [(i, i % 4) for i in range(20)], ["id", "p"])
    rows = lab4.frame("t")
    assert len(scans(rows)) == 2
    lab4.spark.conf.set("spark.sql.orc.impl", "hive")
    try:
        assert scans(lab4.frame("t")) == []
    finally:
        lab4.spark.conf.unset("spark.sql.orc.impl")
    assert sorted(map(tuple, rows.collect())) == sorted((i, i % 4) for i in range(20))
