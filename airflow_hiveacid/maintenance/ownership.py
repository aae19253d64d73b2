"""The check that a table's directory is its own, before a job writes, replaces or removes files.

Two tables may have one directory: two definitions in one metastore, or the same table in a
metastore that was restored from a dump of another one. Each then regards the other's files as
obsolete or aborted, because the write IDs of one table mean nothing for the other. So a note in the
directory names its owner (`table_notes`), and the metastore must know the writes whose IDs are in
the names of the table's directories. `Neighbours` are the other tables of the metastore that have
the directory, a part of it, or all around it.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.format.records import CommitNote, Owner
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore.listed_tables import every_table
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.filesystem import exists
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.locations import (
    Identity,
    directories_around,
    identities,
    is_within,
    open_location,
)
from airflow_hiveacid.storage.stores.staging import is_publishable
from airflow_hiveacid.storage.stores.table_notes import note_owner, noted_owner, owner_uri
from airflow_hiveacid.storage.stores.threads import each_in_threads

_Place = tuple["Identity", ...]
"""A directory's identity (`[0]`), then those of all directories above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """The places of a table: its location, those of its partitions, and all directories around."""

    location: Identity
    partitions: frozenset[Identity]
    around: frozenset[Identity]

    @classmethod
    def of(cls, client: MetastorePort, table: TableInfo) -> _Ground:
        """Read the places of a table's partitions."""
        places = [identities(info.location) for info in client.list_partitions(table)]
        return cls(
            location=identities(table.location)[0],
            partitions=frozenset(place[0] for place in places),
            around=frozenset(chain.from_iterable(places)),
        )

    def has(self, place: _Place) -> bool:
        """Return True if the table is there, or a partition is there, below it, or around it."""
        is_own = place[0] == self.location or place[0] in self.around
        return is_own or not self.partitions.isdisjoint(place)


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """The tables of a metastore, with their places. Mutable and thread-safe: it lists them once.

    `noted` are the owners by the notes that `check_outside` has read.
    """

    noted: dict[str, Owner | None] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _tables: tuple[tuple[TableInfo, _Place], ...] | None = field(default=None, repr=False)
    _partitions: dict[TableRef, tuple[tuple[str, _Place], ...]] = field(
        default_factory=dict, repr=False
    )
    _unread: list[str] = field(default_factory=list, repr=False)
    _grounds: dict[TableRef, _Ground | None] = field(default_factory=dict, repr=False)

    def why_shared(
        self, client: MetastorePort, table: TableInfo, locations: Iterable[str]
    ) -> str | None:
        """Return why a table does not have its directories alone, or None if it has.

        `locations` are those of its partitions. A flat table around the table's directory does not
        count: the table's files are its own.
        """
        within = f"{table.location.rstrip('/')}/"
        outermost = {table.location, *(p for p in locations if not p.startswith(within))}
        mine = [identities(location) for location in outermost]
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

    def has(self, client: MetastorePort, ref: TableRef, place: _Place) -> bool:
        """Return True if a table exists, and has this place or a partition there."""
        with self._lock:
            if ref not in self._grounds:
                try:
                    self._grounds[ref] = _Ground.of(client, client.get_table(ref))
                except (
                    errors.TableNotFoundError,
                    errors.UnsupportedTableError,
                ):  # a view may have the name by now
                    self._grounds[ref] = None
            ground = self._grounds[ref]
        return ground is not None and ground.has(place)

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
                except errors.TableNotFoundError:  # it was dropped meanwhile
                    partitions = ()
                self._partitions[other.ref] = tuple(
                    (str(info.name), identities(info.location)) for info in partitions
                )
            return self._partitions[other.ref]


def _overlap(one: _Place, other: _Place) -> bool:
    return one[0] in other or other[0] in one


def _all_tables(client: MetastorePort, unread: list[str]) -> Iterator[tuple[TableInfo, _Place]]:
    """Yield all tables with their places; add the databases and tables without one to `unread`."""

    def skip(db: str, error: errors.MetastoreCallError) -> None:
        log.warning("cannot tell where the tables of database=%s lie: %s", db, error)
        unread.append(f"database {db}")

    for name, table in every_table(client, skip):
        if isinstance(table, errors.HiveAcidError):
            log.warning("cannot tell where table=%s lies: %s", name, table)
            unread.append(f"table {name}")
        elif table.location:
            yield table, identities(table.location)


log = logging.getLogger("hiveacid")

_RESTORED: Final = (
    "If this metastore was restored from a backup, restore the table's files to the same time, or"
    " move the named directory away"
)

_DEFINITION_ONLY: Final = (
    "If the whole table is to go, remove only its definition, and keep all files: call the hook's"
    " `metastore().drop_table(ref, delete_data=False)`"
)


