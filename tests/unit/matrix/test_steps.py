"""Who takes a step of a life, and who is passed over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from judges.line_process import JudgeError
from matrix.course import _blind, _HalfDoneError, _taken
from matrix.explanations import BLIND
from matrix.kinds import KINDS
from matrix.life import LOAD, NotHereError, Step, life
from matrix.names import ARROW, HIVE_3, HIVE_4, NATIVE, OURS, TRINO
from matrix.records import Answers, Life, Taken, Wrong

if TYPE_CHECKING:
    from matrix.kinds import Row

WRONG = Wrong(step="DELETE", text="3 of 2 rows", has_more=True)


@dataclass
class Stub:
    name: str
    error: Exception | None = None
    took: list[str] = field(default_factory=list)

    def major(self) -> None:
        self.took.append("major")
        if self.error is not None:
            raise self.error


def step() -> Step:
    return Step(name="major compaction", act=lambda w: w.major(), model=dict, rewrites=True)


def writers(errors: dict[str, Exception] | None = None) -> dict[str, Any]:
    return {name: Stub(name, (errors or {}).get(name)) for name in (OURS, HIVE_4, TRINO, HIVE_3)}


@dataclass
class Asked:
    first: str
    blind: set[str] = field(default_factory=set)
    is_whole: bool = True

    def is_as_before(self) -> bool:
        return self.is_whole


def taken(found: dict[str, Any], asked: Asked) -> Taken:
    return _taken(found, asked, step())  # type: ignore[arg-type]


def test_a_step_is_taken_by_who_is_asked() -> None:
    found = writers()
    assert taken(found, Asked(TRINO, {HIVE_4})).done_by == TRINO
    assert [name for name, stub in found.items() if stub.took] == [TRINO]


def test_who_read_wrong_is_passed_over_and_the_record_says_so() -> None:
    found = writers({OURS: NotHereError("not here")})
    told = taken(found, Asked(TRINO, {TRINO}))
    assert (told.asked, told.done_by, told.failures) == (TRINO, HIVE_4, {TRINO: BLIND})
    assert found[TRINO].took == []


def test_a_failure_is_recorded_without_its_path_and_another_takes_the_step() -> None:
    found = writers({TRINO: JudgeError("there is file:/tmp/x/y already")})
    told = taken(found, Asked(TRINO))
    assert (told.done_by, told.failures) == (
        OURS,
        {TRINO: "JudgeError: there is (a path) already"},
    )


def test_nobody_goes_on_where_an_engine_left_its_step_half_done() -> None:
    found = writers({TRINO: JudgeError("File already exists")})
    with pytest.raises(_HalfDoneError) as caught:
        taken(found, Asked(TRINO, is_whole=False))
    assert caught.value.taken.failures == {TRINO: "JudgeError: File already exists"}
    assert [name for name, stub in found.items() if stub.took] == [TRINO]


def test_nobody_takes_the_steps_of_hive_3() -> None:
    found = writers({HIVE_3: NotHereError("not here")})
    with pytest.raises(NotHereError, match="not here"):
        taken(found, Asked(HIVE_3))
    assert found[OURS].took == []


def test_only_who_was_wrong_after_the_last_step_is_blind() -> None:
    one = Life(kind=KINDS[0].name, writer=OURS)
    one.answers = {
        NATIVE: Answers(wrong=[WRONG]),
        ARROW: Answers(),
        TRINO: Answers(wrong=[WRONG]),
        HIVE_4: Answers(wrong=[Wrong(step="INSERT", text="")]),
    }
    assert _blind(one) == set()
    one.taken = [Taken(step=name, asked=OURS, done_by=OURS) for name in ("INSERT", "DELETE")]
    assert _blind(one) == {OURS, TRINO}


def test_steps_that_write_by_what_is_read_are_those_that_delete_update_merge_compact_or_empty() -> (
    None
):
    reads = [one.name for one in life(KINDS[0]) if one.needs_rows]
    assert [name for name in reads if "INSERT" in name or "COLUMNS" in name] == []
    assert len(reads) == 8


def test_rows_of_files_come_by_load_data() -> None:
    (kind,) = [kind for kind in KINDS if kind.loaded]
    by: list[tuple[str, int]] = []

    class Noting:
        def load(self, rows: list[Row]) -> None:
            by.append(("load", len(rows)))

        def insert(self, rows: list[Row]) -> None:
            by.append(("insert", len(rows)))

    for one in life(kind):
        if one.name.startswith((LOAD, "INSERT into")):
            one.act(Noting())  # type: ignore[arg-type]
    assert by == [("load", 20), ("load", 10), ("insert", 5), ("insert", 6)]
