"""Every file below a table's directories and below other locations, with its partition.

Input is a table, its partitions, and URIs. Output also has the files that readers ignore: replaced,
aborted, staged and hidden files, and files of dropped partitions. This module must not depend on
the content of files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.state.directories import FileEntry
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.storage.stores.listing import every_file, open_uploads
from airflow_hiveacid.storage.stores.locations import locate, scheme_of
from airflow_hiveacid.storage.stores.traits import publishes_files


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below a table's directories, or below another location.

    `entry.path` is relative to `root`. `partition` is None if the metastore knows no partition that
    contains the file. Then the path may still show the partition's values, `name`. `is_outside` is
    True for a file that is not below the table's directories. `why_not` is the reason if the file,
    or all of `root`, cannot be read.
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

    `locations` are URIs of directories outside the table. A directory that cannot be listed because
    permission is missing is an entry with `why_not`.
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
