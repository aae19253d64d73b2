from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc

from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.statistics import (
    LONGEST_BOUND_BYTES,
    as_dates,
    length_sum,
    merge_statistics,
    merge_stripes,
    plain_bounds,
    restate_bounds,
)
from airflow_hiveacid.storage.orc.tail import parse_tail

LONG = 1 << 63


def integers(least: int, greatest: int, total: int | None = None) -> pb.ColumnStatistics:
    typed = pb.IntegerStatistics(minimum=least, maximum=greatest, sum=total)
    return pb.ColumnStatistics(values=2, has_null=False, integers=typed)


ALL_NULL = pb.ColumnStatistics(values=0, has_null=True, integers=pb.IntegerStatistics())
SILENT = pb.ColumnStatistics(values=3, has_null=False)


def test_merged_statistics_have_wider_bounds_and_summed_counts() -> None:
    whole = merge_statistics([integers(3, 9, 12), integers(-5, 4, -1)])
    assert (whole.values, whole.has_null) == (4, False)
    typed = whole.integers
    assert (typed.minimum, typed.maximum, typed.sum) == (-5, 9, 11)


def test_a_part_with_only_nulls_does_not_change_the_bounds() -> None:
    whole = merge_statistics([integers(3, 9, 12), ALL_NULL])
    assert whole.has_null
    assert (whole.integers.minimum, whole.integers.maximum) == (3, 9)


def test_statistics_of_only_nulls_keep_their_type_without_bounds() -> None:
    whole = merge_statistics([ALL_NULL, ALL_NULL])
    assert whole.values == 0
    assert whole.HasField("integers")
    assert not whole.integers.HasField("minimum")


@pytest.mark.parametrize(
    "unknown",
    [
        SILENT,
        pb.ColumnStatistics(values=1, integers=pb.IntegerStatistics(sum=1)),
        pb.ColumnStatistics(values=1, integers=pb.IntegerStatistics(minimum=1)),
        pb.ColumnStatistics(values=1, strings=pb.StringStatistics(minimum=b"a", maximum=b"b")),
    ],
)
def test_typed_statistics_missing_in_one_part_are_omitted_from_the_merge(
    unknown: pb.ColumnStatistics,
) -> None:
    whole = merge_statistics([integers(3, 9), unknown])
    assert not whole.HasField("integers")
    assert whole.values == 2 + unknown.values


def test_a_part_without_null_information_is_assumed_to_have_nulls() -> None:
    assert merge_statistics([integers(1, 2), pb.ColumnStatistics(values=0)]).has_null


@pytest.mark.parametrize("total", [LONG - 1, -LONG])
def test_a_sum_beyond_64_bits_is_omitted(total: int) -> None:
    whole = merge_statistics([integers(1, 2, total), integers(1, 2, 1 if total > 0 else -1)])
    assert not whole.integers.HasField("sum")
    assert whole.integers.maximum == 2


def doubles(least: float, greatest: float, total: float) -> pb.ColumnStatistics:
    typed = pb.DoubleStatistics(minimum=least, maximum=greatest, sum=total)
    return pb.ColumnStatistics(values=2, has_null=False, doubles=typed)


def test_a_sum_of_doubles_is_nan_if_a_part_is_nan_or_the_sum_overflows() -> None:
    for parts in (
        [doubles(1, 2, 3), doubles(1, 2, math.nan)],
        [doubles(1, 2, math.inf), doubles(1, 2, -math.inf)],
        [doubles(1, 2, 1.7e308), doubles(1, 2, 1.7e308)],
    ):
        assert math.isnan(merge_statistics(parts).doubles.sum)
    no_sum = pb.ColumnStatistics(values=1, doubles=pb.DoubleStatistics(minimum=1, maximum=1))
    assert not merge_statistics([doubles(1, 2, 3), no_sum]).HasField("doubles")


