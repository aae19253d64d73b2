"""Arrow data as columns of a table: what is converted exactly, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow.rows import check_days, check_not_null, rows_of, stored
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    ConstraintViolationError,
    SparkNeededError,
    StructFieldsError,
    TypeMismatchError,
    UnknownColumnError,
)
from airflow_hiveacid.format.table import (
    Column,
    Constraints,
    FileFormat,
    Storage,
    TableInfo,
    TableRef,
)

DAY = dt.datetime(2026, 1, 31, 12, 30, 0, 1)  # noqa: DTZ001 - a wall clock
FAR = dt.datetime(9999, 12, 31)  # noqa: DTZ001 - as above


def table(type_: str, **others: Any) -> TableInfo:  # noqa: ANN401
    columns = (Column(name="c", type=type_),)
    return TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=columns, **others)


def converted(type_: str, values: pa.Array, **others: Any) -> list[object]:  # noqa: ANN401
    found: list[object] = stored(table(type_, **others), pa.table({"c": values}))["c"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("tinyint", pa.array([1, None], pa.uint64())),
        ("bigint", pa.array([1.0, None])),
        ("int", pa.array([Decimal("3.0")])),
        ("double", pa.array([1, 2])),
        ("float", pa.array([1.5, None, 0.25])),
        ("decimal(8,2)", pa.array([1, 123456])),
        ("decimal(8,2)", pa.array([Decimal("1.5000")])),
        ("string", pa.array(["a", None], pa.large_string())),
        ("string", pa.array(["a", None], pa.string_view())),
        ("string", pa.array(["a", "b", "a"]).dictionary_encode()),
        ("varchar(2)", pa.array(["ab"])),
        ("binary", pa.array([b"ab"], pa.binary(2))),
        ("boolean", pa.array([True, None])),
        ("date", pa.array([DAY.date()], pa.date64())),
        ("array<bigint>", pa.array([[1], None, []], pa.large_list(pa.int8()))),
        ("array<int>", pa.array([[9], [1, 2], None]).slice(1)),
        ("map<string,int>", pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int64()))),
        ("struct<a:int,b:array<string>>", pa.array([{"a": 1, "b": ["x"]}, None])),
        ("struct<a:int>", pa.nulls(2)),
        ("timestamp", pa.nulls(2)),
    ],
)
def test_a_value_that_the_type_holds_exactly_is_kept(type_: str, values: pa.Array) -> None:
    assert converted(type_, values) == values.to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_timestamp_of_any_unit_and_year_is_kept(unit: str) -> None:
    far = pa.array([FAR], pa.timestamp(unit))
    assert converted("timestamp", far) == [FAR]
    in_parquet = {"storage": Storage(format=FileFormat.PARQUET)}
    assert converted("timestamp", far, **in_parquet) == [FAR]
    local = pa.array([FAR], pa.timestamp(unit, "Europe/Berlin"))
    assert converted("timestamp with local time zone", local) == [FAR.replace(tzinfo=dt.UTC)]


def test_the_fields_of_a_struct_are_found_by_name() -> None:
    values = pa.array([{"B": 2, "a": 1}])
    assert converted("struct<a:bigint,b:int>", values) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("type_", "values", "said"),
    [
        ("tinyint", pa.array([300]), "is tinyint, but the value is bigint .*300 not in range"),
        ("int", pa.array([1.5]), "is int, but the value is double .*truncated"),
        ("int", pa.array(["1"]), "is int, but the value is string; cast"),
        ("float", pa.array([0.1]), "is float, but the value is double .a float would round"),
        ("double", pa.array([2**53 + 1]), "is double, but the value is bigint"),
        ("double", pa.array([Decimal("0.1")]), r"is double, but the value is decimal\(1,1\)"),
        ("decimal(3,1)", pa.array([Decimal("1.55")]), "is decimal.3,1., but the value"),
        ("decimal(3,1)", pa.array([100]), "the value is bigint .*does not fit in precision"),
        ("decimal(3,1)", pa.array([0.5]), "but the value is double"),
        ("string", pa.array([1]), "is string, but the value is bigint"),
        ("varchar(2)", pa.array(["abc"]), "a string of 3 characters; shorten it"),
        ("date", pa.array([DAY]), "is date, but the value is timestamp"),
        ("date", pa.array([1], pa.date64()), "would lose data"),
        (
            "timestamp",
            pa.array([DAY], pa.timestamp("us", "UTC")),
            "is timestamp, but the value is timestamp with local time zone;",
        ),
        ("timestamp with local time zone", pa.array([DAY]), "but the value is timestamp;"),
        ("timestamp", pa.array([10**14], pa.timestamp("s")), "is timestamp, .*out of bounds"),
        ("array<int>", pa.array([[2**40]]), "is int, but the value is bigint"),
        ("array<int>", pa.array([1]), "is array<int>, but the value is bigint"),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused_with_both_types(
    type_: str, values: pa.Array, said: str
) -> None:
    with pytest.raises(TypeMismatchError, match=f"table d.t: column 'c'.*{said}"):
        converted(type_, values)


def test_nanoseconds_fit_orc_and_no_other_format() -> None:
    values = pa.array([1], pa.timestamp("ns"))
    assert stored(table("timestamp"), pa.table({"c": values}))["c"].equals(values)
    with pytest.raises(TypeMismatchError, match="would lose data"):
        converted("timestamp", values, storage=Storage(format=FileFormat.PARQUET))


def test_columns_and_fields_must_be_those_of_the_table() -> None:
    with pytest.raises(UnknownColumnError, match="'d'"):
        stored(table("int"), pa.table({"d": [1]}))
    with pytest.raises(StructFieldsError, match="lacks b and has d"):
        converted("struct<a:int,b:int>", pa.array([{"a": 1, "d": 2}]))


def test_rows_are_arrow_data_with_distinct_names() -> None:
    batch = pa.record_batch({"C": [1]})
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    assert [rows_of(one).column_names for one in (batch, reader)] == [["c"], ["c"]]
    with pytest.raises(ConfigurationError, match="found a list; convert"):
        rows_of([{"c": 1}])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="two columns c;"):
        rows_of(pa.table({"c": [1], "C": [2]}))


def test_a_null_in_a_not_null_column_is_refused() -> None:
    strict = table("int", constraints=Constraints(not_null={"c": "nn"}))
    check_not_null(strict, {"c": pa.array([1])})
    with pytest.raises(ConstraintViolationError, match=r"c NOT NULL \(constraint nn\)"):
        check_not_null(strict, {"c": pa.array([1, None])})


@pytest.mark.parametrize("days", [[-200_000], [3_000_000]])
def test_a_day_that_engines_count_differently_is_not_compared(days: list[int]) -> None:
    check_days({"c": pa.array([None, 0], pa.date32())}, ["c"])
    with pytest.raises(SparkNeededError, match="c has a date outside of"):
        check_days({"c": pa.array(days, pa.int32()).cast(pa.date32())}, ["c"])
