"""Files and directories below a table's directories that no metadata of the table knows.

Only a file that lies directly at the location of a partitioned full-ACID table may be removed:
every other unknown path may contain rows, or may belong to another program, table or future
partition. This module changes nothing.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format import names
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.plan.cleaning import SHORTEST_UNKNOWN_AGE_S, UnknownPath
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_levels, tree_size
from airflow_hiveacid.storage.stores.locations import locate, open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads

log = logging.getLogger("hiveacid")

_MOST_SHOWN: Final = 5

_HIDDEN: Final = "hidden: another program may still use it"
_OUTSIDE: Final = (
    "it is outside all bases and deltas, and the table's properties do not declare that such files"
    " contain rows"
)
_STRAY: Final = "no partition contains it"
_FOREIGN: Final = "no partition contains it; it may belong to another table"
_UNREGISTERED: Final = (
    "it is not a partition in the metastore; MSCK REPAIR TABLE adds it, or drop its files yourself"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPaths:
    """The unknown paths that a cleaning leaves alone: their number, size, and the largest ones."""

    count: int
    size_bytes: int
    largest: tuple[UnknownPath, ...]

    @classmethod
    def of(cls, unknown: Sequence[UnknownPath]) -> Self | None:
        """Return the summary, or None if there are no unknown paths."""
        if not unknown:
            return None
        largest = sorted(unknown, key=lambda one: (-one.size_bytes, one.path))
        return cls(
            count=len(unknown),
            size_bytes=sum(path.size_bytes for path in unknown),
            largest=tuple(largest[:_MOST_SHOWN]),
        )


def unknown_in(
    table: TableInfo, state: AcidState, listing: Listing, now_s: float
) -> tuple[UnknownPath, ...]:
    """Return the unknown paths of a partition, or of a table without partitions; none is removed.

    Hidden files, those of an unfinished write, and those that are removed with their directory, are
    not included.
    """
    files = {file.path: file for file in listing.files}
    top = [path for path in listing.directories if "/" not in path and names.is_hidden(path)]
    hidden = [path for path in top if not _is_ours(path)]
    return (
        *(_of_file(files[path], why, now_s) for path, why in _not_data(table, state, listing)),
        *_of_directories(listing.location, dict.fromkeys(hidden, _HIDDEN), now_s),
    )


def unknown_between(
    table: TableInfo, partitions: Iterable[PartitionInfo], now_s: float
) -> tuple[tuple[UnknownPath, ...], Listing]:
    """Return the unknown paths between a table's partitions, and a listing of the files.

    If no partition is below a directory, the directory is returned, not its content. Where
    permission to list is missing, the search ends with a warning.
    """
    places = Places.of(table, partitions)
    directories: dict[str, str] = {}
    files: list[FileEntry] = []
    level = [""]
    while level:
        listings = _listed(table, level)
        files += (f for listing in listings for f in listing.files if not names.is_hidden(f.name))
        outside = [p for listing in listings for p in listing.directories if not places.holds(p)]
        level = [path for path in outside if path in places.above]
        leaves = (
            p for p in outside if p not in places.above and not _is_ours(posixpath.basename(p))
        )
        directories |= {path: _why_unknown(table, path) for path in leaves}
    unknown = (
        *(_between(table, file, now_s) for file in files),
        *_of_directories(table.location, directories, now_s),
    )
    return unknown, Listing(location=table.location, files=tuple(files))


def _listed(table: TableInfo, directories: Sequence[str]) -> list[Listing]:
    try:
        return list_levels(table.location, directories)
    except LocationPermissionError as error:
        # Other parts of a cleaning do not list directories between the partitions.
        log.warning("%s: cannot find all unknown files: %s", table.ref, error)
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The locations of a table's partitions, relative to the location of the table.

    `above` are the directories that contain these locations. Stores are not compared, because one
    store can have several names. If the table lies in a partition, so does everything below it.
    """

    root: str
    partitions: frozenset[str]
    above: frozenset[str]

    @classmethod
    def of(cls, table: TableInfo, partitions: Iterable[PartitionInfo]) -> Self:
        """Return the places of a table's partitions."""
        root = _path(table.location)
        paths = frozenset(_path(partition.location) for partition in partitions)
        parents = frozenset(parent for path in paths for parent in _parents(path))
        within = f"{root}/"
        return cls(
            root=root,
            partitions=paths,
            above=frozenset(p.removeprefix(within) for p in parents if p.startswith(within)),
        )

    def holds(self, path: str) -> bool:
        """Return whether a path below the table's location is in the location of a partition."""
        whole = posixpath.join(self.root, path).rstrip("/")
        return whole in self.partitions or any(p in self.partitions for p in _parents(whole))

    def leaves(self, path: str) -> bool:
        """Return whether a path neither is in the location of a partition, nor contains one."""
        return not self.holds(path) and path not in self.above


