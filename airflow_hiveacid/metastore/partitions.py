"""The partitions to which a job or a sensor applies, and checks that no definition has changed.

The checks are needed because Trino's DDL does not wait for the locks of readers and writers. Hive's
DDL does.
"""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.errors import PartitionNotFoundError, TableChangedError
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.metastore.port import MetastorePort


def partitions_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """Return all partitions of a table with their locations, or only the named partition.

    Raises PartitionNotFoundError if the table has no partition of that name.
    """
    if partition is None:
        return client.list_partitions(table)
    name = PartitionName.parse(partition)
    found = client.get_partitions(table, [name])
    # An unpartitioned table is its own only partition. Some metastore databases ignore case.
    if [one.name for one in found] != [name]:
        raise PartitionNotFoundError(table=table.ref, partition=partition)
    return found


_SHAPE: Final = (
    "table_id",
    "location",
    "columns",
    "partition_columns",
    "kind",
    "storage",
    "bucket_columns",
    "num_buckets",
    "bucketing_version",
    "sort_columns",
)
"""The parts of a table's definition that determine how files are read and written."""


def check_table(client: MetastorePort, table: TableInfo) -> None:
    """Check that this is still the table, with the definition that the job read.

    Raises TableChangedError.
    """
    now = client.get_table(table.ref)
    changed = [name for name in _SHAPE if getattr(now, name) != getattr(table, name)]
    if changed:
        raise TableChangedError(table=table.ref, what=", ".join(changed))


def check_partition(client: MetastorePort, table: TableInfo, partition: PartitionInfo) -> None:
    """Check that neither a table nor one of its partitions was changed, or dropped and made again.

    Raises TableChangedError.
    """
    check_table(client, table)
    if partition.name.columns and client.get_partitions(table, [partition.name]) != (partition,):
        raise TableChangedError(table=table.ref, what=f"partition {partition.name}")
