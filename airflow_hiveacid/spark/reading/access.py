"""What a reader locks: the partitions that it reads, as long as they can be named.

A reader names the partitions that there are, asks for locks on them, and takes its snapshot then. A
partition that has come meanwhile may hold one half of a commit whose other half is in a partition
that it knows; so it looks again, and begins anew if others are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.metastore.locks import TableAccess

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

MOST_NAMED: Final = 200
"""Beyond that many, a lock on the whole table: the metastore keeps a row for each.

Hive 4.0.1 asks its database about all of them in one query, of all tables that a request names.
Derby takes some 400 in one and refuses more.
"""


def reading(client: MetastorePort, table: TableInfo) -> TableAccess:
    """The access of a reader of a whole table, partition by partition where there are few."""
    return TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=nameable(tuple(p.name for p in client.list_partitions(table)))
        if table.is_partitioned
        else None,
    )


def nameable(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
    """These partitions, if a lock can name each of them; None asks for one on the table."""
    return names if 0 < len(names) <= MOST_NAMED else None


def is_still_all(client: MetastorePort, access: TableAccess) -> bool:
    """Whether the partitions that were named are still all that there are."""
    return access.partitions is None or reading(client, access.table) == access
