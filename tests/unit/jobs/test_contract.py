from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION, Side, from_json, read_object


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
    again = decode({"name": "x", "inner": {"number": 1}, "value": value}).value
    assert again == value
    assert type(again) is type(value)


def test_missing_fields_get_their_defaults() -> None:
    assert decode({"name": "x", "inner": {"number": 1}}) == Outer(name="x", inner=Inner(number=1))


def test_an_integer_becomes_a_float_where_a_float_is_expected() -> None:
    ratio = decode({"name": "x", "inner": {"number": 1}, "ratio": 2, "maybe": 3}).ratio
    assert (ratio, type(ratio)) == (2.0, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "the field extra is unknown: "),
        ({"inner": {"number": 1, "extra": 1}}, "different releases, and the application is older"),
        ({"inner": {}}, "different releases, and the operator is older"),
        ({"inner": None}, "at inner: expected an object, found NoneType"),
        ({"inner": {"number": "1"}}, "at inner.number: expected int, found str"),
        ({"inner": {"number": True}}, "at inner.number: expected int, found bool"),
        ({"many": [{"number": 1}, 2]}, "at many[1]: expected an object, found int"),
        ({"many": 1}, "at many: expected"),
        ({"colour": "blue"}, "at colour: expected a Colour, found 'blue'"),
        ({"flag": 1}, "at flag: expected bool, found int"),
        ({"ratio": True}, "at ratio: expected float, found bool"),
        ({"maybe": "1"}, "at maybe: expected float, found str"),
        ({"value": []}, "at value: expected str or int or float or bool, found list"),
        ({"texts": []}, "at texts: expected"),
        ({"texts": {"a": 1}}, "at texts.a: expected str, found int"),
        ({"name": None}, "at name: expected str, found NoneType"),
    ],
)
def test_an_unexpected_value_is_reported_with_its_field_and_the_older_side(
    change: dict[str, object], message: str
) -> None:
    data = {"name": "x", "inner": {"number": 1}, **change}
    with pytest.raises(ContractVersionError) as caught:
        decode(data)
    assert message in str(caught.value)


def test_a_document_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(ContractVersionError, match="at Outer: expected an object"):
        decode([])


def test_a_value_that_json_cannot_contain_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="cannot contain a set"):
        to_json({"a": {1}})


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


def test_the_contract_version_is_removed_from_the_document() -> None:
    text = f'{{"version": {CONTRACT_VERSION}, "a": 1}}'
    assert read_object(text, reader=Side.OPERATOR) == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "\x00"])
def test_text_that_is_not_a_json_object_raises_a_typed_error(text: str) -> None:
    with pytest.raises(
        ContractVersionError, match=r"^the application's document is no JSON"
    ) as caught:
        read_object(text, reader=Side.OPERATOR)
    assert "release" not in str(caught.value)
