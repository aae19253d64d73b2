"""Looks whether a table, or a partition, is still what a job took it for when it began.

Hive's DDL waits for the locks of who reads or writes, Trino's waits for nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import TableChangedError

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

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
"""What of a table's definition files are read and written by."""


def check_table(client: MetastorePort, table: TableInfo) -> None:
    """See that a table is what it was.

    Raises:
        TableChangedError: its definition changed, or it is another table of that name.
    """
    now = client.get_table(table.ref)
    changed = [name for name in _SHAPE if getattr(now, name) != getattr(table, name)]
    if changed:
        raise TableChangedError(table=table.ref, what=", ".join(changed))


def check_partition(client: MetastorePort, table: TableInfo, partition: PartitionInfo) -> None:
    """The same, and of one of its partitions; `partition` has no name if the table has none.

    Raises:
        TableChangedError: either changed, or is gone and made again.
    """
    check_table(client, table)
    if partition.name.columns and client.get_partitions(table, [partition.name]) != (partition,):
        raise TableChangedError(table=table.ref, what=f"partition {partition.name}")
