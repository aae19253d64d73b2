"""The transaction and the queue entry of a compaction.

A compaction allocates no write ID, because its result replaces its input files. As for Hive's
worker, the steps are: transaction, snapshot, `update_compactor_state`, the rewrite of the files,
the shared lock (`Transaction.lock_reads`), a second check, commit, `mark_compacted`. The lock comes
after the rewrite, so overwrites, truncates and drops do not wait for it
(docs/decisions/compaction.md). Hive's worker calls `mark_compacted` before its commit, because a
`_v` suffix hides its result until then. Our results may have names without it: if the entry was
marked first, the server's cleaner would not wait for readers (docs/decisions/compaction-queue.md).

Before these steps, the compactor takes a lock that only compactors of the same partition request,
which proves that it is alive. If it is gone, the next run ends our queue entry
(`end_dead_entries`). A compaction replaces queued requests of other clients, which are repeated if
it fails. On 3.1, only Hive can process the queue, so it has only its transaction and its locks.
"""

from __future__ import annotations

import dataclasses
import logging
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import airflow_hiveacid
from airflow_hiveacid.format import conflicts, errors
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore import process_user
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionResponse,
    CompactionState,
    CompactionType,
    newest_entries,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    LockRequest,
    TableAccess,
    lock_of_compactors,
    presence_of_compactions,
)
from airflow_hiveacid.metastore.port import MetastorePort, TxnType
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.fencing import (
    ANONYMOUS,
    COMPACTOR,
    agent_info_of_compactor,
    owner_text,
)
from airflow_hiveacid.metastore.transactions.lock_wait import withdraw
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin

# COMPACTION_QUEUE.CQ_ERROR_MESSAGE is unbounded text, but should not contain a stack trace.
_LONGEST_MESSAGE: Final = 2000
# Later runs recognize lost requests by these beginnings of messages (`_lost`).
_TAKEN_OVER: Final = "taken over by"
_REPEATS: Final = "the replaced request waits again, because this one failed:"
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0

_log = logging.getLogger(__name__)


