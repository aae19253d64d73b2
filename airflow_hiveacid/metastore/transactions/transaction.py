"""A job's transaction from opening to commit or abort.

The order is: open, heartbeat, allocate write IDs, lock, fence, snapshot, the `with` block, commit.
Write IDs are allocated before the lock request, because the server copies them into the lock. The
snapshot is taken after the locks are granted, because it must include the writes of the previous
lock holders.

Other modules stage files in hidden directories, and call `register_partitions` before they publish
a file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NoReturn

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, recorded_under
from airflow_hiveacid.format.records import TimeBounds
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.metastore.locks import LockRequest, TableAccess, components_for
from airflow_hiveacid.metastore.port import MetastorePort, TxnType
from airflow_hiveacid.metastore.server_time import ServerTime, TransactionTimes, time_of_lock
from airflow_hiveacid.metastore.transactions import JobTerms, opening
from airflow_hiveacid.metastore.transactions.commit import commit
from airflow_hiveacid.metastore.transactions.fencing import agent_info_of, raise_if_fenced
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.lock_wait import acquire_without_queueing

STEPS: Final = ("opened", "allocated", "locked", "fenced", "snapshot", "body_done", "committed")
"""The arguments of `JobTerms.on_step`, in this order; `body_done` comes right before the commit.

