from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.hashing import bucket_ids, row_hashes, timestamp_bytes
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE

NAN = float("nan")
# Version 1 and 2. Those of Trino's TestHiveBucketing first, then ours over the same rules.
VECTORS = [
    ("string", "Trino rocks", 1132136730, -399107423),
    ("smallint", 300, 300, 2107031704),
    ("smallint", -32768, -32768, 1342976838),
    ("int", 300000, 300000, -678663480),
    ("int", -2147483648, -2147483648, 1194881028),
    ("int", 2147483647, 2147483647, 1133859967),
    ("bigint", 300000000000, -647710651, -888935297),
    ("bigint", -(2**63), -2147483648, 1728983947),
    ("float", 12.34, 1095069860, -381747602),
    ("float", NAN, 2143289344, -480354314),
    ("double", 12.34, 986311098, -2070733568),
    ("double", NAN, 2146959360, 1138026565),
    ("varchar(5)", "", 1, -965378730),
    ("string", "", 0, -965378730),
    ("varchar(20)", "test string", -189841218, -138301454),
    ("string", "test string", -318923937, -138301454),
    ("string", "强大的Trino引擎", 1688501507, 1784416344),
    ("date", dt.date(1970, 1, 1), 0, 1362653161),
    ("date", dt.date(2015, 11, 19), 16758, 8542395),
    ("date", dt.date(1950, 11, 19), -6983, -431619185),
    ("array<smallint>", [5, 8, 13], 5066, -905011156),
    ("array<array<bigint>>", [[10, 20], [-10, -20], [None]], 326368, 611324477),
    (
        "map<string,bigint>",
        [("key", 123), ("key2", 123456789), ("key3", -123456)],
        127880789,
        -1910999650,
    ),
    ("boolean", True, 1, 1),
    ("tinyint", -5, -5, -5),
    ("char(6)", "hive  ", 4126449, -1992589179),
    ("string", "é", -1978, -527561221),
    ("float", 1.0, 1065353216, 1379734019),
    ("decimal(10,2)", Decimal("12.34"), 38256, 1616447396),
    ("decimal(10,1)", Decimal("-0.5"), -154, -1283825982),
    ("decimal(10,2)", Decimal("0.00"), 0, 500407381),
    ("timestamp", dt.datetime(1970, 1, 1), None, 1362653161),  # noqa: DTZ001 - wall clock
    ("timestamp", dt.datetime(2020, 1, 1, 0, 0, 0, 123000), None, 223371030),  # noqa: DTZ001 - as above
    ("struct<a:int,b:string>", {"a": 7, "b": "x"}, 337, 585494034),
]
BUCKETS = 1009


def expected(total: int) -> int:
    return (total & 0x7FFFFFFF) % BUCKETS


@pytest.mark.parametrize(("text", "value", "old", "new"), VECTORS)
def test_a_value_is_hashed_to_the_same_bucket_as_in_hive(
    text: str, value: object, old: int | None, new: int
) -> None:
    hive_type = parse_type(text)
    array = pa.array([None, value, None, value], arrow_type(hive_type))
    for version, total in ((1, old), (2, new)):
        if total is None:
            continue
        found = bucket_ids([array], [hive_type], BUCKETS, version).to_pylist()
        assert found == [0, expected(total), 0, expected(total)]


def test_the_hash_combines_columns_in_their_order() -> None:
    types = [parse_type(t) for t in ("float", "array<smallint>", "map<string,bigint>")]
    values = [12.34, [5, 8, 13], [("key", 123)]]
    arrays = [pa.array([v], arrow_type(t)) for v, t in zip(values, types, strict=True)]
    for version, total in ((1, 95411006), (2, 932898434)):
        assert bucket_ids(arrays, types, BUCKETS, version).to_pylist() == [expected(total)]


