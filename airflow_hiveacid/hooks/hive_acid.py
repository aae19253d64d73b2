"""Airflow's hook for a Hive metastore with ACID tables.

Input is a connection of type `hive_acid_metastore`. Output is a metastore client, or the result of
one call. A scheduler imports this module for every DAG that uses it. So only the hook's methods
connect and import Thrift or Arrow; the constructor does neither.

Example:
    with HiveAcidHook().metastore() as metastore:
        table = metastore.get_table(TableRef.parse("demo.flights"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.log import mask_secret

from airflow_hiveacid.airflow_names import AirflowException, AirflowNotFoundException
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.records import Tag
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.format.words import escape_our_log
from airflow_hiveacid.hooks.connection import (
    CONN_TYPE,
    ConnectionFields,
    MetastoreSettings,
    parse_settings,
)
from airflow_hiveacid.jobs.endpoint import Login, MetastoreEndpoint, secret_source_of
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.metastore import compaction_queue
from airflow_hiveacid.metastore.locks import LockInfo, TableAccess, concerning
from airflow_hiveacid.metastore.port import MetastorePort, OpenTxn, snapshot_now
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan.keeping import READABLE_FOR, duration
from airflow_hiveacid.plan.thresholds import TableHealth

if TYPE_CHECKING:
    from hmsclient import HMSClient

    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.definitions import Before, DefinitionOutcome
    from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
    from airflow_hiveacid.versions.history import TableHistory

DEFAULT_CONNECTION: Final = "hive_acid_default"

escape_our_log()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    """A table that exists after `create_table`; `is_new` is True if the call created it."""

    ref: TableRef
    is_new: bool
    location: str


class HiveAcidHook(BaseHook):
    """A hook for the metastore of one Airflow connection.

    Every method raises ConfigurationError if the connection is missing or invalid, and all that
    call the metastore raise MetastoreUnavailableError if no server answers.

    Args:
        hive_acid_conn_id: ID of the connection.
    """

    conn_name_attr = "hive_acid_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = CONN_TYPE
    hook_name = "Hive ACID metastore"

    def __init__(self, hive_acid_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.hive_acid_conn_id = hive_acid_conn_id

    # ---- the connection --------------------------------------------------------------------------

    @cached_property
    def settings(self) -> MetastoreSettings:
        """The connection's settings, which are read and checked on first use.

        Raises:
            ConfigurationError: the connection is missing or of another type, or one of its fields
                is invalid.
        """
        try:
            connection = self.get_connection(self.hive_acid_conn_id)
        except AirflowNotFoundException:
            raise self._missing() from None
        settings = parse_settings(ConnectionFields.of(connection))
        _hide_secret(settings.endpoint.login)
        return settings

    async def fetch_settings(self) -> MetastoreSettings:
        """Return the connection's settings; triggers must fetch a connection asynchronously.

        Raises:
            ConnectionUnavailableError: the connection is missing, or Airflow cannot be reached.
            ConfigurationError: the connection is of another type, or one of its fields is invalid.
        """
        try:
            connection = await self.aget_connection(self.hive_acid_conn_id)
        # Airflow itself ignores any other error of a secrets backend.
        except (AirflowException, AirflowRuntimeError, OSError) as error:
            raise errors.ConnectionUnavailableError(
                conn_id=self.hive_acid_conn_id, reason=f"{type(error).__name__}: {error}"
            ) from error
        return parse_settings(ConnectionFields.of(connection))

    def endpoint(self) -> MetastoreEndpoint:
        """Return the metastore's addresses and login."""
        return self.settings.endpoint

    def get_conn(self) -> HMSClient:
        """Return a connected hmsclient, for catalog calls that this provider does not wrap.

        Do not use hmsclient's calls for transactions, because they have the form of Hive 2.3. Close
        the client after use.
        """
        return self.metastore().hms()

    def metastore(self) -> MetastoreClient:
        """Return this provider's metastore client; it connects when its first method is called.

        Use the client in a `with` statement.
        """
        from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - brings Thrift

        return connect(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        """Test the connection for Airflow's Test button: return whether it works, and a message."""
        from airflow_hiveacid.metastore.client import server_states  # noqa: PLC0415 - brings Thrift
        from airflow_hiveacid.metastore.preflight import preflight  # noqa: PLC0415 - as above

        try:
            with self.metastore() as client:
                answering, failures = server_states(client.endpoint)
                reached = (
                    f"Reached a Hive {client.generation.value} metastore at"
                    f" {', '.join(answering)}; its transactions time out after"
                    f" {client.txn_timeout_s:.0f} s."
                )
                warnings = [f" WARNING: {finding}." for finding in (*failures, *preflight(client))]
        except errors.HiveAcidError as error:
            return False, f"{type(error).__name__}: {error}"
        return True, "".join((reached, *warnings))

    # ---- tables ----------------------------------------------------------------------------------

    def create_table(  # noqa: PLR0913 - a table has this many parts
        self,
        table: str,
        columns: Mapping[str, str],
        *,
        partition_columns: Mapping[str, str] | None = None,
        bucket_columns: Sequence[str] = (),
        num_buckets: int = 0,
        location: str | None = None,
        create_database: bool = False,
        insert_only: bool = False,
        stored_as: str = "orc",
        readable_for: str | None = None,
    ) -> MadeTable:
        """Create a transactional table if it does not exist; repeating the call is safe.

        Args:
            table: `db.table`.
            columns: the Hive type of each column, in the table's order.
            partition_columns: the Hive type of each partition column.
            bucket_columns: columns whose hash distributes rows to `num_buckets` files; by default
                none.
            num_buckets: the number of buckets, if there are `bucket_columns`.
            location: a URI; by default a directory below the database's location.
            create_database: whether to create a missing database.
            insert_only: whether the table is insert-only; by default it is full ACID.
            stored_as: `orc`; for an insert-only table also `parquet`, `avro` or `textfile`.
            readable_for: how long replaced rows stay readable, such as `7 days`; an existing table
                with a different duration keeps that duration.

        Raises:
            TableDiffersError: the table exists with a different definition. The table is not
                changed.
            InputError: a name or type is not valid in Hive, or `readable_for` is not a duration.
            KeepingRefusedError: the table exists now, but its versions cannot be kept yet; retry.
            MetastoreCallError: the database is missing, or the server refuses the definition.
        """
        from airflow_hiveacid.metastore.definitions.new_table import define, ensure_table  # noqa: PLC0415 - brings Thrift

        if readable_for is not None:
            duration(readable_for, "readable_for")
        new = define(
            table,
            columns,
            partition_columns=partition_columns,
            bucket_columns=bucket_columns,
            num_buckets=num_buckets,
            location=location,
            insert_only=insert_only,
            stored_as=stored_as,
            parameters=None if readable_for is None else {READABLE_FOR: readable_for},
        )
        with self.metastore() as metastore:
            if create_database:
                metastore.create_database(new.ref.db)
            is_new = ensure_table(metastore, new)
            if readable_for is not None:
                self._keep_readable(metastore, new.ref, readable_for)
            return MadeTable(
                ref=new.ref, is_new=is_new, location=metastore.get_table(new.ref).location
            )

    def _keep_readable(self, metastore: MetastorePort, ref: TableRef, time: str) -> None:
        from airflow_hiveacid.versions.keeping import keep_readable  # noqa: PLC0415 - needs Arrow

        said = _checked(metastore, str(ref)).parameters.get(READABLE_FOR, time)
        if said == time:
            keep_readable(metastore, ref, time)
        else:
            self.log.warning(
                "table %s keeps %s=%s instead of %s; to change it, run `python -m"
                " airflow_hiveacid keep %s --readable-for '%s'`",
                *(ref, READABLE_FOR, said, time, ref, time),
            )

    def run(
        self,
        statement: MetastoreStatement,
        *,
        terms: JobTerms | None = None,
        before: Before | None = None,
        on_begin: Callable[[Before], None] = lambda _: None,
    ) -> DefinitionOutcome:
        """Run a DDL statement or a metastore query, with the necessary locks.

        Args:
            statement: such as `RenameTable`; `airflow_hiveacid.hooks` exports all statements.
            terms: the job that requests the locks, and the longest wait for them. By default, the
                locks belong to no job, and the longest wait is the connection's lock timeout.
            before: the state that an earlier try passed to `on_begin`, if that try may have made
                the change.
            on_begin: a function that is called with the table's current state, just before the
                metastore call that makes the change.

        Raises:
            InputError: the table's current state does not allow the statement; nothing was changed.
            LockNotAcquiredError: the locks were not granted in time.
            MetastoreError: the metastore refused the change; or it did not answer, and the change
                may have been made.
        """
        from airflow_hiveacid.metastore.definitions.statements import run_statement  # noqa: PLC0415 - brings Thrift

        terms = terms or JobTerms(job_key=None, lock_timeout_s=self.settings.lock_timeout_s)
        with self.metastore() as metastore:
            return run_statement(
                metastore,
                statement,
                terms,
                before=before,
                on_begin=on_begin,
                around_drop=_noted_drop,
                check_owner=_check_owner,
            )

    # ---- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(
        self,
        job_key: str,
        *,
        reads: Sequence[TableAccess] = (),
        writes: Sequence[TableAccess] = (),
        lock_timeout_s: float | None = None,
    ) -> Iterator[MetastoreTransaction]:
        """Run a `with` block in a transaction with locks.

        After the block, the transaction commits. If the block raises an error, the transaction
        aborts.

        Args:
            job_key: the job key. If a later transaction begins with an equal job key, it fences
                this transaction.
            reads: the tables to read.
            writes: the tables to write; each gets a write ID.
            lock_timeout_s: the longest wait for the locks; by default the connection's setting.

        Raises:
            LockNotAcquiredError: the locks were not granted in time.
            TransactionError: the transaction was aborted, or its commit failed.
        """
        from airflow_hiveacid.metastore.transactions.transaction import begin  # noqa: PLC0415 - for tasks only

        timeout_s = self.settings.lock_timeout_s if lock_timeout_s is None else lock_timeout_s
        with (
            self.metastore() as metastore,
            begin(
                metastore,
                JobTerms(job_key=job_key, lock_timeout_s=timeout_s),
                reads=reads,
                writes=writes,
            ) as transaction,
        ):
            yield transaction

    def snapshot(self, tables: Iterable[str]) -> Snapshot:
        """Return the write IDs and transactions that a new reader of these tables would see."""
        with self.metastore() as metastore:
            return snapshot_now(metastore, [TableRef.parse(table) for table in tables])

    def open_transactions(self) -> tuple[OpenTxn, ...]:
        """Return all open and aborted transactions in the metastore's list, oldest first."""
        with self.metastore() as metastore:
            return metastore.open_txns_info()

    def heartbeat(self, txn_id: TxnId) -> None:
        """Send a heartbeat for a transaction.

        Raises:
            TransactionAbortedError: the transaction has been aborted.
        """
        with self.metastore() as metastore:
            metastore.heartbeat(txn_id)

    def abort(self, txn_id: TxnId) -> bool:
        """Abort a transaction; return False if it had committed or is no longer listed."""
        with self.metastore() as metastore:
            return metastore.abort_txn(txn_id)

    def locks(self, table: str | None = None) -> tuple[LockInfo, ...]:
        """Return the locks on a table, its partitions or its database, or without a table all.

        Locks of our compactions of the table are included; they are on artificial names.
        """
        with self.metastore() as metastore:
            return concerning(metastore.show_locks(), TableRef.parse(table) if table else None)

    # ---- compaction ------------------------------------------------------------------------------

    def request_compaction(
        self,
        table: str,
        compaction_type: compaction_queue.CompactionType,
        partition: str | None = None,
    ) -> compaction_queue.CompactionResponse:
        """Queue a compaction in the metastore, for Hive's compaction worker."""
        name = PartitionName.parse(partition) if partition else None
        with self.metastore() as metastore:
            return metastore.request_compaction(TableRef.parse(table), name, compaction_type)

    def compactions(self, table: str | None = None) -> tuple[compaction_queue.CompactionEntry, ...]:
        """Return the metastore's compaction queue and history, for one table or for all tables."""
        with self.metastore() as metastore:
            return metastore.show_compactions(TableRef.parse(table) if table else None)

    def cancel_compactions(
        self, table: str, partition: str | None = None
    ) -> tuple[compaction_queue.CompactionEntry, ...]:
        """Cancel the waiting and running compactions of a table or partition; return their entries.

        A running compaction of this provider stops with its next heartbeat, and its task fails with
        CompactionCancelledError. A compaction of Hive's worker ends without a result.

        Raises:
            MetastoreVersionError: the metastore is Hive 3.1, where no client can change the queue.
            InputError: there is nothing to cancel, because the table or partition does not exist.
        """
        from airflow_hiveacid.metastore.transactions.compaction_work import (  # noqa: PLC0415 - brings Thrift
            cancel_compactions,
        )

        name = PartitionName.parse(partition) if partition else None
        with self.metastore() as metastore:
            return cancel_compactions(metastore, TableRef.parse(table), name)

    def history(self, table: str, *, most: int | None = None) -> TableHistory:
        """Return a table's versions, newest first, with time, author, kind and readability.

        Args:
            table: `db.table`.
            most: the maximum number of versions; None means all versions.

        Raises:
            InputError: the table does not exist, or has no versions.
            StorageError: the table's files or notes cannot be read.
        """
        from airflow_hiveacid.versions.history import history_of  # noqa: PLC0415 - needs Arrow

        with self.metastore() as client:
            return history_of(client, client.get_table(TableRef.parse(table)), most=most)

    def make_tag(  # noqa: PLR0913 - a tag has this many parts
        self,
        table: str,
        name: str,
        version: VersionSpec,
        *,
        expires_s: float | None = None,
        keep_for_s: float | None = None,
        made_by: str = "",
        moves: bool = False,
    ) -> Tag:
        """Tag a version, and keep its files until the tag expires or is dropped.

        Args:
            table: `db.table`.
            name: the tag's name.
            version: the version to tag; an empty `VersionSpec` means the newest version that no
                open write can change.
            expires_s: the time when the tag expires, in seconds since 1970; None means never.
            keep_for_s: the time in seconds until the tag expires; use it instead of `expires_s`.
            made_by: the creator of the tag, such as a job key. If calls with equal `made_by` tag
                the newest version, the later calls choose the version of the first call.
            moves: whether to move the tag to this version if it exists for a different version.

        Raises:
            ConfigurationError: the name is invalid, or the expiry is in the past.
            TagTakenError: the tag exists for a different version.
            KeepingRefusedError: the table's files cannot be kept yet; retry.
            HiveAcidError: the version does not exist, or can no longer be read.
        """
        from airflow_hiveacid.versions.keeping import make_tag, time_from_now  # noqa: PLC0415 - needs Arrow

        with self.metastore() as client:
            if keep_for_s is not None:
                expires_s = time_from_now(client, keep_for_s)
            return make_tag(
                client,
                _checked(client, table),
                name,
                version,
                expires_s=expires_s,
                made_by=made_by,
                moves=moves,
            )

    def drop_tag(self, table: str, name: str) -> bool:
        """Drop a tag, so that cleaners may remove its files; return true if the tag existed.

        Raises:
            InputError: the table does not exist.
            StorageError: the table's notes cannot be read or written.
        """
        from airflow_hiveacid.storage.stores.version_notes import (  # noqa: PLC0415 - needs Arrow
            VersionNotes,
        )

        with self.metastore() as client:
            notes = VersionNotes.of(_checked(client, table))
        was_there = notes.tag(name) is not None
        notes.forget_tag(name)
        return was_there

    def table_health(self, table: str, partition: str | None = None) -> tuple[TableHealth, ...]:
        """Return the health of each partition, or only of `partition`.

        Raises:
            InputError: the table or partition does not exist, or the table is not transactional.
            StorageError: the directories cannot be listed.
        """
        from airflow_hiveacid.maintenance.health import measure  # noqa: PLC0415 - needs Arrow

        with self.metastore() as metastore:
            return measure(metastore, TableRef.parse(table), partition).healths

    def _missing(self) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"there is no connection {self.hive_acid_conn_id!r}; create one of type"
            f" {self.conn_type} or set hive_acid_conn_id"
        )