A reopened transaction repeats the first five.
"""

# The time limit for determining a commit's outcome, as a share of the server's time-out. The
# transaction must not time out during this time.
_PATIENCE: Final = 0.5

_log = logging.getLogger(__name__)


class MetastoreTransaction:
    """An open transaction with its locks and its snapshot. Not thread-safe.

    `first_txn_id` ranks this copy in its try; a restart in this process keeps it. In the job's
    fixed `snapshot`, the job's own write IDs are open. `began` are the write IDs that were
    committed when the job began, of the tables where a commit of another transaction may end the
    job. `write_ids` are the IDs of the tables that the transaction writes. Mutable: it stores the
    written partitions, and whether it has ended.
    """

    def __init__(self, client: MetastorePort, plan: opening.Plan, opened: opening.Opened) -> None:
        self._client = client
        self._plan = plan
        self._terms = plan.terms
        self._opened = opened
        self.txn_id: Final = opened.txn_id
        self.first_txn_id: Final = opened.first_txn_id
        self.snapshot: Final = opened.snapshot
        self.began: Final = opened.began
        self.write_ids: Final = MappingProxyType(dict(opened.write_ids))
        self._written: dict[TableRef, set[PartitionName]] = {
            access.ref: set(access.partitions or ()) for access in plan.writes
        }
        self._is_ended = False
        self._process_id = os.getpid()
        self._unchanged: set[TableRef] = set()
        self._server_time: ServerTime | None = opened.server_time
        self._commit_readings: tuple[float, float] | None = None
        self._take_backs: list[Callable[[], None]] = []

    @property
    def is_ended(self) -> bool:
        """True after `commit`, `abandon` or `leave_to`, and in a fork of the process."""
        return self._is_ended or os.getpid() != self._process_id

    @property
    def agent_info(self) -> str:
        """The agent info of this transaction's locks; all its lock requests have it."""
        return agent_info_of(self._opened.fencing_token)

    @property
    def lost(self) -> errors.TransactionError | None:
        """The error, if a heartbeat found that the transaction was aborted or cancelled."""
        return self._opened.heartbeat.lost

    def on_abort(self, take_back: Callable[[], None]) -> None:
        """Register a callback for an abort; callbacks run in reverse order.

        None runs if the outcome of a commit is unknown. Errors of callbacks are only logged.
        """
        self._take_backs.append(take_back)

    def step(self, name: str) -> None:
        """Report a step of the job to `on_step`."""
        self._terms.on_step(name)

    def ensure_alive(self) -> None:
        """Raise an error if the transaction is lost; ask the server only after failed heartbeats.

        See `raise_why` for the errors.
        """
        heartbeat = self._opened.heartbeat
        if heartbeat.lost is not None:
            self.raise_why(heartbeat.lost)
        if heartbeat.silent_s >= self._opened.timeout_s:
            # After this time without a successful heartbeat, the server may have aborted the
            # transaction.
            self.confirm_alive()

    def confirm_alive(self) -> None:
        """Ask the server whether the transaction is still open. Raises as `ensure_alive`."""
        if self.lost is not None:
            # After a loss, no heartbeat is sent, so a cancelled transaction may have timed out.
            self.raise_why(self.lost)
        try:
            self._client.heartbeat(self.txn_id)
        except errors.TransactionAbortedError as error:
            self.raise_why(error)
        self._opened.heartbeat.check(self._client)

    def watch(self, check: Callable[[MetastorePort], None]) -> None:
        """Call `check` with every heartbeat from now on, and with each call of `confirm_alive`.

        A CompactionCancelledError ends the transaction.
        """
        self._opened.heartbeat.check = check

    def lock_reads(self) -> None:
        """Lock the tables that this transaction reads, if it began with `presence`.

        The request never stays in the queue, where requests of other transactions would wait for
        it.
        """
        request = LockRequest(
            txn_id=self.txn_id,
            components=components_for(self._plan.reads, (), self._client.generation),
            agent_info=self.agent_info,
        )
        try:
            acquire_without_queueing(
                self._client,
                request,
                timeout_s=self._terms.lock_timeout_s,
                clock=self._terms.clock,
            )
        except errors.TransactionAbortedError as error:
            self.raise_why(error)

    def newest(self, ref: TableRef) -> Snapshot:
        """Return a new snapshot of a table; the job's fixed snapshot does not change."""
        return opening.take_snapshot(self._client, self.txn_id, [ref], self.write_ids)

    def register_partitions(
        self,
        ref: TableRef,
        names: Collection[PartitionName],
        operations: Collection[DataOperation],
    ) -> None:
        """Register the written partitions with the metastore before a file is published.

        Without this record, a 3.1 server would delete the transaction after an abort, and treat its
        write ID as committed (observed), so that published rows would become visible. Conflict
        detection and compaction also need it. Raises ValueError if the locks do not cover a
        partition.
        """
        self._check_locked(ref, names)
        ordered = sorted(set(names), key=str)
        policy = next(access.policy for access in self._plan.writes if access.ref == ref)
        recorded = {recorded_under(policy, operation) for operation in operations}
        for operation in sorted(recorded, key=lambda o: o.value):
            try:
                self._client.add_dynamic_partitions(
                    self.txn_id, self.write_ids[ref], ref, ordered, operation
                )
            except errors.TransactionAbortedError as error:
                self.raise_why(error)
        self._written[ref].update(ordered)

    def change_nothing(self, ref: TableRef) -> None:
        """Declare a table unchanged, so that this transaction causes no conflicts in the table."""
        self._unchanged.add(ref)

    def server_time(self) -> ServerTime | None:
        """Return the server's time, read once while locks are held; None if unknown."""
        if self._server_time is None and not self._is_ended:
            try:
                locks = self._client.show_locks(txn_id=self.txn_id)
            except errors.MetastoreError as error:
                _log.warning("the metastore does not report its time: %s", error)
                return None
            self._server_time = time_of_lock(
                locks,
                self.txn_id,
                before_s=self._opened.lock_asked_s,
                after_s=self._opened.locked_s,
            )
        return self._server_time

    def seen_after_s(self) -> float | None:
        """Return a time by the server's clock that is before the snapshot; None if unknown."""
        time = self.server_time()
        return None if time is None else time.earliest(self._opened.locked_s)

    @property
    def times(self) -> TransactionTimes | None:
        """The times of the steps; None before the commit, and if the server reported no time."""
        if self._server_time is None or self._commit_readings is None:
            return None
        time, opened = self._server_time, self._opened
        asked_s, answered_s = self._commit_readings
        return TransactionTimes(
            opened_s=time.earliest(opened.opened_s),
            seen=TimeBounds(
                after_s=time.earliest(opened.locked_s), by_s=time.latest(opened.seen_s)
            ),
            committed=TimeBounds(after_s=time.earliest(asked_s), by_s=time.latest(answered_s)),
        )

    def abandon(self) -> None:
        """Abort the transaction without an error, because there is nothing to commit."""
        self._is_ended = True
        self._client.be_patient(None)
        self._opened.undo.close()
        self._take_back()

    def leave_to(self, handover: Handover) -> None:
        """Undo the work; stay open until the next transaction has requested its locks."""
        self._is_ended = True
        self._client.be_patient(None)
        handover.leave(self.txn_id, self._opened.undo)
        self._take_back()

    def settle(self) -> None:
        """Complete the records of the transaction's writes before the commit."""
        self.ensure_alive()
        for access in self._plan.writes:
            late = access.table.is_partitioned and not self._written[access.ref]
            if late or access.ref in self._unchanged:
                # With the lock, 4.x recorded a write of the whole table. The transaction wrote
                # nothing, so this call removes the record. Otherwise, the record would cause
                # conflicts, and a cleaner would look for a partition without a name (HIVE-21052).
                self._client.add_dynamic_partitions(
                    self.txn_id, self.write_ids[access.ref], access.ref, (), DataOperation.UPDATE
                )
            else:
                self._forget_statistics(access.table)
        if self._plan.writes:
            self.server_time()
        self._terms.on_step("body_done")

    def commit(self) -> None:
        """Commit; only `begin` calls this."""
        asked_s = self._terms.clock.monotonic()
        self._opened.heartbeat.expect_the_end()
        try:
            commit(
                self._client,
                self.txn_id,
                self.write_ids,
                patience_s=self._opened.timeout_s * _PATIENCE,
                clock=self._terms.clock,
                timeout_s=self._opened.timeout_s,
            )
        except errors.TransactionAbortedError as error:
            self._take_back()
            self.raise_why(error)
        except errors.WriteConflictError:
            self._take_back()
            raise
        finally:
            self._is_ended = True
            self._client.be_patient(None)
            self._opened.heartbeat.stop()
        self._commit_readings = asked_s, self._terms.clock.monotonic()
        _log.info("committed txn_id=%s", self.txn_id)
        self._terms.on_step("committed")

    def end_after(self, error: BaseException, handover: Handover | None) -> None:
        """End the transaction after an error in the `with` block; only `begin` calls this."""
        if isinstance(error, errors.OvertakenError) and not self.is_ended:
            self._end_overtaken(error, handover)
        if not self.is_ended:
            self.abandon()
        if isinstance(error, errors.TransactionAbortedError):
            self.raise_why(error)
        if self.lost is not None and isinstance(error, Exception):
            # If the transaction was lost, this loss is the cause of all other errors.
            self.raise_why(self.lost)

    def _end_overtaken(self, error: errors.OvertakenError, handover: Handover | None) -> None:
        """Undo the work; leave the transaction open if another transaction follows.

        If a different client aborted the transaction, its locks are gone, and another transaction
        may soon overtake the next one. So the job opens no transaction after an abort, or while the
        state is unknown (docs/decisions/restarts.md).
        """
        why_over = self._why_over()
        if why_over is None and handover is not None:
            self.leave_to(handover)
            return
        self.abandon()
        if isinstance(why_over, errors.TransactionAbortedError):
            self.raise_why(why_over)
        if why_over is not None:
            raise why_over from error

    def _why_over(self) -> errors.TransactionAbortedError | errors.MetastoreError | None:
        """Return an error if the transaction is aborted or its state is unknown, otherwise None."""
        try:
            self._client.heartbeat(self.txn_id)
        except (errors.TransactionAbortedError, errors.MetastoreError) as error:
            return error
        return None

    def _take_back(self) -> None:
        while self._take_backs:
            try:
                self._take_backs.pop()()
            except errors.HiveAcidError as error:
                _log.warning("cannot undo a change of aborted txn_id=%s: %s", self.txn_id, error)

    def _forget_statistics(self, table: TableInfo) -> None:
        count = self._client.forget_statistics(
            table,
            sorted(self._written[table.ref], key=str),
            write_id=self.write_ids[table.ref],
            write_ids=self.snapshot.write_ids(table.ref),
        )
        if count:
            _log.info("statistics marked as outdated table=%s count=%s", table.ref, count)

    def _check_locked(self, ref: TableRef, names: Collection[PartitionName]) -> None:
        partition_lists = [a.partitions for a in self._plan.writes if a.ref == ref]
        if not partition_lists:
            raise ValueError(f"table {ref} is not among the tables this transaction writes")
        if any(not partitions for partitions in partition_lists):
            return  # the lock is on the whole table
        locked = {name for partitions in partition_lists for name in partitions or ()}
        strangers = sorted(str(name) for name in names if name not in locked)
        if strangers:
            raise ValueError(f"table {ref}: no lock on partitions {', '.join(strangers)}")

    def raise_why(self, error: errors.TransactionError) -> NoReturn:
        """Raise the error, or FencedError (no retry) if a newer copy of the job caused it."""
        if isinstance(error, errors.TransactionAbortedError):
            raise_if_fenced(self._client, self._opened.fencing_token, error, self._plan.fenced)
        raise error