def check_owner(
    client: MetastorePort, table: TableInfo, neighbours: Neighbours, *, plan_only: bool = False
) -> None:
    """Raise OtherOwnerError unless a table owns its directory; note it in a job that acts."""
    mine = _owner(client, table)
    if check_note(client, table, neighbours) == mine:
        return
    locations = [partition.location for partition in client.list_partitions(table)]
    why = neighbours.why_shared(client, table, locations)
    if why is not None:
        raise errors.OtherOwnerError(table=table.ref, location=table.location, why=why)
    # A note must not create the directory of a table that was dropped meanwhile.
    if not plan_only and exists(*open_location(table.location)):
        try:
            note_owner(table.location, mine)
        except errors.StorageError as error:  # the next job looks for other tables again
            log.info("cannot note the owner of table=%s: %s", table.ref, error)


def check_note(
    client: MetastorePort, table: TableInfo, neighbours: Neighbours | None = None
) -> Owner | None:
    """Return the noted owner; raise OtherOwnerError if it is another one that is still there.

    Its readers would show this table's writes as soon as its own writes with the same IDs commit.
    Unlike `check_owner`, this looks for no other table.
    """
    own = f"write the note again with `python -m airflow_hiveacid own {table.ref}`"
    noted = _noted(table, table.location, own)
    why = noted and _why_other(client, table, noted, table.location, neighbours or Neighbours())
    if why:
        uri = owner_uri(table.location)
        raise errors.OtherOwnerError(
            table=table.ref, location=table.location, why=f"{uri} says that it {why}"
        )
    return noted


def check_outside(
    client: MetastorePort,
    table: TableInfo,
    locations: Iterable[str],
    neighbours: Neighbours | None = None,
) -> None:
    """Raise OtherOwnerError if a partition outside the table's directory is in another table's.

    The note is at the partition's location or anywhere above it. Locations in the table's directory
    are not looked up, because the table's own note covers them.
    """
    outside = [place for place in outside_of(table, locations) if is_publishable(place)]
    around = {location: directories_around(location) for location in outside}
    _check_around(client, table, around, neighbours or Neighbours())


def check_at(
    client: MetastorePort, table: TableInfo, locations: Iterable[str], neighbours: Neighbours
) -> None:
    """Raise OtherOwnerError if another table's note is at one of these locations, not above."""
    around = {location: directories_around(location)[:1] for location in locations}
    _check_around(client, table, around, neighbours)


def check_place(
    client: MetastorePort,
    table: TableInfo,
    listing: Listing,
    neighbours: Neighbours,
    *,
    plan_only: bool,
) -> None:
    """Raise OtherOwnerError if a listed partition is another table's; note it in a job that acts.

    A note at a partition in the table's own directory is of a table that had the partition before.
    """
    check_outside(client, table, [listing.location], neighbours)
    has_note = any(name.partition("/")[0] == HIDDEN_DIRECTORY for name in listing.directories)
    if has_note and listing.location != table.location:
        check_at(client, table, [listing.location], neighbours)
    if not plan_only:
        note_outside(client, table, [listing.location], neighbours)


def note_outside(
    client: MetastorePort, table: TableInfo, locations: Iterable[str], neighbours: Neighbours
) -> None:
    """Note a table at its partitions outside its directory, which `check_outside` has checked.

    Without the notes, no table is refused, so an error is only logged.
    """
    mine = replace(_owner(client, table), is_checked=False)
    for location in outside_of(table, locations):
        place = directories_around(location)[0]
        if neighbours.noted.get(place) == mine:
            continue
        try:
            if exists(*open_location(location)):  # the partition may have been dropped meanwhile
                note_owner(location, mine)
                neighbours.noted[place] = mine
        except errors.HiveAcidError as error:
            log.warning("cannot note the owner of location=%s: %s", location, error)


def _check_around(
    client: MetastorePort,
    table: TableInfo,
    around: Mapping[str, Sequence[str]],
    neighbours: Neighbours,
) -> None:
    """Raise OtherOwnerError for a location with another owner's note in a directory `around` it."""
    owners = neighbours.noted
    new = sorted({place for each in around.values() for place in each if place not in owners})
    at = frozenset(each[0] for each in around.values())
    owners.update(zip(new, each_in_threads(partial(_noted_outside, table, at), new), strict=True))
    for location, place in ((one, place) for one, places in around.items() for place in places):
        noted, uri = owners[place], owner_uri(place)
        why = noted and _why_other(client, table, noted, location, neighbours)
        if why:
            raise errors.OtherOwnerError(
                table=table.ref,
                location=location,
                why=f"{uri} says that it {why}",
                remedy=f"If the other table is gone for good, remove {uri}",
            )


def outside_of(table: TableInfo, locations: Iterable[str]) -> list[str]:
    """Return the locations that are not in the table's directory, or not certainly."""
    return [location for location in locations if not is_within(location, table.location)]


def check_all(
    client: MetastorePort, table: TableInfo, partitions: Iterable[PartitionInfo] | None = None
) -> None:
    """Raise OtherOwnerError if a note names another owner of the table or of these partitions.

    By default, they are all its partitions.
    """
    check_note(client, table)
    partitions = client.list_partitions(table) if partitions is None else partitions
    check_outside(client, table, [info.location for info in partitions])


