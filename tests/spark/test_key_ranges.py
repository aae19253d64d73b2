"""The range of a source's keys leaves out no row of the target that the join would find."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.statements import InsertSpec, MergeSpec, SourceSpec
from airflow_hiveacid.reading import KeyRange
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.reading.pruning import key_ranges
from airflow_hiveacid.spark.reading.target import resolve_target
from tests.support.merge_clauses import UPDATE_V, UPSERT_ALL
from tests.support.spark_lab import Lab


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("int", "3, 1, null", (1, 3)),
        ("string", "'b', 'a', 'ä'", ("a", "ä")),
        ("string", "cast(null as string)", ()),
        # Not every end can be held in Python; half a range would be the wrong one.
        ("string", "'a', cast(x'ff' as string)", None),
        ("date", "date'2020-01-01', date'+12000-01-01'", None),
        ("date", "date'-0005-01-01', date'2020-01-01'", None),
        # Numbers of another width are the same numbers.
        ("bigint", "1, 2", (1, 2)),
        ("smallint", "1, 100000", (1, 100000)),
        # The join casts one of these.
        ("int", "'1', '2'", None),
        ("string", "1, 2", None),
        ("double", "1D, 2D", None),
    ],
)
def test_a_merge_key_has_a_range_only_if_both_ends_are_exact(
    spark: SparkSession, kind: str, values: str, found: tuple[object, ...] | None
) -> None:
    source = spark.sql(f"select explode(array({values})) as k")
    ranges, (rows,) = key_ranges(source, ["k"], [Column(name="k", type=kind)], [F.count("*")])
    assert rows == source.count()
    expected = KeyRange(low=found[0], high=found[1]) if found else KeyRange(is_empty=True)
    assert ranges == ({} if found is None else {"k": expected})


@pytest.mark.promise("W6")
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("string", ("cast(x'ff' as string)", "cast(x'c328' as string)")),
        ("date", ("date'+12000-01-01'", "date'-0005-01-01'")),
    ],
)
def test_merge_keys_that_python_cannot_represent_are_matched(
    lab4: Lab, kind: str, keys: tuple[str, ...]
) -> None:
    lab4.table("t", {"k": kind, "v": "string"})

    def source(value: str) -> SourceSpec:
        query = f"select explode(array({', '.join(keys)})) as k, '{value}' as v from source"
        return SourceSpec(values=((1,),), columns=("x",), query=query)

    name = f"{lab4.db}.t"
    lab4.run(InsertSpec(target=name, source=source("old")))
    result = lab4.run(MergeSpec(target=name, source=source("new"), keys=("k",), clauses=UPSERT_ALL))
    assert (result.rows.updated, result.rows.inserted) == (len(keys), 0)
    assert [r.v for r in lab4.frame("t").select("v").collect()] == ["new"] * len(keys)


@pytest.mark.promise("W6")
@pytest.mark.parametrize(
    ("kind", "there", "keys"),
    [
        # Python prints this year with one digit, Java's dates take four only.
        ("date", ("0001-01-01", "2020-01-01"), ("0001-01-01", "2020-01-01")),
        # Java's dates have no such day, and take another one for it.
        ("date", ("1582-10-10", "1582-10-16"), ("1582-10-10", "1582-10-16")),
        # The column cannot hold an end of the range.
        ("smallint", ("1",), ("1", "100000")),
    ],
)
def test_merge_keys_match_even_if_one_is_outside_the_column_type_or_the_calendar(
    lab4: Lab, kind: str, there: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    # The second is read by our own reader, for its column's name.
    for table, beside in (("native", "other"), ("ours", "row")):
        lab4.table(table, {"k": kind, "v": "int", beside: "int"})
        for key in there:
            lab4.insert(table, [(key, 0)], ["k", "v"])
        wide = {"smallint": "bigint"}.get(kind, kind)
        query = f"select cast(k as {wide}) as k, 1 as v from source"
        values = tuple((key,) for key in keys)
        source = SourceSpec(values=values, columns=("k",), query=query)
        name = f"{lab4.db}.{table}"
        lab4.run(MergeSpec(target=name, source=source, keys=("k",), clauses=(UPDATE_V,)))
        assert [row[1] for row in lab4.rows(table)] == [1] * len(there)


def test_a_condition_finds_days_that_do_not_exist_in_javas_calendar(lab4: Lab) -> None:
    lab4.table("t", {"d": "date"})
    days = ["0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1582-10-16", "2020-01-01"]
    for part in (days[:3], days[3:]):
        lab4.insert("t", [(day,) for day in part], ["d"])
    target = resolve_target(lab4.spark, lab4.client, lab4.info("t"), lab4.snapshot("t"))
    for condition, found in {
        "d >= date'0001-01-01'": days,
        "d >= date'-0044-03-15'": days,
        "d >= date'1582-10-10'": days[2:],
        "d = date'1582-10-10'": days[2:3],
        "d >= date'1582-10-12'": days[3:],
        "d in (date'1582-10-10', date'1582-10-16')": [days[2], days[4]],
        "d > date'1582-10-15'": days[4:],
    }.items():
        for java8 in ("false", "true"):
            lab4.spark.conf.set("spark.sql.datetime.java8API.enabled", java8)
            try:
                rows = target.rows_where(condition, Moment.now(lab4.spark)).collect()
            finally:
                lab4.spark.conf.unset("spark.sql.datetime.java8API.enabled")
            assert sorted(f"{row.d}" for row in rows) == found, (condition, java8)
