from __future__ import annotations

import pytest

from airflow_hiveacid.format.definition_rules import partition_spelling, why_fixed, why_no_change
from airflow_hiveacid.format.errors import ConfigurationError


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "int"),
        ("INTEGER", "int"),
        ("tinyint", "bigint"),
        ("varchar(3)", "varchar(4)"),
        ("varchar(3)", "string"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("array<int>", "array<int>"),
    ],
)
def test_a_column_type_can_be_widened(old: str, new: str) -> None:
    assert why_no_change(old, new) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "int"),
        ("int", "double"),
        ("int", "string"),
        ("int", "decimal(20,0)"),
        ("double", "float"),
        ("float", "double"),
        ("string", "varchar(10)"),
        ("char(3)", "char(4)"),
        ("char(3)", "string"),
        ("varchar(4)", "varchar(3)"),
        ("decimal(10,2)", "decimal(10,4)"),
        ("decimal(10,2)", "decimal(12,1)"),
        ("date", "timestamp"),
        ("string", "bigint"),
        ("array<int>", "array<bigint>"),
        ("struct<a:int>", "struct<a:int,b:int>"),
    ],
)
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
    ("text", "column_type", "message"),
    [
        ("x", "int", "not a valid value"),
        ("1.5", "int", "not a valid value"),
        ("128", "tinyint", "not a valid value"),
        ("9" * 5000, "bigint", "not a valid value"),
        ("abcd", "varchar(3)", "not a valid value"),
        ("2020-2-29", "date", "not a valid value"),
        ("2021-02-29", "date", "not a valid value"),
        ("20210228", "date", "not a valid value"),
        ("1", "boolean", "not a valid value"),
        ("1.5", "decimal(3,1)", "in several ways"),
        ("x", "char(3)", "in several ways"),
        ("2020-01-01 00:00:00", "timestamp", "in several ways"),
    ],
)
def test_an_invalid_or_ambiguous_partition_value_is_refused(
    text: str, column_type: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        partition_spelling(text, column_type)
