"""Transactions: opening, locks, heartbeats, commit, and fencing of other tries.

This module has the terms of a job's transactions, one value for a whole job, and the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from airflow_hiveacid.format.ids import AttemptId, TxnId
from airflow_hiveacid.jobs.job import JobSpec


class Clock:
    """The clock of this machine, in seconds; tests replace it."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; the value never decreases."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block for the given number of seconds."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; return True if the event is set."""
        return event.wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """The identity of a job, its time limits, its clock, and the functions that it calls.

    `job_key` identifies the task across tries: of several copies, only the newest continues;
    None disables the search for them. `attempt` is the run of the task. `first_txn_id` is this
    copy's rank if an earlier job of the same key has set it, as an earlier batch of a stream.
    `part` distinguishes a job's parallel transactions. `lock_timeout_s` limits the sum of all
    waits for a transaction's locks; a job's default is in `jobs`. `heartbeat_s` are
    the seconds between heartbeats; None means half of the server's time-out. `on_step` is called
    after each step of a transaction with its name (`transaction.STEPS`); an error in it aborts the
    transaction. `on_lost` is called in another thread if a heartbeat finds that the server has
    aborted the transaction; it can stop the job's work.
    """

    job_key: str | None
    attempt: AttemptId = field(default_factory=AttemptId.new)
    first_txn_id: TxnId | None = None
    part: str = ""
    lock_timeout_s: float
    heartbeat_s: float | None = None
    clock: Clock = field(default_factory=Clock)
    on_step: Callable[[str], None] = lambda _: None
    on_lost: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, spec: JobSpec, on_step: Callable[[str], None] = lambda _: None) -> Self:
        """Return the terms of a job's spec."""
        return cls(
            job_key=spec.job_key,
            attempt=AttemptId.parse(spec.attempt),
            lock_timeout_s=spec.lock_timeout_s,
            heartbeat_s=spec.heartbeat_s,
            on_step=on_step,
        )
