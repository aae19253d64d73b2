"""Texts of values are Java's, as Hive prints them; the expectations were printed by Hive 4.0.1."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_hiveacid.storage.values import hive_text
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE
from tests.support.cases import tables_of

TABLES = tables_of(__file__)


def pairs(*values: tuple[int, int] | None) -> pa.Array:
    return pa.array(
        [None if v is None else {"seconds": v[0], "nanos": v[1]} for v in values], PAIR_TYPE
    )


def test_years_have_four_digits_and_longer_years_have_a_sign() -> None:
    days = [0, None, -719162, -719163, -719163 - 366, 2932896, 2932897]
    assert hive_text.date_texts(pa.array(days, pa.date32())) == [
        "1970-01-01",
        None,
        "0001-01-01",
        "0000-12-31",
        "-0001-12-31",
        "9999-12-31",
        "+10000-01-01",
    ]


def test_timestamps_omit_trailing_zeros_and_an_empty_fraction() -> None:
    values = pairs((0, 0), (5, 500_000_000), None, (-1, 1), (253402300799, 999_999_999), (59, 10))
    assert hive_text.timestamp_texts(values) == [
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:05.5",
        None,
        "1969-12-31 23:59:59.000000001",
        "9999-12-31 23:59:59.999999999",
        "1970-01-01 00:00:59.00000001",
    ]
    assert hive_text.timestamp_texts(pairs((253402300800, 0))) == ["+10000-01-01 00:00:00"]


def test_local_timestamps_keep_one_fraction_digit_and_name_their_time_zone() -> None:
    values = pairs((1577934245, 678_000_000), (1577934245, 0), None)
    assert hive_text.local_timestamp_texts(values) == [
        "2020-01-02 03:04:05.678 UTC",
        "2020-01-02 03:04:05.0 UTC",
        None,
    ]


@pytest.mark.parametrize(("value", "text"), TABLES["decimals"])
def test_decimals_have_no_exponent_and_no_trailing_zeros(value: str, text: str) -> None:
    assert hive_text.decimal_text(Decimal(value)) == text


def test_decimal_columns_keep_their_nulls() -> None:
    array = pa.array([Decimal("1.00"), None], pa.decimal128(5, 2))
    assert hive_text.decimal_texts(array) == ["1", None]


@pytest.mark.parametrize(("value", "text"), TABLES["doubles"])
def test_doubles_are_formatted_as_in_java(value: float | str, text: str) -> None:
    assert hive_text.double_text(float(value)) == text


def test_floats_are_formatted_with_the_precision_of_a_float() -> None:
    values = pa.array([1.1, 3.4e38, 1e10, 16777216, None, float("nan")], pa.float32())
    assert hive_text.double_texts(values) == ["1.1", "3.4E38", "1.0E10", "1.6777216E7", None, "NaN"]
    assert hive_text.double_texts(pa.array([1.1, None])) == ["1.1", None]
