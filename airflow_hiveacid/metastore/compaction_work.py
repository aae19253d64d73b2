"""One compaction as the metastore sees it: its transaction, and its entry in the queue.

No write ID is allocated: the result takes the place of what it was made from. The order is that of
Hive's Worker: transaction, shared lock, snapshot, `update_compactor_state`, the work,
`mark_compacted`, commit. Before it comes a lock that only compactors of the same partition ask for.
It is their sign of life: whoever holds it may bury the entries that dead workers of ours have left.
On 3.1, whose queue outsiders cannot serve, transaction and locks are all there is.

Example:
    with compacting(client, table=table, partition=name, compaction_type=kind, ...) as work:
        if work.refusal is None:
            rewrite(work.write_ids)
"""

from __future__ import annotations

import dataclasses
import logging
import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import airflow_hiveacid
from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockState,
    LockType,
    MetastoreGeneration,
)
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    LockNotAcquiredError,
    MetastoreError,
    WriteConflictError,
)
from airflow_hiveacid.format.policies import ConflictPolicy, Doing, Meeting, Outcome, outcome
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.clock import SystemClock
from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction, CompactionState
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.metastore.txn_values import TxnType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.compaction_queue import CompactionEntry, CompactionType
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction

# COMPACTION_QUEUE.CQ_ERROR_MESSAGE is text without a bound; a stack trace has no place in it.
_LONGEST_MESSAGE: Final = 2000
# COMPACTION_QUEUE.CQ_WORKER_ID and CQ_POOL_NAME of Hive's schema.
_LONGEST_WORKER_ID: Final = 128
_OURS: Final = "hiveacid-"
_AGENT: Final = re.compile(r"hiveacid (minor|major) compaction")
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_AT_WORK: Final = frozenset({CompactionState.INITIATED, CompactionState.WORKING})

_log = logging.getLogger(__name__)


class CompactionWork:
    """An open compaction: what may be compacted is what `write_ids` shows. Mutable.

    `snapshot` was taken with the compactors' lock and the queue's entry in hand, so that it shows
    what the last one of them has made; that of the transaction may be older. `claim` is None on
    3.1. With a `refusal` (somebody else is at it) the transaction is over and the body has nothing
    to do.
    """

    def __init__(self, client: MetastorePort, txn: Transaction, ref: TableRef) -> None:
        self._client = client
        self.txn = txn
        self.snapshot = txn.snapshot
        self._ref = ref
        self._worker: _QueueWorker | None = None
        self.claim: ClaimedCompaction | None = None
        self.refusal: str | None = None

    @property
    def write_ids(self) -> CompactorWriteIdList:
        """The write IDs that may be compacted."""
        return CompactorWriteIdList.of(self.snapshot.write_ids(self._ref))

    def begin(
        self, worker: _QueueWorker, kind: CompactionType, on_alone: Callable[[Transaction], None]
    ) -> None:
        """Claim the work; called by `compacting` alone."""
        self._worker = worker
        if not worker.await_turn(self.txn.txn_id, kind):
            self.refuse("another compactor is at work here")
            return
        on_alone(self.txn)
        claim = worker.claim(kind)
        if isinstance(claim, _Taken):
            self.refuse(claim.why)
            return
        self.claim = claim
        # Behind the claim, as Hive's worker: who had the entry before us has ended by now.
        self.snapshot = self.txn.newest(self._ref).for_compactor()
        if claim is not None:
            highest = self.write_ids.high_watermark
            self.claim = dataclasses.replace(claim, highest_write_id=highest)
            self._client.update_compactor_state(self.claim, self.txn.txn_id)

    def has_rival(self) -> bool:
        """Whether a worker of 3.1's own may be at this partition by now; if so, it ends.

        It knows no lock of ours, and no claim of ours keeps it away. Ask right before publishing,
        and look at the directory afterwards: whoever has left the queue has published.
        """
        taken = None if self._worker is None else self._worker.taken_on_3()
        if taken is not None:
            self.refuse(taken.why)
        return taken is not None

    def refuse(self, why: str) -> None:
        """End the transaction and say in the queue why nothing was done."""
        self.refusal = why
        self.txn.abandon()
        if self.claim is not None:
            self._client.mark_refused(dataclasses.replace(self.claim, error_message=why))