@contextmanager
def begin(  # noqa: PLR0913 -- one keyword for each part of a transaction
    client: MetastorePort,
    terms: JobTerms,
    *,
    reads: Sequence[TableAccess] = (),
    writes: Sequence[TableAccess] = (),
    txn_type: TxnType = TxnType.DEFAULT,
    handover: Handover | None = None,
    presence: TableRef | None = None,
) -> Iterator[MetastoreTransaction]:
    """Run a `with` block in one transaction; commit at its end, or abort after an error.

    A transaction without writes takes shared read locks and is also committed. While it is open,
    the cleaner keeps the files that it may read. Until the `with` block ends, only this thread may
    use the client; the heartbeats use a clone. `reads` are the tables to read that are not in
    `writes`. A 4.x server records `txn_type`. `handover` has the job's earlier transactions in this
    process, which the new one replaces with their rank. If another commit overtakes the new one,
    its work is undone, and it stays open until the next one replaces it or the owner closes the
    handover. `presence` is the name that a reading transaction locks before tables, so that other
    copies of the job see this copy; `Transaction.lock_reads` locks the tables.

    Raises:
        LockNotAcquiredError: the locks were not granted in time; the transaction is aborted.
        FencedError: a newer copy of the job is running.
        TransactionAbortedError: another client aborted the transaction, or its heartbeats failed.
        WriteConflictError: another transaction changed the same partition and committed first.
        CommitStateUnknownError: the response to the commit was lost, and its outcome is unknown.
        NotTransactionalError, InsertOnlyTableError: the table does not allow the operations.
        UnsupportedTableError: the metastore lets this client only read the table.
    """
    for access in writes:
        _check_writable(access)
    if not reads and not writes:
        raise ValueError("a transaction must read or write at least one table")
    if presence is not None and writes:
        raise ValueError("`presence` is only for a transaction without writes")
    plan = opening.Plan(
        terms=terms,
        reads=tuple(reads),
        writes=tuple(writes),
        txn_type=txn_type,
        presence=presence,
    )
    leaving = Handover(client) if handover is None else handover
    txn = MetastoreTransaction(client, plan, opening.open_and_lock(client, plan, leaving))
    try:
        yield txn
        if not txn.is_ended:
            txn.settle()
    except BaseException as error:
        txn.end_after(error, handover)
        raise
    # Commit outside the `try` block, because no abort may follow if the response of a commit is
    # lost.
    if not txn.is_ended:
        txn.commit()


def _check_writable(access: TableAccess) -> None:
    kind = access.table.kind
    if kind is TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=access.ref)
    changes = access.operations & {DataOperation.UPDATE, DataOperation.DELETE}
    if kind is TransactionalKind.INSERT_ONLY and changes:
        names = " and ".join(sorted(operation.name for operation in changes))
        raise errors.InsertOnlyTableError(table=access.ref, operation=names)
    if access.table.write_needs:
        detail = f"is read-only: the metastore requires {access.table.write_needs} of its writers"
        raise errors.UnsupportedTableError(table=access.ref, detail=detail)