class CompactionWork:
    """A running compaction of a partition or table, with its queue entry. Mutable.

    `snapshot` was taken while the compactors' lock and the queue entry were held, so it includes
    the result of the previous compactor; the transaction's own may be older. `claim` is None on
    3.1. If `refusal` is set, for example because another compactor is running, the transaction has
    ended, and the `with` block must do nothing. `served` are the requests of other clients that
    this compaction replaces, and that are repeated if it fails.
    """

    def __init__(
        self,
        client: MetastorePort,
        txn: MetastoreTransaction,
        terms: JobTerms,
        ref: TableRef,
        partition: PartitionName | None,
    ) -> None:
        self.client = client
        self.txn = txn
        self.snapshot = txn.snapshot
        self.claim: ClaimedCompaction | None = None
        self.refusal: str | None = None
        self.served: list[CompactionEntry] = []
        self._terms = terms
        self._ref = ref
        self._partition = partition
        self._worker_id = our_worker_id(terms.job_key or ANONYMOUS)
        # With a separate pool, the worker certainly claims the entry that it requested.
        self._pool = our_pool(uuid.uuid4())

    @property
    def serves(self) -> str:
        """A description of the requests of other clients that this compaction replaces, if any."""
        return ", ".join(entry.asked_by for entry in self.served)

    @property
    def write_ids(self) -> CompactorWriteIdList:
        """The write IDs that may be compacted."""
        return CompactorWriteIdList.of(self.snapshot.write_ids(self._ref))

    def begin(
        self,
        kind: CompactionType,
        policy: conflicts.ConflictPolicy,
        on_alone: Callable[[MetastoreTransaction], None],
    ) -> None:
        """Take the compactors' lock and claim the queue entry; only `compacting` calls this."""
        rival = self._await_turn(kind, policy)
        if rival is not None:
            self.refuse(f"another compactor is at work here: {rival}")
            return
        on_alone(self.txn)
        self._make_way(kind)
        claim = self._claimed(kind)
        if isinstance(claim, str):
            self.refuse(claim)
            return
        self.claim = claim
        # Take the snapshot after the claim, as Hive's worker does. The previous worker has ended
        # before the claim.
        self.snapshot = self.txn.newest(self._ref).for_compactor()
        if claim is not None:
            highest = self.write_ids.high_watermark
            self.claim = dataclasses.replace(claim, highest_write_id=highest)
            self.client.update_compactor_state(self.claim, self.txn.txn_id)
            self.txn.watch(partial(_check_wanted, self.claim))

    def confirm_wanted(self) -> None:
        """Check right before publishing that the compaction is neither aborted nor cancelled.

        A published result stays valid, so from now on the heartbeats ignore the entry.
        """
        self.txn.confirm_alive()
        self.txn.watch(lambda _: None)

    def has_rival(self) -> bool:
        """Return True and refuse to compact if a worker of a 3.1 server may also be compacting.

        Hive's workers ignore our locks, and on 3.1 we cannot claim entries. Call this right before
        publishing; a worker whose entry has left the queue has already published its result.
        """
        why = self._taken_on_3()
        if why is not None:
            self.refuse(why)
        return why is not None

    def refuse(self, why: str, *, is_pointless: bool = False) -> None:
        """Abort the transaction; record in the queue why nothing was compacted.

        If it `is_pointless` to compact, the requests of other clients are not repeated.
        """
        self.refusal = why
        if is_pointless:
            self.served.clear()
        self.txn.abandon()
        self.give_up(why)

    def give_up(self, why: str) -> None:
        """End the queue entry; repeat requests of other clients if the server accepts this.

        Call this after the transaction's end. The entry ends first, because the server accepts no
        request for a partition with a waiting or claimed entry. If this process is killed in
        between, `end_dead_entries` repeats the requests.
        """
        if self.served:
            why = f"{_REPEATS} {why}"
        if self.claim is not None:
            end_entry(self.client, self.claim, why)
        elif self.served:
            self._end_requests(why)
        while self.served:
            _ask_again(self.client, self.served.pop())

    def _await_turn(self, kind: CompactionType, policy: conflicts.ConflictPolicy) -> str | None:
        """Take the compactors' lock, or wait for it; return the rival if this one gives way."""
        clock, timeout_s = self._terms.clock, self._terms.lock_timeout_s
        began_s, pause_s = clock.monotonic(), _FIRST_PAUSE_S
        request = self._lock_request(kind)
        while (answer := self.client.lock(request)).state is not conflicts.LockState.ACQUIRED:
            waited_s, holders = clock.monotonic() - began_s, ""
            if waited_s >= timeout_s:
                holders = withdraw(self.client, request, answer)
            else:
                self.client.unlock(answer.lock_id)
            rival = self._at_work_here()
            outcome = conflicts.ConflictOutcome.COMPACTS  # a rival that has ended is waited for
            if rival is not None:
                # A holder with any other agent info counts as a major compaction.
                match = COMPACTOR.fullmatch(rival.agent_info)
                earlier = conflicts.WriteKind(match[1]) if match else conflicts.WriteKind.MAJOR
                meeting = conflicts.Meeting(earlier=earlier, later=conflicts.WriteKind(kind.value))
                outcome = conflicts.outcome(policy, self.client.generation, meeting)
            if outcome is conflicts.ConflictOutcome.FAILS:
                name = f"{self._ref}/{self._partition}" if self._partition else str(self._ref)
                raise errors.WriteConflictError(
                    txn_id=request.txn_id,
                    reason=f"the policy {policy.value} allows only the first of two compactions of"
                    f" {name}, and one is at work: {self._owner_of(rival)}",
                )
            if outcome is not conflicts.ConflictOutcome.COMPACTS:
                return self._owner_of(rival)  # the policy lets this compaction give way
            if waited_s >= timeout_s:
                raise errors.LockNotAcquiredError(
                    tables=(str(self._ref),),
                    lock_id=answer.lock_id,
                    waited_s=waited_s,
                    holders=self._owner_of(rival) or holders,
                )
            clock.sleep(min(pause_s, timeout_s - waited_s))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        return None

    def _at_work_here(self) -> LockInfo | None:
        """Return a running compactor's lock; None if it has ended."""
        locks = self.client.show_locks(lock_of_compactors(self._ref))
        partition = str(self._partition or "").lower()
        compactor_locks = (
            lock
            for lock in locks
            if lock.state is conflicts.LockState.ACQUIRED
            and (lock.partition or "").lower() == partition
        )
        return next(compactor_locks, None)

    def _owner_of(self, rival: LockInfo | None) -> str:
        if rival is None or rival.txn_id is None:
            return str(rival or "")
        return f"{rival.agent_info} in {owner_text(self.client, rival.txn_id)}"

    def _lock_request(self, kind: CompactionType) -> LockRequest:
        """Return a request for the compactors' lock, for which no reader or writer ever waits."""
        component = LockComponent(
            table=lock_of_compactors(self._ref),
            lock_type=conflicts.LockType.EXCLUSIVE,
            operation=conflicts.DataOperation.SELECT,
            partition=self._partition,
            is_transactional=False,
        )
        return LockRequest(
            txn_id=self.txn.txn_id,
            components=(component,),
            agent_info=agent_info_of_compactor(kind.value),
        )

    def _make_way(self, kind: CompactionType) -> None:
        """End entries in the queue of a 4.x server that block our own request.

        These are entries of our dead workers, and unclaimed requests of other clients, which the
        following compaction fulfils. A worker cannot claim them directly, because the server
        returns the oldest entry of a shared pool, for any table. A Hive worker that claims one at
        the same time cannot mark it as compacted, and commits nothing. Call this while holding the
        compactors' lock. Each request is in `served` before its entry ends, so that it can be
        repeated if the compaction fails. If this process dies, `_end_dead` repeats those whose
        message ends with the pool of the dead entry.
        """
        if self.client.generation is conflicts.MetastoreGeneration.V3:
            return
        for entry in self._at_work():
            if entry.has_our_worker or entry.waits_for_us:
                _end_dead(self.client, entry)
        for entry in self._at_work():  # including the requests that have just been repeated
            if entry.waits_for_anybody and kind in (entry.compaction_type, CompactionType.MAJOR):
                self.served.append(entry)
                end_entry(
                    self.client,
                    ClaimedCompaction.of_entry(entry),
                    f"{_TAKEN_OVER} {self._worker_id}, which compacts it now in pool {self._pool}",
                )

    def _claimed(self, kind: CompactionType) -> ClaimedCompaction | str | None:
        """Claim the requested entry, or return a reason; None on 3.1 if the queue has no entry."""
        if self.client.generation is conflicts.MetastoreGeneration.V3:
            return self._taken_on_3()
        claim, answer = self._requested(kind)
        if claim is None and not answer.accepted and self._ended_compacted():
            claim, answer = self._requested(kind)
        if claim is not None:
            return claim
        if answer.accepted:
            return "another worker has claimed the queue entry"
        reason = answer.message or answer.state.value
        return self._taken() or f"the metastore refused the request: {reason}"

    def _requested(
        self, kind: CompactionType
    ) -> tuple[ClaimedCompaction | None, CompactionResponse]:
        answer = self.client.request_compaction(self._ref, self._partition, kind, pool=self._pool)
        # Try to claim even if the request was refused. If an earlier response was lost, our entry
        # is already in the queue, and the server refuses a second request.
        claim = self.client.find_next_compaction(
            self._worker_id, worker_version=airflow_hiveacid.__version__, pool=self._pool
        )
        return claim, answer

    def _ended_compacted(self) -> bool:
        """End entries of committed compactions that wait for cleaning; return True if any ended.

        The server refuses a request while such an entry exists and no write came after it, so a
        major compaction could not follow a minor one. The cleaning after ours covers both, because
        cleaners remove all replaced directories.
        """
        why = f"committed; {self._worker_id} compacts the same files again now"
        compacted = [
            entry
            for entry in self._unfinished()
            if entry.state is CompactionState.READY_FOR_CLEANING and entry.is_committed
        ]
        ended = [end_entry(self.client, ClaimedCompaction.of_entry(e), why) for e in compacted]
        return any(ended)

    def _taken(self) -> str | None:
        """Return which unfinished entry the queue has for this partition; None without one."""
        for status in unfinished(self.client, self._ref, self._partition):
            if status.entry.partition == self._partition:
                return f"the metastore's queue has an entry for it already: {status}"
        return None

    def _taken_on_3(self) -> str | None:
        """Return why not to compact on 3.1, whose workers may claim any entry; or None."""
        if self.client.generation is not conflicts.MetastoreGeneration.V3:
            return None
        return self._taken() if self._at_work() else None

    def _at_work(self) -> list[CompactionEntry]:
        return [entry for entry in self._unfinished() if entry.is_at_work]

    def _unfinished(self) -> list[CompactionEntry]:
        return [
            entry
            for entry in self.client.show_compactions(self._ref, self._partition)
            if entry.partition == self._partition and entry.state.is_pending
        ]

    def _end_requests(self, why: str) -> None:
        """End entries of this worker's pool that remain in the queue after a failed claim."""
        try:
            leftovers = [entry for entry in self._at_work() if entry.pool == self._pool]
        except errors.MetastoreError as error:
            _log.warning("cannot look for leftover entries of pool %s: %s", self._pool, error)
            return
        for entry in leftovers:
            end_entry(self.client, ClaimedCompaction.of_entry(entry), why)


