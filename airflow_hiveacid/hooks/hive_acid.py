"""Airflow's hook to a Hive metastore that holds ACID tables.

Takes a connection of type `hive_acid_metastore`; gives metastore clients and thin calls over them.
Connects when a method is called, never when the hook is made, and imports Thrift and Arrow only
then: a scheduler loads this module for every DAG.

Example:
    with HiveAcidHook().metastore() as metastore:
        table = metastore.get_table(TableRef.parse("demo.flights"))
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_hiveacid.format.errors import ConfigurationError, HiveAcidError
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.hooks.connection import ConnectionFields, MetastoreSettings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hmsclient import HMSClient

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.format.versions import VersionSpec
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.compaction_queue import (
        CompactionEntry,
        CompactionResponse,
        CompactionType,
    )
    from airflow_hiveacid.metastore.definition_lock import LockTerms
    from airflow_hiveacid.metastore.definition_work import Before, Outcome
    from airflow_hiveacid.metastore.locks import LockInfo, TableAccess
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.metastore.txn_values import OpenTxn
    from airflow_hiveacid.plan.keeping import Tag
    from airflow_hiveacid.plan.metastore_statements import MetastoreStatement
    from airflow_hiveacid.plan.thresholds import TableHealth
    from airflow_hiveacid.versions.history import TableHistory

DEFAULT_CONNECTION: Final = "hive_acid_default"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    """A table that is there now; `is_new` says whether it was made just now."""

    ref: TableRef
    is_new: bool
    location: str


class HiveAcidHook(BaseHook):
    """The metastore behind one connection.

    Args:
        hive_acid_conn_id: the connection.
    """

    conn_name_attr = "hive_acid_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "hive_acid_metastore"
    hook_name = "Hive ACID metastore"

    def __init__(self, hive_acid_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.hive_acid_conn_id = hive_acid_conn_id

    # ---- the connection --------------------------------------------------------------------------

    @cached_property
    def settings(self) -> MetastoreSettings:
        """What the connection says, read and checked once.

        Raises:
            ConfigurationError: there is no such connection, or a field of it is wrong.
        """
        try:
            connection = self.get_connection(self.hive_acid_conn_id)
        except AirflowNotFoundException as exc:
            raise self._missing() from exc
        return parse_settings(ConnectionFields.of(connection))

    async def fetch_settings(self) -> MetastoreSettings:
        """The same for triggers: the triggerer answers asynchronous questions only.

        Raises:
            ConfigurationError: there is no such connection, or a field of it is wrong.
        """
        try:
            connection = await self.aget_connection(self.hive_acid_conn_id)
        except AirflowNotFoundException as exc:
            raise self._missing() from exc
        return parse_settings(ConnectionFields.of(connection))

    def endpoint(self) -> MetastoreEndpoint:
        """How to reach the metastore.

        Raises:
            ConfigurationError: there is no such connection, or a field of it is wrong.
        """
        return self.settings.endpoint

    def get_conn(self) -> HMSClient:
        """Hmsclient's client, connected; for catalog calls that this package does not wrap.

        Its transaction calls are those of Hive 2.3 and of no use here. Close it after use.

        Raises:
            MetastoreUnavailableError: no server answers.
        """
        return self.metastore().hms()

    def metastore(self) -> MetastoreClient:
        """A client of our own, which connects at its first call. Use it in a `with` statement.

        Raises:
            ConfigurationError: there is no such connection, or a field of it is wrong.
        """
        from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - brings Thrift

        return connect(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        """What Airflow's Test button shows: whether the metastore can be used, or what is wrong."""
        from airflow_hiveacid.metastore.preflight import preflight  # noqa: PLC0415 - brings Thrift

        try:
            with self.metastore() as client:
                reached = (
                    f"Reached a Hive {client.generation.value} metastore at"
                    f" {', '.join(client.endpoint.uris)}; its transactions time out after"
                    f" {client.txn_timeout_s:.0f} s."
                )
                warnings = [f" WARNING: {finding}." for finding in preflight(client)]
        except HiveAcidError as error:
            return False, f"{type(error).__name__}: {error}"
        return True, "".join((reached, *warnings))

    # ---- tables ----------------------------------------------------------------------------------

    def create_table(  # noqa: PLR0913 - a table is that much
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
    ) -> MadeTable:
        """Make a transactional table unless it is there; safe to repeat.

        Args:
            table: `db.table`.
            columns: Hive types by column, in the table's order.
            partition_columns: the same for partition columns.
            bucket_columns: rows go into `num_buckets` files by their hash; none by default.
            num_buckets: see there.
            location: a URI; by default below the database's.
            create_database: make the database, too, if it is missing.
            insert_only: whether its rows can be added and replaced only; full ACID by default.
            stored_as: orc, or for an insert-only table also parquet, avro and textfile.

        Raises:
            TableDiffersError: it is there with another shape; it is not touched.
            InputError: a name or type is none of Hive's.
            MetastoreCallError: there is no such database, or the server refuses the definition.
        """
        from airflow_hiveacid.metastore.new_table import define, ensure_table  # noqa: PLC0415 - brings Thrift

        new = define(
            table,
            columns,
            partition_columns=partition_columns,
            bucket_columns=bucket_columns,
            num_buckets=num_buckets,
            location=location,
            insert_only=insert_only,
            stored_as=stored_as,
        )
        with self.metastore() as metastore:
            if create_database:
                metastore.create_database(new.ref.db)
            is_new = ensure_table(metastore, new)
            return MadeTable(
                ref=new.ref, is_new=is_new, location=metastore.get_table(new.ref).location
            )

    def run(
        self,
        statement: MetastoreStatement,
        *,
        terms: LockTerms | None = None,
        before: Before | None = None,
        on_begin: Callable[[Before], None] = lambda _: None,
    ) -> Outcome:
        """Let the metastore change a definition or answer a question, under the locks it needs.

        Args:
            statement: see `airflow_hiveacid.plan.metastore_statements`.
            terms: who asks for locks, and for how long at most; by default nobody in particular, as
                long as the connection says.
            before: what `on_begin` was told in an earlier try, whose change may have happened.
            on_begin: told right before the one call that changes something.

        Raises:
            InputError: what is there does not let it be done; nothing was changed.
            LockNotAcquiredError: the locks were not granted in time.
            MetastoreError: the metastore did not answer, and it may have been done; or it refused.
        """
        from airflow_hiveacid.metastore.definition_lock import LockTerms  # noqa: PLC0415 - brings Thrift
        from airflow_hiveacid.metastore.definitions import run_statement  # noqa: PLC0415 - as above

        terms = terms or LockTerms(lock_timeout_s=self.settings.lock_timeout_s)
        with self.metastore() as metastore:
            return run_statement(metastore, statement, terms, before=before, on_begin=on_begin)

    # ---- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(
        self,
        job_key: str,
        *,
        reads: Sequence[TableAccess] = (),
        writes: Sequence[TableAccess] = (),
        lock_timeout_s: float | None = None,
    ) -> Iterator[Transaction]:
        """A transaction: opened, locked, kept alive; committed at the end, aborted on an error.

        Args:
            job_key: whoever begins later under the same key ends this one.
            reads: what is read.
            writes: what is written; each table gets a write ID.
            lock_timeout_s: longest wait for the locks; default is the connection's.

        Raises:
            LockNotAcquiredError: the locks were not granted in time.
            TransactionError: the transaction ended otherwise.
        """
        from airflow_hiveacid.metastore.transaction import begin  # noqa: PLC0415 - brings Thrift

        timeout_s = self.settings.lock_timeout_s if lock_timeout_s is None else lock_timeout_s
        with (
            self.metastore() as metastore,
            begin(
                metastore, job_key=job_key, reads=reads, writes=writes, lock_timeout_s=timeout_s
            ) as transaction,
        ):
            yield transaction

    def snapshot(self, tables: Iterable[str]) -> Snapshot:
        """What a reader of these tables may see now: write IDs and transactions, taken at once.

        Raises:
            MetastoreUnavailableError: no server answers.
        """
        from airflow_hiveacid.format.snapshot import Snapshot  # noqa: PLC0415

        with self.metastore() as metastore:
            txns = metastore.valid_txns()
            write_ids = metastore.valid_write_ids([TableRef.parse(t) for t in tables], txns)
        return Snapshot(txn_id=None, txns=txns, tables=write_ids)

    def open_transactions(self) -> tuple[OpenTxn, ...]:
        """Every transaction that the metastore keeps, open and aborted, oldest first."""
        with self.metastore() as metastore:
            return metastore.open_txns_info()

    def heartbeat(self, txn_id: TxnId) -> None:
        """Say that a transaction is alive.

        Raises:
            TransactionAbortedError: it is not.
        """
        with self.metastore() as metastore:
            metastore.heartbeat(txn_id)

    def abort(self, txn_id: TxnId) -> bool:
        """Abort a transaction; answers whether it is aborted now (False: it has ended before)."""
        with self.metastore() as metastore:
            return metastore.abort_txn(txn_id)

    def locks(self, table: str | None = None) -> tuple[LockInfo, ...]:
        """Locks on a table and its partitions, or all locks."""
        with self.metastore() as metastore:
            return metastore.show_locks(TableRef.parse(table) if table else None)

    # ---- compaction ------------------------------------------------------------------------------

    def request_compaction(
        self, table: str, compaction_type: CompactionType, partition: str | None = None
    ) -> CompactionResponse:
        """Put a compaction into the metastore's own queue, for a worker to find."""
        name = PartitionName.parse(partition) if partition else None
        with self.metastore() as metastore:
            return metastore.request_compaction(TableRef.parse(table), name, compaction_type)

    def compactions(self, table: str | None = None) -> tuple[CompactionEntry, ...]:
        """The metastore's compaction queue and history, of one table or of all."""
        with self.metastore() as metastore:
            return metastore.show_compactions(TableRef.parse(table) if table else None)

    def history(self, table: str, *, most: int | None = None) -> TableHistory:
        """The versions of a table, newest first: when, by whom, what, and whether readable.

        Args:
            table: full name.
            most: how many; None for all.

        Raises:
            InputError: the table is missing, or has no versions.
            StorageError: its files or notes cannot be read.
        """
        from airflow_hiveacid.versions.history import history_of  # noqa: PLC0415 - needs Arrow

        with self.metastore() as client:
            return history_of(client, client.get_table(TableRef.parse(table)), most=most)

    def make_tag(  # noqa: PLR0913 - a name, what it is for, for how long and by whom
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
        """Give a version a name, and keep its files until the tag expires or is dropped.

        Args:
            table: full name.
            name: of the tag.
            version: which; the present is the newest that no open write can change.
            expires_s: when its files may go, seconds since 1970; None is never.
            keep_for_s: or how long from now on they stay.
            made_by: who makes it; the same one means the same present, however often he asks.
            moves: whether a tag that stands for another version is moved to this one.

        Raises:
            HiveAcidError: as of `versions.tags.make_tag`.
        """
        from airflow_hiveacid.versions.tags import make_tag, time_from_now  # noqa: PLC0415 - needs Arrow

        with self.metastore() as client:
            if keep_for_s is not None:
                expires_s = time_from_now(client, keep_for_s)
            return make_tag(
                client,
                client.get_table(TableRef.parse(table)),
                name,
                version,
                expires_s=expires_s,
                made_by=made_by,
                moves=moves,
            )

    def drop_tag(self, table: str, name: str) -> bool:
        """Let the files of a tag go; tells whether there was one.

        Raises:
            InputError: the table is missing.
            StorageError: its notes cannot be read or written.
        """
        from airflow_hiveacid.storage.stores.version_notes import (  # noqa: PLC0415 - needs Arrow
            VersionNotes,
        )

        with self.metastore() as client:
            notes = VersionNotes.of(client.get_table(TableRef.parse(table)))
        was_there = notes.tag(name) is not None
        notes.forget_tag(name)
        return was_there

    def table_health(self, table: str, partition: str | None = None) -> tuple[TableHealth, ...]:
        """What a table's directories look like: one value per partition, or for the one named.

        Raises:
            InputError: table or partition do not exist, or the table is not transactional.
            StorageError: the directories cannot be listed.
        """
        from airflow_hiveacid.hooks.health import measure  # noqa: PLC0415 - brings Thrift and Arrow

        return measure(self.endpoint(), table, partition)

    def _missing(self) -> ConfigurationError:
        return ConfigurationError(
            f"there is no connection {self.hive_acid_conn_id!r}; create one of type"
            f" {self.conn_type} or set hive_acid_conn_id"
        )
