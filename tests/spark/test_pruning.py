"""Partitions are passed over only where no row of theirs can be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import DeleteSpec, MergeSpec, SourceSpec
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.reading.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.spark.statements.merge import plan_merge
from airflow_hiveacid.spark.statements.update_delete import plan_change
from tests.support.cases import changes_of
from tests.support.merge_clauses import matched_delete
from tests.support.tables import table_of

MONTHS = ("0", "1", "2", "12", None)
CONDITIONS = [
    (text, json.loads(left or ""))
    for text, left in changes_of(Path(__file__).parent / "cases/pruning_conditions.txt")
]


def partitioned(*values: str | None, by: str) -> tuple[TableInfo, tuple[PartitionName, ...]]:
    table = table_of("id int, unit string, d timestamp", by=f"p {by}")
    return table, tuple(table.partition_name([v]) for v in values)


@pytest.mark.parametrize(("condition", "left"), [(None, None), *CONDITIONS])
def test_a_condition_selects_only_the_partitions_that_can_match(
    spark: SparkSession, condition: str | None, left: list[str | None] | None
) -> None:
    table, names = partitioned(*MONTHS, by="int")
    found = partitions_where(spark, table, names, condition, Moment.now(spark))
    assert (found and [name.values[0] for name in found]) == left


def test_a_condition_on_target_and_source_prunes_by_its_part_on_the_target(
    spark: SparkSession,
) -> None:
    table, names = partitioned(*MONTHS, by="int")
    source = spark.createDataFrame([(1, 2)], "p int, number int")
    found = partitions_where(
        spark, table, names, "s.p = 2 AND t.p = 12", Moment.now(spark), beside=source
    )
    assert found is not None
    assert [name.values[0] for name in found] == ["12"]


@pytest.mark.parametrize(
    ("by", "values", "source", "left"),
    [
        ("string", ("01", "1", "2"), "select 1 as p", ["01", "1"]),
        ("string", ("01", "1", "2"), "select '1' as p", ["1"]),
        ("int", ("1", "2"), "select '01' as p", ["1"]),
        ("char(4)", ("ab", "cd"), "select 'ab  ' as p", ["ab"]),
        ("decimal(10,2)", ("1.50", "1.51"), "select cast(1.5 as double) as p", ["1.50"]),
        ("decimal(10,2)", ("1.50", "1.51"), "select 1.5000 as p", ["1.50"]),
        ("date", ("2024-01-01", "2024-01-02"), "select '2024-1-1' as p", ["2024-01-01"]),
        (
            "date",
            ("2024-01-01", "2024-01-02"),
            "select timestamp_ntz'2024-01-02' p",
            ["2024-01-02"],
        ),
        ("int", ("1", None), "select cast(null as int) as p", []),
        ("double", ("NaN", "1.0"), "select double('nan') as p", ["NaN"]),
    ],
)
def test_a_merge_reads_only_the_partitions_that_match_its_join_keys(
    spark: SparkSession, by: str, values: tuple[str | None, ...], source: str, left: list[str]
) -> None:
    table, names = partitioned(*values, by=by)
    frame = spark.sql(source)
    spec = MergeSpec(target="d.t", source=SourceSpec(), keys=("p",), clauses=(matched_delete(),))
    program = plan_merge(spark, table, spec, frame)
    found = partitions_meeting(table, names, frame, program.keys, program.equal)
    assert [name.values[0] for name in found] == left
    # The join over rows with these values says the same.
    rows = spark.createDataFrame([(v,) for v in values], "p string").select(
        F.col("p").alias("text"), F.col("p").cast(empty_target(spark, table).schema["p"].dataType)
    )
    joined = rows.alias("t").join(frame.alias("s"), program.keys_equal).select("text").distinct()
    assert sorted(r[0] for r in joined.collect()) == sorted(left)


@pytest.mark.promise("W6")
@pytest.mark.parametrize(
    ("kind", "value", "texts", "equal"),
    [
        ("decimal(38,0)", "2BD", ("2", " +2.000 ", "2e0", "1.5", "2.4", "15e-1", "x", ""), 3),
        ("decimal(38,2)", "2.01BD", ("2.01", "2.010", "201e-2", "2.0149", "2.005"), 3),
        ("decimal(5,2)", "0BD", ("0", ".0", "0.000", "-0", "1e-40", "0.001"), 4),
        ("decimal(20,0)", "9007199254740993BD", ("9007199254740993", "9007199254740992"), 1),
        ("float", "0.1F", ("0.1", "0.10000000149011612", "0.11", "x"), 2),
    ],
)
def test_a_text_key_matches_only_a_number_of_the_same_value(
    spark: SparkSession, kind: str, value: str, texts: tuple[str, ...], equal: int
) -> None:
    table = table_of(f"k {kind}")
    spec = MergeSpec(target="d.t", source=SourceSpec(), keys=("k",), clauses=(matched_delete(),))
    source = spark.createDataFrame([(text,) for text in texts], "k string")
    program = plan_merge(spark, table, spec, source)
    target = spark.sql(f"select cast({value} as {kind}) as k")
    found = target.alias("t").join(source.alias("s"), program.keys_equal).select("s.k").collect()
    assert sorted(r[0] for r in found) == sorted(texts[:equal])


def test_a_text_key_with_nanoseconds_matches_no_rounded_time(spark: SparkSession) -> None:
    table = table_of("k timestamp")
    spec = MergeSpec(target="d.t", source=SourceSpec(), keys=("k",), clauses=(matched_delete(),))
    target = spark.sql("select timestamp_ntz'2026-01-31 00:00:00.123456' as k").alias("t")

    def found(text: str | None) -> int:
        source = spark.createDataFrame([(text,)], "k string")
        program = plan_merge(spark, table, spec, source)
        return target.join(source.alias("s"), program.keys_equal).count()

    assert found("2026-01-31 00:00:00.123456000") == 1
    assert found(None) == 0
    wrong = (PySparkException, Py4JJavaError)
    with pytest.raises(wrong, match="more than six fractional digits"):
        found("2026-01-31 00:00:00.123456789")


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        ("date_trunc(t.unit, t.d) = timestamp_ntz'2024-01-01 00:00:00'", ("unit", "d")),
        ("extract(year from d) = 2024", ("d",)),
        ("hash(t.*) = 0", ("id", "unit", "d")),
        ("hash(*) = 0", ("id", "unit", "d")),
        ("exists(array(1), id -> id > 0) AND ID = 3", ("id",)),
        ("id IN (SELECT r.id FROM range(3) r WHERE length(unit) = r.id)", ("id", "unit")),
        ("p = 3", ()),
        (None, ()),
    ],
)
def test_exactly_the_columns_that_a_condition_uses_are_read(
    spark: SparkSession, condition: str | None, needed: tuple[str, ...]
) -> None:
    table, _ = partitioned(by="int")
    assert plan_change(spark, table, DeleteSpec(target="d.t", where=condition)).needed == needed
