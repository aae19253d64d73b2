"""The jobs of the campaign's drivers, and their results."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from tests.proofs.campaign.oracle import Commit
from tests.proofs.campaign.plans import PARTITIONS, Action, Plan, Table, draw
from tests.proofs.campaign.record import Record

_ORPHAN_AGE_S: Final = 60.0
_ALL_TABLES: Final = 0.4
"""The share of cleanings, and of automatic and queued compactions, that take all tables."""

_CANCELS: Final = 0.5
"""The share of cleanings before which the running compactions of a table are cancelled."""

_UPKEEP_PAUSE_S: Final = (0.2, 2.0)
_MOST_TRIES: Final = 60


@dataclass(kw_only=True)
class Task:
    """One job in progress. Mutable: it counts its tries, as Airflow does."""

    key: str
    job: Job
    number: int | None = None
    tries: int = 0

    def next_attempt(self) -> str:
        """Return the name of the next try."""
        self.tries += 1
        return str(AttemptId.new(self.tries))


class Work(Protocol):
    """The source of a driver's jobs."""

    def next(self) -> Task | None:
        """Return the next job; None if there is none now."""

    def done(self, task: Task, result: JobResult) -> None:
        """Record the end of a job."""

    def gives_up(self, task: Task) -> bool:
        """Return True if a job that failed again is not retried."""


class Changes:
    """The writers' common stream of changes. Mutable: it knows the confirmed ones."""

    def __init__(self, seed: int, db: str, record: Record) -> None:
        self.plans: dict[int, Plan] = {}
        self.commits: dict[int, Commit] = {}
        self.idle: set[int] = set()
        """Confirmed changes without a write ID: the partition to rebalance had no rows."""
        self.is_open = True
        self._seed = seed
        self._db = db
        self._record = record
        self._confirmed: list[Plan] = []

    @property
    def unfinished(self) -> list[int]:
        """Changes that are not confirmed yet."""
        return sorted(set(self.plans) - set(self.commits) - self.idle)

    def next(self) -> Task | None:
        if not self.is_open:
            return None
        number = len(self.plans) + 1
        random = Random(f"{self._seed}/plan/{number}")
        plan = draw(random, number=number, confirmed=self._confirmed)
        self.plans[number] = plan
        self._record.counts[f"planned {plan.action.value}"] += 1
        return Task(key=f"campaign/change/{number}", job=plan.job(self._db), number=number)

    def done(self, task: Task, result: JobResult) -> None:
        """Record a confirmed change; a second confirmation must have the same write ID."""
        number = task.number or 0
        plan = self.plans[number]
        if plan.action is Action.REBALANCE and result.status is JobStatus.NOTHING_TO_DO:
            self.idle.add(number)
            return
        write_id = result.write_ids[f"{self._db}.{plan.table.value}"]
        earlier = self.commits.get(number)
        if earlier is None:
            self.commits[number] = Commit(number=number, write_id=write_id, told_at=time.time())
            self._confirmed.append(plan)
        elif earlier.write_id != write_id:
            self._record.trouble(
                "doubled",
                f"change {number} was committed as write ID {earlier.write_id} and {write_id}",
            )

    def gives_up(self, task: Task) -> bool:
        """Return True after too many tries; see `Work`."""
        if task.tries < _MOST_TRIES:
            return False
        self._record.trouble("given up", f"{task.key} after {task.tries} tries")
        return True


class Upkeep:
    """One driver's compactions or cleanings, with pauses. Mutable: it counts.

    `request` requests a compaction of a table or partition from the metastore's queue, or is None
    if our workers cannot serve the queue (3.1). `cancel` cancels the compactions of a table, or is
    None on 3.1. The cleaner calls it, since it works while the compactor does.
    """

    def __init__(
        self,
        seed: int,
        db: str,
        record: Record,
        *,
        cleans: bool,
        request: Callable[[str, str | None], None] | None = None,
        cancel: Callable[[str], None] | None = None,
    ) -> None:
        self.is_open = True
        self._request = request
        self._cancel = cancel
        self._name = "clean" if cleans else "compact"
        self._db = db
        self._cleans = cleans
        self._record = record
        self._random = Random(f"{seed}/{self._name}")
        self._count = 0
        self._next_at = 0.0

    def next(self) -> Task | None:
        if not self.is_open or self._record.now_s < self._next_at:
            return None
        self._count += 1
        return Task(key=f"campaign/{self._name}/{self._count}", job=self._job())

    def done(self, task: Task, result: JobResult) -> None:
        """Set the time of the next job; see `Work`."""
        del task, result
        self._next_at = self._record.now_s + self._random.uniform(*_UPKEEP_PAUSE_S)

    def gives_up(self, task: Task) -> bool:
        """Give up always, since the next round does the rest; see `Work`."""
        del task
        self._next_at = self._record.now_s + self._random.uniform(*_UPKEEP_PAUSE_S)
        return True

    def _job(self) -> Job:
        table = self._random.choice(list(Table))
        target, every = f"{self._db}.{table.value}", (f"{self._db}.*",)
        takes_all = self._random.random() < _ALL_TABLES
        if self._cleans:
            if self._cancel is not None and self._random.random() < _CANCELS:
                self._cancel(target)
            if takes_all:
                return CleanSpec(tables=every, orphan_age_s=_ORPHAN_AGE_S)
            return CleanSpec.of_table(target, orphan_age_s=_ORPHAN_AGE_S)
        choices = [
            choice
            for choice in CompactionChoice
            if self._request is not None or choice is not CompactionChoice.QUEUED
        ]
        choice = self._random.choice(choices)
        number = self._random.randrange(2 * PARTITIONS)
        partition = f"p={number % PARTITIONS}" if table is Table.PARTED else None
        if choice is CompactionChoice.QUEUED and self._request is not None:
            self._request(target, partition)
        if takes_all and choice in (CompactionChoice.AUTO, CompactionChoice.QUEUED):
            return CompactSpec(tables=every, choice=choice, delta_count=4)
        return CompactSpec.of_table(
            target,
            choice=choice,
            partition=partition if number < PARTITIONS else None,
            delta_count=4,
        )
