from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.arguments import key_names, partition_values

_LONG = pytest.param(10**5000, id="more digits than Python prints")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (key_names, ["\u212aey"]),
        (arguments.table_patterns, "demo.\u212a*"),
        (arguments.assignments, {"\u212aey": "1"}),
        (partition_values, {"\u212aey": "1"}),
    ],
)
def test_a_name_that_would_become_another_name_in_lower_case_is_refused(
    read: Callable[..., object], value: object
) -> None:
    with pytest.raises(ConfigurationError, match="x has the Kelvin sign"):
        read(value, "x")


@pytest.mark.parametrize("value", ["1_0", "\u0661\u0660", _LONG])
@pytest.mark.parametrize(
    "read", [arguments.number, arguments.whole_number, arguments.version, arguments.retention]
)
def test_a_number_that_only_python_reads_or_that_it_cannot_print_is_refused(
    read: Callable[..., object], value: object
) -> None:
    with pytest.raises(ConfigurationError, match="x must be a "):
        read(value, "x")


@pytest.mark.parametrize("value", ["\u0667 days", "7 wee\u212as", _LONG])
@pytest.mark.parametrize("read", [arguments.duration_s, arguments.unknown_age])
def test_a_duration_with_other_digits_or_letters_is_refused(
    read: Callable[..., object], value: object
) -> None:
    with pytest.raises(ConfigurationError, match=r"x: .* is not a duration|x must be a string"):
        read(value, "x")