@contextmanager
def compacting(  # noqa: PLR0913 -- as transaction.begin
    client: MetastorePort,
    terms: JobTerms,
    *,
    table: TableInfo,
    partition: PartitionName | None,
    compaction_type: CompactionType,
    policy: conflicts.ConflictPolicy = conflicts.ConflictPolicy.HIVE,
    on_alone: Callable[[MetastoreTransaction], None] = lambda _: None,
) -> Iterator[CompactionWork]:
    """Run the `with` block as one compaction; see `transaction.begin`.

    After an error, the queue entry is marked as refused, and the replaced requests of other clients
    are repeated, unless the commit may have succeeded. `partition` is None for an unpartitioned
    table; its name is the part of the job. If another compaction is running, `policy` decides
    whether this one gives way, waits for at most `terms.lock_timeout_s` (else LockNotAcquiredError)
    or fails (WriteConflictError). `on_alone` is called while the compactors' lock is held, before
    an entry is claimed. Raises CompactionCancelledError if a heartbeat has noticed that the entry
    was withdrawn.
    """
    access = TableAccess(
        table=table,
        operations=frozenset({conflicts.DataOperation.SELECT}),
        partitions=None if partition is None else (partition,),
    )
    work: CompactionWork | None = None
    is_committing = is_committed = False

    def report(step: str) -> None:
        nonlocal is_committing, is_committed
        is_committed = is_committed or step == "committed"
        terms.on_step(step)
        # Only now, because after an error of `on_step`, no commit is sent.
        is_committing = step == "body_done"

    transaction = begin(
        client,
        dataclasses.replace(terms, part=str(partition or ""), on_step=report),
        reads=[access],
        txn_type=TxnType.COMPACTION,
        presence=presence_of_compactions(table.ref),
    )
    try:
        with transaction as txn:
            work = CompactionWork(client, txn, terms, table.ref, partition)
            work.begin(compaction_type, policy, on_alone)
            yield work
    except (errors.CommitStateUnknownError, errors.CompactionCancelledError):
        # After an unknown commit, the next run asks the server for the outcome and ends the entry.
        # The entry of a cancelled compaction has ended; the replaced requests are cancelled, too.
        raise
    except BaseException as error:
        # An interrupted commit is unknown, too; `commit` raises our own errors only if it failed.
        is_unknown = is_committing and not isinstance(error, errors.HiveAcidError)
        if work is not None and not is_committed and not is_unknown:
            work.give_up(f"{type(error).__name__}: {error}")
        raise
    if work.refusal is None and work.claim is not None:
        _mark_compacted(client, work.claim)
        terms.on_step("marked")


