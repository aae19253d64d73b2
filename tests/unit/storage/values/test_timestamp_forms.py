from __future__ import annotations

import datetime as dt

import pyarrow as pa

from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, with_microseconds, with_pairs

US = pa.timestamp("us")
NESTED = pa.struct([("x", pa.list_(US)), ("m", pa.map_(pa.string(), US)), ("n", pa.int32())])
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - wall clock
OLD = dt.datetime(1, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - wall clock


def test_a_conversion_to_timestamp_pairs_and_back_keeps_every_microsecond() -> None:
    values = [None, {"x": [FAR, None], "m": [("k", OLD)], "n": 1}, {"x": None, "m": [], "n": None}]
    array = pa.array(values, NESTED)
    for part in (array, array[1:], array[1:2]):
        assert with_microseconds(with_pairs(part)).equals(part)


def test_nanoseconds_are_rounded_down_to_microseconds_even_before_1970() -> None:
    pairs = pa.array(
        [{"seconds": -1, "nanos": 999999999}, {"seconds": 0, "nanos": 1}, None], PAIR_TYPE
    )
    assert with_microseconds(pairs).cast(pa.int64()).to_pylist() == [-1, 0, None]


def test_an_array_without_timestamps_is_not_copied() -> None:
    array = pa.array([1, 2])
    assert with_pairs(array) is array
