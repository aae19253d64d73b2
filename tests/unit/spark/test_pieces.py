"""What a task unpacks of the work of all tasks."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from airflow_hiveacid.spark.pieces import Packed

MADE: list[str] = []


@dataclass(frozen=True, slots=True)
class Part:
    name: str

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    own: Part
    same: tuple[Part, ...]
    number: int


def _make(name: str) -> Part:
    MADE.append(name)
    return Part(name)


def pieces(count: int, common: str = "same") -> list[Piece]:
    same = (Part(common),)
    return [Piece(own=Part(f"own {i}"), same=same, number=1) for i in range(count)]


def test_every_piece_comes_back() -> None:
    packed: Packed[Piece] = pickle.loads(pickle.dumps(Packed.of(pieces(50))))  # noqa: S301
    assert len(packed) == 50
    assert [packed[i] for i in range(50)] == pieces(50)


def test_a_task_makes_only_its_own_piece_and_what_is_common_once() -> None:
    content = pickle.dumps(Packed.of(pieces(1000, "kept")))
    MADE.clear()
    for index in (7, 8):
        packed: Packed[Piece] = pickle.loads(content)  # noqa: S301
        assert packed[index].same == (Part("kept"),)
    assert sorted(MADE) == ["kept", "own 7", "own 8"]


def test_what_is_common_is_held_once() -> None:
    large = tuple(Part(f"part {i}") for i in range(1000))
    alone = len(pickle.dumps(large))
    packed = Packed.of([Piece(own=Part("own"), same=large, number=i) for i in range(100)])
    assert len(pickle.dumps(packed)) < 2 * alone
    assert packed[99].same == large


def test_no_pieces_are_no_work() -> None:
    assert len(Packed.of([])) == 0
