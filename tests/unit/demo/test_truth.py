from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pytest

from demo.changes import ACTUAL, PLANNED, read_flights
from demo.truth import Truth


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truth]:
    with Truth(tmp_path_factory.mktemp("truth")) as opened:
        yield opened


def test_the_expected_rows_equal_the_source_as_read_by_arrow(truth: Truth) -> None:
    flights = read_flights()
    left = flights.filter(flights["dep_time"].is_valid())
    assert truth.compare(left, days=365).is_equal


def test_tables_are_equal_in_any_order_of_rows_and_columns(truth: Truth) -> None:
    expected = truth.expected(days=3)
    turned = expected.sort_by([("tailnum", "descending")]).select([*ACTUAL, *PLANNED])
    verdict = truth.compare(turned, days=3)
    assert verdict.is_equal
    assert verdict.rows == expected.num_rows
    assert [day.day for day in verdict.days] == [date(2013, 1, n) for n in (1, 2, 3, 4)]
    assert all(day.is_equal for day in verdict.days)


def test_a_missing_row_is_reported_with_its_day(truth: Truth) -> None:
    expected = truth.expected(days=2)
    verdict = truth.compare(expected.slice(1), days=2)
    assert not verdict.is_equal
    (difference,) = verdict.differences
    assert (difference.day, difference.side) == (date(2013, 1, 1), "missing")
    assert str(expected["tailnum"][0]) in difference.row
    first = verdict.days[0]
    assert first.expected_rows - first.actual_rows == 1
    assert not first.is_equal
    assert verdict.days[1].is_equal


def test_a_duplicate_row_is_reported_as_unexpected(truth: Truth) -> None:
    expected = truth.expected(days=2)
    verdict = truth.compare(pa.concat_tables([expected, expected.slice(0, 1)]), days=2)
    assert [difference.side for difference in verdict.differences] == ["unexpected"]


def test_one_wrong_value_is_reported_although_the_counts_are_equal(truth: Truth) -> None:
    expected = truth.expected(days=2)
    index = expected.column_names.index("arr_delay")
    values = expected["arr_delay"].to_pylist()
    values[7] = values[7] + 1
    wrong = expected.set_column(index, "arr_delay", pa.array(values, pa.int32()))
    verdict = truth.compare(wrong, days=2)
    assert sorted(difference.side for difference in verdict.differences) == [
        "missing",
        "unexpected",
    ]
    assert verdict.expected_digest != verdict.actual_digest
    assert all(day.expected_rows == day.actual_rows for day in verdict.days)
    assert not verdict.days[0].is_equal


def test_in_an_empty_table_every_row_is_reported_as_missing(truth: Truth) -> None:
    expected = truth.expected(days=1)
    verdict = truth.compare(expected.slice(0, 0), days=1)
    assert len(verdict.differences) == expected.num_rows
    assert verdict.rows == 0


def test_a_table_without_a_column_is_an_error(truth: Truth) -> None:
    with pytest.raises(ValueError, match="tailnum"):
        truth.compare(truth.expected(days=1).drop_columns("tailnum"), days=1)
