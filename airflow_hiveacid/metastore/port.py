"""What the rest of the package may ask of a metastore, in values of our own.

The one border behind which Thrift lives. `client.connect` gives the real one; unit tests use a fake
that passes the same contract tests. All methods raise `MetastoreUnavailableError` when no server
answers and `MetastoreCallError` when one refuses; each says what else it raises.

Implementations are not thread-safe: one per thread, by `clone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from airflow_hiveacid.metastore.txn_values import TxnType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
    from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import (
        Constraints,
        PartitionInfo,
        PartitionName,
        TableInfo,
        TableRef,
    )
    from airflow_hiveacid.metastore.catalog import NewTable, TableChange
    from airflow_hiveacid.metastore.compaction_queue import (
        ClaimedCompaction,
        CompactionEntry,
        CompactionResponse,
        CompactionType,
    )
    from airflow_hiveacid.metastore.locks import LockInfo, LockRequest, LockResponse
    from airflow_hiveacid.metastore.txn_values import OpenTxn


class CatalogPort(Protocol):
    """Databases, tables, partitions."""

    def list_databases(self) -> tuple[str, ...]:
        """Names of all databases, sorted."""

    def list_tables(self, db: str) -> tuple[str, ...]:
        """Names of all tables of a database, sorted; none for an unknown database."""

    def create_database(self, name: str, location: str | None = None) -> None:
        """Make a database unless it is there.

        `location` is where its managed tables go; a directory that is not there yet, as 4.0.1
        insists.
        """

    def drop_database(self, name: str) -> None:
        """Remove an empty database; nothing if there is none."""

    def get_table(self, ref: TableRef) -> TableInfo:
        """Read a table's definition.

        Raises:
            TableNotFoundError: there is no such table.
        """

    def constraints(self, ref: TableRef) -> Constraints:
        """What a table demands of its rows, as far as Hive enforces it."""

    def primary_key(self, ref: TableRef) -> tuple[str, ...]:
        """The columns of a table's primary key, in its order; none if it has none.

        Nobody enforces it: rows may be alike in it.
        """

    def create_table(self, table: NewTable) -> TableInfo:
        """Make a table and read it back.

        Raises:
            MetastoreCallError: it exists, or the server does not accept the definition.
        """

    def drop_table(self, ref: TableRef, *, delete_data: bool = True, purge: bool = False) -> None:
        """Remove a table; with `purge` its files do not go to the file system's trash.

        Raises:
            TableNotFoundError: there is no such table.
        """

    def change_table(self, ref: TableRef, change: TableChange) -> None:
        """Change columns or the name of a table; whoever calls holds a lock on it.

        With a new name it keeps its write IDs, locks, and queue of compactions, and its directory
        goes along where it lies below its database's.

        Raises:
            TableNotFoundError: there is no such table.
        """

    def set_table_parameters(self, ref: TableRef, parameters: Mapping[str, str | None]) -> None:
        """Set parameters of a table, and remove those given as None; all else stays.

        With `EXTERNAL` among them the table's type is what it says.

        Raises:
            TableNotFoundError: there is no such table.
        """

    def list_partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """All partitions, sorted by name; one for an unpartitioned table.

        Raises:
            TableNotFoundError: there is no such table.
        """

    def partition_names(self, table: TableInfo) -> tuple[PartitionName, ...]:
        """The names of all partitions, sorted; the empty one for an unpartitioned table.

        A small part of what `list_partitions` costs.
        """

    def get_partitions(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> tuple[PartitionInfo, ...]:
        """Those of the named partitions that exist, sorted by name."""

    def add_partitions(
        self,
        table: TableInfo,
        names: Sequence[PartitionName],
        *,
        locations: Mapping[PartitionName, str] | None = None,
    ) -> tuple[PartitionInfo, ...]:
        """Make the named partitions where they are missing; answers all of them, sorted by name.

        `locations` are URIs of those that do not lie below the table.
        """

    def drop_partitions(
        self, table: TableInfo, names: Sequence[PartitionName], *, purge: bool = False
    ) -> None:
        """Remove the named partitions with their files; those that are not there do not matter.

        Many are not removed at once: after an error, some may be gone.
        """

    def partition_births(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        """When each of the named partitions that exist was made, in seconds since 1970.

        Tells a partition from one that had its name before.
        """

    def forget_statistics(
        self,
        table: TableInfo,
        partitions: Sequence[PartitionName],
        *,
        write_id: WriteId,
        write_ids: ValidWriteIdList,
    ) -> int:
        """Mark the statistics of a table, or of these partitions, as out of date; answers how many.

        Hive answers count(*), min and max from statistics that are marked as right, so whoever
        writes has to unmark them before its rows become visible.
        """


class TransactionPort(Protocol):
    """Transactions, write IDs, snapshots."""

    def open_txn(self, txn_type: TxnType = TxnType.DEFAULT) -> TxnId:
        """Open a transaction. When the answer is lost, one stays open until it times out."""

    def commit_txn(self, txn_id: TxnId) -> None:
        """Commit, with a look for conflicts.

        Never sent twice: after `MetastoreUnavailableError` it may have happened or not.

        Raises:
            WriteConflictError: another transaction changed the same and was first.
            TransactionAbortedError: it was aborted, or nothing is known of it.
        """

    def abort_txn(self, txn_id: TxnId) -> bool:
        """Abort; aborting twice is fine.

        Returns:
            Whether it is aborted now. False: nothing is known of it, so it has ended before.
        """

    def heartbeat(self, txn_id: TxnId) -> None:
        """Say that the transaction is alive.

        Raises:
            TransactionAbortedError: it was aborted, or nothing is known of it.
        """

    def allocate_write_id(self, txn_id: TxnId, ref: TableRef) -> WriteId:
        """The transaction's write ID for a table; the same one if asked again.

        Raises:
            TransactionAbortedError: it was aborted, or nothing is known of it.
        """

    def valid_txns(self) -> ValidTxnList:
        """All open and aborted transactions, one's own included, up to the newest."""

    def open_but_compactions(self) -> frozenset[TxnId]:
        """All open transactions that are no compactions, as far as the server tells them apart."""

    def valid_write_ids(
        self, refs: Iterable[TableRef], txns: ValidTxnList
    ) -> dict[TableRef, ValidWriteIdList]:
        """The write IDs of each table that are visible under a transaction list."""

    def add_write_ids_to_min_history(
        self, txn_id: TxnId, lowest: Mapping[TableRef, WriteId]
    ) -> None:
        """Tell a 4.x server from which write ID on a reader needs the files; nothing on 3.1."""

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        ref: TableRef,
        names: Sequence[PartitionName],
        operation: DataOperation,
    ) -> None:
        """Tell which partitions a transaction writes.

        Raises:
            TransactionAbortedError: it was aborted, or nothing is known of it.
        """

    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        """All open and aborted transactions with their owners, ascending."""


