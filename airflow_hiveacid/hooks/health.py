"""How a table's health is measured: one snapshot, one listing per partition, no Spark.

Takes an endpoint and a name; gives one `TableHealth` per partition, as a compactor sees it.
Blocking: a trigger calls it off the event loop. Reads listings only, never a data file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import (
    NotEnoughHistoryError,
    NotTransactionalError,
    PartitionNotFoundError,
)
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.storage.filesystem import list_table

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort

_ATTEMPTS: Final = 3


def measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None = None
) -> tuple[TableHealth, ...]:
    """Measure a table, or one partition of it.

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
    places = _places(client, table, partition)
    txns = client.valid_txns()
    write_ids = CompactorWriteIdList.of(client.valid_write_ids([ref], txns)[ref])
    return tuple(
        TableHealth.of(
            resolve(list_table(place.location), write_ids, txns),
            table=str(ref),
            partition=str(place.name),
        )
        for place in places
    )


def _places(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    if not partition:
        return client.list_partitions(table)
    found = client.get_partitions(table, [PartitionName.parse(partition)])
    if not found:
        raise PartitionNotFoundError(table=table.ref, partition=partition)
    return found