def _check_wanted(claim: ClaimedCompaction, client: MetastorePort) -> None:
    """Check that our worker still has its entry.

    A user can end it (`cancel_compactions`, ABORT COMPACTIONS). The server takes it from its worker
    after hive.compactor.worker.timeout; then another worker may compact, too. If it is missing, its
    table or partition was dropped or renamed, which the checks of the definition find; other
    partitions must not end because of it.
    """
    entries = client.show_compactions(claim.table, claim.partition)
    entry = next((entry for entry in entries if entry.entry_id == claim.entry_id), None)
    if entry is None or (entry.state is CompactionState.WORKING and entry.has_our_worker):
        return
    raise errors.CompactionCancelledError(
        table=claim.table,
        partition=str(claim.partition or ""),
        entry_id=claim.entry_id,
        state=entry.state.value,
        why=entry.reason or f"its worker is {entry.worker_id or 'unset'}",
    )


def cancel_compactions(
    client: MetastorePort, ref: TableRef, partition: PartitionName | None = None
) -> tuple[CompactionEntry, ...]:
    """End the waiting, running and dead entries of a table or partition, and return them.

    Our own worker then stops with its next heartbeat. Hive's worker finishes its work, but cannot
    commit it. The entries are marked as refused, because the call of ABORT COMPACTIONS ends only
    waiting entries on 4.0.1. On 3.1, raises MetastoreVersionError; if there is nothing to cancel,
    because there is no such table or partition, TableNotFoundError or PartitionNotFoundError.
    """
    if client.generation is conflicts.MetastoreGeneration.V3:
        raise errors.MetastoreVersionError(
            f"table {ref}: compactions cannot be cancelled on Hive 3.1, because no client can"
            " change its queue. Kill the task or Hive's compaction worker instead"
        )
    partition = partition if partition and partition.columns else None
    why = f"cancelled by {process_user()} on {socket.gethostname()}"
    txns = client.valid_txns()
    cancelled = tuple(
        entry
        for entry in client.show_compactions(ref, partition)
        if ((entry.is_at_work and not entry.is_committed) or entry.is_dead(txns))
        and end_entry(client, ClaimedCompaction.of_entry(entry), why)
    )
    if not cancelled:
        table = client.get_table(ref)
        if partition is not None:
            partitions_of(client, table, str(partition))
    return cancelled


