from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from airflow_hiveacid.format import codec
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName


class Pair(NamedTuple):
    number: int
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    partition: PartitionName
    write_id: WriteId
    names: frozenset[str] = frozenset()
    parts: tuple[Pair, ...] = ()
    roots: Mapping[PartitionName, WriteId] = field(default_factory=dict)
    at_s: float | None = field(default=None, metadata=codec.stored_as("seconds"))
    is_legible: bool = field(default=True, metadata=codec.stored_as(None))


def at_most_nine(value: object) -> int:
    if not isinstance(value, int) or value > 9:
        raise ValueError(f"{value!r:.40} is above 9")
    return value


CODEC = codec.Codec(
    texts={PartitionName: PartitionName.parse},
    numbers={int: at_most_nine},
    needs_all=True,
    ignores_unknown=True,
)
P = PartitionName.parse("p=1/q=a%2Fb")
NOTE = Note(
    partition=P,
    write_id=WriteId(5),
    names=frozenset({"b", "a"}),
    parts=(Pair(1, "x"),),
    roots={P: WriteId(2)},
    at_s=1.5,
    is_legible=False,
)
BODY = {
    "partition": "p=1/q=a%2Fb",
    "write_id": 5,
    "names": ["a", "b"],
    "parts": [[1, "x"]],
    "roots": {"p=1/q=a%2Fb": 2},
    "seconds": 1.5,
}


def test_values_are_written_by_their_stored_names_and_text_forms() -> None:
    assert CODEC.to_json(NOTE) == BODY
    assert list(CODEC.to_json(NOTE)) == list(BODY)


def test_values_are_read_from_what_was_written_but_for_fields_that_are_not_stored() -> None:
    found = CODEC.read(Note, BODY)
    assert found == Note(**{**{n: getattr(NOTE, n) for n in Note.__slots__}, "is_legible": True})


def test_values_of_any_type_can_be_read() -> None:
    assert CODEC.read(dict[str, WriteId], {"a": 3}) == {"a": 3}
    assert CODEC.read(tuple[PartitionName, ...], ["p=1/q=a%2Fb"]) == (P,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partition": 1}, "at partition: expected PartitionName, found int"),
        ({"partition": "p"}, "at partition: expected PartitionName, found 'p'"),
        ({"write_id": 10}, "at write_id: expected another number: 10 is above 9"),
        ({"write_id": "9" * 99}, f"at write_id: expected another number: '{'9' * 39} is above 9"),
        ({"roots": {"p": 1}}, "at roots: expected PartitionName, found 'p'"),
        ({"roots": {"p=1": 10}}, "at roots.p=1: expected another number: 10 is above 9"),
        ({"parts": [[1]]}, "at parts[0]: expected a list of 2, found list"),
        ({"parts": [[1, 2]]}, "at parts[0][1]: expected str, found int"),
        ({"names": "ab"}, "at names: expected a list, found str"),
        ({"names": [1]}, "at names[0]: expected str, found int"),
    ],
)
def test_an_unexpected_value_is_reported_with_its_path(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(codec.MisfitError) as caught:
        CODEC.read(Note, {**BODY, **change})
    assert str(caught.value) == message


def test_unknown_fields_may_be_ignored_and_missing_fields_may_be_refused() -> None:
    assert CODEC.read(Note, {**BODY, "later": 1, "is_legible": 7}) == CODEC.read(Note, BODY)
    for name in BODY:
        with pytest.raises(codec.MissingFieldError, match=f"at {name}: expected a value"):
            CODEC.read(Note, {n: value for n, value in BODY.items() if n != name})
    exact = codec.Codec(texts={PartitionName: PartitionName.parse})
    assert exact.read(Note, {"partition": "", "write_id": 99}).write_id == 99
    with pytest.raises(codec.UnknownFieldError, match="at later: expected no such field"):
        exact.read(Note, {**BODY, "later": 1})


def test_free_form_json_is_read_as_it_is() -> None:
    assert CODEC.read(dict[str, codec.JsonValue], {"a": [10, {"b": None}]}) == {
        "a": [10, {"b": None}]
    }


def test_a_type_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a codec cannot read set"):
        CODEC.read(set[str], [])
    with pytest.raises(TypeError, match="cannot contain a bytes"):
        codec.to_json({"a": b""})
