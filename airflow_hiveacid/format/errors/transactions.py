"""Errors of transactions: conflicts, locks, fencing, and unknown outcomes of commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors.tree import RetryableError, TransactionError
from airflow_hiveacid.format.words import printable

_STARTING: Final = "while the job was starting. Nothing was written; retry"
_CHECKS_ITS_KEY: Final = (
    "Retry the task: it checks its job key, and does not apply the change twice"
)
_APPLIES_AGAIN: Final = (
    "Check whether the change is in the job's tables; to apply it (again) to all of them, clear the"
    " task, or take another key in a program in Python"
)
_CONTINUES_AS_ANOTHER: Final = (
    "Find the stream's last rows in the table. Then start after them, with another name for the"
    " stream or with a new checkpoint"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The writer that committed first; unknown fields are None, as is another engine's job key.

    `did` is the kind of change (`format.conflicts.Change`), which `directory` shows.
    """

    txn_id: int | None = None
    write_id: int | None = None
    did: str | None = None
    directory: str | None = None
    job_key: str | None = None
    attempt: str | None = None

    @property
    def is_known(self) -> bool:
        """True if the transaction ID or write ID of the writer is known."""
        return self.txn_id is not None or self.write_id is not None

    def __str__(self) -> str:
        parts = [
            f"{label} {value}"
            for label, value in (
                ("transaction", self.txn_id),
                ("write ID", self.write_id),
                ("of", self.job_key),
                ("attempt", self.attempt),
            )
            if value is not None
        ]
        return printable(" ".join(parts)) + (
            "" if self.job_key else ", which is not in our ledgers"
        )


class TransactionAbortedError(TransactionError, RetryableError):
    """The transaction was aborted: it timed out, or a user or program aborted it."""

    def __init__(self, *, txn_id: int, reason: str) -> None:
        self.txn_id, self.reason = txn_id, reason
        super().__init__(
            f"transaction {txn_id} is aborted: {reason}. None of its changes are visible"
        )


class WriteConflictError(TransactionError, RetryableError):
    """Another transaction that changed the same partition committed first.

    `winner` describes the transaction that committed first, if it is known. `policies` maps each
    table to its conflict policy.
    """

    def __init__(self, *, txn_id: int, reason: str, winner: Winner | None = None) -> None:
        self.txn_id, self.reason, self.winner = txn_id, reason, winner or Winner()
        self.policies: dict[str, str] = {}
        super().__init__(
            f"transaction {txn_id} lost a conflict with another writer: {reason}. None of its"
            " changes are visible"
        )


class OvertakenError(TransactionError, RetryableError):
    """A transaction that started later changed data that this transaction depends on."""

    def __init__(self, *, table: object, txn_id: int, why: str) -> None:
        self.table, self.txn_id, self.why = str(table), txn_id, why
        super().__init__(
            f"table {table}: transaction {txn_id} was overtaken: {why}. None of its changes are"
            " visible; retry"
        )


class TableChangedError(TransactionError, RetryableError):
    """The table's definition changed between the statement's check and the grant of its locks."""

    def __init__(self, *, table: object, what: str, since: str = _STARTING) -> None:
        self.table, self.what = str(table), what
        super().__init__(f"table {table}: its {what} changed {since}")


class SnapshotClosedError(TransactionError):
    """A scan was read after its snapshot was closed or lost."""

    def __init__(self, *, table: object, why: str, remedy: str = "") -> None:
        self.table, self.why = str(table), why
        remedy = remedy or "Call refresh() on the table, then scan() again"
        super().__init__(
            f"table {table}: the snapshot of this scan is closed, because {why}; its files may be"
            f" gone. {remedy}"
        )


class LockNotAcquiredError(TransactionError, RetryableError):
    """A lock was not granted in time; the lock request was withdrawn."""

    def __init__(
        self, *, tables: tuple[str, ...], lock_id: int, waited_s: float, holders: str
    ) -> None:
        self.tables, self.lock_id, self.waited_s, self.holders = tables, lock_id, waited_s, holders
        super().__init__(
            f"no lock on {', '.join(tables)} after {waited_s:.1f} s (lock {lock_id}); held by:"
            f" {holders or 'unknown'}. `hiveacid locks {tables[0]}` lists the locks, and `hiveacid"
            " abort ID` ends a dead transaction; otherwise, raise lock_timeout_s or retry later"
        )