@contextmanager
def compacting(  # noqa: PLR0913 -- as transaction.begin
    client: MetastorePort,
    *,
    table: TableInfo,
    partition: PartitionName | None,
    compaction_type: CompactionType,
    job_key: str,
    attempt: AttemptId | None = None,
    lock_timeout_s: float,
    heartbeat_s: float | None = None,
    policy: ConflictPolicy = ConflictPolicy.HIVE,
    clock: Clock | None = None,
    on_step: Callable[[str], None] = lambda _: None,
    on_lost: Callable[[], None] = lambda: None,
    on_alone: Callable[[Transaction], None] = lambda _: None,
) -> Iterator[CompactionWork]:
    """Run a body as one compaction; when it raises, the entry is marked as failed.

    Arguments and errors are those of `transaction.begin`; `partition` is None for an unpartitioned
    table, and the part of the job. `policy` says what becomes of a compaction that finds another
    one at work: it steps back, waits, or fails. `on_alone` is called once no other one can come
    between, before anything is claimed; what it raises ends the compaction.

    Raises:
        WriteConflictError: another one is at work, and the policy lets only the first.
        LockNotAcquiredError: it was not through within `lock_timeout_s`.
    """
    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=None if partition is None else (partition,),
    )
    transaction = begin(
        client,
        job_key=job_key,
        attempt=attempt,
        job_part=str(partition or ""),
        reads=[access],
        lock_timeout_s=lock_timeout_s,
        heartbeat_s=heartbeat_s,
        txn_type=TxnType.COMPACTION,
        clock=clock,
        on_step=on_step,
        on_lost=on_lost,
    )
    work: CompactionWork | None = None
    try:
        with transaction as txn:
            work = CompactionWork(client, txn, table.ref)
            worker = _QueueWorker(
                client=client,
                ref=table.ref,
                partition=partition,
                job_key=job_key,
                policy=policy,
                timeout_s=lock_timeout_s,
                clock=SystemClock() if clock is None else clock,
            )
            work.begin(worker, compaction_type, on_alone)
            yield work
            if work.refusal is None and work.claim is not None:
                client.mark_compacted(work.claim)
                on_step("marked")
    except CommitStateUnknownError:
        raise  # if it was committed after all, the entry waits for the cleaner and is right
    except BaseException as error:
        if work is not None and work.claim is not None:
            mark_failed(client, work.claim, f"{type(error).__name__}: {error}")
        raise


