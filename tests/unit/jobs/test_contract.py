from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.jobs.contract import Side, from_json, read_object
from tests.support.cases import cases_of


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    inner: Inner
    many: tuple[Inner, ...] = ()
    colour: Colour = Colour.RED
    ratio: float = 0.5
    flag: bool = False
    maybe: float | None = None
    value: str | int | float | bool | None = None
    texts: Mapping[str, str | None] = field(default_factory=dict)


LEAST = {"name": "x", "inner": {"number": 1}}
FULL = Outer(
    name="x",
    inner=Inner(number=1),
    many=(Inner(number=2), Inner(number=3)),
    flag=True,
    maybe=2.5,
    value=True,
    texts={"a": None, "b": "c"},
)


def decode(data: object) -> Outer:
    return from_json(Outer, data, reader=Side.APPLICATION)


def test_values_survive_a_round_trip_through_json() -> None:
    assert decode(to_json(FULL)) == FULL


@pytest.mark.parametrize("value", ["1", 1, 1.5, True, None])
def test_plain_values_keep_their_type(value: object) -> None:
    again = decode({**LEAST, "value": value}).value
    assert again == value
    assert type(again) is type(value)


def test_missing_fields_get_their_defaults() -> None:
    assert decode(LEAST) == Outer(name="x", inner=Inner(number=1))


def test_an_integer_becomes_a_float_where_a_float_is_expected() -> None:
    ratio = decode({**LEAST, "ratio": 2, "maybe": 3}).ratio
    assert (ratio, type(ratio)) == (2.0, float)


@pytest.mark.parametrize(("change", "message"), cases_of(Path(__file__).with_name("misfits.txt")))
def test_an_unexpected_value_is_reported_with_its_field_and_the_older_side(
    change: str, message: str
) -> None:
    with pytest.raises(ContractVersionError, match=re.escape(message.strip())):
        decode({**LEAST, **json.loads(change)})


def test_a_document_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(ContractVersionError, match="at Outer: expected an object"):
        decode([])


@pytest.mark.parametrize(
    ("text", "reader", "older"),
    [
        ('{"version": 0}', Side.APPLICATION, "operator"),
        ('{"version": 0}', Side.OPERATOR, "application"),
        ('{"version": 999}', Side.APPLICATION, "application"),
        ('{"version": 999}', Side.OPERATOR, "operator"),
        ("{}", Side.APPLICATION, "operator"),
        ('{"version": "x"}', Side.APPLICATION, "application"),
    ],
)
def test_a_version_mismatch_names_the_older_side(text: str, reader: Side, older: str) -> None:
    with pytest.raises(ContractVersionError) as caught:
        read_object(text, reader=reader)
    assert caught.value.side == older
    assert f"the {older} is older" in str(caught.value)


DEEP = pytest.param("[" * 100_000, id="deep")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "\x00", DEEP])
def test_text_that_is_not_a_json_object_raises_a_typed_error(text: str) -> None:
    with pytest.raises(
        ContractVersionError, match=r"^the application's document is no JSON"
    ) as caught:
        read_object(text, reader=Side.OPERATOR)
    assert "release" not in str(caught.value)
