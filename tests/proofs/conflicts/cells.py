"""Two real jobs that meet at a barrier on a real metastore, and their results.

*At work*: the second job begins when the first is about to end. It goes on until it is about to
end itself or waits for a lock; then the first ends. *Late*: the second job has its transaction and
no locks, while the first runs from its beginning to its end.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format.conflicts import (
    ConflictOutcome,
    ConflictPolicy,
    LockState,
    Meeting,
    MetastoreGeneration,
    WriteKind,
    outcome,
)
from airflow_hiveacid.format.errors import CompactionNotDoneError, HiveAcidError, WriteConflictError
from airflow_hiveacid.format.rivals import foreign_write_of
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import InsertMode, InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.metastore.transactions.fencing import job_digest
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location
from tests.support.spark_lab import Lab

_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.25
_WHILE_S: Final = 3.0
_NAMES: Final = ("id", "v")
_SEEDS: Final = ((1, 1), (2, 2))
_COMPACTIONS: Final = (WriteKind.MINOR, WriteKind.MAJOR)
Rows = tuple[tuple[int, int], ...]


class Order(enum.Enum):
    """The order in which two jobs meet; see the module."""

    AT_WORK = "at work"
    LATE = "late"


_RESTARTS: Final = (
    "The other job may commit before this job takes its snapshot. Then this job restarts, as in"
    " Hive, and sees the other job's rows"
)
_THROUGH: Final = (
    "The second compaction finds that the first one has finished, and compacts the first one's"
    " result"
)
_GIVES_WAY: Final = (
    "The overwrite does not wait for a running compaction. The compaction ends later: under `hive`"
    " it has nothing to do, and under `strict` it fails"
)
_V3, _V4 = MetastoreGeneration
_MINOR_MAJOR: Final = Meeting(earlier=WriteKind.MINOR, later=WriteKind.MAJOR)
_CHANGES: Final = Meeting(earlier=WriteKind.CHANGE, later=WriteKind.CHANGE)
_HIVE, _STRICT = ConflictPolicy
Cell = tuple[MetastoreGeneration, ConflictPolicy, Order, Meeting]
OTHERWISE: Final[Mapping[Cell, tuple[ConflictOutcome, str]]] = {
    (_V4, _HIVE, Order.LATE, _CHANGES): (ConflictOutcome.BOTH, _RESTARTS),
    (_V3, _HIVE, Order.LATE, _MINOR_MAJOR): (ConflictOutcome.COMPACTS, _THROUGH),
    (_V4, _HIVE, Order.LATE, _MINOR_MAJOR): (ConflictOutcome.COMPACTS, _THROUGH),
    **{
        (
            generation,
            policy,
            Order.AT_WORK,
            Meeting(earlier=compaction, later=WriteKind.OVERWRITE),
        ): (
            outcome(policy, generation, Meeting(earlier=WriteKind.OVERWRITE, later=compaction)),
            _GIVES_WAY,
        )
        for generation in MetastoreGeneration
        for policy in ConflictPolicy
        for compaction in _COMPACTIONS
    },
}
"""Cells whose result differs from their table, with the result and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of two jobs; `outcome` is None if it is not a known one.

    `trouble` describes any other error: a loser must leave nothing behind and must name the winner.
    """

    outcome: ConflictOutcome | None
    told: str
    trouble: str = ""


def expected(cell: Cell) -> tuple[ConflictOutcome, str]:
    """Return the expected result of two jobs, and a note if it differs from the table."""
    generation, policy, _, meeting = cell
    return OTHERWISE.get(cell) or (outcome(policy, generation, meeting), "")


def is_right(cell: Cell, seen: Seen) -> bool:
    """Return True if two jobs ended as expected."""
    return seen.outcome is expected(cell)[0] and not seen.trouble


def meet(lab: Lab, name: str, policy: ConflictPolicy, order: Order, meeting: Meeting) -> Seen:
    """Run two jobs on a new table with this name."""
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
            if pair.first_gives_way:
                pair.go[1].set()
                other = second.result()
                pair.go[0].set()
                return pair.judge(other, first.result(), numbers=(1, 0))
            pair.go[0].set()
            one = first.result()
        else:
            second = pool.submit(pair.second, hold="allocated")
            pair.await_any(second.done, pair.held[1].is_set)
            one = pair.first(hold=None)
        pair.go[1].set()
        return pair.judge(one, second.result())


def _last_step(doing: WriteKind) -> str:
    """Return the last step before a job's end; a compaction ends once its result is visible."""
    return "staged" if doing in _COMPACTIONS else "published"