def test_decimal_bounds_are_compared_as_numbers() -> None:
    def decimals(least: str, greatest: str, total: str) -> pb.ColumnStatistics:
        typed = pb.DecimalStatistics(minimum=least, maximum=greatest, sum=total)
        return pb.ColumnStatistics(values=2, decimals=typed)

    whole = merge_statistics([decimals("-9", "10.5", "1.5"), decimals("-10", "9.75", "-0.25")])
    typed = whole.decimals
    assert (typed.minimum, typed.maximum, typed.sum) == ("-10", "10.5", "1.25")
    big = "9" * 38
    assert not merge_statistics([decimals("1", big, big)] * 2).decimals.HasField("sum")


def test_timestamp_bounds_are_compared_to_the_nanosecond() -> None:
    def timestamps(
        least: int, greatest: int, low: int | None, high: int | None
    ) -> pb.ColumnStatistics:
        typed = pb.TimestampStatistics(
            minimum_utc=least, maximum_utc=greatest, minimum_nanos=low, maximum_nanos=high
        )
        return pb.ColumnStatistics(values=2, timestamps=typed)

    whole = merge_statistics([timestamps(5, 9, 101, 201), timestamps(5, 9, 11, 301)]).timestamps
    assert (whole.minimum_nanos, whole.maximum_nanos) == (11, 301)
    # Absent stands for the widest: 0 below, 999,999 above.
    whole = merge_statistics([timestamps(5, 9, 101, 201), timestamps(5, 9, None, None)]).timestamps
    assert not whole.HasField("minimum_nanos")
    assert not whole.HasField("maximum_nanos")
    local = pb.TimestampStatistics(minimum=1, maximum=2)
    old = pb.ColumnStatistics(values=1, timestamps=local)
    assert not merge_statistics([old, old]).HasField("timestamps")


def test_statistics_of_booleans_binaries_dates_and_lists_are_merged() -> None:
    booleans = pb.ColumnStatistics(values=5, booleans=pb.BooleanStatistics(count=[2]))
    assert list(merge_statistics([booleans, booleans]).booleans.count) == [4]
    binaries = pb.ColumnStatistics(values=5, binaries=pb.BinaryStatistics(sum=7))
    assert merge_statistics([binaries, binaries]).binaries.sum == 14
    dates = pb.ColumnStatistics(values=1, dates=pb.DateStatistics(minimum=-4, maximum=3))
    assert merge_statistics([dates, dates]).dates.minimum == -4
    lists = pb.ColumnStatistics(
        values=2,
        collections=pb.CollectionStatistics(
            minimum_children=1, maximum_children=4, total_children=5
        ),
    )
    assert merge_statistics([lists, lists]).collections.total_children == 10


