"""Build directories where no reader looks, then publish them whole under their final names.

All staged files are below `<home>/_tmp_hiveacid_<token>/`: `<final name>/` is the directory to
publish, `_attempts/` has files of tasks that the driver has not accepted yet, `_parts/` has files
that later tasks read and that are never published, and `_flat/` has rows that are not yet in the
table's file format. The home is the table's location, or a partition's outside of it.

Only this module depends on how a directory becomes visible: on most stores by one rename
(`check_publishable`), on others file by file, data files before marker files.

Example:
    >>> staging = Staging(location="file:/warehouse/t", token="job-1")
    >>> staging.path_for("base_0000005")
    'file:/warehouse/t/_tmp_hiveacid_job-1/base_0000005'
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.errors import DirectoryExistsError, StorageError, UnsupportedTableError
from airflow_hiveacid.format.names import (
    ACID_VERSION_FILE,
    COMPACTED_FORMAT,
    METADATA_FILE,
    BaseName,
    DeltaName,
    attempt_path,
    staging_directory,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.storage.stores import filesystem, hadoop_settings, locations
from airflow_hiveacid.storage.stores.listing import metadata_text
from airflow_hiveacid.storage.stores.threads import each_in_threads

log = logging.getLogger("hiveacid")

DirectoryText = BaseName | DeltaName | str
"""A final directory name, parsed or as a string."""

_FLAT: Final = "_flat"
_PARTS: Final = "_parts"
MARKERS: Final[Mapping[str, bytes]] = {
    ACID_VERSION_FILE: b"2",
    METADATA_FILE: metadata_text(COMPACTED_FORMAT),
}
"""The marker files of full-ACID writers and compactors, with their content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFile:
    """A file of the accepted attempt, as the task described it in its report."""

    name: str
    attempt: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The staging directory of one attempt for one location; a plain value that tasks receive.

    `location` is a table's or partition's root, as a URI or path. `token`, unique to the attempt,
    consists of letters, digits, `.`, `_` and `-`. `home` is the table's location if the partition
    is below it; None means `location`.
    """

    location: str
    token: str
    home: str | None = None

    def __post_init__(self) -> None:
        staging_directory(self.token)

    @classmethod
    def of(cls, table: TableInfo, location: str, token: str) -> Self:
        """Return the staging directory of a table's partition, given the partition's location."""
        is_below = location.startswith(f"{table.location.rstrip('/')}/")
        return cls(location=location, token=token, home=table.location if is_below else None)

    @property
    def top(self) -> str:
        """The directory with all files that this attempt has staged below the home."""
        return f"{(self.home or self.location).rstrip('/')}/{staging_directory(self.token)}"

    @property
    def root(self) -> str:
        """The directory with all staged files for this location."""
        if self.home is None:
            return self.top
        return f"{self.top}/{self.location[len(self.home.rstrip('/')) + 1 :].rstrip('/')}"

    def path_for(self, directory: DirectoryText) -> str:
        """Return the path at which the directory with this final name is built."""
        return f"{self.root}/{directory}"

    def final_path(self, directory: DirectoryText) -> str:
        """Return the path of the directory once it is published."""
        return f"{self.location.rstrip('/')}/{directory}"

    def attempt_path(self, directory: DirectoryText, file_name: str, attempt: str) -> str:
        """Return the path at which a task attempt writes a file for that directory."""
        return attempt_path(self.root, attempt, directory, file_name)

    def part_path(self, file_name: str, attempt: str) -> str:
        """Return the path of an attempt's file for later tasks: readable, and never published."""
        return f"{self.root}/{_PARTS}/{attempt}/{file_name}"

    def flat_path(self, attempt: str) -> str:
        """Return the path at which an attempt writes rows that are not yet in the final format."""
        return f"{self.top}/{_FLAT}/{attempt}"

    def accept(self, directory: DirectoryText, file_name: str, attempt: str) -> str:
        """Accept an attempt's file: move the file into the staged directory; return the new path.

        On a store without renames, the file stays at its path until it is published. Raises
        DirectoryExistsError if a different attempt was accepted before.
        """
        fs, target = locations.open_location(f"{self.path_for(directory)}/{file_name}")
        if not locations.traits_of(fs).renames:
            return self.attempt_path(directory, file_name, attempt)
        if filesystem.exists(fs, target):
            raise DirectoryExistsError(path=target)
        filesystem.move(
            fs, locations.open_location(self.attempt_path(directory, file_name, attempt))[1], target
        )
        return f"{self.path_for(directory)}/{file_name}"

    def prepare(self, directory: DirectoryText) -> str:
        """Create the staged directory with this final name; return its path."""
        path = self.path_for(directory)
        filesystem.make_directory(*locations.open_location(path), like=self._shared_like)
        return path

    def add_version_file(self, directory: DirectoryText) -> None:
        """Write `_orc_acid_version`; every directory of a full-ACID writer contains this file."""
        self._add(directory, ACID_VERSION_FILE, MARKERS[ACID_VERSION_FILE])

    def add_metadata_file(self, directory: DirectoryText) -> None:
        """Write `_metadata_acid`; it must exist before the base is published (HIVE-24653)."""
        self._add(directory, METADATA_FILE, metadata_text(COMPACTED_FORMAT))

    def _add(self, directory: DirectoryText, name: str, content: bytes) -> None:
        fs, path = locations.open_location(f"{self.path_for(directory)}/{name}")
        # On a store without renames, `publish_files` writes the marker files.
        if locations.traits_of(fs).renames:
            filesystem.write_bytes(fs, path, content)

    def publish(self, directories: Sequence[DirectoryText]) -> tuple[str, ...]:
        """Rename directories to their final names, in this order; return their final paths.

        If a target exists (DirectoryExistsError), or a directory was not built, nothing is renamed.
        After a failed rename, earlier directories stay: readers ignore an aborted write ID.
        """
        fs, root = locations.open_location(self.root)
        _, table = locations.open_location(self.location)
        for directory in directories:
            if filesystem.exists(fs, f"{table}/{directory}"):
                raise DirectoryExistsError(path=f"{table}/{directory}")
            if not filesystem.exists(fs, f"{root}/{directory}"):
                raise StorageError(f"cannot publish {root}/{directory}: it was not built")
        filesystem.make_directory(fs, table, like=self._shared_like)
        for directory in directories:
            with filesystem.storage_errors("open up", f"{root}/{directory}"):
                filesystem.open_up(fs, f"{root}/{directory}", table)
            filesystem.rename_directory(fs, f"{root}/{directory}", f"{table}/{directory}")
        return tuple(self.final_path(directory) for directory in directories)

    @property
    def _shared_like(self) -> str:
        return locations.open_location(self.home or self.location)[1]

    @property
    def renames(self) -> bool:
        """True if `publish` renames whole directories; False if `publish_files` must be used."""
        return locations.traits_of(locations.open_location(self.location)[0]).renames

    def publish_files(
        self, directory: DirectoryText, files: Sequence[AcceptedFile], markers: Sequence[str]
    ) -> str:
        """Make a directory visible file by file; return its final path.

        Data files come first: with only a compaction's marker, the directory would have no rows.
        Raises DirectoryExistsError if it exists, or another writer is creating it, and StorageError
        if an attempt did not write one of `files`, or publishing failed; some may be visible.
        """
        fs, target = locations.open_location(self.final_path(directory))
        if filesystem.exists(fs, target):
            raise DirectoryExistsError(path=target)
        store = fs.handler

        def publish(file: AcceptedFile) -> None:
            path = locations.open_location(self.attempt_path(directory, file.name, file.attempt))[1]
            with _taken(path), filesystem.file_errors("publish", path):
                store.publish(path, file.size_bytes)

        each_in_threads(publish, files)
        for name in markers:
            path = f"{target}/{name}"
            with _taken(path), filesystem.storage_errors("write", path):
                store.put_once(path, MARKERS[name], self.token)
        return self.final_path(directory)

    def take_back_files(
        self, directory: DirectoryText, files: Sequence[AcceptedFile], markers: Sequence[str]
    ) -> None:
        """Undo a complete or partial `publish_files`; do not touch other writers' files."""
        fs, target = locations.open_location(self.final_path(directory))
        store = fs.handler
        for name in reversed(markers):
            with filesystem.storage_errors("delete", target):
                store.delete_marked(f"{target}/{name}", self.token)

        def take_back(file: AcceptedFile) -> None:
            path = locations.open_location(self.attempt_path(directory, file.name, file.attempt))[1]
            with filesystem.storage_errors("delete", path):
                store.take_back(path)

        each_in_threads(take_back, files)

    def discard(self) -> None:
        """Remove all files that this attempt has staged; a second call does nothing."""
        filesystem.delete_directory(*locations.open_location(self.top))


