from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, with_microseconds, with_pairs

US = pa.timestamp("us")
NESTED = pa.struct([("x", pa.list_(US)), ("m", pa.map_(pa.string(), US)), ("n", pa.int32())])
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - wall clock
OLD = dt.datetime(1, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - wall clock


def test_a_conversion_to_timestamp_pairs_and_back_keeps_every_microsecond() -> None:
    values = [None, {"x": [FAR, None], "m": [("k", OLD)], "n": 1}, {"x": None, "m": [], "n": None}]
    array = pa.array(values, NESTED)
    for part in (array, array[1:], array[1:2]):
        assert with_microseconds(with_pairs(part), path="", column="").equals(part)


def test_nanoseconds_are_rounded_down_to_microseconds_even_before_1970() -> None:
    pairs = pa.array(
        [{"seconds": -1, "nanos": 999999999}, {"seconds": 0, "nanos": 1}, None], PAIR_TYPE
    )
    assert with_microseconds(pairs, path="", column="").cast(pa.int64()).to_pylist() == [
        -1,
        0,
        None,
    ]


def test_an_array_without_timestamps_is_not_copied() -> None:
    array = pa.array([1, 2])
    assert with_pairs(array) is array


def test_a_time_beyond_64_bits_of_microseconds_is_refused_at_any_depth() -> None:
    last = (1 << 63) // 10**6
    held = pa.array([{"seconds": last, "nanos": 775_807_999}], PAIR_TYPE)
    assert with_microseconds(held, path="", column="").cast(pa.int64()).to_pylist() == [2**63 - 1]
    for seconds in (last + 1, -last - 2):
        pairs = pa.array([[{"seconds": seconds, "nanos": 0}]], pa.list_(PAIR_TYPE))
        with pytest.raises(UnsupportedFileError, match=r"f is .* column 't' holds"):
            with_microseconds(pairs, path="f", column="t")
