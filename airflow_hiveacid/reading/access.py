"""The partitions that a statement touches, and a reader's locks on a table or its partitions.

A reader lists the partitions, locks them, and takes its snapshot. One commit may meanwhile have
written to a new and to a listed partition, so it lists again, and starts over if they have changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.versions.past import Past

MOST_NAMED: Final = 200
"""The maximum number of partitions to lock by name; otherwise the whole table is locked.

The metastore keeps a row for each lock. Hive 4.0.1 checks all partitions of a lock request in one
database query. Derby accepts about 400 partitions in one query.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The partitions that a statement may touch (None if unknown), and those `seen` for it."""

    names: tuple[PartitionName, ...] | None = None
    seen: tuple[PartitionName, ...] = field(default=(), compare=False)

    def partitions(self, client: MetastorePort, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """Return the touched partitions that exist."""
        if self.names is None:
            return client.list_partitions(table)
        partitions = client.get_partitions(table, self.names)
        names = frozenset(self.names)
        if names.intersection(self.seen) <= {p.name for p in partitions}:
            return partitions
        # Some partitions may have been dropped, or be spelled otherwise by a client.
        return tuple(p for p in client.list_partitions(table) if p.name in names)


def touching(
    client: MetastorePort,
    table: TableInfo,
    ask: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...] | None],
) -> Callable[[], Touched]:
    """Return a function that finds touched partitions, and asks again only if they changed."""
    remembered = functools.lru_cache(maxsize=1)(ask)

    def look() -> Touched:
        all_names = client.partition_names(table)
        return Touched(names=remembered(all_names), seen=all_names)

    return look


def touched_as_of(
    client: MetastorePort,
    table: TableInfo,
    past: Past | None,
    ask: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...] | None],
) -> Touched:
    """Return the partitions that a read of a partitioned table, or of its past version, touches.

    `ask` gets the existing partitions, and the vanished ones of the version, and returns those that
    can have a wanted row, or None for all. Raises VersionGoneError if one of these has vanished.
    """
    names = client.partition_names(table)
    lost = () if past is None else past.vanished(names)
    matches = ask((*names, *lost))
    if past is not None and matches is not None:
        lost_matches = {*matches} & {*lost}
        past.check_vanished([name for name in (*names, *lost) if name not in lost_matches])
    return Touched(names=matches, seen=names)


def reading(client: MetastorePort, table: TableInfo) -> TableAccess:
    """Return a reader's access to a whole table, with its partitions if there are few."""
    return TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=nameable(client.partition_names(table)) if table.is_partitioned else None,
    )


def nameable(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
    """Return the partitions if each can have its own lock; None to lock the whole table."""
    return names if 0 < len(names) <= MOST_NAMED else None


def is_still_all(client: MetastorePort, access: TableAccess) -> bool:
    """Return whether the table's partitions are still exactly those of `access`."""
    return access.partitions is None or reading(client, access.table) == access
