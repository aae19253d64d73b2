"""How a table's health is measured: one snapshot, one listing per partition, no Spark.

Takes an endpoint and a name; gives one `TableHealth` per partition, as a compactor sees it.
Blocking: a trigger calls it off the event loop. Reads listings only, never a data file.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    NotEnoughHistoryError,
    NotTransactionalError,
    PartitionNotFoundError,
)
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.plan.thresholds import TableHealth, due
from airflow_hiveacid.storage.stores.listing import list_table

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.thresholds import CompactionPolicy, Finding

_ATTEMPTS: Final = 3
# A listing waits for the store, not for this machine; more of them at once would crowd a name node.
_LISTINGS_AT_ONCE: Final = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a table: what was measured, and which of it is due."""

    table: str
    healths: tuple[TableHealth, ...]
    due: tuple[Finding, ...]

    def __str__(self) -> str:
        if len(self.healths) == 1 and not self.healths[0].partition:
            return f"{self.table}: {_numbers(self.healths[0])}"
        worst = max(self.healths, key=lambda h: h.delta_count, default=None)
        most = "" if worst is None else f"; most deltas in {worst.partition}: {_numbers(worst)}"
        return f"{self.table}: {len(self.due)} of {len(self.healths)} partitions are due{most}"


def look(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, policy: CompactionPolicy
) -> Look:
    """Measure a table once and judge it: the one predicate of sensors and their trigger.

    Raises:
        HiveAcidError: see `measure`.
    """
    healths = measure(endpoint, table, partition)
    return Look(table=table, healths=healths, due=due(healths, policy))


def measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None = None
) -> tuple[TableHealth, ...]:
    """Measure a table, or one partition of it.

    A partition that is dropped meanwhile is left out, unless it is the one that was named.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means every partition, in the metastore's order.

    Returns:
        One value per partition; one for an unpartitioned table; none for a partitioned table
        without partitions.

    Raises:
        InputError: table or partition do not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not answer.
        StorageError: the directories cannot be listed.
    """
    with connect(endpoint) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _measure_once(client, TableRef.parse(table), partition)
            except NotEnoughHistoryError:
                # We hold no transaction, so a cleaner may remove what our snapshot still names;
                # a newer snapshot names what has replaced it.
                if attempt == _ATTEMPTS:
                    raise
    raise AssertionError(_ATTEMPTS)


def _measure_once(
    client: MetastorePort, ref: TableRef, partition: str | None
) -> tuple[TableHealth, ...]:
    table = client.get_table(ref)
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=ref)
    places = places_of(client, table, partition)
    txns = client.valid_txns()
    write_ids = CompactorWriteIdList.of(client.valid_write_ids([ref], txns)[ref])
    measure_one = bind(_health, str(ref), write_ids=write_ids, txns=txns, kind=table.kind)
    with ThreadPoolExecutor(_LISTINGS_AT_ONCE, "hiveacid-listing") as pool:
        found = tuple(pool.map(measure_one, places))
    gone = [place for place, health in zip(places, found, strict=True) if health is None]
    if gone:
        _check_dropped(client, ref, partition, gone)
    return tuple(health for health in found if health is not None)


def _health(
    table: str,
    place: PartitionInfo,
    *,
    write_ids: CompactorWriteIdList,
    txns: ValidTxnList,
    kind: TransactionalKind,
) -> TableHealth | None:
    """One directory's health; None if it is not there."""
    try:
        listing = list_table(place.location)
    except LocationNotFoundError:
        return None
    state = resolve(listing, write_ids, txns, kind)
    return TableHealth.of(state, table=table, partition=str(place.name))


def _check_dropped(
    client: MetastorePort, ref: TableRef, partition: str | None, gone: list[PartitionInfo]
) -> None:
    """Ask once more: a directory may be missing only where the metastore no longer names it.

    Raises:
        InputError: the table, or the partition that was named, is dropped.
        LocationNotFoundError: the metastore still names it.
    """
    named = {place.location for place in places_of(client, client.get_table(ref), partition)}
    for place in gone:
        if place.location in named:
            raise LocationNotFoundError(location=place.location)
        _log.debug("%s %s was dropped while it was listed", ref, place.name)


def places_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """Where the partitions of a table are, or the one that is named.

    Raises:
        PartitionNotFoundError: there is none of that name.
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
