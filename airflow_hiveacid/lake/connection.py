"""A connection to a metastore for programs in Python, and the tables behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

from airflow_hiveacid.arrow import LIBRARY_LIMITS, Limits
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs import LOCK_TIMEOUT_S
from airflow_hiveacid.jobs.endpoint import Metastore
from airflow_hiveacid.jobs.statements import StreamTable
from airflow_hiveacid.lake.changes import LakeTransaction
from airflow_hiveacid.lake.session import Session
from airflow_hiveacid.lake.streams import StreamWriter
from airflow_hiveacid.lake.table import Table
from airflow_hiveacid.metastore.client import connect as client_of
from airflow_hiveacid.plan.arguments import stored_text
from airflow_hiveacid.writing.streams import APPEND, Stream, stream_tables

_NO_AIRFLOW: Final = "pass acid.Metastore(uris=('thrift://host:9083',)) to acid.connect"


class Lake:
    """An open connection to a metastore; use it in a `with` block, or call `close`.

    Threads may share it, but not one of its tables or transactions.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def table(self, name: str) -> Table:
        """Load a table as it is now; `name` is `db.table`.

        Raises:
            TableNotFoundError: the metastore has no such table.
            UnsupportedTableError: this library cannot read tables of this kind.
        """
        with self._session.connected() as client:
            info = client.get_source(TableRef.parse(name))
        return Table(self._session, info)

    @contextmanager
    def transaction(self, key: str | None = None) -> Iterator[LakeTransaction]:
        """Run a block whose changes are committed together at its end; an error commits nothing.

        With a `key`, the changes are made exactly once: if a transaction with this key has
        committed before, this one changes nothing, and `result.was_done_before` is true. The
        tables' ledgers remember a key for 30 days. The key stands for the statements, not for their
        rows, so name it after what it does, such as `orders of 2026-01-31`.

        Raises:
            StatementChangedError: the key was used before, for other statements.
            WriteConflictError: another transaction changed the same partition first; retry.
            CommitStateUnknownError: the answer to the commit was lost. Retry under the same key;
                without a key, first see whether the tables have the changes.
            HiveAcidError: the transaction failed, and nothing was changed.

        Example:
            with lake.transaction(key="orders of 2026-01-31") as txn:
                txn.table("demo.orders").upsert(rows, keys=["id"])
                txn.table("demo.late").delete("day < :day", parameters={"day": day})
            print(txn.result.rows, txn.result.was_done_before)
        """
        if key is not None and not stored_text(key, "key").strip():
            raise ConfigurationError("key is blank; name what the transaction does, or omit it")
        with self._session.job(key=key) as job:
            transaction = LakeTransaction(self._session, job, key)
            failed = True
            try:
                yield transaction
                failed = False
            finally:
                transaction._end(failed=failed)  # noqa: SLF001 - programs must not call it

    def stream_writer(
        self,
        tables: str | Sequence[StreamTable],
        *,
        stream: str,
        mode: str = APPEND,
        keys: Sequence[str] | str = (),
    ) -> StreamWriter:
        """Start a stream of batches into one table or several, and stop its older copies.

        The tables' ledgers store the stream's offsets, so a loop that starts again continues after
        the last committed batch, whenever its process was killed.

        Args:
            tables: `db.table`, or an `acid.StreamTable` for each of several tables.
            stream: the stream's name, the same in each start, and of no other stream.
            mode: `append`, or `merge` to update the rows whose keys exist, as `upsert` does.
            keys: the key columns, for `merge`.

        Raises:
            InputError: an argument or a table is invalid.
            EarlierRunUnknownError: the last batch may be committed, but no proof is left. Check the
                table, and continue under another name.
            HiveAcidError: the stream could not start, as when another copy starts; start again.

        Example:
            writer = lake.stream_writer("demo.clicks", stream="clicks from kafka")
            writer.write(rows, {"clicks-0": 17})
        """
        chosen = stream_tables(tables, mode, keys)
        return StreamWriter(self._session, Stream.named(stream, chosen))

    def close(self) -> None:
        """Close the connection and every snapshot; scans can no longer be read."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed connection" if self._session.is_closed else "connection"
        return f"<{state} to {', '.join(self._session.endpoint.uris)}>"


def connect(
    metastore: Metastore | str,
    *,
    lock_timeout_s: float | None = None,
    limits: Limits = LIBRARY_LIMITS,
) -> Lake:
    """Connect to a metastore, for reads and changes in this process, without Spark.

    Args:
        metastore: the metastore's addresses and login, or the ID of an Airflow connection of type
            `hive_acid_metastore`, which needs Airflow in this environment.
        lock_timeout_s: how long to wait for locks, in seconds. The default is that of the Airflow
            connection, or else 300.
        limits: the largest change, in rows and bytes of memory, that one statement may make.

    Returns:
        A connection. The metastore is first asked when a table is loaded.

    Raises:
        ConfigurationError: the Airflow connection is missing or invalid, or Airflow is missing.

    Example:
        with acid.connect(acid.Metastore(uris=("thrift://hms:9083",))) as lake:
            orders = lake.table("demo.orders")
            print(orders.scan(["id", "price"], "day = DATE '2026-01-31'").to_arrow())
    """
    settings = None
    if isinstance(metastore, str):
        from airflow_hiveacid.hooks.settings import settings_of  # noqa: PLC0415 - needs Airflow

        settings = settings_of(metastore, remedy=_NO_AIRFLOW)
        metastore = settings.endpoint
    default_s = LOCK_TIMEOUT_S if settings is None else settings.lock_timeout_s
    session = Session(
        client=client_of(metastore),
        endpoint=metastore,
        limits=limits,
        lock_timeout_s=default_s if lock_timeout_s is None else lock_timeout_s,
    )
    if settings is not None:
        session.conflict_policy = settings.conflict_policy
    return Lake(session)
