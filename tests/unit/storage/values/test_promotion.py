"""A column whose type was changed reads as Hive reads it: what does not fit is NULL or cut."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import CharType, VarcharType, parse_type
from airflow_hiveacid.storage.values.promotion import fit_length, promote
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE

NAN, INF = float("nan"), float("inf")


@pytest.mark.promise("D11")
@pytest.mark.parametrize(
    ("stored", "values", "wanted", "expected"),
    [
        (pa.int8(), [1, None, -128], "bigint", [1, None, -128]),
        (pa.int64(), [1, 128, -129], "tinyint", [1, None, None]),
        (pa.int32(), [70000, -5], "smallint", [None, -5]),
        (pa.bool_(), [True, None], "int", [1, None]),
        (pa.float64(), [1.9, -1.9, 3e9], "bigint", [1, -1, 3000000000]),
        (pa.float64(), [NAN, INF, 1e19], "bigint", [None, None, None]),
        (pa.float64(), [3e9, 2.5], "int", [None, 2]),
        (pa.decimal128(20, 2), [Decimal("1.99"), Decimal(99999999999)], "int", [1, None]),
        (pa.string(), ["12", "+3"], "bigint", [12, 3]),
        (pa.string(), ["1.5", "x", "", "99999999999999999999"], "bigint", [None] * 4),
        (pa.int64(), [1, None], "double", [1.0, None]),
        (pa.float32(), [1.1], "double", [1.100000023841858]),
        (pa.string(), ["1.5", " 2e3 ", "Infinity"], "double", [1.5, 2000.0, INF]),
        (pa.string(), ["x", "1_0"], "double", [None, None]),
        (pa.decimal128(5, 2), [Decimal("1.25")], "float", [1.25]),
        (pa.bool_(), [True], "double", [1.0]),
        (pa.int32(), [5, 100000], "decimal(5,2)", [Decimal("5.00"), None]),
        (pa.decimal128(5, 2), [Decimal("1.25")], "decimal(5,1)", [Decimal("1.3")]),
        (pa.decimal128(5, 2), [Decimal("1.24")], "decimal(5,1)", [Decimal("1.2")]),
        (pa.decimal128(5, 2), [Decimal("-1.25")], "decimal(8,3)", [Decimal("-1.250")]),
        (pa.decimal128(5, 2), [Decimal("999.99")], "decimal(3,1)", [None]),
        (pa.float64(), [0.1, NAN, INF], "decimal(5,2)", [Decimal("0.10"), None, None]),
        (pa.string(), [" 1.5 ", "x"], "decimal(5,1)", [Decimal("1.5"), None]),
        (pa.int16(), [300, None], "string", ["300", None]),
        (pa.float64(), [1e10, NAN], "string", ["1.0E10", None]),
        (pa.decimal128(5, 2), [Decimal("1.50")], "string", ["1.5"]),
        (pa.bool_(), [True, None], "string", ["TRUE", None]),
        (pa.date32(), [dt.date(2020, 1, 2)], "string", ["2020-01-02"]),
        (PAIR_TYPE, [{"seconds": 1, "nanos": 5 * 10**8}], "string", ["1970-01-01 00:00:01.5"]),
        (pa.int32(), [123456, None], "varchar(3)", ["123", None]),
        (pa.int32(), [12], "char(4)", ["12  "]),
        (pa.int32(), [0, 2, None], "boolean", [False, True, None]),
        (PAIR_TYPE, [{"seconds": -1, "nanos": 5}, None], "date", [dt.date(1969, 12, 31), None]),
        (pa.date32(), [dt.date(1970, 1, 2)], "timestamp", [{"seconds": 86400, "nanos": 0}]),
        (pa.date32(), [None], "timestamp", [None]),
        (pa.decimal128(10, 2), [Decimal("-0.05")], "float", [-0.05000000074505806]),
        (pa.float32(), [1.1], "string", ["1.100000023841858"]),
        (pa.float64(), [1e-7, -2.0, NAN, 1e30], "boolean", [False, True, None, None]),
        (pa.decimal128(5, 2), [Decimal("0.01"), Decimal(0)], "boolean", [True, False]),
        (pa.string(), ["12", "0", "true"], "boolean", [True, False, None]),
        (pa.binary(), [b"abc", b"", None], "string", ["61 62 63", "", None]),
        (pa.binary(), [b"abc"], "char(4)", ["61 6"]),
    ],
)
def test_values_are_converted_to_the_new_type_of_the_column(
    stored: pa.DataType, values: list[Any], wanted: str, expected: list[Any]
) -> None:
    found = promote(pa.array(values, stored), parse_type(wanted))
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.binary(), "int"),
        (pa.date32(), "int"),
        (pa.date32(), "double"),
        (pa.date32(), "decimal(5,2)"),
        (pa.string(), "date"),
        (pa.string(), "timestamp"),
        (pa.int32(), "date"),
        (pa.int32(), "timestamp"),
        (pa.int32(), "binary"),
        (pa.string(), "binary"),
        (PAIR_TYPE, "bigint"),
        (PAIR_TYPE, "double"),
        (pa.int32(), "array<int>"),
        (PAIR_TYPE, "timestamp with local time zone"),
    ],
)
def test_an_unsupported_type_conversion_returns_none(stored: pa.DataType, wanted: str) -> None:
    assert promote(pa.array([], stored), parse_type(wanted)) is None


def test_strings_are_truncated_by_characters_and_chars_are_padded() -> None:
    texts = pa.array(["äöü😀x", "a", "", None])
    assert fit_length(texts, VarcharType(4)).to_pylist() == ["äöü😀", "a", "", None]
    assert fit_length(texts, CharType(4)).to_pylist() == ["äöü😀", "a   ", "    ", None]
    assert fit_length(pa.nulls(2, pa.string()), CharType(4)).to_pylist() == [None, None]
