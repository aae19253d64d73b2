"""Which arguments may name files, judged by Spark's syntax tree; stand-ins replace its nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.spark.engine.parsed_sql import RefusedTextError, _check_options


def node(kind: str, **values: object) -> Any:  # noqa: ANN401 - a Java object
    getters = {name: (lambda value=value: value) for name, value in values.items()}
    simple = SimpleNamespace(getSimpleName=lambda: kind)
    return SimpleNamespace(getClass=lambda: simple, **getters)


def sequence(*items: object) -> Any:  # noqa: ANN401 - as above
    return SimpleNamespace(size=lambda: len(items), apply=items.__getitem__)


def call(name: str, *arguments: object) -> Any:  # noqa: ANN401 - as above
    return node("UnresolvedFunction", nameParts=sequence(name), arguments=sequence(*arguments))


COLUMN = node("UnresolvedAttribute")
FILE = call("map", node("Literal", value="avroSchemaUrl"), node("Literal", value="/a"))


@pytest.mark.parametrize(
    ("name", "argument", "position"),
    [
        ("to_avro", call("map", COLUMN, COLUMN), 0),  # the data
        ("from_xml", node("NamedParameter", name="schema"), 1),  # a text, and never a map
        ("from_xml", node("Literal", value="a INT"), 1),
    ],
)
def test_data_and_plain_values_are_accepted_since_they_name_no_files(
    name: str, argument: object, position: int
) -> None:
    _check_options(name, argument, position)


@pytest.mark.parametrize(
    ("argument", "position"),
    [
        (FILE, 2),
        (call("map", COLUMN, COLUMN), 2),
        (call("map", node("NamedParameter", name="key"), COLUMN), 2),
        (COLUMN, 2),
        (call("map_concat", FILE), 1),
        (node("NamedArgumentExpression"), 0),
    ],
)
def test_options_that_may_name_files_are_refused(argument: object, position: int) -> None:
    with pytest.raises(RefusedTextError, match=r"may name files|opens files"):
        _check_options("from_avro", argument, position)