def _two_events() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The two jobs, and the barriers between them."""

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
        """Return True if the second job waits for a lock.

        Compactors repeatedly request their lock and release it at once. A job that requests it
        has its snapshot, and makes no progress for a while.
        """
        if {self.meeting.earlier, self.meeting.later} <= set(_COMPACTIONS):
            return bool(self.looked_s) and time.monotonic() > self.looked_s[0] + _WHILE_S
        digest = job_digest(self._key(1))
        locks = self.lab.client.show_locks(self.ref)
        return any(lock.state is LockState.WAITING and digest in lock.agent_info for lock in locks)

    @property
    def first_gives_way(self) -> bool:
        """True if the second job gets its locks while the first is at work, and ends first."""
        return self.meeting.earlier in _COMPACTIONS and self.meeting.later is WriteKind.OVERWRITE

    def judge(
        self,
        one: JobResult | HiveAcidError,
        other: JobResult | HiveAcidError,
        *,
        numbers: tuple[int, int] = (0, 1),
    ) -> Seen:
        """Return the result of the job that ended first and of the other.

        `numbers` are those of the two jobs, in this order.
        """
        doings = (self.meeting.earlier, self.meeting.later)
        earlier, later = (doings[number] for number in numbers)
        rows = tuple((int(str(i)), int(str(v))) for i, v in self.lab.rows(self.name))
        told = f"{_text(one)}; {_text(other)}; {rows}"
        if not isinstance(one, JobResult) or one.status is not JobStatus.COMMITTED:
            return Seen(outcome=None, told=told, trouble="the first one has not gone well")
        after_one = _after(_SEEDS, earlier, numbers[0])
        if isinstance(other, WriteConflictError):
            trouble = self._left_of(other) or self._unnamed(other, numbers[0])
            if rows != after_one:
                trouble = "the rows are not those of the first one"
            return Seen(outcome=ConflictOutcome.FAILS, told=told, trouble=trouble)
        if isinstance(other, CompactionNotDoneError) or (
            later in _COMPACTIONS and isinstance(other, JobResult)
        ):
            return Seen(outcome=self._compacted(other, rows, after_one), told=told)
        if isinstance(other, HiveAcidError):
            return Seen(outcome=None, told=told, trouble="it failed for another reason")
        return Seen(outcome=self._both(rows, after_one), told=told)

    def _compacted(
        self, other: JobResult | CompactionNotDoneError, rows: Rows, after_one: Rows
    ) -> ConflictOutcome | None:
        if rows != after_one:
            return None
        is_done = isinstance(other, JobResult) and other.status is JobStatus.COMMITTED
        return ConflictOutcome.COMPACTS if is_done else ConflictOutcome.NO_EFFECT

    def _both(self, rows: Rows, after_one: Rows) -> ConflictOutcome | None:
        later = self.meeting.later
        in_turn = {
            _after(after_one, later, 1),
            _after(_after(_SEEDS, later, 1), self.meeting.earlier, 0),
        }
        if later is WriteKind.OVERWRITE:
            return ConflictOutcome.REPLACES if rows == _after((), later, 1) else None
        if rows not in in_turn:
            return None
        return (
            ConflictOutcome.NO_EFFECT
            if self.meeting.earlier in _COMPACTIONS
            else ConflictOutcome.BOTH
        )

    def _left_of(self, error: WriteConflictError) -> str:
        """Return what is left of the loser."""
        fs, path = open_location(self.lab.info(self.name).location)
        names = list_directories(fs, path)
        write_ids = self.lab.client.valid_write_ids([self.ref], self.lab.client.valid_txns())
        valid = write_ids[self.ref]
        left = [
            name
            for name in names
            if name.startswith("_tmp_hiveacid_")
            or (
                (foreign_write := foreign_write_of(name)) is not None
                and not valid.is_visible(foreign_write.write_id)
            )
        ]
        return f"of transaction {error.txn_id} there is left {left}" if left else ""

    def _unnamed(self, error: WriteConflictError, winner: int) -> str:
        is_told = self.meeting.earlier in _COMPACTIONS or error.winner.job_key == self._key(winner)
        # A compaction changes no row and has no ledger entry to name its winner from.
        is_told = is_told or self.meeting.later in _COMPACTIONS
        return "" if is_told else f"it does not say who was first, but: {error.winner}"

    def _run(self, number: int, doing: WriteKind, hold: str | None) -> JobResult | HiveAcidError:
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


def _job(table: str, doing: WriteKind, number: int) -> Job:
    source = SourceSpec(values=((10 + number, number),), columns=_NAMES)
    match doing:
        case WriteKind.OVERWRITE:
            return InsertSpec(
                target=table, source=source, columns=_NAMES, mode=InsertMode.OVERWRITE
            )
        case WriteKind.INSERT:
            return InsertSpec(target=table, source=source, columns=_NAMES)
        case WriteKind.CHANGE:
            return UpdateSpec(target=table, set={"v": f"v * 10 + {number}"})
        case WriteKind.MINOR:
            return CompactSpec.of_table(table, choice=CompactionChoice.MINOR)
        case WriteKind.MAJOR:
            return CompactSpec.of_table(table, choice=CompactionChoice.MAJOR)


def _after(rows: Rows, doing: WriteKind, number: int) -> Rows:
    match doing:
        case WriteKind.OVERWRITE:
            return ((10 + number, number),)
        case WriteKind.INSERT:
            return tuple(sorted((*rows, (10 + number, number))))
        case WriteKind.CHANGE:
            return tuple((i, v * 10 + number) for i, v in rows)
        case _:
            return rows


def _text(end: JobResult | HiveAcidError) -> str:
    if isinstance(end, JobResult):
        return end.status.value
    return f"{type(end).__name__}: {end}"
