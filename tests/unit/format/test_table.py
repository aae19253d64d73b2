from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.table import (
    NULL_PARTITION,
    UNPARTITIONED,
    Column,
    PartitionName,
    TableInfo,
    TableRef,
    escape_partition_value,
    unescape_partition_value,
)

FLIGHTS = TableInfo(
    ref=TableRef("demo", "flights"),
    location="file:///w/demo.db/flights/",
    columns=(Column(name="id", type="bigint"),),
    partition_columns=(Column(name="year", type="int"), Column(name="note", type="string")),
)
PLAIN = TableInfo(ref=TableRef("demo", "plain"), location="file:///w/plain", columns=())


def test_a_table_name_is_parsed_in_lower_case_without_outer_blanks() -> None:
    assert TableRef.parse(" Demo.Flights ") == TableRef("demo", "flights")
    assert str(TableRef("demo", "flights")) == "demo.flights"


@pytest.mark.parametrize(
    "text", ["flights", "a.b.c", ".t", "db.", "db.t-1", "db.t\n.x", "d b.t", "db.\u212a"]
)
def test_a_table_name_that_is_not_two_identifiers_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="table name"):
        TableRef.parse(text)


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("plain-1_2.3", "plain-1_2.3"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("100%", "100%25"),
        ("12:30", "12%3A30"),
        ("a b", "a b"),
        ("ä€", "ä€"),
        ("q'\"#*?\\{[]^", "q%27%22%23%2A%3F%5C%7B%5B%5D%5E"),
        ("tab\there", "tab%09here"),
        ("del\x7f", "del%7F"),
        ("}", "}"),
    ],
)
def test_partition_values_are_escaped_as_in_hive(value: str, escaped: str) -> None:
    assert escape_partition_value(value) == escaped
    assert unescape_partition_value(escaped) == value


def test_a_percent_sign_without_two_hex_digits_is_not_an_escape() -> None:
    assert unescape_partition_value("50%x%4") == "50%x%4"


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        ("month=1", ("month",), ("1",)),
        ("year=2013/note=a%2Fb", ("year", "note"), ("2013", "a/b")),
        (f"year=2013/note={NULL_PARTITION}", ("year", "note"), ("2013", None)),
        ("note=a=b", ("note",), ("a=b",)),
        ("", (), ()),
    ],
)
def test_partition_names_are_parsed_into_columns_and_values(
    text: str, columns: tuple[str, ...], values: tuple[str | None, ...]
) -> None:
    assert PartitionName.parse(text) == PartitionName(columns, values)


def test_partition_names_are_formatted_with_escapes() -> None:
    assert str(PartitionName(("y", "note"), (None, "a/b"))) == f"y={NULL_PARTITION}/note=a%2Fb"
    assert str(UNPARTITIONED) == ""


def test_the_columns_but_not_the_values_of_a_partition_name_become_lower_case() -> None:
    assert PartitionName.parse("Note=AbC") == PartitionName(("note",), ("AbC",))
    assert PartitionName.parse("\u212aey=1") != PartitionName(("key",), ("1",))


def test_the_metastore_gets_the_directory_name_of_a_null_partition_value() -> None:
    assert PartitionName(("a", "b"), ("x/y", None)).directory_values == ["x/y", NULL_PARTITION]


@pytest.mark.parametrize("text", ["month", "month=1/day", "/"])
def test_a_partition_name_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="partition name"):
        PartitionName.parse(text)


def test_a_partition_with_a_missing_value_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        PartitionName(("a", "b"), ("1",))


def test_a_tables_columns_include_its_partition_columns() -> None:
    assert FLIGHTS.column_names == ("id", "year", "note")
    assert FLIGHTS.is_partitioned
    assert not PLAIN.is_partitioned
    name = FLIGHTS.partition_name(["2013", None])
    assert str(name) == f"year=2013/note={NULL_PARTITION}"


def test_the_default_location_of_a_partition_is_below_the_table() -> None:
    name = FLIGHTS.partition_name(["2013", "a:b"])
    assert FLIGHTS.default_partition_location(name) == (
        "file:///w/demo.db/flights/year=2013/note=a%3Ab"
    )
    assert PLAIN.default_partition_location(UNPARTITIONED) == "file:///w/plain"
