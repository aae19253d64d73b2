from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.definition_rules import partition_spelling, why_fixed, why_no_change
from airflow_hiveacid.format.errors import ConfigurationError
from tests.support.cases import changes_of

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(("old", "new"), changes_of(CASES / "widened_types.txt"))
def test_a_column_type_can_be_widened(old: str, new: str) -> None:
    assert why_no_change(old, new) is None


@pytest.mark.parametrize(("old", "new"), changes_of(CASES / "other_types.txt"))
def test_a_type_change_that_not_all_readers_convert_alike_is_refused(old: str, new: str) -> None:
    assert "would not all convert" in (why_no_change(old, new) or "")


@pytest.mark.parametrize(
    "name",
    ["transactional", "TRANSACTIONAL_PROPERTIES", "EXTERNAL", "numRows", "bucketing_version"],
)
def test_a_statement_cannot_set_the_parameters_that_hive_manages(name: str) -> None:
    assert why_fixed(name)


def test_a_statement_can_set_all_other_parameters() -> None:
    assert why_fixed("orc.compress") is why_fixed("comment") is None


@pytest.mark.parametrize(
    ("text", "column_type", "expected"),
    [
        ("007", "int", "7"),
        ("+5", "bigint", "5"),
        ("-128", "tinyint", "-128"),
        ("x=1/y", "string", "x=1/y"),
        ("abc", "varchar(3)", "abc"),
        ("2020-02-29", "date", "2020-02-29"),
        ("TRUE", "boolean", "true"),
    ],
)
def test_a_partition_value_is_spelled_as_in_hive(
    text: str, column_type: str, expected: str
) -> None:
    assert partition_spelling(text, column_type) == expected


@pytest.mark.parametrize(
    ("text", "column_type"),
    [*changes_of(CASES / "no_values.txt"), ("9" * 5000, "bigint")],
)
def test_an_invalid_partition_value_is_refused(text: str, column_type: str) -> None:
    with pytest.raises(ConfigurationError, match="not a valid value"):
        partition_spelling(text, column_type)


@pytest.mark.parametrize(
    ("text", "column_type"),
    [("1.5", "decimal(3,1)"), ("x", "char(3)"), ("2020-01-01 00:00:00", "timestamp")],
)
def test_an_ambiguous_partition_value_is_refused(text: str, column_type: str) -> None:
    with pytest.raises(ConfigurationError, match="in several ways"):
        partition_spelling(text, column_type)
