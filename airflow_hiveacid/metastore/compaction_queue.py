"""The metastore's compaction queue as values: what is asked for, claimed, and told of it.

Knows the words and letters that Hive uses for states; knows no Thrift and no call.

Example:
    >>> CompactionState.parse("ready for cleaning")
    <CompactionState.READY_FOR_CLEANING: 'ready for cleaning'>
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from airflow_hiveacid.format.ids import TxnId, WriteId
    from airflow_hiveacid.format.table import PartitionName, TableRef


class CompactionType(enum.Enum):
    """What a compaction does; the last two exist in 4.x and are never asked for by us."""

    MINOR = "minor"
    MAJOR = "major"
    REBALANCE = "rebalance"
    ABORT_TXN_CLEANUP = "abort_txn_cleanup"


class CompactionState(enum.Enum):
    """Where an entry of the queue stands, in the words of SHOW COMPACTIONS.

    ATTEMPTED is 3.1's word for an entry that its initiator gave up on, DID_NOT_INITIATE is 4.x's.
    REFUSED and ABORTED are 4.x. UNKNOWN stands for a word of a newer server.
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
    UNKNOWN = "unknown"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a server's word; an unknown one is UNKNOWN."""
        try:
            return cls(text)
        except ValueError:
            return cls("unknown")

    @property
    def is_pending(self) -> bool:
        """Whether work or cleaning is still to come."""
        return self in _PENDING


_LONGEST_JOB_ID: Final = 32

_PENDING = frozenset(
    {CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResponse:
    """What became of a request for a compaction.

    `entry_id` is the new entry, or the one that waits already; None where the server does not say
    which (4.x answers a duplicate without it). `message` is the reason of a refusal.
    """

    entry_id: int | None
    accepted: bool
    state: CompactionState
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEntry:
    """One line of SHOW COMPACTIONS.

    Times are seconds since 1970. `next_txn_id` is set at commit: the cleaner waits until no
    transaction below it is open. `partition` is None for an unpartitioned table.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCompaction:
    """An entry that we work on. All of it goes back with every later call.

    Change it with `dataclasses.replace`: `highest_write_id` as soon as the snapshot is known,
    `error_message` before `mark_failed` or `mark_refused`. Fields without a documented use are the
    server's own and only handed back. `state` is one letter of the server's.
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
        """Take over what an earlier copy of this worker had claimed before it died.

        Raises:
            ValueError: the entry is not at work.
        """
        if entry.entry_id is None or entry.state is not CompactionState.WORKING:
            raise ValueError(f"compaction {entry.entry_id} is {entry.state.value}, not working")
        return cls(
            entry_id=entry.entry_id,
            table=entry.table,
            partition=entry.partition,
            compaction_type=entry.compaction_type,
            run_as=entry.run_as,
            worker_id=entry.worker_id,
            pool=entry.pool,
        )


def fitting_job_id(job_id: str) -> str:
    """What the queue keeps of a job's ID: its end.

    COMPACTION_QUEUE.CQ_HADOOP_JOB_ID has 32 letters, and a longer one is an error of the database
    at each try. Spark's IDs on Kubernetes have 38, of which the last 32 are its own.

    Example:
        >>> fitting_job_id("application_1700000000000_0001")
        'application_1700000000000_0001'
        >>> fitting_job_id("spark-0123456789abcdef0123456789abcdef")
        '0123456789abcdef0123456789abcdef'
    """
    return job_id[-_LONGEST_JOB_ID:]