def test_a_slice_has_the_same_buckets_as_in_the_whole_array() -> None:
    for text, values in (("string", ["a", "bb", "ccc", ""]), ("int", [1, 2, 3, 4])):
        hive_type = parse_type(text)
        array = pa.array(values, arrow_type(hive_type))
        for version in (1, 2):
            whole = bucket_ids([array], [hive_type], 7, version).to_pylist()
            assert bucket_ids([array[1:3]], [hive_type], 7, version).to_pylist() == whole[1:3]


def hashes_of(text: str, *values: object, version: int) -> list[int]:
    hive_type = parse_type(text)
    kind = PAIR_TYPE if text == "timestamp" else arrow_type(hive_type)
    found: list[int] = row_hashes([pa.array(values, kind)], [hive_type], version).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        ("decimal(20,0)", "12345678901234567890", [0xAB54A98C, 0xEB1F0AD2]),
        ("decimal(38,0)", f"{(3 << 64) + (2 << 32) + 1}", [3, 2, 1]),
        ("decimal(20,5)", "123456.78901", [0x2, 0xDFDC1C35]),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_long_decimal_is_hashed_word_by_word_from_the_highest_word(
    text: str, value: str, words: list[int], sign: int
) -> None:
    # BigDecimal.hashCode: 31 * BigInteger.hashCode + scale; a BigInteger folds its magnitude.
    magnitude = 0
    for word in words:
        magnitude = 31 * magnitude + word
    scale = len(value.partition(".")[2])
    expected = (31 * sign * magnitude + scale) % 2**32
    assert hashes_of(text, sign * Decimal(value), version=1) == [expected]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("-1.28", b"\x80"),
        ("1.27", b"\x7f"),
        ("1.28", b"\x00\x80"),
        ("-1.29", b"\xff\x7f"),
        ("-327.68", b"\x80\x00"),
        ("327.68", b"\x00\x80\x00"),
        ("-0.01", b"\xff"),
    ],
)
def test_a_decimal_is_hashed_over_the_shortest_byte_form_as_in_java(
    value: str, data: bytes
) -> None:
    # BigInteger.toByteArray, hashed as the same bytes of a string are.
    same = pa.array([data], pa.binary()).view(pa.string())
    expected = row_hashes([same], [parse_type("string")], 2).tolist()
    assert hashes_of("decimal(10,2)", Decimal(value), version=2) == expected


@pytest.mark.parametrize(
    ("seconds", "nanos", "data"),
    [
        (0, 0, "00000000"),
        (2**31 - 1, 0, "7fffffff"),
        (2**31 - 1, 500_000_000, "ffffffff05"),
        (-1, 0, "ffffffffffff"),
        (-2, 500_000_000, "fffffffefaff"),
        (2**31, 0, "80000000ff01"),
        (2**31, 500_000_000, "80000000fa01"),
        (2**32 + 5, 120_000_000, "80000005ea02"),
        (-(2**31) - 1, 0, "fffffffffffe"),
    ],
)
def test_a_timestamp_before_1970_or_after_2038_is_hashed_over_hives_byte_form(
    seconds: int, nanos: int, data: str
) -> None:
    # TimestampWritableV2.convertTimestampToBytes: 31 bits of the seconds, nanoseconds backwards and
    # below zero when the rest of the seconds follows.
    assert timestamp_bytes(seconds, nanos).hex() == data
    same = pa.array([bytes.fromhex(data)], pa.binary()).view(pa.string())
    expected = row_hashes([same], [parse_type("string")], 2).tolist()
    moment = {"seconds": seconds, "nanos": nanos}
    assert hashes_of("timestamp", moment, version=2) == expected


def test_an_unknown_bucketing_version_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="version 3"):
        bucket_ids([pa.array([1], pa.int32())], [parse_type("int")], 2, 3)


def test_a_timestamp_in_bucketing_version_1_is_refused() -> None:
    array = pa.array([dt.datetime(1970, 1, 1)], pa.timestamp("ns"))  # noqa: DTZ001 - wall clock
    with pytest.raises(UnsupportedTableError, match="time zone of the JVM"):
        bucket_ids([array], [parse_type("timestamp")], 2, 1)