def end_dead_entries(client: MetastorePort, ref: TableRef) -> tuple[CompactionEntry, ...]:
    """End a table's queue entries of dead workers; return the unclaimed requests of other clients.

    While such an entry exists, the server refuses all requests for its partition; only its
    Initiator, which may be disabled, resets it after a day. An entry whose transaction was aborted
    is dead (`CompactionEntry.is_dead`). Our workers hold the compactors' lock from before their
    request until their transaction ends. Entries are listed first, then transactions and locks: if
    a listed entry of ours has no such lock, its worker has died or committed. So the entries are
    then read again. Requests that a dead worker of ours had replaced are repeated, and returned,
    too; also if the process that ended its entry has died before it repeated them. On 3.1, nothing
    is done.
    """
    if client.generation is conflicts.MetastoreGeneration.V3:
        return ()
    listed = client.show_compactions(ref)
    entries = [e for e in listed if e.state.is_pending]
    ours = {e.entry_id for e in entries if e.is_at_work and (e.has_our_worker or e.waits_for_us)}
    ours |= {e.entry_id for e in _lost(listed)}
    if any(e.txn_id is not None for e in entries) or ours:
        txns = client.valid_txns()
        locks = client.show_locks(lock_of_compactors(ref)) if ours else ()
        granted = (k for k in locks if k.is_asked and k.state is not conflicts.LockState.WAITING)
        locked_partitions = {(k.partition or "").lower() for k in granted}
        listed = client.show_compactions(ref)
        entries = [e for e in listed if e.state.is_pending]
        unlocked_entries = [
            e
            for e in listed
            if e.entry_id in ours and str(e.partition or "").lower() not in locked_partitions
        ]
        dead = [e for e in entries if e.is_dead(txns) or (e in unlocked_entries and e.is_at_work)]
        lost = [e for e in _lost(listed) if e in unlocked_entries]
        for entry in dead:
            _end_dead(client, entry)
        for request in lost:
            _ask_again(client, request)
        if dead or lost:
            entries = [e for e in client.show_compactions(ref) if e.state.is_pending]
    return tuple(e for e in entries if e.waits_for_anybody)


