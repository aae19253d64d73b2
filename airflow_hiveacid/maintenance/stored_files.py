"""Every file below a table's directories and below other locations, and why it is still there.

That includes files that readers ignore: replaced, aborted, staged and hidden files, and files of
dropped partitions. A planned cleaning gives the reasons of those that it would remove or keep. This
module changes nothing, and needs neither Spark nor the content of files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.names import is_below_hidden
from airflow_hiveacid.format.selection import DirectoryStatus
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import TableCleaning
from airflow_hiveacid.maintenance.ownership import Neighbours
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.change_feed import FEED_NOTE
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import every_file, list_table, open_uploads
from airflow_hiveacid.storage.stores.locations import locate, publishes_files, scheme_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below a table's directories, or below another location.

    `entry.path` is relative to `root`. `partition` is None if the metastore knows no partition that
    contains the file; the path may still show the values, `name`. `is_outside` is True for a file
    not below the table's directories. `why_not` is why the file, or all of `root`, cannot be read.
    """

    root: str
    entry: FileEntry
    partition: PartitionInfo | None = None
    name: PartitionName | None = None
    is_outside: bool = False
    why_not: str = ""

    @property
    def uri(self) -> str:
        """The file's URI."""
        return f"{self.root.rstrip('/')}/{self.entry.path}"

    @property
    def is_note(self) -> bool:
        """True if the file is in a table's hidden directory, or describes a range of a feed."""
        return HIDDEN_DIRECTORY in self.entry.path.split("/") or self.entry.name == FEED_NOTE

    @property
    def below(self) -> str:
        """The file's path relative to its partition's location; without a partition, to `root`."""
        if self.partition is None:
            return self.entry.path
        path = posixpath.join(locate(self.root)[1], self.entry.path)
        return posixpath.relpath(path, locate(self.partition.location)[1])


def stored_files(
    table: TableInfo, partitions: Sequence[PartitionInfo], locations: Sequence[str]
) -> list[StoredFile]:
    """Return every file; a file that two partitions share is returned once for each of them.

    `locations` are URIs of directories outside the table. A directory that may not be listed is an
    entry with `why_not`.
    """
    owners: dict[tuple[str, str], list[PartitionInfo]] = {}
    for info in partitions:
        owners.setdefault(locate(info.location), []).append(info)
    roots = dict.fromkeys((table.location, *(info.location for info in partitions)), False)
    roots |= {location: True for location in locations if location not in roots}
    files_at: dict[tuple[str, str], list[StoredFile]] = {}
    for root, is_outside in roots.items():
        store, top = locate(root)
        for file in _below(root, is_outside=is_outside):
            path = posixpath.join(top, file.entry.path)
            if (store, path) not in files_at:
                files_at[store, path] = list(_owned(table, file, owners, store, path))
    return [file for files in files_at.values() for file in files]


def _below(root: str, *, is_outside: bool) -> Iterator[StoredFile]:
    try:
        uploads = open_uploads(root) if publishes_files(scheme_of(root)) else ()
        for upload in uploads:
            entry = FileEntry(path=f"{upload.path}?uploadId={upload.upload_id}", size_bytes=0)
            why_not = "it is an upload that its writer has not finished"
            yield StoredFile(root=root, entry=entry, is_outside=is_outside, why_not=why_not)
        for entry in every_file(root):
            yield StoredFile(root=root, entry=entry, is_outside=is_outside)
    except LocationPermissionError as error:
        entry = FileEntry(path="", size_bytes=0)
        yield StoredFile(root=root, entry=entry, is_outside=is_outside, why_not=str(error))


def _owned(
    table: TableInfo,
    file: StoredFile,
    owners: dict[tuple[str, str], list[PartitionInfo]],
    store: str,
    path: str,
) -> Iterator[StoredFile]:
    """Yield the file for each partition that contains it, or once if none does."""
    parent = posixpath.dirname(path)
    while parent not in ("", "/") and (store, parent) not in owners:
        parent = posixpath.dirname(parent)
    for info in owners.get((store, parent), ()):
        yield replace(file, partition=info, name=info.name)
    if (store, parent) not in owners:
        # Directories above the table's location say nothing about its partitions.
        yield replace(file, name=_name_in(table, path if file.is_outside else file.entry.path))


def _name_in(table: TableInfo, path: str) -> PartitionName | None:
    columns = [column.name for column in table.partition_columns]
    directories = [
        d for d in path.split("/")[:-1] if d.partition("=")[0].lower() in columns and "=" in d
    ]
    name = PartitionName.parse("/".join(directories))
    return name if columns and name.columns == tuple(columns) else None


LIVE: Final = "it belongs to the table's current state"
_HIDDEN: Final = "it is staged or hidden; remove it after its writer has ended"
_UNKNOWN: Final = "it belongs to no state of the table; move it away or remove it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StillThere:
    """The reasons of one table's files. Mutable, because it plans a partition's cleaning once."""

    client: MetastorePort
    cleaning: TableCleaning
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, client: MetastorePort, table: TableInfo, on_step: Callable[[str], None]
    ) -> StillThere:
        """Read the facts that all partitions need."""
        spec = CleanSpec.of_table(str(table.ref), plan_only=True)
        cleaning = TableCleaning.of(client, table.ref, spec, on_step, Neighbours())
        return cls(client=client, cleaning=cleaning)

    def why(self, partition: PartitionInfo | None, path: str) -> str:
        """Return why a file is still there; `path` is relative to its partition or table."""
        location = self.cleaning.table.location if partition is None else partition.location
        if location not in self._known:
            self._known[location] = self._reasons(partition)
        reasons = self._known[location]
        reason = reasons.get(path) or reasons.get(path.partition("/")[0])
        return reason or (_HIDDEN if is_below_hidden(path) else _UNKNOWN)

    def _reasons(self, partition: PartitionInfo | None) -> dict[str, str]:
        if partition is None:
            return _planned(self.cleaning.finish(self.client, ()))
        table = self.cleaning.table
        txns = self.client.valid_txns()
        write_ids = self.client.valid_write_ids([table.ref], txns)[table.ref]
        state = resolve(list_table(partition.location), write_ids, txns, table.kind)
        return {
            **{file.path: LIVE for file in state.originals},
            **{
                d.text: LIVE if d.status is DirectoryStatus.LIVE else f"it is {d.why}"
                for d in state.directories
            },
            **_planned([self.cleaning.clean(self.client, partition)]),
        }


def _planned(outcomes: Iterable[CleaningOutcome]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for outcome in outcomes:
        reasons |= {r.path: f"clean the table to remove it: {r.why}" for r in outcome.removed}
        reasons |= {r.path: f"cleaning keeps it: {r.why}" for r in outcome.kept}
    return reasons