def check_definition(
    client: MetastorePort, ref: TableRef, partitions: Sequence[PartitionName]
) -> None:
    """Raise OtherOwnerError if a drop of these partitions, or of the table, concerns another owner.

    So does a rename, which moves files. Partitions that do not exist yet are to be added. If the
    notes cannot be read, only log a warning: a program that changes definitions may have no access
    to the files.
    """
    table = client.get_table(ref)
    known = client.get_partitions(table, partitions) if partitions else None
    existing = {info.name for info in known or ()}
    new = [name for name in partitions if name not in existing]
    try:
        check_all(client, table, known)
        check_at(client, table, map(table.default_partition_location, new), Neighbours())
    except errors.CorruptFileError:
        raise
    except errors.OtherOwnerError as error:
        if new:
            raise
        raise errors.OtherOwnerError(
            table=ref, location=error.location, why=error.why, remedy=_DEFINITION_ONLY
        ) from error
    except errors.HiveAcidError as error:
        log.warning("cannot check whose directory it is table=%s: %s", ref, error)


def _noted_outside(table: TableInfo, at: Container[str], place: str) -> Owner | None:
    """Return the noted owner of a place; above the locations in `at`, None if it cannot be read."""
    try:
        return _noted(table, place, "remove the note")
    except errors.LocationPermissionError:
        return None
    except errors.CorruptFileError:
        raise
    except errors.StorageError as error:
        # It need not be a directory that jobs may use, such as one above all mounts of a router.
        if place in at:
            raise
        log.info("cannot read whose directory it is location=%s: %s", place, error)
        return None


def _noted(table: TableInfo, location: str, remedy: str) -> Owner | None:
    if not is_publishable(location):  # a client of such a store may wait, or end the process
        return None
    try:
        return noted_owner(location)
    except errors.CorruptFileError as error:
        raise errors.CorruptFileError(
            path=error.path,
            reason=f"{error.reason}. It says whose directory this is. If table {table.ref} owns it,"
            f" {remedy}",
        ) from error


def _why_other(
    client: MetastorePort, table: TableInfo, noted: Owner, location: str, neighbours: Neighbours
) -> str | None:
    """Return which other owner, named by a note, still has a location, or None."""
    if noted.metastore != client.metastore_id:
        return f"belongs to {noted}, and this is the metastore {client.metastore_id}"
    if noted.table != table.ref and neighbours.has(client, noted.table, identities(location)):
        return f"belongs to table {noted.table}"
    return None


def take_ownership(client: MetastorePort, table: TableInfo) -> Owner | None:
    """Note that a table owns its directory, whatever the note says; return the earlier owner."""
    try:
        earlier_owner = noted_owner(table.location)
    except errors.CorruptFileError:
        earlier_owner = None
    note_owner(table.location, _owner(client, table))
    return earlier_owner


def check_known_writes(
    client: MetastorePort,
    table: TableInfo,
    listing: Listing,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> None:
    """Raise OtherOwnerError if another metastore has allocated an ID in a table's directory names.

    IDs that are later than those of `write_ids` and `txns` are looked up.
    """
    directories = {directory.partition("/")[0] for directory in listing.directories}
    names = [name for name in map(parse_directory_name, sorted(directories)) if name is not None]
    late = [name for name in names if name.high > write_ids.high_watermark]
    hidden = [name for name in names if (name.visibility_txn_id or 0) > txns.high_watermark]
    allocated = ""
    if late:
        last = client.max_write_id(table.ref)
        late = [name for name in late if name.high > last]
        allocated = f"write IDs of the table only up to {last}"
    if hidden and not late:
        newest = client.valid_txns().high_watermark
        late = [name for name in hidden if (name.visibility_txn_id or 0) > newest]
        allocated = f"transactions only up to {newest}"
    if late:
        raise errors.OtherOwnerError(
            table=table.ref,
            location=listing.location,
            why=f"{late[0]} is newer than this metastore, which has allocated {allocated}. Another"
            " metastore has written it, or this one was restored from an older backup",
            remedy=_RESTORED,
        )


def check_aborted(table: TableInfo, state: AcidState, commits: Iterable[CommitNote]) -> None:
    """Raise OtherOwnerError if a note says that a write which is aborted here was committed."""
    for directory in state.aborted:
        name = directory.name
        if name.visibility_txn_id is not None:
            continue  # the result of an aborted compaction of committed writes
        low = name.high if isinstance(name, BaseName) else name.low
        for note in commits:
            if low <= note.write_id <= directory.high:
                raise errors.OtherOwnerError(
                    table=table.ref,
                    location=state.location,
                    why=f"a note says that transaction {note.txn_id} committed {directory.text},"
                    " but this metastore lists that write as aborted, so another one committed it",
                    remedy=_RESTORED,
                )


def _owner(client: MetastorePort, table: TableInfo) -> Owner:
    return Owner(
        metastore=client.metastore_id, table=table.ref, table_id=table.table_id, is_checked=True
    )
