"""Reading ACID tables as frames, under one snapshot that lasts as long as the reader needs it.

A read is a transaction too: it holds a shared lock on what it reads and stays open, which is what
makes cleaners wait. Frames are lazy, so the snapshot is a `with` block: use the frames inside it.

Example:
    with read_snapshot(endpoint, ["demo.flights", "demo.planes"], job_key="report") as snapshot:
        flights = read_table(spark, "demo.flights", snapshot)
        flights.groupBy("carrier").count().show()
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.succession import Succession
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.plan.statements import check_readable
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.reading.access import Touched, is_still_all, reading
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.spark.store_settings import give_store_settings
from airflow_hiveacid.spark.store_tokens import give_store_tokens
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
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
    """A frozen view of some tables; valid inside the `with` block that gave it.

    `confirm_alive` raises if it does not hold any more: a later reader of the same key has begun.
    `taken_s` answers a moment, by the metastore's clock, before it was taken; None if the metastore
    does not tell the time.
    """

    client: MetastorePort
    snapshot: Snapshot
    tables: dict[TableRef, TableInfo]
    confirm_alive: Callable[[], None] = _nothing
    taken_s: Callable[[], float | None] = _untimed

    def table(self, name: str) -> TableInfo:
        """One of its tables.

        Raises:
            ConfigurationError: it was not taken of that one.
        """
        ref = TableRef.parse(name)
        if ref not in self.tables:
            raise ConfigurationError(
                f"the snapshot was not taken of table {ref}, but of"
                f" {', '.join(map(str, self.tables))}; name all tables where it is taken"
            )
        return self.tables[ref]


@contextmanager
def read_snapshot(
    endpoint: MetastoreEndpoint,
    tables: Sequence[str],
    *,
    job_key: str,
    lock_timeout_s: float = 60.0,
    on_step: Callable[[str], None] = _ignore,
) -> Iterator[ReadSnapshot]:
    """Hold one snapshot of these tables.

    Args:
        endpoint: the metastore.
        tables: full names; all of them are seen at the same point in time.
        job_key: shown in SHOW LOCKS. A later reader of the same key ends an earlier one.
        lock_timeout_s: how long to wait for somebody's exclusive lock.
        on_step: called at each step of the transaction.

    Raises:
        InputError: a table is missing, or of a kind that cannot be read.
        LockNotAcquiredError: somebody overwrites one of them.
    """
    with (
        connect(endpoint) as client,
        held_snapshot(
            client, tables, job_key=job_key, lock_timeout_s=lock_timeout_s, on_step=on_step
        ) as snapshot,
    ):
        yield snapshot


@contextmanager
def held_snapshot(  # noqa: PLR0913 - what is read, by whom, as which try of it
    client: MetastorePort,
    tables: Sequence[str],
    *,
    job_key: str,
    attempt: AttemptId | None = None,
    lock_timeout_s: float = 60.0,
    on_step: Callable[[str], None] = _ignore,
) -> Iterator[ReadSnapshot]:
    """The same over a connection that is there; see `read_snapshot`.

    Who reads for a task says by `attempt` which try of it this is: an earlier one does not end a
    later one, whichever began first, nor does an order to kill it. A kill finds a lock of the
    reader's at any moment, as of a writer's (docs/adr/0057).

    Raises:
        HiveAcidError: as `read_snapshot`.
    """
    infos = {ref: client.get_table(ref) for ref in map(TableRef.parse, tables)}
    for info in infos.values():
        check_readable(info)
    attempt = attempt or AttemptId.new()
    first_txn_id: TxnId | None = None
    with closing(Succession(client)) as succession, ExitStack() as reader:
        for beginning in range(_MOST_BEGINNINGS):
            reads = [reading(client, info) for info in infos.values()]
            if beginning == _MOST_BEGINNINGS - 1:
                # Partitions come and go too fast to be named.
                reads = [dataclasses.replace(access, partitions=None) for access in reads]
            txn = reader.enter_context(
                begin(
                    client,
                    job_key=job_key,
                    attempt=attempt,
                    reads=reads,
                    lock_timeout_s=lock_timeout_s,
                    first_txn_id=first_txn_id,
                    succession=succession,
                    on_step=on_step,
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
            first_txn_id = txn.first_txn_id
            txn.leave_to(succession)
            reader.close()


def read_table(  # noqa: PLR0913 - what is read, how much of it, and as of when
    spark: SparkSession,
    name: str,
    snapshot: ReadSnapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    tag: str | None = None,
) -> DataFrame:
    """A frame of a table's rows.

    Args:
        spark: the session.
        name: the table; one of the snapshot's.
        snapshot: what is seen.
        columns: the columns to read, in this order; all by default. Only these are read from files.
        where: a condition in Spark SQL over the table's columns. Partitions in which it cannot hold
            are not even listed, and files and parts of them without such rows not read; the same
            condition on the frame comes too late for that.
        version: read the table as it was when this write ID was its newest: every committed one up
            to it.
        timestamp: or as it was at this moment, by the metastore's clock; aware, or an ISO text.
        tag: or the version of this name.

    Returns:
        Data columns, then partition columns. Timestamps are TIMESTAMP_NTZ, in microseconds. A char
        comes without its padding, as Hive's own functions and joins see it; a literal that ends in
        blanks equals it only in a session with `spark.sql.readSideCharPadding=false`, such as
        `open_session` gives.

    Raises:
        ConfigurationError: the snapshot was not taken of this table.
        UnknownColumnError: it has no such column.
        ExpressionError: the condition is no condition.
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError: the table has no such
            version, nobody knows which one it is, or it could still become another.
        VersionNotYetError: the time is not over by the metastore's clock.
        VersionGoneError: what is left of the table does not provably hold all of it.
        StorageError: what is there cannot be read.
    """
    give_store_settings(spark)
    give_store_tokens(spark)
    table, client = snapshot.table(name), snapshot.client
    spec = VersionSpec.of(version, timestamp, tag)
    past = None
    if not spec.is_now:
        past = past_of(client, table, spec, snapshot.snapshot, taken_s=snapshot.taken_s)
    if where is None:
        return resolve_target(spark, client, table, snapshot.snapshot, past=past).rows(columns)
    moment = Moment.now(spark)
    touched = Touched()
    if table.is_partitioned:
        seen = client.partition_names(table)
        lost = () if past is None else past.vanished(seen)
        left = partitions_where(spark, table, (*seen, *lost), where, moment)
        if past is not None and left is not None:
            gone = {*left} & {*lost}
            past.check_vanished([name for name in (*seen, *lost) if name not in gone])
        touched = Touched(names=left, seen=seen)
    target = resolve_target(spark, client, table, snapshot.snapshot, touched, past=past)
    return target.rows_where(where, moment, columns)
