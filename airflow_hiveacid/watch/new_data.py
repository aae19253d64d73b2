"""Check whether a table has data after a known version, without Spark.

Input is an endpoint, a table name and a version. All functions of this module block, so a trigger
must call them outside the event loop. If the metastore shows no later write, there is no new data,
and no directory is listed. If there is a later write, the names of directories show whether the
table has new data: a committed write may have changed no row, and a compaction adds no data.
Directories are listed in a read transaction, and cleaners wait until it ends. Without the read
transaction, a cleaner could remove a directory whose replacement is not visible in the snapshot.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial as bind
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    LockNotAcquiredError,
    NotTransactionalError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.state.change_range import ChangeRange, is_news, settled, up_to
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.terms import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import side_by_side

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort

# The longest wait for the read lock. If an overwrite holds its lock for longer, a later poll finds
# the new data.
_LOCK_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """The partitions that got data after version `since`, up to `version`.

    For an unpartitioned table, the only entry in `partitions` is ''.
    """

    since: int
    version: int
    partitions: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the fields as plain values, for XCom."""
        return {
            "since": self.since,
            "version": self.version,
            "partitions": list(self.partitions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The result of one poll: partitions with new data, and the newest settled version.

    `table_id` distinguishes the table from an earlier table of the same name.
    """

    table: str
    table_id: str
    since: int
    version: int
    partitions: tuple[str, ...]

    @property
    def due(self) -> tuple[NewData, ...]:
        """A tuple with the new data, or an empty tuple if there is no new data."""
        if not self.partitions:
            return ()
        return (NewData(since=self.since, version=self.version, partitions=self.partitions),)

    def __str__(self) -> str:
        what = (
            f"new data in {len(self.partitions)} partition(s)" if self.partitions else "no new data"
        )
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
    """Poll a table once for new data.

    If a different transaction holds a lock that blocks readers, the result has no new data.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means every partition.
        since: data after this version is new.
        before: the result of an earlier poll without new data. If no write has ended since the
            earlier poll, this poll asks the metastore only for write IDs.

    Raises:
        InputError: the table or partition does not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not answer.
        TransactionAbortedError: the metastore aborted the poll's transaction.
        StorageError: the directories cannot be listed.
    """
    ref = TableRef.parse(table)
    with connect(endpoint) as client:
        info = client.get_source(ref)
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
            # If the newest write ID is below `since`, then `since` is a version of a dropped table
            # that had the same name.
            return replace(nothing, version=newest)
        try:
            return _listed(client, info, partition, since)
        except LockNotAcquiredError as error:
            _log.info("%s cannot be polled now: %s", table, error)
            return nothing


def _listed(client: MetastorePort, table: TableInfo, partition: str | None, since: int) -> News:
    """List the directories in a read transaction, and return the new data.

    Raises:
        HiveAcidError: see `look_for_news`; also LockNotAcquiredError.
    """
    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=(PartitionName.parse(partition),) if partition else None,
    )
    terms = JobTerms(job_key=None, lock_timeout_s=_LOCK_TIMEOUT_S)
    with begin(client, terms, reads=[access]) as txn:
        now, txns = txn.snapshot.write_ids(table.ref), txn.snapshot.txns
        newest = settled(now)
        # Take the snapshot before listing the partitions. In this order, the list contains every
        # partition that is visible in the snapshot.
        roots = partitions_of(client, table, partition or None) if newest > since else ()
        part = ChangeRange(since=up_to(now, WriteId(since)), until=up_to(now, newest))
        find = bind(_has_news, now=now, part=part, txns=txns, kind=table.kind)
        found = side_by_side(find, roots)
    names = tuple(str(p.name) for p, is_new in zip(roots, found, strict=True) if is_new)
    return News(
        table=str(table.ref),
        table_id=table.table_id,
        since=since,
        version=max(newest, since),
        partitions=names,
    )


def _has_news(
    root: PartitionInfo,
    *,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList,
    kind: TransactionalKind,
) -> bool:
    try:
        listing = list_table(root.location)
    except LocationNotFoundError:
        # The partition was not dropped, because a drop waits for our lock. So its directory has not
        # been created yet. A writer that creates the directory now commits after our snapshot.
        return False
    return is_news(resolve(listing, now, txns, kind), part)
