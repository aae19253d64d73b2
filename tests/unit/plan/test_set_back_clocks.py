"""Moments of a clock that was set back: known, or refused with the contradicting bounds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format.errors import VersionDoubtfulError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import CommitNote, TimeBounds
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.plan.history import Knowledge, as_of_time

T = TableRef("d", "t")


@dataclass
class Past:
    """What really happened, in order, and what the clock showed meanwhile."""

    clock_s: float = 1000.0
    real_s: float = 0.0
    given: int = 0
    committed: list[int] = field(default_factory=list)
    is_open: dict[int, tuple[float, str, float, float]] = field(default_factory=dict)
    notes: list[CommitNote] = field(default_factory=list)
    states: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    shown: list[tuple[float, frozenset[int]]] = field(default_factory=list)

    def ids(self) -> ValidWriteIdList:
        return ValidWriteIdList(
            table=T,
            high_watermark=WriteId(self.given),
            open=tuple(WriteId(w) for w in sorted(self.is_open)),
        )

    def wait(self, seconds: float) -> None:
        """Time goes on, or somebody sets the clock back."""
        self.clock_s += seconds
        self.real_s += max(0.0, seconds)
        self.shown.append((self.clock_s, self.states[-1]))

    def begin(self) -> int:
        """Give out a write ID; whoever has it looks at the table a second later."""
        self.given += 1
        opened_s = self.clock_s
        self.is_open[self.given] = (opened_s, "", 0.0, 0.0)
        self.wait(1.0)
        self.is_open[self.given] = (opened_s, self.ids().text(), self.clock_s, self.real_s)
        return self.given

    def commit(self, write_id: int, *, is_noted: bool = True) -> None:
        opened_s, seen, seen_s, looked_s = self.is_open.pop(write_id)
        ended_s = seen_s + self.real_s - looked_s
        self.committed.append(write_id)
        self.states.append(frozenset(self.committed))
        if is_noted:
            # A job asks for the time once, and goes by its own clock since.
            self.notes.append(
                CommitNote(
                    table_id="1.1",
                    write_id=WriteId(write_id),
                    txn_id=TxnId(write_id),
                    job_key="j",
                    attempt="1",
                    kind="insert",
                    opened_s=opened_s,
                    seen=seen,
                    seen_after_s=seen_s - 0.01,
                    seen_by_s=seen_s + 0.01,
                    committed=TimeBounds(after_s=ended_s - 0.01, by_s=ended_s + 0.01),
                )
            )
        self.wait(1.0)

    def at(self, seconds: float, taken_s: float | None = None) -> set[int]:
        """The writes that are taken for committed at a moment."""
        known = Knowledge.of(self.notes)
        when = datetime.fromtimestamp(seconds, UTC)
        taken_s = max(seconds, self.clock_s) if taken_s is None else taken_s
        then = as_of_time(self.ids(), when, known, taken_s=taken_s)
        return {w for w in self.committed if then.is_visible(WriteId(w))}


def commits_after(*waits: float) -> Past:
    """One commit after each wait."""
    past = Past()
    for seconds in waits:
        past.wait(seconds)
        past.commit(past.begin())
    return past


def set_back() -> Past:
    """One commit at 4001, then the clock is set back, and one at 2002; then it runs on."""
    return commits_after(3000.0, -2001.0, 8000.0)


def test_a_moment_that_a_clock_showed_twice_is_refused_with_the_contradicting_bounds() -> None:
    past = set_back()
    for moment in (2003.0, 3000.0, 4000.0):
        with pytest.raises(VersionDoubtfulError, match="it is unknown which") as caught:
            past.at(moment)
        (first, *_) = caught.value.doubtful
        # after what its own note says, and by what the next one saw
        assert "write ID 1 was committed after 1970-01-01T01:06:40" in first
        assert "and by 1970-01-01T00:33:22" in first


def test_a_later_snapshot_exposes_a_long_job_that_ended_before_the_clock_was_set_back() -> None:
    past = Past()
    first = past.begin()
    past.wait(3000.0)
    past.commit(first)
    past.wait(-2000.0)
    past.commit(past.begin())
    past.wait(8000.0)
    past.commit(past.begin())
    for moment in (2100.0, 3000.0, 3990.0):
        with pytest.raises(VersionDoubtfulError, match="write ID 1 was committed after"):
            past.at(moment)
    assert past.at(1900.0) == set()
    assert past.at(4100.0) == {1, 2}


@pytest.mark.parametrize(
    ("moment", "inside"), [(1500.0, set()), (1999.0, set()), (4100.0, {1, 2}), (11000.0, {1, 2, 3})]
)
def test_moments_that_the_clock_showed_once_are_still_known(
    moment: float, inside: set[int]
) -> None:
    assert set_back().at(moment) == inside


def test_a_foreign_write_after_the_clock_was_set_back_makes_moments_doubtful() -> None:
    """Its write ID was allocated after a note from a clock ahead, so it seemed too late."""
    past = commits_after(3000.0, -2001.0)
    theirs = past.begin()
    past.commit(theirs, is_noted=False)
    past.wait(5000.0)
    past.commit(past.begin())
    for moment in (2500.0, 3500.0):
        with pytest.raises(VersionDoubtfulError):
            past.at(moment)


def test_a_moment_is_refused_while_the_clock_is_behind_the_notes() -> None:
    past = commits_after(3000.0)
    past.wait(-2000.0)
    with pytest.raises(VersionDoubtfulError, match="clock was set back"):
        past.at(1900.0, taken_s=past.clock_s)
    assert past.at(1900.0, taken_s=4001.0) == set()  # it is there again


def test_a_job_noted_after_the_reader_took_its_snapshot_is_not_a_contradiction() -> None:
    past = Past()
    taken_s = past.clock_s
    past.wait(5.0)
    past.commit(past.begin())
    assert past.at(taken_s - 1.0, taken_s=taken_s) == set()


def test_a_concurrent_snapshot_exposes_a_clock_that_was_set_back_during_a_job() -> None:
    """By its own clock, the first job ended long after the second, which really ended later."""
    past = Past(clock_s=1012.0)
    first = past.begin()
    past.wait(-10.0)
    second = past.begin()  # looks at 1004, when the first had not been given out by its own clock
    past.commit(first)
    past.wait(-5.0)
    past.commit(second)
    past.wait(2000.0)
    past.commit(past.begin())
    for moment in (1007.0, 1012.0, 1014.0):
        with pytest.raises(VersionDoubtfulError):
            past.at(moment)
    assert past.at(1001.0) == set()


@pytest.mark.promise("V2")
def test_a_moment_of_a_clock_that_was_set_back_gives_a_real_state_or_is_refused() -> None:
    """No clock is set back during a job here: only a snapshot taken meanwhile could show that."""
    answered = refused = 0
    for seed in range(150):
        dice = random.Random(seed)
        past = Past()
        for _ in range(20):
            what = dice.random()
            if what < 0.3:
                past.begin()
            elif what < 0.8 and past.is_open:
                past.commit(dice.choice(sorted(past.is_open)), is_noted=dice.random() < 0.8)
            elif past.is_open:
                past.wait(dice.choice([3.0, 20.0, 200.0]))
            else:
                past.wait(dice.choice([3.0, 20.0, -10.0, -100.0]))
        past.wait(2000.0)  # nobody is behind any more
        past.commit(past.begin())
        for moment in {shown for shown, _ in past.shown}:
            try:
                found = past.at(moment + 0.5)
            except VersionDoubtfulError:
                refused += 1
                continue
            answered += 1
            assert frozenset(found) in past.states, (seed, moment)
    assert min(answered, refused) > 100