def waiting_requests(client: MetastorePort, ref: TableRef) -> tuple[CompactionEntry, ...]:
    """Return the unclaimed requests of other clients, but end and repeat nothing."""
    if client.generation is conflicts.MetastoreGeneration.V3:
        return ()
    return tuple(e for e in client.show_compactions(ref) if e.waits_for_anybody)


def _end_dead(client: MetastorePort, entry: CompactionEntry) -> None:
    """End an entry whose worker has died; if its transaction is committed, mark it as compacted.

    Otherwise, repeat the requests of other clients that our worker had replaced by this entry.
    """
    _log.warning(
        "ending compaction %s, because its worker died owner=%s", entry.entry_id, entry.owner
    )
    claim = ClaimedCompaction.of_entry(entry)
    if entry.is_committed:
        _mark_compacted(client, claim)
    else:
        replaced = _replaced_by(entry, client.show_compactions(entry.table, entry.partition))
        why = "its worker died"
        end_entry(client, claim, f"{_REPEATS} {why}" if replaced else why)
        for request in replaced:
            _ask_again(client, request)


def _replaced_by(
    entry: CompactionEntry, entries: Iterable[CompactionEntry]
) -> list[CompactionEntry]:
    """Return the requests of other clients that our worker replaced by this entry."""
    return [
        request
        for request in entries
        if entry.is_in_our_pool
        and (request.error_message or "").startswith(_TAKEN_OVER)
        and (request.error_message or "").endswith(f"in pool {entry.pool}")
    ]


def _lost(entries: Sequence[CompactionEntry]) -> list[CompactionEntry]:
    """Return the requests that our workers replaced, and neither fulfilled nor repeated.

    Then a partition's newest entry is the request, because its worker had no entry of its own yet,
    or the refused entry of its worker.
    """
    lost: list[CompactionEntry] = []
    for newest in newest_entries(entries).values():
        message = newest.error_message or ""
        if newest.state is CompactionState.REFUSED and message.startswith(_TAKEN_OVER):
            lost.append(newest)
        elif newest.state is CompactionState.REFUSED and message.startswith(_REPEATS):
            lost += _replaced_by(newest, entries)
    return lost


def _ask_again(client: MetastorePort, entry: CompactionEntry) -> None:
    try:
        answer = client.request_compaction(
            entry.table, entry.partition, entry.compaction_type, pool=entry.pool
        )
    except errors.MetastoreError as error:
        _log.warning(
            "cannot request again %s: %s; the next `clean %s` or `compact %s` does",
            entry.asked_by,
            error,
            entry.table,
            entry.table,
        )
        return
    if not answer.accepted:
        reason = answer.message or answer.state.value
        _log.warning("%s was not requested again: %s", entry.asked_by, reason)


def _mark_compacted(client: MetastorePort, claim: ClaimedCompaction) -> None:
    """Mark a committed compaction for the cleaners; log a refusal, after a later run's mark."""
    try:
        client.mark_compacted(claim)
    except errors.MetastoreError as refusal:
        _log.warning("cannot mark compaction %s as compacted: %s", claim.entry_id, refusal)


def end_entry(client: MetastorePort, claim: ClaimedCompaction, why: str) -> bool:
    """Record in the queue that an entry was not compacted; if this fails, log and return false.

    It is marked as refused, not as failed: after two failures in a row, Hive's Initiator ignores
    the partition for a week, and "failed" does not show whether a cleaner has started on the entry.
    """
    message = why[:_LONGEST_MESSAGE]
    try:
        client.mark_refused(dataclasses.replace(claim, error_message=message))
    except errors.MetastoreError as refusal:
        _log.warning("cannot end compaction %s (%s): %s", claim.entry_id, message, refusal)
        return False
    return True