class LockPort(Protocol):
    """Locks of transactions."""

    def lock(self, request: LockRequest) -> LockResponse:
        """Ask for locks, once: on a lost answer the lock exists and only abort removes it.

        Raises:
            TransactionAbortedError: the transaction was aborted, or nothing is known of it.
        """

    def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
        """Look whether a waiting lock is granted now; counts as a heartbeat.

        Raises:
            TransactionAbortedError: the transaction was aborted and its locks are gone.
        """

    def unlock(self, lock_id: LockId) -> None:
        """Take a waiting lock back. A granted one stays until its transaction ends, silently."""

    def show_locks(
        self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        """All locks, or those on a table and its partitions, or of a transaction."""


class QueuePort(Protocol):
    """The compaction queue. Claiming and marking need 4.x: else MetastoreVersionError."""

    def request_compaction(
        self,
        ref: TableRef,
        partition: PartitionName | None,
        compaction_type: CompactionType,
        *,
        pool: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CompactionResponse:
        """Put an entry into the queue unless one waits there. Pools exist on 4.x."""

    def show_compactions(
        self, ref: TableRef | None = None, partition: PartitionName | None = None
    ) -> tuple[CompactionEntry, ...]:
        """The queue and its history, of all or one table or partition, in the server's order.

        Tables whose names only a quoted identifier can spell are left out.
        """

    def find_next_compaction(
        self, worker_id: str, *, worker_version: str, pool: str | None = None
    ) -> ClaimedCompaction | None:
        """Claim the oldest waiting entry of the pool, or of none; None when nothing waits."""

    def update_compactor_state(self, claim: ClaimedCompaction, txn_id: TxnId) -> None:
        """Say which transaction works on the entry, as which user, and up to which write ID.

        Without `run_as` it is our own user: the server's cleaner needs one.
        """

    def set_job_id(self, claim: ClaimedCompaction, job_id: str) -> None:
        """Say under which ID the work runs on its cluster; a long one is kept by its end."""

    def mark_compacted(self, claim: ClaimedCompaction) -> None:
        """The result is in place; before commit. Then the cleaner's turn comes."""

    def mark_cleaned(self, claim: ClaimedCompaction) -> None:
        """Everything obsolete up to `highest_write_id` is removed. Never sent twice."""

    def mark_failed(self, claim: ClaimedCompaction) -> None:
        """The work failed, for the reason in `error_message`. Never sent twice."""

    def mark_refused(self, claim: ClaimedCompaction) -> None:
        """The work will not be done, for the reason in `error_message`. Never sent twice."""


class EventPort(Protocol):
    """What the server's own log of events tells."""

    def logged_commits(self, ref: TableRef) -> Mapping[WriteId, int]:
        """When writes of a table were committed, in whole seconds since 1970, as the log has them.

        By the clock of the server's process, just before its database had it. Nothing where no log
        is kept, or we may not read it; a log forgets what is older than some days, and it is not
        read further back than 200,000 events.
        """


class MetastorePort(CatalogPort, TransactionPort, LockPort, QueuePort, EventPort, Protocol):
    """One connection to a metastore."""

    @property
    def generation(self) -> MetastoreGeneration:
        """Which generation the server is of.

        Raises:
            MetastoreVersionError: it is older than 3.0.
        """

    @property
    def txn_timeout_s(self) -> float:
        """Seconds of silence after which the server gives a transaction up."""

    def config_value(self, name: str, default: str) -> str:
        """A setting of the server, `default` where it has none."""

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """Outlast a server that is away: repeat what may be repeated while `left_s()` is above 0.

        None: no longer. A clone has no patience of its own.
        """

    def clone(self, *, call_timeout_s: float | None = None) -> Self:
        """A second connection to the same metastore, for another thread, which waits less."""

    def close(self) -> None:
        """Close the connection; the next call opens it again."""

    def __enter__(self) -> Self:
        """The port itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