class CompactionNotDoneError(TransactionError, RetryableError):
    """A compaction was requested and is needed, but something blocks it."""

    def __init__(self, *, table: object, partition: str, kind: str, why: str) -> None:
        self.table, self.partition, self.kind, self.why = str(table), partition, kind, why
        where = f"table {table}" + (f", partition {partition}" if partition else "")
        super().__init__(
            f"{where}: the {kind} compaction was not done: {why}. Nothing was published, and no row"
            " is affected. Retry when the cause is gone"
        )


class CompactionFailedError(TransactionError):
    """A compaction in the metastore's queue ended without a result."""

    def __init__(  # noqa: PLR0913 - the fields of the queue's entry
        self, *, table: object, partition: str, entry_id: int, kind: str, state: str, why: str
    ) -> None:
        self.table, self.partition, self.entry_id = str(table), partition, entry_id
        self.kind, self.state, self.why = kind, state, why
        where = f"table {table}" + (f", partition {partition}" if partition else "")
        number = f" {entry_id}" if entry_id else ""
        super().__init__(
            f"{where}: the newest compaction{number} ({kind}) in the queue is {state}:"
            f" {why or 'the queue has no reason'}. No row is affected. Compact again, for example"
            " with HiveAcidCompactOperator, or pass fail_on_failed=False"
        )


class CompactionCancelledError(TransactionError):
    """The queue entry of a running compaction was withdrawn: it now has the state `state`."""

    def __init__(
        self, *, table: object, partition: str, entry_id: int, state: str, why: str
    ) -> None:
        self.table, self.partition, self.entry_id = str(table), partition, entry_id
        self.state, self.why = state, why
        where = f"table {table}" + (f", partition {partition}" if partition else "")
        super().__init__(
            f"{where}: the compaction was cancelled: its entry {entry_id} in the queue is {state}"
            f" ({why}). Nothing was published, and no row is affected. The task is not retried;"
            " clear it to compact"
        )


class FencedError(TransactionError):
    """A newer copy of the same task is running, so this copy has stopped."""

    def __init__(self, *, job_key: str, txn_id: int, newer_txn_id: int) -> None:
        self.job_key, self.txn_id, self.newer_txn_id = job_key, txn_id, newer_txn_id
        super().__init__(
            f"transaction {txn_id} of {printable(job_key)} was stopped: transaction {newer_txn_id}"
            " of the same task is newer"
        )


class CommitStateUnknownError(TransactionError):
    """The response to a commit was lost, so its outcome is unknown; nothing was rolled back."""

    retryable = True

    def __init__(self, *, txn_id: int, reason: str, remedy: str = _CHECKS_ITS_KEY) -> None:
        self.txn_id, self.reason = txn_id, reason
        super().__init__(
            f"transaction {txn_id} may or may not be committed: {reason}. Nothing was deleted."
            f" {remedy}"
        )


class EarlierRunUnknownError(TransactionError):
    """An earlier try of this job may have committed, but the evidence no longer exists."""

    def __init__(  # noqa: PLR0913 - the fields of the ledger's entry
        self,
        *,
        table: object,
        job_key: str,
        txn_id: int,
        when: str,
        why: str,
        is_batch: bool = False,
    ) -> None:
        self.table, self.job_key, self.txn_id, self.when = str(table), job_key, txn_id, when
        self.why, self.is_batch = why, is_batch
        remedy = _CONTINUES_AS_ANOTHER if is_batch else _APPLIES_AGAIN
        super().__init__(
            f"table {table}: the job ledger lists transaction {txn_id} of {printable(job_key)}, at"
            f" {when}, but cannot prove that it was committed: {why}. Nothing was written. {remedy}"
        )