def _path(location: str) -> str:
    return posixpath.normpath(locate(location)[1])


def _parents(path: str) -> Iterator[str]:
    while (parent := posixpath.dirname(path)) not in ("", path):
        yield parent
        path = parent


def _not_data(table: TableInfo, state: AcidState, listing: Listing) -> Iterator[tuple[str, str]]:
    """Yield path and reason of each file that readers ignore although it is not hidden."""
    if table.kind is TransactionalKind.INSERT_ONLY:
        # Each file in a base or delta is data. Hive also writes empty ones.
        data_directories = {directory.text for directory in state.directories}
        for file in listing.files if not table.reads_originals else ():
            is_ignored = names.is_below_hidden(file.path) or names.is_manifest(file.path)
            if file.path.partition("/")[0] not in data_directories and not is_ignored:
                yield file.path, _OUTSIDE
        return
    originals = {file.path for file in (*state.originals, *state.obsolete_originals)}
    # In other directories, a write may not have ended, or they are removed as a whole.
    settled = {directory.text for directory in state.live if directory.is_resolved}
    unsettled = {directory.text for directory in state.directories} - settled
    for unknown in state.unknown:
        if unknown.path not in originals and unknown.path.partition("/")[0] not in unsettled:
            yield unknown.path, unknown.why


def _between(table: TableInfo, file: FileEntry, now_s: float) -> UnknownPath:
    is_removable = (
        "/" not in file.path
        and table.kind is TransactionalKind.FULL_ACID
        and not names.looks_like_directory_name(file.name)
    )
    return _of_file(file, _STRAY, now_s, is_removable=is_removable)


def _why_unknown(table: TableInfo, path: str) -> str:
    name = posixpath.basename(path)
    if names.is_hidden(name):
        return _HIDDEN
    column, equals, _ = name.partition("=")
    is_partition = column.lower() in {c.name.lower() for c in table.partition_columns}
    return _UNREGISTERED if equals and is_partition else _FOREIGN


def _is_ours(name: str) -> bool:
    return name == HIDDEN_DIRECTORY or name.startswith(names.STAGING_PREFIX)


def _of_file(file: FileEntry, why: str, now_s: float, *, is_removable: bool = False) -> UnknownPath:
    return UnknownPath(
        path=file.path,
        why=why,
        size_bytes=file.size_bytes,
        age_s=_age(file.modified_s, now_s),
        is_removable=is_removable,
    )


def _of_directories(
    location: str, directories: dict[str, str], now_s: float
) -> Iterator[UnknownPath]:
    """Yield directories, given the reason for each path, with the total size below each.

    Other users and programs may remove them meanwhile. A hidden directory is left out if it is
    empty, or if it changed in the last day: each night, a cleaning would list those of running
    queries, and those that Impala keeps.
    """
    fs, root = open_location(location)

    def measure(path: str) -> UnknownPath | None:
        why = directories[path]
        try:
            size, newest = tree_size(fs, posixpath.join(root, path))
        except LocationPermissionError:
            why, size, newest = f"{why} (its content cannot be listed)", 0, 0.0
        except FileNotFoundError:
            return None
        age_s = _age(newest, now_s)
        is_young = age_s is not None and age_s < SHORTEST_UNKNOWN_AGE_S
        if why == _HIDDEN and (is_young or not size):
            return None
        return UnknownPath(path=path, why=why, size_bytes=size, age_s=age_s)

    return filter(None, each_in_threads(measure, list(directories)))


def _age(modified_s: float | None, now_s: float) -> float | None:
    """Return an age in seconds; None if the time is unknown, for which some stores return 0."""
    return max(0.0, now_s - modified_s) if modified_s else None
