"""The range of a source's keys leaves out no row of the target that the join would find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.specs import (
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.spark.reading.key_ranges import KeyRange, key_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_lab import Lab

UPSERT = (
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
)


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
def test_a_key_has_a_range_where_both_ends_are_exact(
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
def test_keys_that_python_cannot_hold_are_matched(
    lab4: Lab, kind: str, keys: tuple[str, ...]
) -> None:
    lab4.table("t", {"k": kind, "v": "string"})

    def source(value: str) -> SourceSpec:
        query = f"select explode(array({', '.join(keys)})) as k, '{value}' as v from source"
        return SourceSpec(values=((1,),), columns=("x",), query=query)

    name = f"{lab4.db}.t"
    lab4.run(InsertSpec(target=name, source=source("old")))
    result = lab4.run(MergeSpec(target=name, source=source("new"), keys=("k",), clauses=UPSERT))
    assert (result.rows.updated, result.rows.inserted) == (len(keys), 0)
    assert [r.v for r in lab4.frame("t").select("v").collect()] == ["new"] * len(keys)
