"""A column whose type was changed reads as Hive reads it: what does not fit is NULL or cut."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import CharType, VarcharType, parse_type
from airflow_hiveacid.storage.values.promotion import OutOfRangeError, fit_length, promote
from tests.support.cases import tables_of
from tests.support.writer_cases import array_of

TABLES = tables_of(__file__)


@pytest.mark.promise("D11")
@pytest.mark.parametrize(
    ("stored", "values", "wanted", "expected"),
    [
        *TABLES["converted"],
        ("string", ["9" * 5000, "0" * 5000 + "7"], "bigint", [None, 7]),
        ("string", ["9" * 5000], "boolean", [None]),
        ("string", ["1e500", "9" * 5000, "1e9999999999999999999"], "decimal(5,2)", [None] * 3),
    ],
)
def test_values_are_converted_to_the_new_type_of_the_column(
    stored: str, values: list[object], wanted: str, expected: list[object]
) -> None:
    found = promote(array_of(stored, values), parse_type(wanted))
    assert found == array_of(wanted, expected)


@pytest.mark.parametrize(("stored", "wanted"), TABLES["unsupported"])
def test_an_unsupported_type_conversion_returns_none(stored: str, wanted: str) -> None:
    assert promote(array_of(stored, []), parse_type(wanted)) is None


def test_strings_are_truncated_by_characters_and_chars_are_padded() -> None:
    texts = pa.array(["äöü😀x", "a", "", None])
    assert fit_length(texts, VarcharType(4)).to_pylist() == ["äöü😀", "a", "", None]
    assert fit_length(texts, CharType(4)).to_pylist() == ["äöü😀", "a   ", "    ", None]
    assert fit_length(pa.nulls(2, pa.string()), CharType(4)).to_pylist() == [None, None]


@pytest.mark.promise("D11")
@pytest.mark.parametrize(("stored", "value", "wanted", "expected"), TABLES["dates and times"])
def test_texts_and_numbers_become_dates_and_times_as_in_hive(
    stored: str, value: object, wanted: str, expected: object
) -> None:
    found = promote(array_of(stored, [value, None]), parse_type(wanted))
    assert found == array_of(wanted, [expected, None])


@pytest.mark.promise("D11")
@pytest.mark.parametrize(("wanted", "expected"), TABLES["numbers of seconds"])
def test_times_become_numbers_of_seconds_as_in_hive(wanted: str, expected: list[object]) -> None:
    times = ["1970-01-01 00:00:00", "1969-12-31 23:59:59", "1970-01-01 00:00:00.999999999"]
    array = array_of("timestamp", [*times, "2065-01-24 05:20:00.25", None])
    assert promote(array, parse_type(wanted)) == array_of(wanted, expected)


@pytest.mark.parametrize(("stored", "value", "wanted"), TABLES["refused"])
def test_values_that_hive_converts_and_we_cannot_are_refused(
    stored: str, value: object, wanted: str
) -> None:
    with pytest.raises(OutOfRangeError):
        promote(array_of(stored, [value]), parse_type(wanted))
