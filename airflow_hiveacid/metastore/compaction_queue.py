"""Values of the metastore's compaction queue: requests, claims and listed entries.

Example:
    >>> CompactionState.received("ready for cleaning")
    <CompactionState.READY_FOR_CLEANING: 'ready for cleaning'>
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.conflicts import ServerEnum
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableRef


class CompactionType(ServerEnum):
    """The type of a compaction.

    This provider requests only MINOR and MAJOR; the other types exist only in 4.x. Hive 4.1 also
    queues compactions of Iceberg tables, whose types have no member here.
    """

    MINOR = "minor"
    MAJOR = "major"
    REBALANCE = "rebalance"
    ABORT_TXN_CLEANUP = "abort_txn_cleanup"


class CompactionState(ServerEnum):
    """The state of a queue entry, in the words of SHOW COMPACTIONS.

    ATTEMPTED (3.1) and DID_NOT_INITIATE (4.x) mean that the initiator failed. REFUSED and ABORTED
    exist only in 4.x.
    """

    INITIATED = "initiated"
    WORKING = "working"
    READY_FOR_CLEANING = "ready for cleaning"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    ATTEMPTED = "attempted"
    DID_NOT_INITIATE = "did not initiate"
    REFUSED = "refused"
    ABORTED = "aborted"

    @property
    def is_pending(self) -> bool:
        """False if the compaction and its cleaning have finished."""
        return self in _PENDING

    @property
    def was_requested(self) -> bool:
        """False if Hive's initiator failed before it could request a compaction."""
        return self not in _NOT_INITIATED

    @property
    def is_unsuccessful(self) -> bool:
        """True if a compaction has no result, or Hive's initiator failed to request it."""
        return self in _WITHOUT_RESULT or not self.was_requested


_OURS: Final = "hiveacid-"
"""The prefix of the worker IDs and pool names that this provider chooses."""

# Match the whole name, because other names may have the same prefix, such as a user's pool or the
# host name of a Hive worker.
_OUR_POOL: Final = re.compile(rf"{_OURS}[0-9a-f]{{32}}")

_LONGEST_JOB_ID: Final = 32
# The length of COMPACTION_QUEUE.CQ_WORKER_ID in Hive's schema.
_LONGEST_WORKER_ID: Final = 128

