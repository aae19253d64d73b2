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
from tests.support.cases import tables_of
from tests.support.writer_cases import NANOSECONDS, array_of

BUCKETS = 1009
TABLES = tables_of(__file__)


def expected(total: int) -> int:
    return (total & 0x7FFFFFFF) % BUCKETS


@pytest.mark.parametrize(("text", "value", "old", "new"), TABLES["hashed"])
def test_a_value_is_hashed_to_the_same_bucket_as_in_hive(
    text: str, value: object, old: int | None, new: int
) -> None:
    hive_type = parse_type(text)
    array = array_of(text, [None, value, None, value], NANOSECONDS)
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


def hashes_of_bytes(data: str) -> list[int]:
    same = pa.array([bytes.fromhex(data)], pa.binary()).view(pa.string())
    found: list[int] = row_hashes([same], [parse_type("string")], 2).tolist()
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


@pytest.mark.parametrize(("value", "data"), TABLES["shortest bytes"])
def test_a_decimal_is_hashed_over_the_shortest_byte_form_as_in_java(value: str, data: str) -> None:
    # BigInteger.toByteArray, hashed as the same bytes of a string are.
    assert hashes_of("decimal(10,2)", Decimal(value), version=2) == hashes_of_bytes(data)


@pytest.mark.parametrize(("seconds", "nanos", "data"), TABLES["timestamps"])
def test_a_timestamp_before_1970_or_after_2038_is_hashed_over_hives_byte_form(
    seconds: int, nanos: int, data: str
) -> None:
    assert timestamp_bytes(seconds, nanos).hex() == data
    moment = {"seconds": seconds, "nanos": nanos}
    assert hashes_of("timestamp", moment, version=2) == hashes_of_bytes(data)


def test_an_unknown_bucketing_version_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="version 3"):
        bucket_ids([pa.array([1], pa.int32())], [parse_type("int")], 2, 3)


def test_a_timestamp_in_bucketing_version_1_is_refused() -> None:
    array = pa.array([dt.datetime(1970, 1, 1)], pa.timestamp("ns"))  # noqa: DTZ001 - wall clock
    with pytest.raises(UnsupportedTableError, match="time zone of the JVM"):
        bucket_ids([array], [parse_type("timestamp")], 2, 1)