@dataclass(frozen=True, slots=True)
class _Taken:
    """Why there is nothing to claim."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueueWorker:
    """Puts an entry for one partition into the queue and claims it."""

    client: MetastorePort
    ref: TableRef
    partition: PartitionName | None
    job_key: str
    policy: ConflictPolicy
    timeout_s: float
    clock: Clock

    def await_turn(self, txn_id: TxnId, kind: CompactionType) -> bool:
        """Be the only compactor of this partition; false if the policy lets us step back.

        Raises:
            WriteConflictError, LockNotAcquiredError: see `compacting`.
        """
        began_s, pause_s = self.clock.monotonic(), _FIRST_PAUSE_S
        while not self._is_alone(txn_id, kind):
            rival = self._at_work_here()
            told = _AGENT.fullmatch(rival)
            earlier = Doing(told[1]) if told else Doing.MAJOR
            meeting = Meeting(earlier=earlier, later=Doing(kind.value))
            match outcome(self.policy, self.client.generation, meeting):
                case Outcome.FAILS:
                    raise WriteConflictError(
                        txn_id=txn_id,
                        reason=f"a {meeting.earlier.value} compaction is at work at {self._place},"
                        f" and the policy {self.policy.value} lets only the first of the two",
                    )
                case Outcome.COMPACTS:
                    waited_s = self.clock.monotonic() - began_s
                    if waited_s >= self.timeout_s:
                        raise LockNotAcquiredError(
                            tables=(str(self.ref),), lock_id=0, waited_s=waited_s, holders=rival
                        )
                    self.clock.sleep(min(pause_s, self.timeout_s - waited_s))
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                case _:
                    return False
        return True

    @property
    def _lock_of_compactors(self) -> TableRef:
        return TableRef(self.ref.db, f"hiveacid_compaction_of_{self.ref.name}")

    @property
    def _place(self) -> str:
        return f"{self.ref}/{self.partition}" if self.partition else str(self.ref)

    def _at_work_here(self) -> str:
        """What the lock of the compactor that is at work says of it; empty if it is gone."""
        locks = self.client.show_locks(self._lock_of_compactors)
        partition = None if self.partition is None else str(self.partition)
        here = (
            lock.agent_info
            for lock in locks
            if lock.state is LockState.ACQUIRED
            and (lock.partition or "").lower() == (partition or "").lower()
        )
        return next(here, "")

    def _is_alone(self, txn_id: TxnId, kind: CompactionType) -> bool:
        """Try to take the lock that only compactors of this partition ask for.

        It is on a name that no table has, so no reader or writer ever waits for it; it ends with
        the transaction.
        """
        component = LockComponent(
            table=self._lock_of_compactors,
            lock_type=LockType.EXCLUSIVE,
            operation=DataOperation.SELECT,
            partition=self.partition,
            is_transactional=False,
        )
        answer = self.client.lock(
            LockRequest(
                txn_id=txn_id,
                components=(component,),
                agent_info=f"hiveacid {kind.value} compaction",
            )
        )
        if answer.state is LockState.ACQUIRED:
            return True
        self.client.unlock(answer.lock_id)
        return False

    def claim(self, kind: CompactionType) -> ClaimedCompaction | _Taken | None:
        """The claimed entry; None where the queue cannot be served (3.1) and does not know of it.

        Call it with the compactors' lock in hand.
        """
        if self.client.generation is MetastoreGeneration.V3:
            return self.taken_on_3()
        for entry in self._at_work():
            self._bury(entry)
        # A pool of its own makes sure that what is claimed is what was asked for.
        pool = f"{_OURS}{uuid.uuid4().hex}"
        answer = self.client.request_compaction(self.ref, self.partition, kind, pool=pool)
        if not answer.accepted:
            reason = answer.message or answer.state.value
            return _Taken(f"the metastore's queue has an entry for it already: {reason}")
        return self._claim_in(pool) or _Taken("somebody else has claimed the queue's entry")

    def taken_on_3(self) -> _Taken | None:
        """Why to stay away from a partition on 3.1; None if nothing is known to be at it.

        It tells nobody outside which entries its workers take: stay away from all of them.
        """
        if self.client.generation is not MetastoreGeneration.V3:
            return None
        states = [entry.state.value for entry in self._at_work()]
        return _Taken(f"the metastore's queue has it as {states[0]}") if states else None

    def _at_work(self) -> list[CompactionEntry]:
        return [
            entry
            for entry in self.client.show_compactions(self.ref, self.partition)
            if entry.partition == self.partition and entry.state in _AT_WORK
        ]

    def _claim_in(self, pool: str | None) -> ClaimedCompaction | None:
        return self.client.find_next_compaction(
            f"{_OURS}{self.job_key}"[:_LONGEST_WORKER_ID],
            worker_version=airflow_hiveacid.__version__,
            pool=pool,
        )

    def _bury(self, entry: CompactionEntry) -> None:
        """Mark as failed what a worker of ours has left; it is dead, since we hold its lock.

        Hive gives such an entry back after a day, and only where its Initiator runs.
        """
        claim = None
        if entry.state is CompactionState.WORKING and (entry.worker_id or "").startswith(_OURS):
            claim = ClaimedCompaction.of_entry(entry)
        elif entry.state is CompactionState.INITIATED and (entry.pool or "").startswith(_OURS):
            claim = self._claim_in(entry.pool)
        if claim is not None:
            _log.warning("burying compaction %s of dead worker %s", claim.entry_id, entry.worker_id)
            mark_failed(self.client, claim, "its worker died")


def mark_failed(client: MetastorePort, claim: ClaimedCompaction, why: str) -> None:
    """Say in the queue that an entry has failed, as far as the server takes it."""
    message = why[:_LONGEST_MESSAGE]
    try:
        client.mark_failed(dataclasses.replace(claim, error_message=message))
    except MetastoreError as refusal:
        _log.warning("cannot mark compaction %s as failed: %s", claim.entry_id, refusal)