_PENDING = frozenset(
    {CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING}
)
_WITHOUT_RESULT = frozenset(
    {CompactionState.FAILED, CompactionState.REFUSED, CompactionState.ABORTED}
)
_NOT_INITIATED = frozenset({CompactionState.ATTEMPTED, CompactionState.DID_NOT_INITIATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResponse:
    """The result of a compaction request.

    `entry_id` is of the new entry, or of an equal pending entry; None if the server returns none,
    as 4.x does for a duplicate request. `message` gives the reason for a refusal.
    """

    entry_id: int | None
    accepted: bool
    state: CompactionState
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEntry:
    """One entry of the compaction queue; its values are from a row of SHOW COMPACTIONS.

    Times are seconds since 1970. `next_txn_id` is set at commit; the cleaner waits until all
    transactions below it have ended. `partition` is None for an unpartitioned table.
    """

    entry_id: int | None
    table: TableRef
    partition: PartitionName | None
    compaction_type: CompactionType
    state: CompactionState
    worker_id: str | None = None
    worker_version: str | None = None
    initiator_id: str | None = None
    run_as: str | None = None
    pool: str | None = None
    job_id: str | None = None
    error_message: str | None = None
    highest_write_id: WriteId | None = None
    txn_id: TxnId | None = None
    next_txn_id: TxnId | None = None
    enqueued_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    committed_s: float | None = None

    @property
    def is_pending(self) -> bool:
        """False if compaction and cleaning have finished; for an unknown state, if it has ended."""
        return self.state.is_pending or (not self.state.is_known and self.ended_s is None)

    @property
    def is_at_work(self) -> bool:
        """True if the entry waits for a worker, or a worker has claimed it."""
        return self.state in (CompactionState.INITIATED, CompactionState.WORKING)

    @property
    def has_failed(self) -> bool:
        """True if a compaction that was needed ended without a result.

        Hive's workers refuse a request if there is nothing to compact, ours if they have failed.
        """
        is_nothing = self.state is CompactionState.REFUSED and not self.has_our_worker
        return self.state.is_unsuccessful and not is_nothing and not self.is_committed

    @property
    def is_committed(self) -> bool:
        """True if the compaction's transaction is committed; 3.1 does not tell."""
        return self.next_txn_id is not None

    @property
    def shows_commit(self) -> bool:
        """True if a commit sets `next_txn_id`; Hive 4.0 does so for minor and major only."""
        return self.compaction_type in (CompactionType.MINOR, CompactionType.MAJOR)

    def is_dead(self, txns: ValidTxnList) -> bool:
        """Return True if the unfinished compaction has certainly ended without a result.

        A commit sets `next_txn_id` in the same change of the database. So if a transaction had
        ended before the entry was read (`txns` were read before), and `next_txn_id` is unset, it
        was aborted. An entry that waits for a worker is alive: after a worker's time-out, the
        server lets it wait again, but keeps the transaction of that worker
        (CompactionTxnHandler.revokeTimedoutWorkers).
        """
        has_begun = self.state in (CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)
        if self.txn_id is None or self.is_committed or not has_begun:
            return False
        has_ended = self.txn_id <= txns.high_watermark and self.txn_id not in txns.open
        return self.txn_id in txns.aborted or (has_ended and self.shows_commit)

    @property
    def reason(self) -> str:
        """The first and last lines of the error message; the others are a stack trace."""
        lines = [line.strip() for line in (self.error_message or "").splitlines() if line.strip()]
        return " ... ".join(dict.fromkeys((*lines[:1], *lines[-1:])))

    @property
    def has_our_worker(self) -> bool:
        """True if our worker was the last to claim the entry, and has not marked it as compacted.

        The server clears the worker ID when the entry is marked as compacted, and replaces it when
        another worker claims it. Entries in the queue's history keep it.
        """
        return (self.worker_id or "").startswith(_OURS) and self.is_in_our_pool

    @property
    def waits_for_us(self) -> bool:
        """True if the entry waits in a pool that belongs to one of our workers."""
        return self.state is CompactionState.INITIATED and self.is_in_our_pool

    @property
    def waits_for_anybody(self) -> bool:
        """True if a different client requested the entry, and any worker may claim it."""
        is_known = self.compaction_type in (CompactionType.MINOR, CompactionType.MAJOR)
        is_waiting = self.state is CompactionState.INITIATED
        return is_waiting and is_known and not self.waits_for_us

    @property
    def waits_for_hive(self) -> bool:
        """True if it waits for a worker of Hive's; entries for Hive's cleaner do not count."""
        kind = self.compaction_type
        is_of_hive = kind is CompactionType.REBALANCE or not kind.is_known
        return self.state is CompactionState.INITIATED and is_of_hive

    @property
    def is_in_our_pool(self) -> bool:
        """True if a worker of ours requested the entry, for a pool that only this entry uses."""
        return _OUR_POOL.fullmatch(self.pool or "") is not None

    @property
    def owner(self) -> str:
        """The worker; while the entry waits or is marked as compacted, the client that asked."""
        if self.is_in_our_pool:
            return self.worker_id or "this provider"
        if self.worker_id:
            return f"worker {self.worker_id}"
        return self.initiator_id or "another client"

    @property
    def asked_by(self) -> str:
        """A description of the entry, including the client that requested it."""
        client = self.initiator_id or "another client"
        return f"compaction {self.entry_id} ({self.compaction_type.value}, requested by {client})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCompaction:
    """An entry that our worker has claimed; each later call sends all fields back to the server.

    Set `highest_write_id` when the snapshot is known, and `error_message` before `mark_failed` or
    `mark_refused`. `state` is the server's one-letter code. Only the server interprets the others.
    """

    entry_id: int
    table: TableRef
    partition: PartitionName | None
    compaction_type: CompactionType
    run_as: str | None = None
    properties: str | None = None
    has_too_many_aborts: bool | None = None
    has_old_abort: bool | None = None
    state: str | None = None
    worker_id: str | None = None
    start_ms: int | None = None
    highest_write_id: WriteId | None = None
    error_message: str | None = None
    enqueued_ms: int | None = None
    retry_retention: int | None = None
    pool: str | None = None

    @classmethod
    def of_entry(cls, entry: CompactionEntry) -> Self:
        """Return a claim for an unfinished 4.x entry that has no worker, or a dead worker."""
        if entry.entry_id is None or not entry.state.is_pending:
            raise ValueError(f"compaction {entry.entry_id} is {entry.state.value}, not unfinished")
        return cls(
            entry_id=entry.entry_id,
            table=entry.table,
            partition=entry.partition,
            compaction_type=entry.compaction_type,
            run_as=entry.run_as,
            worker_id=entry.worker_id,
            pool=entry.pool,
        )


def newest_entries(entries: Iterable[CompactionEntry]) -> dict[str, CompactionEntry]:
    """Return the newest entry of each partition; the key of an unpartitioned table is ''.

    Entries of a 3.1 metastore have no ID: there an unfinished entry is newer than a finished one,
    and of two finished entries the one that ended later.
    """

    def age_rank(entry: CompactionEntry) -> tuple[int, bool, float]:
        return entry.entry_id or 0, entry.is_pending, entry.ended_s or 0.0

    return {str(entry.partition or ""): entry for entry in sorted(entries, key=age_rank)}


def in_queue(partition: PartitionInfo) -> PartitionName | None:
    """Return a partition's name in the queue; None for the whole table."""
    return partition.name if partition.name.columns else None


def our_worker_id(job_key: str) -> str:
    """Return a worker ID for a job of this provider; `has_our_worker` recognizes the ID."""
    return f"{_OURS}{job_key}"[:_LONGEST_WORKER_ID]


def our_pool(request: uuid.UUID) -> str:
    """Return a pool name for a request of this provider; `waits_for_us` recognizes the name."""
    return f"{_OURS}{request.hex}"


def fitting_job_id(job_id: str) -> str:
    """Return the last 32 characters of a job ID; the queue cannot store more.

    COMPACTION_QUEUE.CQ_HADOOP_JOB_ID has 32 characters, and the database always rejects longer IDs.
    Spark's IDs on Kubernetes have 38 characters; the last 32 are unique.

    Example:
        >>> fitting_job_id("application_1700000000000_0001")
        'application_1700000000000_0001'
        >>> fitting_job_id("spark-0123456789abcdef0123456789abcdef")
        '0123456789abcdef0123456789abcdef'
    """
    return job_id[-_LONGEST_JOB_ID:]