# No sum overflows: there the encoder gives up at the first, we only where the total does not fit.
@given(st.lists(st.lists(st.none() | st.integers(-(1 << 50), 1 << 50), max_size=5), max_size=6))
def test_merged_stripe_statistics_equal_the_file_statistics_of_the_encoder(
    stripes: list[list[int | None]],
) -> None:
    stripes = [stripe for stripe in stripes if stripe]
    schema = pa.schema([("i", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])
    sink = pa.BufferOutputStream()
    with orc.ORCWriter(sink, stripe_size=1) as writer:
        for stripe in stripes:
            texts = [None if i is None else str(i) for i in stripe]
            lists = [None if i is None else [i] * (i % 3) for i in stripe]
            arrays = [pa.array(stripe, pa.int64()), texts, pa.array(lists, schema.field(2).type)]
            writer.write(pa.table(arrays, schema=schema))
    if not stripes:
        return
    data = sink.getvalue().to_pybytes()
    tail = parse_tail("f", data, len(data))
    merged, of_file = merge_stripes(tail.metadata.stripes), list(tail.footer.statistics)
    for statistics in (*merged, *of_file):
        statistics.collections.ClearField("minimum_children")  # which the encoder forgets when 0
        statistics.collections.ClearField("maximum_children")
    assert merged == of_file


def bounded(least: str, greatest: str) -> pb.StringStatistics:
    """Statistics of two such strings, with their bounds restated."""
    typed = pb.StringStatistics(minimum=least.encode(), maximum=greatest.encode(), sum=7)
    statistics = pb.ColumnStatistics(values=2, strings=typed)
    restate_bounds(statistics)
    assert statistics.values == 2
    return statistics.strings


def utf_16(text: str) -> bytes:
    return text.encode("utf-16-be")


def test_short_string_bounds_are_unchanged() -> None:
    short = "b" * LONGEST_BOUND_BYTES
    found = bounded("a", short)
    assert (found.minimum, found.maximum, found.sum) == (b"a", short.encode(), 7)


ODD = st.text(
    st.sampled_from("a\x7f\u07ff\ud7ff\ue000\uff21\uffff\U0001f600\U0010ffff"), max_size=4
)


@given(st.lists(ODD, min_size=1), ODD)
def test_string_bounds_hide_no_value_in_the_order_of_bytes_or_of_utf_16_units(
    values: list[str], wanted: str
) -> None:
    """A reader skips a file if its bounds prove that no value compares so with `wanted`."""
    found = bounded(min(values, key=str.encode), max(values, key=str.encode))
    if not found.HasField("minimum"):
        return
    low, high = found.minimum.decode(), found.maximum.decode()
    for order in (str.encode, utf_16):
        if any(value.encode() >= wanted.encode() for value in values):
            assert order(high) >= order(wanted)
        if any(value.encode() <= wanted.encode() for value in values):
            assert order(low) <= order(wanted)


def test_string_bounds_are_cut_before_characters_that_sort_otherwise_in_java() -> None:
    found = bounded("a\uff08b", "z\U0001f600")
    assert (found.minimum, found.maximum) == (b"a", b"{")
    found = bounded("\uff21\u793e", "z")
    assert (found.minimum, found.maximum) == (b"", b"z")
    assert not bounded("a", "\U0001f600").HasField("minimum")


def restated_doubles(least: float, greatest: float, total: float) -> pb.ColumnStatistics:
    statistics = doubles(least, greatest, total)
    restate_bounds(statistics)
    return statistics


def test_bounds_of_doubles_contain_both_zeros() -> None:
    found = restated_doubles(0.0, -0.0, 0.0).doubles
    assert (math.copysign(1, found.minimum), math.copysign(1, found.maximum)) == (-1, 1)
    found = restated_doubles(-2.5, 1.5, -1.0).doubles
    assert (found.minimum, found.maximum) == (-2.5, 1.5)


@pytest.mark.parametrize("total", [math.nan, None])
def test_doubles_that_may_be_nan_have_no_bounds(total: float | None) -> None:
    typed = pb.DoubleStatistics(minimum=1, maximum=2, sum=total)
    statistics = pb.ColumnStatistics(values=2, doubles=typed)
    assert restate_bounds(statistics)
    assert not statistics.HasField("doubles")
    assert not restate_bounds(ALL_NULL)


CHARACTERS = st.text(st.sampled_from("a\x7f\u07ff\ud7ff\uffff\U0010fffez"), max_size=4)


@given(CHARACTERS, st.sampled_from("a\u07ff\uffff\U0001f600"), CHARACTERS)
def test_long_string_bounds_are_shortened_and_remain_valid(
    first: str, middle: str, last: str
) -> None:
    long = f"{first}{middle * LONGEST_BOUND_BYTES}{last}"
    for least, greatest in ((long, long), ("", long), (long, "\U0010fffe\U0010fffe")):
        found = bounded(least, greatest)
        if not found.HasField("minimum"):
            continue
        low, high = found.minimum.decode(), found.maximum.decode()
        assert max(len(found.minimum), len(found.maximum)) <= LONGEST_BOUND_BYTES
        assert found.sum == 7
        assert found.minimum <= least.encode()
        assert found.maximum >= greatest.encode()
        assert utf_16(low) <= utf_16(least)
        assert utf_16(high) >= utf_16(greatest)


def test_only_the_lengths_are_kept_if_a_string_bound_cannot_be_shortened() -> None:
    long = "\U0010ffff" * LONGEST_BOUND_BYTES
    typed = pb.StringStatistics(minimum=b"a", maximum=long.encode(), sum=7)
    statistics = pb.ColumnStatistics(values=2, strings=typed)
    assert restate_bounds(statistics)
    assert not statistics.HasField("strings")
    assert statistics.binaries.sum == 7


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        (pb.ColumnStatistics(values=2, strings=pb.StringStatistics(sum=9)), 9),
        (pb.ColumnStatistics(values=2, binaries=pb.BinaryStatistics(sum=8)), 8),
        (pb.ColumnStatistics(values=0), 0),
        (pb.ColumnStatistics(values=2), None),
        (pb.ColumnStatistics(values=2, strings=pb.StringStatistics(minimum=b"a")), None),
        (pb.ColumnStatistics(values=2, strings=pb.StringStatistics(sum=-1)), None),
    ],
)
def test_the_sum_of_lengths_is_unknown_if_the_statistics_do_not_determine_it(
    statistics: pb.ColumnStatistics, expected: int | None
) -> None:
    assert length_sum(statistics) == expected


