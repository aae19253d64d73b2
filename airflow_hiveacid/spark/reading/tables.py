"""Reading of ACID tables as frames, under a snapshot that the reader holds.

A read is a transaction, too. The read holds a shared lock on its tables and stays open, so that
cleaners wait. Frames are lazy, so use them only inside the snapshot's `with` block.

Example:
    with read_snapshot(metastore, ["demo.flights", "demo.planes"], job_key="report") as snapshot:
        flights = read_table(spark, "demo.flights", snapshot)
        flights.groupBy("carrier").count().show()
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.time_limits import READ_LOCK_TIMEOUT_S
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.terms import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.plan.statements.dml import check_readable
from airflow_hiveacid.plan.statements.parameters import where_parameters
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.engine.expressions.parsed_sql import TextTerms
from airflow_hiveacid.spark.engine.store_settings import give_store_settings
from airflow_hiveacid.spark.engine.store_tokens import give_store_tokens
from airflow_hiveacid.spark.reading.access import Touched, is_still_all, reading
from airflow_hiveacid.spark.reading.files.pruning import partitions_where
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.jobs.endpoint import Metastore
    from airflow_hiveacid.metastore.port import MetastorePort


def _untimed() -> float | None:
    return None


_MOST_BEGINNINGS: Final = 4


def _ignore(_step: str) -> None:
    pass


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """A snapshot of some tables, valid inside the `with` block that returned it.

    `confirm_alive` raises an error if the snapshot's transaction has ended. For example, a later
    reader with the same job key may have begun. `taken_s` returns a time before the snapshot was
    taken, by the metastore's clock. `taken_s` returns None if the metastore does not report its
    time.
    """

    client: MetastorePort
    snapshot: Snapshot
    tables: dict[TableRef, TableInfo]
    confirm_alive: Callable[[], None] = _nothing
    taken_s: Callable[[], float | None] = _untimed

    def table(self, name: str) -> TableInfo:
        """Return a table of the snapshot.

        Raises:
            ConfigurationError: the snapshot does not include this table.
        """
        ref = TableRef.parse(name)
        if ref not in self.tables:
            raise ConfigurationError(
                f"the snapshot does not include table {ref}, only"
                f" {', '.join(map(str, self.tables))}; name all tables when you take it"
            )
        return self.tables[ref]


@contextmanager
def read_snapshot(
    metastore: Metastore,
    tables: Sequence[str],
    *,
    job_key: str,
    lock_timeout_s: float = READ_LOCK_TIMEOUT_S,
    on_step: Callable[[str], None] = _ignore,
) -> Iterator[ReadSnapshot]:
    """Hold one snapshot of these tables during the `with` block.

    Args:
        metastore: the metastore's addresses and login.
        tables: full names; the snapshot shows all tables at the same point in time.
        job_key: shown in SHOW LOCKS. A later reader with the same key ends the transaction of an
            earlier reader.
        lock_timeout_s: how long to wait for another transaction's exclusive lock.
        on_step: called at each step of the transaction.

    Raises:
        InputError: a table is missing, or of a kind that cannot be read.
        LockNotAcquiredError: another transaction is overwriting one of the tables.
    """
    terms = JobTerms(job_key=job_key, lock_timeout_s=lock_timeout_s, on_step=on_step)
    with (
        connect(metastore) as client,
        held_snapshot(client, tables, terms) as snapshot,
    ):
        yield snapshot


@contextmanager
def held_snapshot(
    client: MetastorePort, tables: Sequence[str], terms: JobTerms
) -> Iterator[ReadSnapshot]:
    """Hold a snapshot over an open connection; see `read_snapshot`.

    The `attempt` of a reader in a task is the ID of the task's try. Neither an earlier try nor a
    kill request for that try ever ends a later try. The later try continues even if the earlier try
    opens its transaction last. A process that kills the job can find the reader's lock at any
    moment, like a writer's lock (docs/decisions/restarts.md).

    Raises:
        HiveAcidError: as `read_snapshot`.
    """
    infos = {ref: client.get_source(ref) for ref in map(TableRef.parse, tables)}
    for info in infos.values():
        check_readable(info)
    with closing(Handover(client)) as handover, ExitStack() as reader:
        for beginning in range(_MOST_BEGINNINGS):
            reads = [reading(client, info) for info in infos.values()]
            if beginning == _MOST_BEGINNINGS - 1:
                # Lock the whole tables: partitions may change too often for a lock on each
                # partition.
                reads = [dataclasses.replace(access, partitions=None) for access in reads]
            txn = reader.enter_context(
                begin(
                    client,
                    terms,
                    reads=reads,
                    handover=handover,
                )
            )
            if all(is_still_all(client, access) for access in reads):
                yield ReadSnapshot(
                    client=client,
                    snapshot=txn.snapshot,
                    tables=infos,
                    confirm_alive=txn.confirm_alive,
                    taken_s=txn.seen_after_s,
                )
                return
            txn.leave_to(handover)
            reader.close()


def read_table(  # noqa: PLR0913 - a read names a table, its rows and columns, and a version
    spark: SparkSession,
    name: str,
    snapshot: ReadSnapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    parameters: Mapping[str, object] | None = None,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    tag: str | None = None,
) -> DataFrame:
    """Return a frame of a table's rows.

    Args:
        spark: the session.
        name: a table of the snapshot.
        snapshot: the snapshot under which the table is read.
        columns: the columns to read, in this order; all by default. Other columns are not read from
            files.
        where: a condition in Spark SQL over the table's columns. Partitions that cannot match are
            not listed. Files and parts of files that cannot match are not read. With a filter on
            the frame instead of `where`, all files are read.
        parameters: the values of the markers in `where`, such as `:day`, by marker name. A value
            has its Python type, or the type in a dict such as `{"type": "date", "value":
            "2026-01-01"}`.
        version: read the table with all committed changes up to this write ID.
        timestamp: read the table as it was at this moment, by the metastore's clock. The value is a
            datetime with a time zone, or an ISO string.
        tag: read the version with this tag.

    Returns:
        Data columns, then partition columns. Timestamps are TIMESTAMP_NTZ, in microseconds. A char
        has no padding, as in Hive's own functions and joins. A char equals a literal with trailing
        blanks only in a session with `spark.sql.readSideCharPadding=false`, as in sessions of
        `run`.

    Raises:
        ConfigurationError: the snapshot does not include this table.
        UnknownColumnError: the table has no such column.
        ExpressionError: the condition is invalid.
        UnsafeTextError: the condition would call Java or read files of the driver.
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError: the table has no such
            version, the version cannot be determined, or it could still change.
        VersionNotYetError: the requested time is in the future by the metastore's clock.
        VersionGoneError: there is no proof that the remaining files contain all rows of the
            version.
        StorageError: the files cannot be read.
    """
    give_store_settings(spark)
    give_store_tokens(spark)
    table, client = snapshot.table(name), snapshot.client
    spec = VersionSpec.of(version, timestamp, tag)
    past = None
    if not spec.is_now:
        past = past_of(client, table, spec, snapshot.snapshot, taken_s=snapshot.taken_s)
    marker_values = where_parameters(where, parameters)
    if where is None:
        return resolve_target(spark, client, table, snapshot.snapshot, past=past).rows(columns)
    moment = Moment.now(spark, TextTerms(parameters=marker_values))
    touched = Touched()
    if table.is_partitioned:
        names = client.partition_names(table)
        lost = () if past is None else past.vanished(names)
        matches = partitions_where(spark, table, (*names, *lost), where, moment)
        if past is not None and matches is not None:
            lost_matches = {*matches} & {*lost}
            past.check_vanished([name for name in (*names, *lost) if name not in lost_matches])
        touched = Touched(names=matches, seen=names)
    target = resolve_target(spark, client, table, snapshot.snapshot, touched, past=past)
    return target.rows_where(where, moment, columns)
