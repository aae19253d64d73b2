"""Measure a table's health with one snapshot and one listing per partition, without Spark.

Input is an endpoint and a table name. Output is one `TableHealth` per partition, measured with a
compactor's write ID list. The functions block, so a trigger must call them outside the event loop.
They read only listings and never open a data file.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial as bind
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    NotEnoughHistoryError,
    NotTransactionalError,
    PartitionNotFoundError,
)
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.thresholds import TableHealth, due
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.versions.keeping import opted_out_of

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.thresholds import CompactionPolicy, DueDirectory

_ATTEMPTS: Final = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one poll: the measurements, and the partitions that are due for compaction.

    `why_not` is the setting that switches off automatic compaction of the table, or None.
    """

    table: str
    healths: tuple[TableHealth, ...]
    due: tuple[DueDirectory, ...]
    why_not: str | None = None

    def __str__(self) -> str:
        if self.why_not is not None:
            return f"{self.table}: automatic compaction is off by {self.why_not}"
        if len(self.healths) == 1 and not self.healths[0].partition:
            return f"{self.table}: {_numbers(self.healths[0])}"
        worst = max(self.healths, key=lambda h: h.delta_count, default=None)
        most = "" if worst is None else f"; most deltas in {worst.partition}: {_numbers(worst)}"
        return f"{self.table}: {len(self.due)} of {len(self.healths)} partitions are due{most}"


def look(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, policy: CompactionPolicy
) -> Look:
    """Measure a table once and find the partitions that are due for compaction.

    If the table's owner has switched automatic compaction off, nothing is due.

    Raises:
        HiveAcidError: see `measure`.
    """
    found, healths = _measure(endpoint, table, partition)
    why_not = opted_out_of(found, NO_AUTO_COMPACTION)
    findings = due(healths, policy) if why_not is None else ()
    return Look(table=table, healths=healths, due=findings, why_not=why_not)


def measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None = None
) -> tuple[TableHealth, ...]:
    """Measure a table, or one partition of it.

    A partition that is dropped during the call is omitted, unless it is the requested `partition`.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means all partitions, in the metastore's order.

    Returns:
        One value per partition: exactly one for an unpartitioned table, and none for a partitioned
        table without partitions.

    Raises:
        InputError: the table or partition does not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not respond.
        StorageError: the directories cannot be listed.
    """
    return _measure(endpoint, table, partition)[1]


def _measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None
) -> tuple[TableInfo, tuple[TableHealth, ...]]:
    with connect(endpoint) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _measure_once(client, TableRef.parse(table), partition)
            except NotEnoughHistoryError:
                # No transaction is open here, so a cleaner may remove files that are visible in the
                # snapshot. A newer snapshot includes the files that replaced them.
                if attempt == _ATTEMPTS:
                    raise
    raise AssertionError(_ATTEMPTS)


def _measure_once(
    client: MetastorePort, ref: TableRef, partition: str | None
) -> tuple[TableInfo, tuple[TableHealth, ...]]:
    table = client.get_table(ref)
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=ref)
    roots = roots_of(client, table, partition)
    txns = client.valid_txns()
    write_ids = CompactorWriteIdList.of(client.valid_write_ids([ref], txns)[ref])
    measure_one = bind(_health, str(ref), write_ids=write_ids, txns=txns, kind=table.kind)
    found = side_by_side(measure_one, roots)
    gone = [root for root, health in zip(roots, found, strict=True) if health is None]
    if gone:
        _check_dropped(client, ref, partition, gone)
    return table, tuple(health for health in found if health is not None)


def _health(
    table: str,
    root: PartitionInfo,
    *,
    write_ids: CompactorWriteIdList,
    txns: ValidTxnList,
    kind: TransactionalKind,
) -> TableHealth | None:
    """Return the health of one root, or None if its directory is missing."""
    try:
        listing = list_table(root.location)
    except LocationNotFoundError:
        return None
    state = resolve(listing, write_ids, txns, kind)
    return TableHealth.of(state, table=table, partition=str(root.name))


def _check_dropped(
    client: MetastorePort, ref: TableRef, partition: str | None, gone: list[PartitionInfo]
) -> None:
    """Check that the missing directories no longer belong to partitions in the metastore.

    Raises:
        InputError: the table or the requested partition was dropped.
        LocationNotFoundError: a missing directory still belongs to a partition in the metastore.
    """
    named = {root.location for root in roots_of(client, client.get_table(ref), partition)}
    for root in gone:
        if root.location in named:
            raise LocationNotFoundError(location=root.location)
        _log.debug("%s %s was dropped while it was listed", ref, root.name)


def roots_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """Return all partitions of a table with their locations, or only `partition`.

    Raises:
        PartitionNotFoundError: the table has no such partition.
    """
    if not partition:
        return client.list_partitions(table)
    found = client.get_partitions(table, [PartitionName.parse(partition)])
    if not found:
        raise PartitionNotFoundError(table=table.ref, partition=partition)
    return found


def _numbers(health: TableHealth) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    return f"{health.delta_count} delta directories, {share}"
