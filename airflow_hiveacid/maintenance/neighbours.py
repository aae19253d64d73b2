"""The other tables of a metastore that have a table's directory, a part of it, or all around it.

Input is a metastore and a table. Output is the reason why a directory or path is not the table's
alone. Two tables in one directory remove each other's files, because the write IDs of one table
mean nothing for the other. This module changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from airflow_hiveacid.format.errors import HiveAcidError, MetastoreCallError, TableNotFoundError
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.metastore.listed_tables import listed_tables
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.locations import Identity, identities

log = logging.getLogger("hiveacid")

_Place = tuple["Identity", ...]


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """The tables of a metastore, with their places. Mutable and thread-safe: it lists them once.

    Jobs of many tables share one, so that they list the metastore's tables at most once.
    """

    _lock: Lock = field(default_factory=Lock, repr=False)
    _tables: tuple[tuple[TableInfo, _Place], ...] | None = field(default=None, repr=False)
    _partitions: dict[TableRef, tuple[tuple[str, _Place], ...]] = field(
        default_factory=dict, repr=False
    )
    _unread: list[str] = field(default_factory=list, repr=False)

    def why_shared(
        self, client: MetastorePort, table: TableInfo, locations: Iterable[str]
    ) -> str | None:
        """Return why a table does not have its directories alone, or None if it has.

        `locations` are those of its partitions. A flat table around the table's directory does not
        count: the table's files are its own.
        """
        mine = [identities(location) for location in _outermost(table, locations)]
        for neighbour, place in self._others(client, table):
            if any(place[0] == own[0] for own in mine):
                return f"{neighbour.ref} has the same location, {neighbour.location}"
            if any(own[0] in place for own in mine):
                return f"{neighbour.ref} lies in it, at {neighbour.location}"
            if not any(place[0] in own for own in mine):
                continue
            if not neighbour.is_partitioned and neighbour.kind is not TransactionalKind.NONE:
                return f"it lies in the directory of {neighbour.ref}, {neighbour.location}"
            for name, part in self._parts(client, neighbour) if neighbour.is_partitioned else ():
                if any(_overlap(part, own) for own in mine):
                    return f"partition {name} of {neighbour.ref} has the same directory"
        return None

    def why_read(
        self,
        client: MetastorePort,
        table: TableInfo,
        path: str,
        *,
        is_flat: bool,
        partition: PartitionName | None = None,
    ) -> str | None:
        """Return which other table or partition may contain a path, or None if none does.

        With `is_flat`, tables without transactions and the table's own partitions count, too: they
        do not read deltas of write IDs that they do not know. `partition`, the table's own
        partition to which the path belongs, does not count.
        """
        path_place = identities(path)
        tables = [(table, identities(table.location))] if is_flat and table.is_partitioned else []
        for neighbour, place in (*tables, *self._others(client, table)):
            if not is_flat and neighbour.kind is TransactionalKind.NONE:
                continue
            if not neighbour.is_partitioned:
                if _overlap(place, path_place):
                    return f"table {neighbour.ref} has it at {neighbour.location}"
                continue
            own = str(partition) if neighbour.ref == table.ref else None
            for name, part in self._parts(client, neighbour):
                if name != own and _overlap(part, path_place):
                    return f"partition {name} of {neighbour.ref} has it"
        return None

    def why_unsure(self, client: MetastorePort, table: TableInfo) -> str | None:
        """Return which database or table may also contain a path, because its place is unknown."""
        self._others(client, table)
        return f"the metastore does not tell where {self._unread[0]} lies" if self._unread else None

    def _others(
        self, client: MetastorePort, table: TableInfo
    ) -> Iterator[tuple[TableInfo, _Place]]:
        with self._lock:
            if self._tables is None:
                self._tables = tuple(_all_tables(client, self._unread))
        return (entry for entry in self._tables if entry[0].ref != table.ref)

    def _parts(self, client: MetastorePort, other: TableInfo) -> Sequence[tuple[str, _Place]]:
        with self._lock:
            if other.ref not in self._partitions:
                try:
                    partitions = client.list_partitions(other)
                except TableNotFoundError:  # it was dropped meanwhile
                    partitions = ()
                self._partitions[other.ref] = tuple(
                    (str(info.name), identities(info.location)) for info in partitions
                )
            return self._partitions[other.ref]


def _overlap(one: _Place, other: _Place) -> bool:
    return one[0] in other or other[0] in one


def _outermost(table: TableInfo, locations: Iterable[str]) -> set[str]:
    within = f"{table.location.rstrip('/')}/"
    return {table.location, *(place for place in locations if not place.startswith(within))}


def _all_tables(client: MetastorePort, unread: list[str]) -> Iterator[tuple[TableInfo, _Place]]:
    """Yield all tables with their places; add the databases and tables without one to `unread`."""
    for db in client.list_databases():
        try:
            tables = list(listed_tables(client, db))
        except MetastoreCallError as error:  # the user may lack access to the database
            log.warning("cannot tell where the tables of database=%s lie: %s", db, error)
            unread.append(f"database {db}")
            continue
        for name, table in tables:
            if isinstance(table, HiveAcidError):
                log.warning("cannot tell where table=%s lies: %s", name, table)
                unread.append(f"table {name}")
            elif table.location:
                yield table, identities(table.location)
