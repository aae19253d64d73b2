"""All 25 pairs of jobs in both policies, on both generations: what is promised is what happens.

Two jobs meet in three ways. *At work*: both have a transaction, and are at work side by side as far
as locks let them; then the first one ends. *Late*: the second one has its transaction and its write
ID, and no lock, while the first one runs from its beginning to its end. *Opened*: it has its
transaction alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from airflow_hiveacid.format.conflicts import (
    ConflictOutcome,
    ConflictPolicy,
    Meeting,
    MetastoreGeneration,
    WriteKind,
    outcome,
)
from airflow_hiveacid.format.errors import CompactionNotDoneError, WriteConflictError
from airflow_hiveacid.jobs.job import JobResult
from tests.interleavings.play import Play
from tests.interleavings.rows import Change, Rows, apply
from tests.interleavings.scene import Scene
from tests.interleavings.world import Actor, Border, World

FIRST, SECOND = 0, 1
CASTS: Final = {
    WriteKind.OVERWRITE: ("overwrite",),
    WriteKind.INSERT: ("insert",),
    WriteKind.CHANGE: ("update", "delete", "merge"),
    WriteKind.MINOR: ("minor",),
    WriteKind.MAJOR: ("major",),
}
COMPACTIONS: Final = (WriteKind.MINOR, WriteKind.MAJOR)
MINOR_THEN_MAJOR: Final = Meeting(earlier=WriteKind.MINOR, later=WriteKind.MAJOR)
BEFORE_OVERWRITE: Final = frozenset(
    Meeting(earlier=compaction, later=WriteKind.OVERWRITE) for compaction in COMPACTIONS
)
TWO_CHANGES: Final = Meeting(earlier=WriteKind.CHANGE, later=WriteKind.CHANGE)


def last_step(actor: Actor) -> str:
    """The last step before its end; a compaction ends when its result is seen."""
    return "staged" if actor.name in ("minor", "major") else "published"


@dataclass
class AtWork:
    """The second begins when the first is about to end, and ends after it. Mutable."""

    is_met: bool = False
    is_let_go: bool = False

    def choose(self, world: World, border: Border) -> str:
        first, second = world.actors
        if border.actor is first and first.step == last_step(first) and not self.is_met:
            self.is_met = True
            return f"s{SECOND}"
        if border.actor is second and second.step == last_step(second) and not self.is_let_go:
            self.is_let_go = True
            return f"s{FIRST}"
        return ""


@dataclass
class Late:
    """The second one begins, and waits before its first call of `before`. Mutable."""

    before: tuple[str, ...] = ("lock",)
    is_let_go: bool = False

    def choose(self, world: World, border: Border) -> str:
        is_there = border.actor is world.actors[SECOND] and border.what in self.before
        if is_there and not self.is_let_go:
            self.is_let_go = True
            return f"s{FIRST}"
        return ""


ORDERS: Final = {
    "at work": (AtWork, FIRST),
    "late": (Late, SECOND),
    "opened": (partial(Late, ("allocate_write_id", "lock")), SECOND),
}


def meetings() -> Iterator[tuple[Meeting, str, str]]:
    """Every pair, with every kind of change."""
    for earlier, later in itertools.product(WriteKind, WriteKind):
        meeting = Meeting(earlier=earlier, later=later)
        for one, other in itertools.product(CASTS[earlier], CASTS[later]):
            yield meeting, one, other


def expected(scene: Scene, meeting: Meeting, order: str) -> ConflictOutcome:
    """What the table says, but for what the product says beside it."""
    promised = outcome(scene.policy, scene.generation, meeting)
    if meeting == MINOR_THEN_MAJOR:
        # The second one finds the first one through.
        return promised if order == "at work" else ConflictOutcome.COMPACTS
    if order != "at work" and scene.policy is ConflictPolicy.HIVE and meeting == TWO_CHANGES:
        return ConflictOutcome.BOTH  # an overtaken job without a snapshot restarts
    return promised


def has_succeeded(actor: Actor) -> bool:
    """Whether it is through, and did something."""
    if isinstance(actor.outcome, JobResult):
        return True
    return isinstance(actor.outcome, list) and all(one.done for one in actor.outcome)


def in_turn(before: Rows, *changes: Change) -> Rows:
    """The rows after one change upon the other; a compaction changes none."""
    for change in changes:
        if change.kind not in ("minor", "major"):
            before = apply(change, before)
    return before


def change_of(play: Play, number: int) -> Change:
    """What an actor of the cast was to do."""
    if number in play.jobs:
        return play.jobs[number].change
    return Change(play.world.actors[number].name, "", ())


def check(play: Play, wanted: ConflictOutcome, seen: Rows, *, gives_way: bool = False) -> None:
    """See that this is what has become of the two.

    `seen` are the rows when both were through; with `gives_way`, the first one let the second one
    end before it.
    """
    numbers = (SECOND, FIRST) if gives_way else (FIRST, SECOND)
    first, second = (play.world.actors[number] for number in numbers)
    one, other = (change_of(play, number) for number in numbers)
    assert has_succeeded(first), (first.outcome, first.error)
    match wanted:
        case ConflictOutcome.FAILS:
            assert isinstance(second.error, WriteConflictError), (second.outcome, second.error)
            assert seen == in_turn(play.before, one)
        case ConflictOutcome.REPLACES:
            assert has_succeeded(second), (second.outcome, second.error)
            assert seen == in_turn(frozenset(), other)
        case ConflictOutcome.COMPACTS:
            assert has_succeeded(second), (second.outcome, second.error)
            assert seen == in_turn(play.before, one)
        case ConflictOutcome.NO_EFFECT if second.name in ("minor", "major"):
            # Without a word there was nothing to do, else it was asked for and says so.
            assert second.error is None or isinstance(second.error, CompactionNotDoneError)
            assert not has_succeeded(second)
            assert seen == in_turn(play.before, one)
        case ConflictOutcome.NO_EFFECT:
            assert has_succeeded(second), (second.outcome, second.error)
            assert seen == in_turn(play.before, other)
        case ConflictOutcome.BOTH:
            assert has_succeeded(second), (second.outcome, second.error)
            assert seen in {in_turn(play.before, one, other), in_turn(play.before, other, one)}


class Both(Play):
    """Two who meet; what they have left is looked at before anything is tried again. Mutable."""

    seen: Rows = frozenset()

    def _epilogue(self) -> None:
        self.seen = frozenset(self._rows("hive", self.everywhere(), *self.snapshot_now()) or ())
        super()._epilogue()


@pytest.mark.promise("M1")
@pytest.mark.promise("M2")
@pytest.mark.parametrize("policy", ConflictPolicy)
@pytest.mark.parametrize("generation", MetastoreGeneration)
def test_every_pair_of_jobs_ends_as_the_conflict_table_says(
    policy: ConflictPolicy, generation: MetastoreGeneration
) -> None:
    flags = f"v{generation.value}{' is_strict' if policy is ConflictPolicy.STRICT else ''}"
    wrong = []
    for order, (meeting, one, other) in itertools.product(ORDERS, meetings()):
        scene = Scene.parse(f"{flags} : {one} {other}")
        schedule, begins = ORDERS[order]
        play = Both(scene, schedule())
        play.run(begins)
        # A compaction has no lock while it works: an overwrite that meets it there goes first.
        gives_way = order == "at work" and meeting in BEFORE_OVERWRITE
        told = Meeting(earlier=meeting.later, later=meeting.earlier) if gives_way else meeting
        wanted = expected(scene, told, order)
        try:
            assert play.world.violation is None, play.world.violation
            check(play, wanted, play.seen, gives_way=gives_way)
        except AssertionError as error:
            wrong.append(f"{scene}, {order}: not {wanted.name}: {error}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong)


@pytest.mark.promise("M3")
@pytest.mark.parametrize("policy", ["", " is_strict"])
@pytest.mark.parametrize("generation", MetastoreGeneration)
def test_jobs_in_different_partitions_never_conflict(
    policy: str, generation: MetastoreGeneration
) -> None:
    writers = ("insert", "update", "delete", "merge", "overwrite")
    for order, one, other in itertools.product(ORDERS, writers, writers):
        scene = Scene.parse(f"v{generation.value} is_partitioned{policy} : {one}@a {other}@b")
        schedule, begins = ORDERS[order]
        play = Both(scene, schedule())
        play.run(begins)
        assert play.world.violation is None, play.world.violation
        for number in (FIRST, SECOND):
            actor = play.world.actors[number]
            assert has_succeeded(actor), f"{scene}, {order}: {actor} {actor.error!r}"
        changes = (change_of(play, FIRST), change_of(play, SECOND))
        assert play.seen == in_turn(play.before, *changes), f"{scene}, {order}"


def test_a_conflict_error_names_the_winning_transaction() -> None:
    play = Both(Scene.parse("v4 is_strict : insert insert"), AtWork())
    play.run(FIRST)
    error = play.world.actors[SECOND].error
    assert isinstance(error, WriteConflictError)
    assert error.winner.job_key == play.jobs[FIRST].key
    assert error.winner.txn_id is not None
    assert play.jobs[FIRST].key in "".join(error.__notes__)
