"""Check whether a table has data after a known version.

If the metastore shows a later write, the names of directories show whether the table has new data:
a committed write may have changed no row, and a compaction adds no data. Directories are listed in
a read transaction, until whose end cleaners wait. Without it, a cleaner could remove a directory
whose replacement is not visible in the snapshot.
"""

from __future__ import annotations

import logging
from functools import partial as bind
from typing import Final

from airflow_hiveacid.format import errors, table as tables
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.change_range import ChangeRange, is_news
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import Snapshot, settled, up_to
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.stores.conversion_note import check_in_place
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.watch import CheckedVersion, Observation

# The longest wait for the read lock. If an overwrite holds its lock for longer, a later poll finds
# the new data.
_LOCK_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


def new_data(
    client: MetastorePort,
    ref: tables.TableRef,
    partition: str | None,
    since: int,
    *,
    checked: CheckedVersion | None = None,
) -> Observation:
    """Poll a transactional table once for data after the version `since`.

    If a different transaction holds a lock that blocks readers, there is no finding. If no write
    has ended since a poll that found nothing until the version `checked`, this poll asks the
    metastore only for write IDs. For an unpartitioned table, the finding's only partition is ''.
    """
    table = client.get_source(ref)
    if table.kind is tables.TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=ref)
    version = since
    if checked is not None and checked.table_id == table.table_id:
        version = max(since, checked.version)
    newest = settled(snapshot_now(client, [ref]).write_ids(ref))
    if newest <= version:
        # If the newest write ID is below `since`, then `since` is a version of a dropped table
        # that had the same name.
        return _observation(table, since, newest)
    try:
        return _listed(client, table, partition, since)
    except errors.LockNotAcquiredError as error:
        _log.info("%s cannot be polled now: %s", ref, error)
        return _observation(table, since, version)


def _observation(
    table: tables.TableInfo, since: int, version: int, partitions: tuple[str, ...] = ()
) -> Observation:
    news = f"new data in {len(partitions)} partition(s)" if partitions else "no new data"
    newest = f"the newest version that no open write can change is {version}"
    finding = {"since": since, "version": version, "partitions": list(partitions)}
    return Observation(
        summary=f"{table.ref}: {news} since version {since}; {newest}",
        findings=(finding,) if partitions else (),
        checked=None if partitions else CheckedVersion(table.table_id, version),
    )


def _listed(
    client: MetastorePort, table: tables.TableInfo, partition: str | None, since: int
) -> Observation:
    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=(tables.PartitionName.parse(partition),) if partition else None,
    )
    terms = JobTerms(job_key=None, lock_timeout_s=_LOCK_TIMEOUT_S)
    with begin(client, terms, reads=[access]) as txn:
        write_ids = txn.snapshot.write_ids(table.ref)
        newest = settled(write_ids)
        # Take the snapshot before listing the partitions. In this order, the list contains every
        # partition that is visible in the snapshot.
        roots = partitions_of(client, table, partition or None) if newest > since else ()
        changes = ChangeRange(
            since=up_to(write_ids, WriteId(since)), until=up_to(write_ids, newest)
        )
        has_news = side_by_side(bind(_has_news, table, txn.snapshot, changes), roots)
    names = tuple(str(root.name) for root, is_new in zip(roots, has_news, strict=True) if is_new)
    return _observation(table, since, max(newest, since), names)


def _has_news(
    table: tables.TableInfo, snapshot: Snapshot, changes: ChangeRange, root: tables.PartitionInfo
) -> bool:
    try:
        listing = list_table(root.location)
    except errors.LocationNotFoundError:
        # The partition was not dropped, because a drop waits for our lock. So its directory has not
        # been created yet. A writer that creates the directory now commits after our snapshot.
        return False
    check_in_place(table, listing)
    state = resolve(listing, snapshot.write_ids(table.ref), snapshot.txns, table.kind)
    return is_news(state, changes)
