"""Two real jobs that meet at a barrier on a real metastore, and what has become of them.

*At work*: the second one begins when the first is about to end, and goes on until it is about to
end itself, or waits for a lock; then the first ends. *Late*: the second one has
its transaction and no locks, while the first runs from its beginning to its end.
"""

from __future__ import annotations

import enum
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import LockState, MetastoreGeneration
from airflow_hiveacid.format.errors import HiveAcidError, WriteConflictError
from airflow_hiveacid.format.policies import ConflictPolicy, Doing, Meeting, Outcome, outcome
from airflow_hiveacid.format.rivals import deed_of
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import (
    CompactionChoice,
    CompactSpec,
    InsertMode,
    InsertSpec,
    Job,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.metastore.fencing import job_digest
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_lab import Lab

_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.25
_WHILE_S: Final = 3.0
_NAMES: Final = ("id", "v")
_SEEDS: Final = ((1, 1), (2, 2))
_COMPACTIONS: Final = (Doing.MINOR, Doing.MAJOR)
Rows = tuple[tuple[int, int], ...]


class Order(enum.Enum):
    """How the two meet; see the module."""

    AT_WORK = "at work"
    LATE = "late"


_QUEUE: Final = (
    "4.x's compaction queue takes no entry for what was compacted and not yet cleaned, if nobody"
    " has written since: the second compaction has nothing to do"
)
_ANEW: Final = "who is overtaken before its snapshot begins anew, as in Hive, and sees the first"
_THROUGH: Final = "the second compaction finds the first one through, and compacts what that left"
_V3, _V4 = MetastoreGeneration
_MINOR_MAJOR: Final = Meeting(earlier=Doing.MINOR, later=Doing.MAJOR)
_CHANGES: Final = Meeting(earlier=Doing.CHANGE, later=Doing.CHANGE)
_HIVE, _STRICT = ConflictPolicy
Cell = tuple[MetastoreGeneration, ConflictPolicy, Order, Meeting]
OTHERWISE: Final[Mapping[Cell, tuple[Outcome, str]]] = {
    (_V4, _STRICT, Order.AT_WORK, _MINOR_MAJOR): (Outcome.NO_EFFECT, _QUEUE),
    (_V4, _STRICT, Order.LATE, _MINOR_MAJOR): (Outcome.NO_EFFECT, _QUEUE),
    (_V4, _HIVE, Order.LATE, _CHANGES): (Outcome.BOTH, _ANEW),
    (_V3, _HIVE, Order.LATE, _MINOR_MAJOR): (Outcome.COMPACTS, _THROUGH),
}
"""Cells that end otherwise than their table says, how, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What has become of two jobs; `outcome` is None if it is none of those that are known.

    `trouble` says what was wrong beside it: nothing may be left of a loser, and it has to say who
    was first.
    """

    outcome: Outcome | None
    told: str
    trouble: str = ""


def expected(cell: Cell) -> tuple[Outcome, str]:
    """What has to become of two jobs, and a note if that is not what the table says."""
    generation, policy, _, meeting = cell
    return OTHERWISE.get(cell) or (outcome(policy, generation, meeting), "")


def is_right(cell: Cell, seen: Seen) -> bool:
    """Whether it is what had to become of them."""
    return seen.outcome is expected(cell)[0] and not seen.trouble


def meet(lab: Lab, name: str, policy: ConflictPolicy, order: Order, meeting: Meeting) -> Seen:
    """Let two jobs meet on a table of this name, which is made for it."""
    lab.table(name, {"id": "bigint", "v": "int"})
    for row in _SEEDS:
        lab.insert(name, [row], _NAMES)
    pair = _Pair(lab=lab, name=name, policy=policy, meeting=meeting)
    with ThreadPoolExecutor(2) as pool:
        if order is Order.AT_WORK:
            first = pool.submit(pair.first, hold=_last_step(meeting.earlier))
            pair.await_any(first.done, pair.held[0].is_set)
            second = pool.submit(pair.second, hold=_last_step(meeting.later))
            pair.await_any(second.done, pair.held[1].is_set, pair.second_waits)
            pair.go[0].set()
            one = first.result()
        else:
            second = pool.submit(pair.second, hold="allocated")
            pair.await_any(second.done, pair.held[1].is_set)
            one = pair.first(hold=None)
        pair.go[1].set()
        return pair.judge(one, second.result())


def _last_step(doing: Doing) -> str:
    """The last step before a job's end; a compaction ends when its result is seen."""
    return "staged" if doing in _COMPACTIONS else "published"


def _two_events() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The two, and the barriers between them."""

    lab: Lab
    name: str
    policy: ConflictPolicy
    meeting: Meeting
    held: tuple[threading.Event, threading.Event] = field(default_factory=_two_events)
    go: tuple[threading.Event, threading.Event] = field(default_factory=_two_events)
    looked_s: list[float] = field(default_factory=list)

    def first(self, *, hold: str | None) -> JobResult | HiveAcidError:
        return self._run(0, self.meeting.earlier, hold)

    def second(self, *, hold: str | None) -> JobResult | HiveAcidError:
        return self._run(1, self.meeting.later, hold)

    def await_any(self, *conditions: Callable[[], bool]) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while not any(condition() for condition in conditions):
            if time.monotonic() > until_s:
                raise TimeoutError(f"{self.name}: the two do not meet")
            time.sleep(_PAUSE_S)

    def second_waits(self) -> bool:
        """Whether the second one waits for a lock.

        The lock of compactors is asked for again and again, and given back at once: who asks for
        that has its snapshot, and comes no further for a while.
        """
        if {self.meeting.earlier, self.meeting.later} <= set(_COMPACTIONS):
            return bool(self.looked_s) and time.monotonic() > self.looked_s[0] + _WHILE_S
        digest = job_digest(self._key(1))
        locks = self.lab.client.show_locks(self.ref)
        return any(lock.state is LockState.WAITING and digest in lock.agent_info for lock in locks)

    def judge(self, one: JobResult | HiveAcidError, other: JobResult | HiveAcidError) -> Seen:
        rows = tuple((int(str(i)), int(str(v))) for i, v in self.lab.rows(self.name))
        told = f"{_text(one)}; {_text(other)}; {rows}"
        if not isinstance(one, JobResult) or one.status is not JobStatus.COMMITTED:
            return Seen(outcome=None, told=told, trouble="the first one has not gone well")
        after_one = _after(_SEEDS, self.meeting.earlier, 0)
        if isinstance(other, WriteConflictError):
            trouble = self._left_of(other) or self._unnamed(other)
            if rows != after_one:
                trouble = "the rows are not those of the first one"
            return Seen(outcome=Outcome.FAILS, told=told, trouble=trouble)
        if isinstance(other, HiveAcidError):
            return Seen(outcome=None, told=told, trouble="it failed for another reason")
        return Seen(outcome=self._both(other, rows, after_one), told=told)

    def _both(self, other: JobResult, rows: Rows, after_one: Rows) -> Outcome | None:
        later = self.meeting.later
        if later in _COMPACTIONS:
            if rows != after_one:
                return None
            is_done = other.status is JobStatus.COMMITTED
            return Outcome.COMPACTS if is_done else Outcome.NO_EFFECT
        in_turn = {
            _after(after_one, later, 1),
            _after(_after(_SEEDS, later, 1), self.meeting.earlier, 0),
        }
        if later is Doing.OVERWRITE:
            return Outcome.REPLACES if rows == _after((), later, 1) else None
        if rows not in in_turn:
            return None
        return Outcome.NO_EFFECT if self.meeting.earlier in _COMPACTIONS else Outcome.BOTH

    def _left_of(self, error: WriteConflictError) -> str:
        """What of the loser is there still."""
        fs, path = open_location(self.lab.info(self.name).location)
        names = list_directories(fs, path)
        write_ids = self.lab.client.valid_write_ids([self.ref], self.lab.client.valid_txns())
        valid = write_ids[self.ref]
        left = [
            name
            for name in names
            if name.startswith("_tmp_hiveacid_")
            or ((deed := deed_of(name)) is not None and not valid.is_visible(deed.write_id))
        ]
        return f"of transaction {error.txn_id} there is left {left}" if left else ""

    def _unnamed(self, error: WriteConflictError) -> str:
        is_told = self.meeting.earlier in _COMPACTIONS or error.winner.job_key == self._key(0)
        # A compaction changes no row and has no ledger entry to name its winner from.
        is_told = is_told or self.meeting.later in _COMPACTIONS
        return "" if is_told else f"it does not say who was first, but: {error.winner}"

    def _run(self, number: int, doing: Doing, hold: str | None) -> JobResult | HiveAcidError:
        def on_step(step: str) -> None:
            if number and step == "snapshot":
                self.looked_s.append(time.monotonic())
            if step == hold and not self.held[number].is_set():
                self.held[number].set()
                self.go[number].wait(_PATIENCE_S)

        try:
            return self.lab.run(
                _job(f"{self.ref}", doing, number),
                job_key=self._key(number),
                on_step=on_step,
                lock_timeout_s=_PATIENCE_S,
                conflict_policy=self.policy,
            )
        except HiveAcidError as error:
            return error

    def _key(self, number: int) -> str:
        return f"{self.name}/run/{'first' if number == 0 else 'second'}/-1"

    @property
    def ref(self) -> TableRef:
        return TableRef(self.lab.db, self.name)


def _job(table: str, doing: Doing, number: int) -> Job:
    source = SourceSpec(values=((10 + number, number),), columns=_NAMES)
    match doing:
        case Doing.OVERWRITE:
            return InsertSpec(
                target=table, source=source, columns=_NAMES, mode=InsertMode.OVERWRITE
            )
        case Doing.INSERT:
            return InsertSpec(target=table, source=source, columns=_NAMES)
        case Doing.CHANGE:
            return UpdateSpec(target=table, set={"v": f"v * 10 + {number}"})
        case Doing.MINOR:
            return CompactSpec(target=table, choice=CompactionChoice.MINOR)
        case Doing.MAJOR:
            return CompactSpec(target=table, choice=CompactionChoice.MAJOR)


def _after(rows: Rows, doing: Doing, number: int) -> Rows:
    match doing:
        case Doing.OVERWRITE:
            return ((10 + number, number),)
        case Doing.INSERT:
            return tuple(sorted((*rows, (10 + number, number))))
        case Doing.CHANGE:
            return tuple((i, v * 10 + number) for i, v in rows)
        case _:
            return rows


def _text(end: JobResult | HiveAcidError) -> str:
    if isinstance(end, JobResult):
        return end.status.value
    return f"{type(end).__name__}: {end}"
