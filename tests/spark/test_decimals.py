"""Decimals of two types are compared by their values; a value too large for both types fails."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.statements import MergeSpec, SourceSpec
from airflow_hiveacid.spark.engine.catalyst import Moment, query, resolve
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, condition_of, reason_of
from airflow_hiveacid.spark.engine.parsed_sql import DEFAULT_TERMS
from airflow_hiveacid.spark.reading.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.statements.merge import plan_merge
from tests.support.cases import changes_of
from tests.support.merge_clauses import matched_delete
from tests.support.tables import table_of

_ANSWERS: Final[dict[str, tuple[object, object]]] = {
    text: tuple(json.loads(answer or ""))
    for text, answer in changes_of(Path(__file__).parent / "cases/decimal_comparisons.txt")
}


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> DataFrame:
    rows = [
        (Decimal("1.1"), Decimal(1), 7, Decimal("-0.5"), Decimal("1.5"), None),
        (Decimal(-1), Decimal(-1), -1, Decimal("-1.0000000000000000001"), Decimal(1), None),
    ]
    kinds = "a decimal(20,15), b decimal(38,0), i bigint, h decimal(38,19), g decimal(38,10)"
    frame = spark.createDataFrame(rows, f"{kinds}, n decimal(38,38)")
    show({"both": frame})
    return frame


def test_expressions_compare_decimals_of_two_types_by_their_values(
    spark: SparkSession, both: DataFrame
) -> None:
    found = resolve(both.alias("t"), list(_ANSWERS), Moment.now(spark))
    rows = both.alias("t").select(*[value.column for value in found]).collect()
    assert dict(zip(_ANSWERS, zip(*rows, strict=True), strict=True)) == _ANSWERS


def test_queries_compare_decimals_of_two_types_by_their_values(
    spark: SparkSession, both: DataFrame
) -> None:
    show({"both": both})
    rows = query(spark, f"SELECT {', '.join(_ANSWERS)} FROM both t", DEFAULT_TERMS).collect()
    assert dict(zip(_ANSWERS, zip(*rows, strict=True), strict=True)) == _ANSWERS


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("both x JOIN both y ON x.a = y.b", 1),
        ("both x LEFT JOIN both y ON x.a <=> y.b WHERE y.b IS NULL", 1),
        ("both x LEFT ANTI JOIN both y ON x.a = y.b", 1),
        ("(SELECT a AS k FROM both) x JOIN (SELECT b AS k FROM both) y USING (k)", 1),
        ("(SELECT b AS k FROM both) PIVOT (max(k) FOR k IN (1.5)) WHERE `1.5` IS NULL", 1),
        ("(SELECT 1 FROM both GROUP BY a HAVING max(a) = max(b))", 1),
        ("(SELECT a FROM both INTERSECT SELECT b FROM both)", 1),
        ("(SELECT a FROM both EXCEPT SELECT b FROM both)", 1),
        ("(SELECT a FROM both UNION SELECT b FROM both)", 3),
        ("both WHERE coalesce(a, b) = 1.1 AND greatest(a, b) = 1.1", 1),
    ],
)
def test_joins_and_sets_compare_decimals_of_two_types_by_their_values(
    spark: SparkSession, both: DataFrame, text: str, count: int
) -> None:
    source = SourceSpec(tables={}, query=f"SELECT count(*) FROM {text}")
    assert load_source(spark, source, {"both": both}).collect()[0][0] == count


@pytest.mark.parametrize("text", ["c > 0.5", "a = c", "a IN (c)", "coalesce(c, a) > 0"])
def test_a_number_that_fits_no_common_type_is_an_error(spark: SparkSession, text: str) -> None:
    largest = "9" * 38
    rows = spark.sql(f"SELECT 1.1 AS a, cast('{largest}' AS decimal(38,0)) AS c")
    (found,) = resolve(rows, [text], Moment.now(spark))
    with pytest.raises(SPARK_ERRORS) as caught:
        rows.select(found.column).collect()
    assert condition_of(caught.value).startswith("NUMERIC_VALUE_OUT_OF_RANGE")
    reason = reason_of(caught.value)
    assert f"{largest} cannot be represented as Decimal(38, 1)." in reason.replace("38,1", "38, 1")
    assert "ansi" not in reason


@pytest.mark.parametrize(
    ("target", "source", "found"),
    [
        ("decimal(38,10)", "decimal(38,18)", ["1.0000000000"]),
        ("decimal(38,0)", "decimal(20,15)", ["1"]),
        ("bigint", "decimal(38,19)", ["1"]),
        ("decimal(38,19)", "bigint", ["1.0000000000000000000"]),
    ],
)
def test_keys_that_are_decimals_of_two_types_match_by_their_values(
    spark: SparkSession, target: str, source: str, found: list[str]
) -> None:
    table = table_of("v int", by=f"k {target}")
    # The others differ from 2 in a digit that only one of the two types has.
    theirs = "2" if source == "bigint" else "2.000000000001"
    ours = "2.0000000000000000001" if target == "decimal(38,19)" else "2"
    frame = spark.sql(f"SELECT cast(x AS {source}) AS k FROM VALUES ('1'), ('{theirs}') AS v(x)")
    spec = MergeSpec(target="d.t", source=SourceSpec(), keys=("k",), clauses=(matched_delete(),))
    program = plan_merge(spark, table, spec, frame)
    rows = spark.sql(f"SELECT cast(x AS {target}) AS k FROM VALUES ('1'), ('{ours}') AS v(x)")
    joined = rows.alias("t").join(frame.alias("s"), program.keys_equal)
    assert [str(row[0]) for row in joined.select("t.k").collect()] == found
    names = tuple(PartitionName(("k",), (text,)) for text in ("1", ours))
    met = partitions_meeting(table, names, frame, program.keys, program.equal)
    assert [name.values[0] for name in met] == ["1"]


def test_partitions_are_chosen_by_the_values_of_decimals(spark: SparkSession) -> None:
    table = table_of("v int", by="p decimal(38,0)")
    names = tuple(PartitionName(("p",), (text,)) for text in ("1", "2", "3"))
    moment = Moment.now(spark)
    for condition, left in (("p > 1.5", ["2", "3"]), ("p = 1.5", []), ("p IN (1.5, 3)", ["3"])):
        found = partitions_where(spark, table, names, condition, moment)
        assert found is not None
        assert [name.values[0] for name in found] == left
