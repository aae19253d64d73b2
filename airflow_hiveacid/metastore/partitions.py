"""The partitions to which a job or a sensor applies: all partitions of a table, or one."""

from __future__ import annotations

from airflow_hiveacid.format.errors import PartitionNotFoundError
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.metastore.port import MetastorePort


def partitions_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """Return all partitions of a table with their locations, or only the named partition.

    Raises:
        PartitionNotFoundError: the table has no partition of that name.
    """
    if partition is None:
        return client.list_partitions(table)
    name = PartitionName.parse(partition)
    found = client.get_partitions(table, [name])
    # An unpartitioned table is its own only partition. Some metastore databases ignore case.
    if [one.name for one in found] != [name]:
        raise PartitionNotFoundError(table=table.ref, partition=partition)
    return found