def is_publishable(location: str) -> bool:
    """Return False if `check_publishable` refuses a location, so that no job has written there."""
    scheme = locations.scheme_of(location)
    if locations.might_rename_directories(scheme):
        return scheme in hadoop_settings.untested_stores(hadoop_settings.given_settings())
    return locations.renames_directories(scheme) or locations.publishes_files(scheme)


def check_publishable(table: object, location: str) -> None:
    """Check that directories at a location can be published without exposing half a directory.

    Raises UnsupportedTableError if the location's store is untested, and no setting allows changes
    on it.
    """
    scheme = locations.scheme_of(location)
    if locations.renames_directories(scheme) or locations.publishes_files(scheme):
        return
    untried = f"{location} is on {scheme}://, where changing a table is untested: "
    alternatives = "Tables on hdfs://, s3a:// and file:// can be changed"
    if not locations.might_rename_directories(scheme):
        raise UnsupportedTableError(
            table=table,
            detail=f"{untried}this store cannot rename directories, so readers could see half a"
            f" change, and no setting allows such changes. {alternatives}",
        )
    if not is_publishable(location):
        raise UnsupportedTableError(
            table=table,
            detail=f"{untried}readers could see half a change. {alternatives}. To try changes on a"
            f" copy with a hierarchical namespace, set"
            f" {hadoop_settings.UNTESTED_STORES}={scheme} in core-site.xml, or"
            f" spark.hadoop.{hadoop_settings.UNTESTED_STORES}",
        )
    log.warning(
        "%s allows changes on an untested store: %s", hadoop_settings.UNTESTED_STORES, location
    )


def check_renames(table: object, location: str, what: str) -> None:
    """Check that files can be renamed in one step, as `what` needs: the subject of the message."""
    scheme = locations.scheme_of(location)
    if not locations.renames_directories(scheme):
        raise UnsupportedTableError(
            table=table,
            detail=f"{what} renames files and directories, and {scheme}:// of {location} has no"
            " renames: readers could see half of the change. It works on hdfs:// and file://",
        )


@contextmanager
def _taken(path: str) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise DirectoryExistsError(path=path) from error
        raise
