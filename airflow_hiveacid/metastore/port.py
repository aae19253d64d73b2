"""The metastore calls that the rest of the package makes, as protocols.

The protocols use no Thrift types. `client.connect` returns the real implementation; unit tests use
a fake that passes the same contract tests. All methods raise `MetastoreUnavailableError` if no
server answers, and `MetastoreCallError` if a server refuses the call. Each method's docstring lists
its additional errors. Implementations are not thread-safe: each thread needs its own instance, from
`clone`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration, ServerEnum
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Constraints,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
)
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionResponse,
    CompactionType,
)
from airflow_hiveacid.metastore.locks import LockInfo, LockRequest, LockResponse

if TYPE_CHECKING:  # that module imports Thrift, which takes long, and DAG files import this one
    from airflow_hiveacid.metastore.catalog import NewTable, TableChange


class TxnType(enum.Enum):
    """The purpose of a transaction. A 3.1 server has no types; all of its transactions are DEFAULT.

    A READ_ONLY transaction must not allocate write IDs. The commit of a COMPACTION also sets the
    queue entry's `next_txn_id`.
    """

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class TxnState(ServerEnum):
    """The state of a transaction. The metastore soon deletes committed transactions."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """A transaction that the metastore still lists: open, or aborted and not yet cleaned up.

    Times are seconds since 1970, by the clock of the server's database. A time is None if the
    server does not report it.
    """

    txn_id: TxnId
    state: TxnState
    user: str
    host: str
    started_s: float | None = None
    last_heartbeat_s: float | None = None

    @property
    def may_be_open(self) -> bool:
        """True if the transaction is open, or in a state of a newer server."""
        return self.state not in (TxnState.ABORTED, TxnState.COMMITTED)


class CatalogPort(Protocol):
    """Databases, tables, partitions. A missing table raises TableNotFoundError."""

    def list_databases(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted."""

    def list_tables(self, db: str) -> tuple[str, ...]:
        """Return the names of a database's tables, sorted; empty for an unknown database."""

    def create_database(self, name: str, location: str | None = None) -> None:
        """Create a database unless it exists; 4.0.1 refuses an existing `location`."""

    def drop_database(self, name: str) -> None:
        """Drop an empty database; do nothing if it does not exist."""

    def get_table(self, ref: TableRef) -> TableInfo:
        """Read a table's definition. Raises UnsupportedTableError if it is a view."""

    def get_source(self, ref: TableRef) -> TableInfo:
        """Read the definition of a table or materialized view that is only read.

        Raises UnsupportedTableError if it is a view without rows of its own.
        """

    def constraints(self, ref: TableRef) -> Constraints:
        """Return the constraints on a table's rows that Hive's clients enforce."""

    def primary_key(self, ref: TableRef) -> tuple[str, ...]:
        """Return a table's primary key columns, in key order; Hive does not enforce the key."""

    def create_table(self, table: NewTable) -> TableInfo:
        """Create a table and read it back; the server refuses one that exists."""

    def drop_table(self, ref: TableRef, *, delete_data: bool = True, purge: bool = False) -> None:
        """Drop a table; with `purge`, delete its files without moving them to the trash."""

    def change_table(self, ref: TableRef, change: TableChange) -> None:
        """Change columns or the name of a table; the caller must hold a lock on the table.

        A renamed table keeps its write IDs, locks and compaction queue. Its directory is also
        renamed if it is in the database's directory.
        """

    def set_table_parameters(self, ref: TableRef, parameters: Mapping[str, str | None]) -> None:
        """Set table parameters, or remove those with None; `EXTERNAL` also sets the table type."""

    def list_partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """Return all partitions, sorted by name; an unpartitioned table has a nameless one."""

    def partition_names(self, table: TableInfo) -> tuple[PartitionName, ...]:
        """Return all partition names, sorted, cheaply; an unpartitioned table has an empty one."""

    def get_partitions(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> tuple[PartitionInfo, ...]:
        """Return the existing partitions among these names, sorted by name."""

    def add_partitions(
        self,
        table: TableInfo,
        names: Sequence[PartitionName],
        *,
        locations: Mapping[PartitionName, str] | None = None,
    ) -> tuple[PartitionInfo, ...]:
        """Create the missing partitions; return all given partitions, sorted by name.

        `locations` maps partitions to URIs; other partitions get the default location.
        """

    def drop_partitions(
        self, table: TableInfo, names: Sequence[PartitionName], *, purge: bool = False
    ) -> None:
        """Drop the named partitions with their files; ignore names that do not exist.

        The call is not atomic: if it fails, it may have dropped some of the partitions.
        """

    def partition_births(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        """Return when each existing partition was created, in seconds since 1970."""

    def forget_statistics(
        self,
        table: TableInfo,
        partitions: Sequence[PartitionName],
        *,
        write_id: WriteId,
        write_ids: ValidWriteIdList,
    ) -> int:
        """Mark statistics of a table or partitions as outdated; return how many were marked.

        Hive answers count(*), min and max from statistics that are flagged as correct, so a writer
        must remove the flag before its rows become visible.
        """


class TransactionPort(Protocol):
    """Transactions, write IDs, snapshots.

    A call of a transaction that the server has aborted or forgotten raises TransactionAbortedError.
    """

    def open_txn(self, txn_type: TxnType = TxnType.DEFAULT) -> TxnId:
        """Open a transaction; if the response is lost, it stays open until it times out."""

    def commit_txn(self, txn_id: TxnId) -> None:
        """Commit a transaction; the server first checks for conflicts.

        The request is never sent twice. After `MetastoreUnavailableError`, the outcome is unknown.
        Raises WriteConflictError if a transaction that changed the same data committed first.
        """

    def abort_txn(self, txn_id: TxnId) -> bool:
        """Abort a transaction; return False if it had already ended and is no longer listed."""

    def heartbeat(self, txn_id: TxnId) -> None:
        """Send a heartbeat, so that the server keeps the transaction open."""

    def allocate_write_id(self, txn_id: TxnId, ref: TableRef) -> WriteId:
        """Return the transaction's write ID for a table; repeated calls return the same ID."""

    def valid_txns(self) -> ValidTxnList:
        """Return all open and aborted transactions up to the newest, including the caller's."""

    def open_but_compactions(self) -> frozenset[TxnId]:
        """Return the open transactions; on 4.x, omit the transactions of compactions."""

    def valid_write_ids(
        self, refs: Iterable[TableRef], txns: ValidTxnList
    ) -> dict[TableRef, ValidWriteIdList]:
        """Return each table's visible write IDs for a list of valid transactions."""

    def max_write_id(self, ref: TableRef) -> WriteId:
        """Return the highest allocated write ID of a table; 0 if there is none.

        Unlike a 4.0.1 metastore's list of valid write IDs, this answer is never too low.
        """

    def add_write_ids_to_min_history(
        self, txn_id: TxnId, lowest: Mapping[TableRef, WriteId]
    ) -> None:
        """On 4.x, record the lowest open write IDs of a reader's snapshot. On 3.1, do nothing."""

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        ref: TableRef,
        names: Sequence[PartitionName],
        operation: DataOperation,
    ) -> None:
        """Record the partitions that a transaction writes."""

    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        """Return all open and aborted transactions with their owners, sorted by ID."""


class LockPort(Protocol):
    """Locks of transactions; TransactionAbortedError as in `TransactionPort`."""

    def lock(self, request: LockRequest) -> LockResponse:
        """Request locks; after a lost response, they may exist until the transaction ends."""

    def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
        """Check whether a waiting lock is granted now; the call is also a heartbeat."""

    def unlock(self, lock_id: LockId) -> None:
        """Withdraw a waiting lock request; a granted lock stays until its transaction ends."""

    def show_locks(
        self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        """Return all locks, the locks on a table and its partitions, or a transaction's locks."""


class QueuePort(Protocol):
    """The compaction queue. On 3.1, claiming or marking entries raises MetastoreVersionError."""

    def request_compaction(
        self,
        ref: TableRef,
        partition: PartitionName | None,
        compaction_type: CompactionType,
        *,
        pool: str | None = None,
    ) -> CompactionResponse:
        """Queue a compaction, unless one of the same is pending; only 4.x has pools."""

    def show_compactions(
        self, ref: TableRef | None = None, partition: PartitionName | None = None
    ) -> tuple[CompactionEntry, ...]:
        """Return current and past queue entries of all tables, a table or a partition, unordered.

        Entries of tables with names that require quoting are omitted.
        """

    def find_next_compaction(
        self, worker_id: str, *, worker_version: str, pool: str | None = None
    ) -> ClaimedCompaction | None:
        """Claim the oldest waiting entry of a pool, if any; None means the default pool."""

    def update_compactor_state(self, claim: ClaimedCompaction, txn_id: TxnId) -> None:
        """Record the transaction, user and highest write ID of the compaction in its entry.

        Without `run_as`, the user is this client's, since the server's cleaner needs one.
        """

    def set_job_id(self, claim: ClaimedCompaction, job_id: str) -> None:
        """Record the cluster's ID for the compaction's job; of a long ID, store only the end."""

    def mark_compacted(self, claim: ClaimedCompaction) -> None:
        """Mark the entry as compacted for the cleaner; call this after the commit."""

    def mark_cleaned(self, claim: ClaimedCompaction) -> None:
        """Mark the entry as cleaned up to its `highest_write_id`. Never sent twice."""

    def mark_failed(self, claim: ClaimedCompaction) -> None:
        """Mark the entry as failed, for the reason in `error_message`. Never sent twice.

        After two failures in a row, Hive's Initiator ignores the partition. So we mark entries as
        refused instead (docs/decisions/compaction-queue.md).
        """

    def mark_refused(self, claim: ClaimedCompaction) -> None:
        """Mark the entry as refused, for the reason in `error_message`. Never sent twice."""


class EventPort(Protocol):
    """The server's event log."""

    def logged_commits(self, ref: TableRef) -> Mapping[WriteId, int]:
        """Return the commit times of a table's writes from the log, in whole seconds since 1970.

        Each time is from the server's clock, just before the commit in its database. The result is
        empty if the server keeps no log, or denies access. It deletes events after some days. At
        most the newest 200,000 events are read.
        """


class MetastorePort(CatalogPort, TransactionPort, LockPort, QueuePort, EventPort, Protocol):
    """One connection to a metastore."""

    @property
    def generation(self) -> MetastoreGeneration:
        """The generation of the server. Raises MetastoreVersionError if it is older than 3.0."""

    @property
    def missing_calls(self) -> tuple[str, ...]:
        """Calls that this 4.x server lacks, because it is older than 4.0.1; empty on 3.1."""

    @property
    def metastore_id(self) -> str:
        """The ID of the metastore's database; a restored dump has the ID of the original."""

    @property
    def txn_timeout_s(self) -> float:
        """Seconds without a heartbeat after which the server aborts a transaction."""

    def config_value(self, name: str, default: str) -> str:
        """Return a setting of the server; return `default` if it is not set."""

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """Retry unanswered calls while `left_s()` is above 0; never if None, as in a clone."""

    def clone(self, *, call_timeout_s: float | None = None) -> Self:
        """Return a second client of this metastore for another thread, with a shorter time-out."""

    def close(self) -> None:
        """Close the connection; the next call opens it again."""

    def __enter__(self) -> Self:
        """Return the port itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""


def snapshot_now(client: MetastorePort, tables: Sequence[TableRef]) -> Snapshot:
    """Return a snapshot of the current state; cleaners do not wait for readers that use it."""
    txns = client.valid_txns()
    return Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids(tables, txns))