def java_texts(**bounds: bytes) -> pb.ColumnStatistics:
    return pb.ColumnStatistics(values=2, strings=pb.StringStatistics(sum=9, **bounds))


def test_shortened_bounds_of_java_are_moved_to_the_usual_fields() -> None:
    column = java_texts(lower_bound=b"aa", upper_bound="zé".encode())
    assert plain_bounds(column)
    assert (column.strings.minimum, column.strings.maximum) == (b"aa", "zé".encode())
    assert not column.strings.HasField("lower_bound")
    assert not column.strings.HasField("upper_bound")
    column = java_texts(minimum=b"a", upper_bound=b"zz")
    assert plain_bounds(column)
    assert (column.strings.minimum, column.strings.maximum) == (b"a", b"zz")


def test_usual_string_bounds_of_java_are_unchanged() -> None:
    column = java_texts(minimum=b"a", maximum=b"z")
    before = column.SerializeToString()
    assert not plain_bounds(column)
    assert column.SerializeToString() == before


@pytest.mark.parametrize("upper", ["a\U00010000", "a?", b"a\xff"])
def test_upper_bounds_that_java_increments_wrongly_are_omitted(upper: str | bytes) -> None:
    column = java_texts(
        minimum=b"a", upper_bound=upper.encode() if isinstance(upper, str) else upper
    )
    assert plain_bounds(column)
    assert not column.HasField("strings")
    assert column.binaries.sum == 9


@pytest.mark.parametrize(
    "bounds",
    [
        # What Java says of b"\x80a" and "ä", of b"\xff" and an emoji, of a long text.
        {"minimum": "\ufffda".encode(), "maximum": "ä".encode()},
        {"minimum": b"b", "maximum": "\ufffd".encode()},
        {"lower_bound": "\ufffd\ufffd".encode(), "maximum": b"z"},
        {"minimum": b"a", "upper_bound": "\ufffdb".encode()},
    ],
)
def test_bounds_in_which_java_has_replaced_bytes_are_omitted(bounds: dict[str, bytes]) -> None:
    column = java_texts(**bounds)
    assert plain_bounds(column)
    assert not column.HasField("strings")
    assert column.binaries.sum == 9


def test_integer_statistics_of_days_become_date_statistics() -> None:
    column = integers(-5, 9, 4)
    assert as_dates(column)
    assert not column.HasField("integers")
    assert (column.dates.minimum, column.dates.maximum) == (-5, 9)
    nothing = pb.ColumnStatistics(values=0, integers=pb.IntegerStatistics())
    as_dates(nothing)
    assert nothing.HasField("dates")
    assert not nothing.dates.HasField("minimum")
