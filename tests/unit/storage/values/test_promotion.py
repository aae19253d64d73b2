"""A column whose type was changed reads as Hive reads it: what does not fit is NULL or cut."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import CharType, VarcharType, parse_type
from airflow_hiveacid.storage.values.promotion import OutOfRangeError, fit_length, promote
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE

_MIDNIGHT = 1_704_412_800  # 2024-01-05


def at(seconds: int, nanos: int = 0) -> dict[str, int]:
    return {"seconds": seconds, "nanos": nanos}


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
        (pa.string(), ["9" * 5000, "0" * 5000 + "7"], "bigint", [None, 7]),
        (pa.string(), ["9" * 5000], "boolean", [None]),
        *(
            (stored, [stored_as(1 << 63), stored_as(-(1 << 63))], "bigint", [None, -(1 << 63)])
            for stored, stored_as in (
                (pa.string(), str),
                (pa.float64(), float),
                (pa.decimal128(19, 0), Decimal),
            )
        ),
        (pa.int64(), [-129, -128, 127, 128], "tinyint", [None, -128, 127, None]),
        (pa.string(), ["\u00a01", "\x011"], "double", [None, 1.0]),
        (pa.string(), ["\u00a01", "\x011"], "decimal(3,1)", [None, Decimal("1.0")]),
        (pa.string(), ["1e500", "9" * 5000, "1e9999999999999999999"], "decimal(5,2)", [None] * 3),
        (
            pa.string(),
            ["9" * 38, "-" + "9" * 38],
            "decimal(38,0)",
            [Decimal("9" * 38), Decimal("-" + "9" * 38)],
        ),
        (pa.decimal128(5, 2), [Decimal("1.25")], "float", [1.25]),
        (pa.bool_(), [True], "double", [1.0]),
        (pa.int32(), [5, 100000], "decimal(5,2)", [Decimal("5.00"), None]),
        (pa.decimal128(5, 2), [Decimal("1.25")], "decimal(5,1)", [Decimal("1.3")]),
        (pa.decimal128(5, 2), [Decimal("1.24")], "decimal(5,1)", [Decimal("1.2")]),
        (pa.decimal128(5, 2), [Decimal("-1.25")], "decimal(8,3)", [Decimal("-1.250")]),
        (pa.decimal128(5, 2), [Decimal("999.99")], "decimal(3,1)", [None]),
        (
            pa.decimal128(5, 2),
            [Decimal("99.94"), Decimal("99.95"), Decimal("-99.95")],
            "decimal(3,1)",
            [Decimal("99.9"), None, None],
        ),
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
        (pa.int32(), "date"),
        (pa.int32(), "binary"),
        (pa.binary(), "timestamp"),
        (PAIR_TYPE, "binary"),
        (pa.string(), "timestamp with local time zone"),
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


NO_DATES = (
    "2023-02-29",
    "1500-02-29",
    "2024-02-30",
    "2024-1-5",
    " 2024-01-05",
    "2024-01-05 ",
    "2024-01-05 10:11:12",
    "+2024-01-05",
    "-0000-01-01",
    "10000-01-01",
    "19700-01-01",
    "1700000000",
    "",
    "\u0662024-01-05",
)
NO_TIMES = (
    "2024-01-05",
    "2024-01-05T10:11:12",
    "2024-01-05 10:11:60",
    "2024-01-05 10",
    "2024-01-05 10:11:12.1234567891",
    "2024-01-05 24:00:01",
    "abc",
    "",
    "2024-01-05 10:11:12 ",
    "2024-01-05 10:11:12Z",
    "2024-01-05  10:11:12",
    "2024-01-05 1:02:03",
    "2024-01-05 10:11.5",
    "2024-01-32 00:00:00",
)


# What Hive 4.0.1's reader (ORC's ConvertTreeReaderFactory) returned for these values, row by row
# and vectorised, in UTC and in New York.
@pytest.mark.promise("D11")
@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (
            pa.string(),
            "date",
            {
                "2024-01-05": dt.date(2024, 1, 5),
                "0001-01-01": dt.date(1, 1, 1),
                "1582-10-10": dt.date(1582, 10, 10),
                "9999-12-31": dt.date(9999, 12, 31),
                "2024-02-29": dt.date(2024, 2, 29),
                **dict.fromkeys(NO_DATES),
            },
        ),
        (
            pa.string(),
            "timestamp",
            {
                "2024-01-05 10:11:12": at(_MIDNIGHT + 36672),
                "2024-01-05 10:11:12.123456789": at(_MIDNIGHT + 36672, 123456789),
                "2024-01-05 10:11:12.": at(_MIDNIGHT + 36672),
                "2024-01-05 10:11": at(_MIDNIGHT + 36660),
                "2024-01-05 24:00:00": at(_MIDNIGHT + 86400),
                "2024-01-05 24:00": at(_MIDNIGHT + 86400),
                "2024-02-31 23:59:59": at(1709251199),  # the 29th
                "1969-12-31 23:59:59.5": at(-1, 500000000),
                "0001-01-01 00:00:00": at(-62135596800),
                "1582-10-10 00:00:00": at(-12219724800),
                "1500-02-29 00:00:00": at(-14826758400),  # the 28th
                "9999-12-31 23:59:59.999999999": at(253402300799, 999999999),
                **dict.fromkeys(NO_TIMES),
            },
        ),
        (pa.string(), "binary", {"ab ": b"ab ", "": b""}),
        (pa.bool_(), "timestamp", {True: at(1), False: at(0)}),
        (pa.int8(), "timestamp", {-128: at(-128), 127: at(127)}),
        (pa.int64(), "timestamp", {-12219292800: at(-12219292800), 253402300799: at(253402300799)}),
        (
            pa.float64(),
            "timestamp",
            {
                0.0004: at(0),
                0.0005: at(0, 1_000_000),
                0.0025: at(0, 3_000_000),
                -0.0005: None,
                -0.0006: at(-1, 999_000_000),
                -0.0015: at(-1, 999_000_000),
                -0.9999999: at(-1),
                1720000000.9995: at(1720000001),
                1720000000.9994999: at(1720000000, 999_000_000),
                9.3e15: None,
                1e30: None,
                INF: None,
                NAN: None,
            },
        ),
        (pa.float32(), "timestamp", {-1.5: at(-2, 500_000_000), 1.7e9: at(1700000000)}),
        (
            pa.decimal128(38, 12),
            "timestamp",
            {
                Decimal("-0.999999999999"): at(-1, 1),
                Decimal("0.999999999999"): at(0, 999_999_999),
                Decimal("-1E-12"): at(0),
                Decimal("1.5E-9"): at(0, 1),
                Decimal(99999999999999999999): None,
            },
        ),
    ],
)
def test_texts_and_numbers_become_dates_and_times_as_in_hive(
    stored: pa.DataType, wanted: str, expected: dict[Any, Any]
) -> None:
    found = promote(pa.array([*expected, None], stored), parse_type(wanted))
    assert found is not None
    assert dict(zip([*expected, None], found.to_pylist(), strict=True)) == {**expected, None: None}


@pytest.mark.promise("D11")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("boolean", [False, True, False, True, None]),
        ("tinyint", [0, -1, 0, None, None]),
        ("int", [0, -1, 0, None, None]),
        ("bigint", [0, -1, 0, 3000000000, None]),
        ("double", [0.0, -1.0, 0.999999999, 3000000000.25, None]),
        ("float", [0.0, -1.0, 1.0, 3000000000.0, None]),
        (
            "decimal(12,1)",
            [Decimal("0.0"), Decimal("-1.0"), Decimal("1.0"), Decimal("3000000000.3"), None],
        ),
        ("decimal(5,2)", [Decimal("0.00"), Decimal("-1.00"), Decimal("1.00"), None, None]),
    ],
)
def test_times_become_numbers_of_seconds_as_in_hive(wanted: str, expected: list[Any]) -> None:
    times = [at(0), at(-1), at(0, 999_999_999), at(3000000000, 250_000_000), None]
    found = promote(pa.array(times, PAIR_TYPE), parse_type(wanted))
    assert found is not None
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("stored", "value", "wanted"),
    [
        (pa.string(), "+10000-01-01", "date"),
        (pa.string(), "0000-01-01", "date"),
        (pa.string(), "-0001-01-01 00:00:00", "timestamp"),
        (pa.string(), "9999-12-31 24:00", "timestamp"),
        (pa.int64(), 253402300800, "timestamp"),
        (pa.int64(), -12219292801, "timestamp"),
        (pa.float64(), 1e12, "timestamp"),
        (pa.decimal128(20, 2), Decimal(-12219292801), "timestamp"),
        (PAIR_TYPE, at(-12219292801), "bigint"),
        (PAIR_TYPE, at(-12219292801), "double"),
        (PAIR_TYPE, at(-12219292801), "decimal(20,2)"),
    ],
)
def test_values_that_hive_converts_and_we_cannot_are_refused(
    stored: pa.DataType, value: object, wanted: str
) -> None:
    with pytest.raises(OutOfRangeError):
        promote(pa.array([value], stored), parse_type(wanted))
