"""The start of a transaction: open, heartbeat, write IDs, locks, fence, snapshot.

If a change is committed after a writer's transaction was opened, the metastore treats it as a
conflict, even if the writer's snapshot includes it. So that the writer does not fail at commit,
after all its work, its transaction is reopened if another one commits between the opening and the
snapshot, as in Hive's Driver.validateTxnList. Reopening takes milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import (
    DataOperation,
    looks_for_rivals,
    recorded_under,
    write_kind_of,
)
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.metastore import locks
from airflow_hiveacid.metastore.port import MetastorePort, TxnType
from airflow_hiveacid.metastore.server_time import ServerTime, time_of_lock
from airflow_hiveacid.metastore.transactions import JobTerms, fencing, lock_wait
from airflow_hiveacid.metastore.transactions.commit import abort_quietly
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.heartbeat import Heartbeat

# Hive 4's hive.txn.retrysnapshot.max.count.
_MOST_REOPENINGS: Final = 5
# If a heartbeat hangs, there must be time for more heartbeats before the transaction times out.
_BEAT_SHARE: Final = 0.25
_SHORTEST_BEAT_S: Final = 0.25

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The arguments of a transaction; see `transaction.begin` for the fields."""

    terms: JobTerms
    reads: tuple[locks.TableAccess, ...]
    writes: tuple[locks.TableAccess, ...]
    txn_type: TxnType
    presence: TableRef | None

    @property
    def written(self) -> tuple[TableRef, ...]:
        """Tables that get a write ID, in the order of allocation."""
        return tuple(sorted({access.ref for access in self.writes}))

    @property
    def subjects(self) -> list[str]:
        """The tables for log lines, each with its partition if the job accesses only one."""
        return sorted(
            {
                f"{access.ref}/{access.partitions[0]}"
                if access.partitions is not None and len(access.partitions) == 1
                else str(access.ref)
                for access in (*self.reads, *self.writes)
            }
        )

    @property
    def seen(self) -> tuple[TableRef, ...]:
        """Tables in the snapshot: all transactional tables that the job reads or writes."""
        everything = (*self.reads, *self.writes)
        transactional = (a for a in everything if a.table.kind is not TransactionalKind.NONE)
        return tuple(sorted({access.ref for access in transactional}))

    @property
    def changed(self) -> tuple[TableRef, ...]:
        """Tables with possible conflicts: the job does not only insert into them."""
        return tuple(sorted({a.ref for a in self.writes if a.operations != {DataOperation.INSERT}}))

    @property
    def watched(self) -> tuple[TableRef, ...]:
        """Tables for which the job must know the writes that were committed at its start."""
        watching = (
            a.ref for a in self.writes if looks_for_rivals(a.policy, write_kind_of(a.operations))
        )
        return tuple(sorted(set(watching)))

    @property
    def fenced(self) -> tuple[TableRef, ...]:
        """The tables whose locks are searched for other copies of the job."""
        if self.presence is not None:
            return (self.presence,)
        return self.written or tuple(sorted({access.ref for access in self.reads}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A transaction with its locks and its snapshot.

    `fencing_token` is None for a job without a key. Closing `undo` stops the heartbeats and aborts
    the transaction; before, call `be_patient(None)` on the client, whose retries depend on the
    heartbeats. For each `watched` table, `began` contains the write IDs that were committed when
    the job first opened a transaction. `has_waited` is True if the locks were not granted
    immediately. `timeout_s` is the server's transaction time-out, which cannot be read while the
    server is unreachable. `server_time` is known if the locks were granted immediately. The last
    fields are local clock times before the transaction was opened, before and after the lock
    request that was granted, and after the snapshot.
    """

    txn_id: TxnId
    first_txn_id: TxnId
    fencing_token: fencing.FencingToken | None
    write_ids: Mapping[TableRef, WriteId]
    snapshot: Snapshot
    began: Mapping[TableRef, ValidWriteIdList]
    has_waited: bool
    heartbeat: Heartbeat
    timeout_s: float
    server_time: ServerTime | None
    undo: ExitStack
    opened_s: float
    lock_asked_s: float
    locked_s: float
    seen_s: float


def open_and_lock(client: MetastorePort, plan: Plan, leaving: Handover) -> Opened:
    """Open a transaction, get its locks, and take its snapshot; abort it after an error.

    It replaces and ends the job's earlier transactions in `leaving`, whose abort is also an error.
    """
    try:
        return _open_and_lock(client, plan, leaving)
    except BaseException:
        leaving.close()
        raise


def _open_and_lock(client: MetastorePort, plan: Plan, leaving: Handover) -> Opened:
    terms, timeout_s = plan.terms, client.txn_timeout_s
    interval_s = _interval_s(terms, timeout_s)
    deadline_s = terms.clock.monotonic() + terms.lock_timeout_s
    # A transaction that never waits for locks may be reopened, too, because this delays no other
    # transaction.
    never_waits = terms.lock_timeout_s == 0
    reopenings = 0
    while True:
        is_late = terms.clock.monotonic() >= deadline_s and not never_waits
        # The last transaction is returned even if it was overtaken; its commit may then fail.
        is_last = reopenings == _MOST_REOPENINGS or is_late
        refs = {*plan.changed, *plan.watched}
        before = client.valid_write_ids(refs, client.valid_txns()) if refs else {}
        opened_s = terms.clock.monotonic()
        txn_id = client.open_txn(plan.txn_type)
        if leaving.first_txn_id is None:
            leaving.first_txn_id = txn_id
        # The lists from the job's first opening stay.
        leaving.began = {**_surely_whole(before, plan.watched), **leaving.began}
        opening = _Opening(
            client=client,
            plan=plan,
            txn_id=txn_id,
            first_txn_id=leaving.first_txn_id,
            timeout_s=timeout_s,
            interval_s=interval_s,
            opened_s=opened_s,
            before=before,
            leaving=leaving,
        )
        try:
            opened = opening.run(deadline_s=deadline_s)
        except lock_wait.WaitedInVainError:
            _log.info("overtaken while it waited, reopening txn_id=%s", txn_id)
            continue
        except _AnswerLostError as lost:
            # The state of a lock request is unknown. The server withdraws the request when its
            # transaction ends.
            if is_last:
                raise lost.error from lost.error.__cause__
            _log.warning("reopening txn_id=%s: %s", txn_id, lost.error)
            reopenings += 1
            continue
        if is_last or not lock_wait.is_overtaken(opening.changed, opened.snapshot.tables):
            return opened
        _log.info("overtaken before the snapshot, reopening txn_id=%s", txn_id)
        client.be_patient(None)
        leaving.leave(txn_id, opened.undo)
        # Do not count the reopenings that a wait for locks causes. A wait for locks has its own
        # time limit. Each commit of a transaction ahead in the queue causes a reopening.
        reopenings += not opened.has_waited


class _AnswerLostError(Exception):
    """A response was lost, but the transaction is still open: no other client has ended it."""

    def __init__(self, error: errors.MetastoreUnavailableError) -> None:
        self.error = error
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """A transaction during its opening; `before` holds the write IDs right before it was opened."""

    client: MetastorePort
    plan: Plan
    txn_id: TxnId
    first_txn_id: TxnId
    timeout_s: float
    interval_s: float
    opened_s: float
    before: Mapping[TableRef, ValidWriteIdList]
    leaving: Handover

    @property
    def changed(self) -> Mapping[TableRef, ValidWriteIdList]:
        """For tables with possible conflicts, the write IDs right before the opening."""
        return {ref: self.before[ref] for ref in self.plan.changed}

    def run(self, *, deadline_s: float) -> Opened:
        """Get the transaction's locks and its snapshot; on failure, end the transaction."""
        try:
            with ExitStack() as undo:
                undo.callback(abort_quietly, self.client, self.txn_id)
                try:
                    return self._run(deadline_s, undo)
                except BaseException:
                    self.client.be_patient(None)  # do not retry the abort and later calls
                    raise
        except errors.TransactionAbortedError as error:
            fencing.raise_if_fenced(self.client, self._fencing_token, error, self.plan.fenced)
            raise

    def _run(self, deadline_s: float, undo: ExitStack) -> Opened:
        """Run `_bring`; if another transaction must replace this one, leave it to the handover."""
        try:
            return self._bring(deadline_s, undo)
        except errors.MetastoreUnavailableError as error:
            try:  # another client may have ended the transaction to kill the job
                self.client.heartbeat(self.txn_id)
            except errors.MetastoreError as unknown:
                raise error from unknown
            self.leaving.leave(self.txn_id, undo.pop_all())
            raise _AnswerLostError(error) from error
        except lock_wait.WaitedInVainError:
            self.leaving.leave(self.txn_id, undo.pop_all())
            raise

    def _bring(self, deadline_s: float, undo: ExitStack) -> Opened:
        opened = "opened txn_id=%s tables=%s job_key=%s"
        _log.info(opened, self.txn_id, ",".join(self.plan.subjects), self.plan.terms.job_key)
        heartbeat = Heartbeat(
            self.client.clone(call_timeout_s=max(self.interval_s * _BEAT_SHARE, _SHORTEST_BEAT_S)),
            self.txn_id,
            interval_s=self.interval_s,
            clock=self.plan.terms.clock,
            on_lost=self.plan.terms.on_lost,
        )
        undo.callback(heartbeat.stop)
        heartbeat.start()
        self.client.be_patient(lambda: self.timeout_s - heartbeat.silent_s)
        self.plan.terms.on_step("opened")
        write_ids = self._allocate()
        self.leaving.began = self._began(write_ids)
        waiting = lock_wait.Waiting(
            client=self.client,
            writes=self.plan.writes,
            txn_id=self.txn_id,
            before=self.changed if self._queues_up else {},
        )
        left_s = max(0.0, deadline_s - self.plan.terms.clock.monotonic())
        seen: list[locks.LockInfo] = []
        asked_s, locked_s = self._lock(timeout_s=left_s, waiting=waiting, seen=seen)
        self._register(write_ids)
        self.plan.terms.on_step("fenced")
        snapshot = self._see(write_ids)
        return Opened(
            txn_id=self.txn_id,
            first_txn_id=self.first_txn_id,
            fencing_token=self._fencing_token,
            write_ids=write_ids,
            snapshot=snapshot,
            began=self.leaving.began,
            has_waited=waiting.has_waited,
            heartbeat=heartbeat,
            timeout_s=self.timeout_s,
            server_time=time_of_lock(seen, self.txn_id, before_s=asked_s, after_s=locked_s),
            undo=undo.pop_all(),
            opened_s=self.opened_s,
            lock_asked_s=asked_s,
            locked_s=locked_s,
            seen_s=self.plan.terms.clock.monotonic(),
        )

    @property
    def _fencing_token(self) -> fencing.FencingToken | None:
        return fencing.FencingToken.of(self.plan.terms, self.first_txn_id)

    @property
    def _components(self) -> tuple[locks.LockComponent, ...]:
        if self.plan.presence is not None:
            return (locks.presence_component(self.plan.presence),)
        return locks.components_for(self.plan.reads, self.plan.writes, self.client.generation)

    def _allocate(self) -> dict[TableRef, WriteId]:
        write_ids = {}
        for ref in self.plan.written:
            write_id = write_ids[ref] = self.client.allocate_write_id(self.txn_id, ref)
            _log.info("allocated table=%s txn_id=%s write_id=%s", ref, self.txn_id, write_id)
        self.plan.terms.on_step("allocated")
        return write_ids

    def _began(self, own: Mapping[TableRef, WriteId]) -> Mapping[TableRef, ValidWriteIdList]:
        """Return the write IDs of the watched tables that were committed when the job began.

        A list that may have been incomplete is replaced by a slightly later one, which is complete,
        because the transaction now has a write ID (docs/decisions/reading.md).
        """
        began = self.leaving.began
        short = [ref for ref in self.plan.watched if ref not in began]
        later = take_snapshot(self.client, self.txn_id, short, own).tables if short else {}
        return {**began, **later}

    @property
    def _queues_up(self) -> bool:
        """True if a commit during the lock wait reopens the transaction; False for an overwrite."""
        operations = frozenset().union(*(access.operations for access in self.plan.writes))
        return DataOperation.OVERWRITE not in operations

    def _lock(
        self, *, timeout_s: float, waiting: lock_wait.Waiting, seen: list[locks.LockInfo]
    ) -> tuple[float, float]:
        """Get the locks; return the times before and after the granted request.

        The locks that the search for other copies has found are added to `seen`.
        """
        clock, asked_s = self.plan.terms.clock, [0.0]

        def note_time() -> None:
            asked_s[0] = clock.monotonic()

        agent_info = fencing.agent_info_of(self._fencing_token)
        # Fence before waiting, because an older copy may hold the required locks. One check is
        # enough. A newer copy that starts later will abort this copy. An older copy that checks
        # later will find this copy and end.
        lock_wait.acquire(
            self.client,
            locks.LockRequest(
                txn_id=self.txn_id, components=self._components, agent_info=agent_info
            ),
            timeout_s=timeout_s,
            clock=clock,
            on_enqueued=lambda: self._fence(seen),
            on_asking=note_time,
            on_waiting=waiting.look,
        )
        locked_s = clock.monotonic()
        self.plan.terms.on_step("locked")
        return asked_s[0], locked_s

    def _fence(self, seen: list[locks.LockInfo]) -> bool:
        """End the job's earlier transactions and older copies; return True if any were found."""
        has_left = self.leaving.step_over()
        if self._fencing_token is not None:
            seen += fencing.locks_on(self.client, self.plan.fenced)
        has_ended = fencing.fence(self.client, self._fencing_token, self.txn_id, seen)
        return has_left or has_ended

    def _register(self, write_ids: Mapping[TableRef, WriteId]) -> None:
        """Record the known partitions of writes whose lock is on the whole table."""
        for access in locks.named_behind_table_lock(self.plan.writes, self._components):
            recorded = {recorded_under(access.policy, o) for o in access.operations}
            for operation in sorted(recorded, key=lambda o: o.value):
                self.client.add_dynamic_partitions(
                    self.txn_id,
                    write_ids[access.ref],
                    access.ref,
                    access.partitions or (),
                    operation,
                )

    def _see(self, own: Mapping[TableRef, WriteId]) -> Snapshot:
        """Take the newest snapshot.

        Unlike that of a Hive query, it includes commits of transactions with higher IDs, such as of
        a newer copy of the job that committed while this copy was suspended.
        """
        snapshot = take_snapshot(self.client, self.txn_id, self.plan.seen, own)
        if self.txn_id not in snapshot.txns.open:
            raise errors.TransactionAbortedError(
                txn_id=self.txn_id, reason="the metastore no longer lists it as open"
            )
        # If a server records this history, its cleaner finds readers only through the history.
        lowest = {
            ref: write_ids.min_open_write_id or WriteId(write_ids.high_watermark + 1)
            for ref, write_ids in snapshot.tables.items()
        }
        self.client.add_write_ids_to_min_history(self.txn_id, lowest)
        self.plan.terms.on_step("snapshot")
        return snapshot


def take_snapshot(
    client: MetastorePort,
    txn_id: TxnId,
    refs: Iterable[TableRef],
    own: Mapping[TableRef, WriteId],
) -> Snapshot:
    """Return a snapshot of the committed state; the `own` write IDs are open in it.

    As in Hive, the request treats the transaction `txn_id` as committed. If Hive 4.0.1 has no
    record of a valid write ID, it ends a table's list at the lowest invalid ID; with our own write
    ID valid, the list includes at least this ID. See docs/decisions/reading.md.
    """
    txns = client.valid_txns()
    if txn_id in txns.open:
        lists = client.valid_write_ids(refs, txns.without(txn_id))
        tables = {ref: ids.with_open(own[ref]) if ref in own else ids for ref, ids in lists.items()}
    else:  # the transaction has ended, which the caller finds out
        tables = client.valid_write_ids(refs, txns)
    return Snapshot(txn_id=txn_id, txns=txns, tables=tables)


def _surely_whole(
    before: Mapping[TableRef, ValidWriteIdList], refs: Iterable[TableRef]
) -> Mapping[TableRef, ValidWriteIdList]:
    """Return the lists of some tables, except those that end at an invalid ID and may be cut."""
    lists = {ref: before[ref] for ref in refs}
    return {
        ref: ids
        for ref, ids in lists.items()
        if not ids.high_watermark or ids.is_visible(ids.high_watermark)
    }


def _interval_s(terms: JobTerms, timeout_s: float) -> float:
    if terms.heartbeat_s is None:
        return timeout_s / 2
    if not 0 < terms.heartbeat_s < timeout_s:
        raise errors.ConfigurationError(
            f"heartbeat_s={terms.heartbeat_s:g} is too long: the metastore aborts a transaction"
            f" after {timeout_s:g} s without a heartbeat; omit it to send one in half that time"
        )
    return terms.heartbeat_s
