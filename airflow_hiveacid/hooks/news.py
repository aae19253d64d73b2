"""Whether a table has data of a later version than one that is known; no Spark.

Takes an endpoint, a name and a version. Blocking: a trigger calls it off the event loop. Where the
metastore knows of no later write that has ended, nothing is listed. Else names of directories
decide, since not every write that committed has changed anything; compactions make no new data.
They are listed within a read transaction: cleaners wait for it, so that what replaced a directory
is never too new for the snapshot while the directory itself is gone.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial as bind
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.changes import ChangeRange, is_news, settled, up_to
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    LockNotAcquiredError,
    NotTransactionalError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.hooks.health import places_of
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.storage.stores.listing import list_table

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort

_LISTINGS_AT_ONCE: Final = 16
# Who overwrites holds its lock for longer than a look may take; the next look will find it through.
_LOCK_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """Partitions (blank for a table without any) with data of after `since`, up to `version`."""

    since: int
    version: int
    partitions: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """It as plain values."""
        return {
            "since": self.since,
            "version": self.version,
            "partitions": list(self.partitions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One look: the newest version that no open write can change, and where there is new data.

    `table_id` tells the table from one that had its name before.
    """

    table: str
    table_id: str
    since: int
    version: int
    partitions: tuple[str, ...]

    @property
    def due(self) -> tuple[NewData, ...]:
        """The new data, if there is any."""
        if not self.partitions:
            return ()
        return (NewData(since=self.since, version=self.version, partitions=self.partitions),)

    def __str__(self) -> str:
        what = f"new data in {len(self.partitions)} place(s)" if self.partitions else "no new data"
        newest = f"the newest version that no open write can change is {self.version}"
        return f"{self.table}: {what} since version {self.since}; {newest}"


def look_for_news(
    endpoint: MetastoreEndpoint,
    table: str,
    partition: str | None,
    since: int,
    *,
    before: News | None = None,
) -> News:
    """Look once: the one predicate of the sensor and its trigger.

    A table that somebody has locked against readers has no news yet.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means every partition.
        since: the version that is known.
        before: what an earlier look has found, which was nothing; as long as no later write has
            ended, nothing but write IDs is asked for.

    Raises:
        InputError: table or partition do not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not answer.
        TransactionAbortedError: the metastore gave the look up.
        StorageError: the directories cannot be listed.
    """
    ref = TableRef.parse(table)
    with connect(endpoint) as client:
        info = client.get_table(ref)
        if info.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=ref)
        looked = since
        if before is not None and not before.due and before.table_id == info.table_id:
            looked = max(since, before.version)
        nothing = News(
            table=table, table_id=info.table_id, since=since, version=looked, partitions=()
        )
        newest = settled(client.valid_write_ids([ref], client.valid_txns())[ref])
        if newest <= looked:
            # The log says so to who waits for a version of a table that was here before.
            return replace(nothing, version=newest)
        try:
            return _listed(client, info, partition, since)
        except LockNotAcquiredError as error:
            _log.info("%s is not looked at now: %s", table, error)
            return nothing


def _listed(client: MetastorePort, table: TableInfo, partition: str | None, since: int) -> News:
    """What directories say, while a read transaction is open.

    Raises:
        HiveAcidError: as `look_for_news`; LockNotAcquiredError too.
    """
    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=(PartitionName.parse(partition),) if partition else None,
    )
    with begin(client, job_key=None, reads=[access], lock_timeout_s=_LOCK_TIMEOUT_S) as txn:
        now, txns = txn.snapshot.write_ids(table.ref), txn.snapshot.txns
        newest = settled(now)
        # Asked for behind the snapshot: what that sees has its partition by then.
        places = places_of(client, table, partition) if newest > since else ()
        part = ChangeRange(since=up_to(now, WriteId(since)), until=up_to(now, newest))
        find = bind(_has_news, now=now, part=part, txns=txns, kind=table.kind)
        with ThreadPoolExecutor(_LISTINGS_AT_ONCE, "hiveacid-listing") as pool:
            found = list(pool.map(find, places))
    names = tuple(str(p.name) for p, is_new in zip(places, found, strict=True) if is_new)
    return News(
        table=str(table.ref),
        table_id=table.table_id,
        since=since,
        version=max(newest, since),
        partitions=names,
    )


def _has_news(
    place: PartitionInfo,
    *,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList,
    kind: TransactionalKind,
) -> bool:
    try:
        listing = list_table(place.location)
    except LocationNotFoundError:
        # No file was ever there: whoever makes a partition commits after the snapshot, and who
        # drops one waits for our lock.
        return False
    return is_news(resolve(listing, now, txns, kind), part)
