"""Which partitions a statement touches, and what a reader locks of them: as many as can be named.

A reader names the partitions that there are, asks for locks on them, and takes its snapshot then. A
partition that has come meanwhile may hold one half of a commit whose other half is in a partition
that it knows; so it looks again, and begins anew if others are there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.metastore.locks import TableAccess

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

MOST_NAMED: Final = 200
"""Beyond that many, a lock on the whole table: the metastore keeps a row for each.

Hive 4.0.1 asks its database about all of them in one query, of all tables that a request names.
Derby takes some 400 in one and refuses more.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The only partitions that a statement can touch; None where that is not known.

    `seen` are all names that the metastore has given, if it was asked for them to find that out.
    """

    names: tuple[PartitionName, ...] | None = None
    seen: tuple[PartitionName, ...] = field(default=(), compare=False)

    def places(self, client: MetastorePort, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """Those of them that there are."""
        if self.names is None:
            return client.list_partitions(table)
        found = client.get_partitions(table, self.names)
        wanted = frozenset(self.names)
        if wanted.intersection(self.seen) <= {p.name for p in found}:
            return found
        # Dropped since, or spelled by somebody who escapes otherwise than we.
        return tuple(p for p in client.list_partitions(table) if p.name in wanted)


def touching(
    client: MetastorePort,
    table: TableInfo,
    ask: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...] | None],
) -> Callable[[], Touched]:
    """A way to look again and again which partitions are touched.

    There may be ten thousand, and to ask which of them takes Spark jobs: that is done again only
    when they are others than before.
    """
    remembered = functools.lru_cache(maxsize=1)(ask)

    def look() -> Touched:
        seen = client.partition_names(table)
        return Touched(names=remembered(seen), seen=seen)

    return look


def reading(client: MetastorePort, table: TableInfo) -> TableAccess:
    """The access of a reader of a whole table, partition by partition where there are few."""
    return TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=nameable(client.partition_names(table)) if table.is_partitioned else None,
    )


def nameable(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
    """These partitions, if a lock can name each of them; None asks for one on the table."""
    return names if 0 < len(names) <= MOST_NAMED else None


def is_still_all(client: MetastorePort, access: TableAccess) -> bool:
    """Whether the partitions that were named are still all that there are."""
    return access.partitions is None or reading(client, access.table) == access