def _hide_secret(login: Login | None) -> None:
    """Make Airflow hide the login's secret in all logs, including the logs of other libraries."""
    from airflow_hiveacid.metastore.auth.secret import read_secret_text  # noqa: PLC0415 - for tasks only

    if (source := secret_source_of(login)) is None:
        return
    try:
        mask_secret(read_secret_text(source))
    except errors.ConfigurationError:
        return  # the login reports this error itself, or the secret is binary and in no log


def _check_owner(client: MetastorePort, ref: TableRef, names: Sequence[PartitionName]) -> None:
    """Raise OtherOwnerError if files to drop or move belong to another table or metastore."""
    from airflow_hiveacid.maintenance.ownership import check_definition  # noqa: PLC0415 - needs Arrow

    check_definition(client, ref, names)


def _checked(client: MetastorePort, table: str) -> TableInfo:
    """Return the table whose notes change; raise OtherOwnerError if they are another one's."""
    from airflow_hiveacid.maintenance.ownership import check_note  # noqa: PLC0415 - needs Arrow

    info = client.get_table(TableRef.parse(table))
    check_note(client, info)
    return info


def _noted_drop(
    client: MetastorePort, ref: TableRef, names: Sequence[PartitionName]
) -> AbstractContextManager[None]:
    """Record that dropped partitions have made versions of the table unreadable."""
    from airflow_hiveacid.versions.losses import noted_drop  # noqa: PLC0415 - needs Arrow

    return noted_drop(client, ref, names)
