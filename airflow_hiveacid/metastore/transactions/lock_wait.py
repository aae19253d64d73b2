"""Waits for a lock with a time limit, and withdraws the request after a time-out.

`Waiting` detects commits during the wait that require a new transaction: a transaction that changes
rows must see all earlier commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import LockState
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.words import first_few
from airflow_hiveacid.metastore.locks import (
    LockInfo,
    LockRequest,
    LockResponse,
    TableAccess,
    blockers_of,
    real_table,
)
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock

# Hive's client also starts with a pause of 50 ms and doubles it, but up to 15 s or more. A pause
# should not be longer than a short job.
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_MOST_HOLDERS: Final = 5

_log = logging.getLogger(__name__)


def acquire(  # noqa: PLR0913 - two bounds and three callbacks
    client: MetastorePort,
    request: LockRequest,
    *,
    timeout_s: float,
    clock: Clock,
    on_enqueued: Callable[[], bool] = lambda: False,
    on_asking: Callable[[], None] = lambda: None,
    on_waiting: Callable[[], None] = lambda: None,
) -> None:
    """Request locks and wait until all are granted.

    `on_enqueued` is called once, after the request and before any wait, and returns True if it has
    ended transactions that may have blocked the request. `on_asking` is called before each request
    to the server, and `on_waiting` before each pause. An error of these functions ends the wait,
    and the caller must end the transaction. Raises LockNotAcquiredError if the locks were not
    granted within `timeout_s`; the request is withdrawn. Raises TransactionAbortedError if the
    transaction was aborted during the wait.
    """
    began_s = clock.monotonic()
    on_asking()
    answer = client.lock(request)
    has_made_room = on_enqueued()
    if has_made_room and answer.state is LockState.WAITING:
        on_asking()
        answer = client.check_lock(answer.lock_id, request.txn_id)
    pause_s = _FIRST_PAUSE_S
    while answer.state is LockState.WAITING:
        left_s = began_s + timeout_s - clock.monotonic()
        if left_s <= 0:
            break
        on_waiting()
        clock.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        on_asking()
        answer = client.check_lock(answer.lock_id, request.txn_id)
    waited_s = clock.monotonic() - began_s
    if answer.state is LockState.ABORT:
        raise errors.TransactionAbortedError(
            txn_id=request.txn_id, reason=f"aborted while waiting for lock {answer.lock_id}"
        )
    if answer.state is not LockState.ACQUIRED:
        raise _give_up(client, request, answer, waited_s)
    _log.info("locked txn_id=%s lock_id=%s waited_s=%.2f", request.txn_id, answer.lock_id, waited_s)


def acquire_without_queueing(
    client: MetastorePort, request: LockRequest, *, timeout_s: float, clock: Clock
) -> None:
    """Repeat a lock request until it is granted immediately; no request stays in the queue.

    Other requests never wait for it. The first request is made even if `timeout_s` is 0.
    """
    began_s, pause_s = clock.monotonic(), _FIRST_PAUSE_S
    while True:
        answer = client.lock(request)
        waited_s = clock.monotonic() - began_s
        if answer.state is LockState.ACQUIRED:
            _log.info("locked txn_id=%s waited_s=%.2f", request.txn_id, waited_s)
            return
        if waited_s >= timeout_s:
            raise _give_up(client, request, answer, waited_s)
        client.unlock(answer.lock_id)
        clock.sleep(min(pause_s, timeout_s - waited_s))
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _give_up(
    client: MetastorePort, request: LockRequest, answer: LockResponse, waited_s: float
) -> errors.LockNotAcquiredError:
    holders = withdraw(client, request, answer)
    return errors.LockNotAcquiredError(
        tables=_tables(request), lock_id=answer.lock_id, waited_s=waited_s, holders=holders
    )


def _tables(request: LockRequest) -> tuple[str, ...]:
    return tuple(sorted({str(real_table(component.table)) for component in request.components}))


def withdraw(client: MetastorePort, request: LockRequest, answer: LockResponse) -> str:
    """Withdraw a request, whatever fails, and return what it waits for, if that is known."""
    text, locks = answer.message or "", tuple[LockInfo, ...]()
    try:
        # List all locks, because a lock on a database also blocks requests for its tables. Only
        # the request's own lock names the one that the server chose.
        locks = () if text else client.show_locks()
    except errors.HiveAcidError as error:
        text = f"unknown ({error})"
    finally:
        _unlock(client, answer.lock_id)
    blockers = blockers_of(request, answer.lock_id, locks, client.generation)
    return text or first_few([str(lock) for lock in blockers], most=_MOST_HOLDERS)


def _unlock(client: MetastorePort, lock_id: LockId) -> None:
    try:
        client.unlock(lock_id)
    except errors.HiveAcidError as error:
        # Afterwards, the caller aborts the transaction. The abort also withdraws the request.
        _log.warning("cannot withdraw lock_id=%s: %s", lock_id, error)


class WaitedInVainError(Exception):
    """A holder of the lock has committed, so the waiting transaction must be reopened."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Looks for new commits during one wait for locks. Mutable: records the holders of the locks.

    On 3.1, transactions that change rows of the same partition wait in a queue, and each must see
    the writes of all earlier ones. So after each commit, all waiting transactions are reopened,
    which is faster than to reopen each one after it gets its lock. `before` are the write IDs right
    before this transaction was opened; if it is empty, no commit reopens the transaction.
    """

    client: MetastorePort
    writes: Sequence[TableAccess]
    txn_id: TxnId
    before: Mapping[TableRef, ValidWriteIdList]
    holders: frozenset[TxnId] = frozenset()
    has_waited: bool = False

    def look(self) -> None:
        """Raise WaitedInVainError if a holder has committed; called before each pause."""
        self.has_waited = True
        if not self.before:
            return
        if not self.holders:
            self.holders = frozenset(self._holders())
            return
        txns = self.client.valid_txns()
        left = self.holders.intersection(txns.open)
        if left == self.holders or self.txn_id not in txns.open:
            # Either no holder has ended, or this transaction was aborted. An aborted transaction
            # must not be reopened. The next check of the lock raises an error.
            return
        self.holders = left
        if is_overtaken(self.before, self.client.valid_write_ids(self.before, txns)):
            raise WaitedInVainError

    def _holders(self) -> Iterable[TxnId]:
        """Yield the transactions that hold locks on the tables or partitions to write."""
        for access in self.writes:
            names = {str(name).lower() for name in access.partitions or ()}
            for lock in self.client.show_locks(access.ref):
                is_here = not names or lock.partition is None or lock.partition.lower() in names
                if is_here and lock.state is LockState.ACQUIRED and lock.txn_id is not None:
                    yield lock.txn_id


def is_overtaken(
    before: Mapping[TableRef, ValidWriteIdList], now: Mapping[TableRef, ValidWriteIdList]
) -> bool:
    """Return True if the newer lists contain a commit that the older lists lack."""
    return any(now[ref].shows_more_than(old) for ref, old in before.items())
