"""How a directory is built where no reader looks, and appears whole under its final name.

Takes one table or partition location and a token; gives paths to write at, the small files that
belong into a directory, and the renames that publish it. Everything lies below
`<home>/_tmp_hiveacid_<token>/`: `<final name>/` is what will be published, `_attempts/` holds what
tasks wrote and nobody has accepted yet, `_flat/` rows on their way into such files. Home is the
table's location, so that a partition has no directory before it exists; a partition that is
elsewhere is its own home. Must not know what the data files hold.

This is the only place that knows how a directory becomes visible (`check_publishable`): by a
rename, which a store must do in one step, or, where nothing is renamed, file by file, rows before
the small files that say of rows what they are.

Example:
    >>> staging = Staging(location="file:/warehouse/t", token="job-1")
    >>> staging.path_for("base_0000005")
    'file:/warehouse/t/_tmp_hiveacid_job-1/base_0000005'
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import (
    DirectoryExistsError,
    StorageError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.names import (
    ACID_VERSION_FILE,
    COMPACTED_FORMAT,
    METADATA_FILE,
    BaseName,
    DeltaName,
    staging_directory,
)
from airflow_hiveacid.storage.stores.attempt_paths import attempt_path
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    exists,
    file_errors,
    make_directory,
    move,
    rename_directory,
    storage_errors,
    write_bytes,
)
from airflow_hiveacid.storage.stores.given_settings import (
    UNTESTED_STORES,
    given_settings,
    untested_stores,
)
from airflow_hiveacid.storage.stores.listing import metadata_text
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.traits import (
    might_rename_directories,
    publishes_files,
    renames_directories,
    traits_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.table import TableInfo

log = logging.getLogger("hiveacid")

DirectoryText = BaseName | DeltaName | str
"""A final directory name, as a value or as its text."""

_FLAT: Final = "_flat"
MARKERS: Final[Mapping[str, bytes]] = {
    ACID_VERSION_FILE: b"2",
    METADATA_FILE: metadata_text(COMPACTED_FORMAT),
}
"""The small files of a directory that a full-ACID writer, or a compactor, adds, and their texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFile:
    """A file of the attempt that counts, as its task told of it."""

    name: str
    attempt: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The staging directory of one attempt for one location. A plain value: tasks get it as it is.

    `location` is a table's or partition's root, as a URI or path. `token` tells attempts apart and
    must not be used twice; letters, digits, `.`, `_` and `-`. `home` is the table's location where
    that holds the partition's; without one the location is its own home.
    """

    location: str
    token: str
    home: str | None = None

    def __post_init__(self) -> None:
        staging_directory(self.token)

    @classmethod
    def of(cls, table: TableInfo, location: str, token: str) -> Self:
        """The staging of one of a table's partitions, by its location."""
        is_below = location.startswith(f"{table.location.rstrip('/')}/")
        return cls(location=location, token=token, home=table.location if is_below else None)

    @property
    def top(self) -> str:
        """Where everything lies that this attempt has staged at this home."""
        return f"{(self.home or self.location).rstrip('/')}/{staging_directory(self.token)}"

    @property
    def root(self) -> str:
        """Where everything for this location lies until it is published."""
        if self.home is None:
            return self.top
        return f"{self.top}/{self.location[len(self.home.rstrip('/')) + 1 :].rstrip('/')}"

    def path_for(self, directory: DirectoryText) -> str:
        """Where the directory is built that will be published under this name."""
        return f"{self.root}/{directory}"

    def final_path(self, directory: DirectoryText) -> str:
        """Where the directory will be once it is published."""
        return f"{self.location.rstrip('/')}/{directory}"

    def attempt_path(self, directory: DirectoryText, file_name: str, attempt: str) -> str:
        """Where one attempt of a task writes a file of that directory.

        Args:
            directory: the final directory name.
            file_name: the final file name.
            attempt: tells attempts apart, so that a late one cannot touch what another wrote.
        """
        return attempt_path(self.root, attempt, directory, file_name)

    def flat_path(self, attempt: str) -> str:
        """Where one attempt puts rows that are not yet in files of the format."""
        return f"{self.top}/{_FLAT}/{attempt}"

    def accept(self, directory: DirectoryText, file_name: str, attempt: str) -> str:
        """Move the file of the attempt that counts into its directory; gives its path there.

        Where nothing is renamed it stays where it is until it is published.

        Raises:
            DirectoryExistsError: another attempt was accepted before.
            StorageError: the attempt wrote no such file, or moving failed.
        """
        fs, target = open_location(f"{self.path_for(directory)}/{file_name}")
        if not traits_of(fs).renames:
            return self.attempt_path(directory, file_name, attempt)
        if exists(fs, target):
            raise DirectoryExistsError(path=target)
        move(fs, open_location(self.attempt_path(directory, file_name, attempt))[1], target)
        return f"{self.path_for(directory)}/{file_name}"

    def prepare(self, directory: DirectoryText) -> str:
        """Make the directory; gives its path.

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: making it failed otherwise.
        """
        path = self.path_for(directory)
        make_directory(*open_location(path))
        return path

    def add_version_file(self, directory: DirectoryText) -> None:
        """Write `_orc_acid_version`, which every directory of a full-ACID writer holds.

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: writing failed otherwise.
        """
        self._add(directory, ACID_VERSION_FILE, MARKERS[ACID_VERSION_FILE])

    def add_metadata_file(
        self, directory: DirectoryText, data_format: str = COMPACTED_FORMAT
    ) -> None:
        """Write `_metadata_acid`. It must be there before the base is published (HIVE-24653).

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: writing failed otherwise.
        """
        self._add(directory, METADATA_FILE, metadata_text(data_format))

    def _add(self, directory: DirectoryText, name: str, content: bytes) -> None:
        fs, path = open_location(f"{self.path_for(directory)}/{name}")
        if traits_of(fs).renames:
            write_bytes(fs, path, content)

    def publish(self, directories: Sequence[DirectoryText]) -> tuple[str, ...]:
        """Rename directories into place, one rename each, in this order; gives their final paths.

        Nothing is renamed if any target is there or any directory was not built. A rename that
        fails later leaves the earlier ones published: those of a write ID go with its abort.

        Raises:
            DirectoryExistsError: a target is there; it was not touched.
            LocationPermissionError: the location may not be written.
            StorageError: a directory was not built, or renaming failed.
        """
        fs, root = open_location(self.root)
        _, place = open_location(self.location)
        for directory in directories:
            if exists(fs, f"{place}/{directory}"):
                raise DirectoryExistsError(path=f"{place}/{directory}")
            if not exists(fs, f"{root}/{directory}"):
                raise StorageError(f"{root}/{directory} was to be published and was never built")
        make_directory(fs, place)
        for directory in directories:
            rename_directory(fs, f"{root}/{directory}", f"{place}/{directory}")
        return tuple(self.final_path(directory) for directory in directories)

    @property
    def renames(self) -> bool:
        """Whether directories appear by a rename (`publish`), or file by file (`publish_files`)."""
        return traits_of(open_location(self.location)[0]).renames

    def publish_files(
        self, directory: DirectoryText, files: Sequence[AcceptedFile], markers: Sequence[str]
    ) -> str:
        """Make a directory visible file by file; gives its final path.

        Rows come first: a reader that found a marker of a compaction alone would take the directory
        for one without rows. What another attempt of a task wrote is never among them.

        Raises:
            DirectoryExistsError: something of that name is there, or came meanwhile.
            LocationPermissionError: the location may not be written.
            StorageError: an attempt left no such file, or publishing failed; some may be visible.
        """
        fs, target = open_location(self.final_path(directory))
        if exists(fs, target):
            raise DirectoryExistsError(path=target)
        store = fs.handler

        def publish(file: AcceptedFile) -> None:
            path = open_location(self.attempt_path(directory, file.name, file.attempt))[1]
            with _taken(path), file_errors("publish", path):
                store.publish(path, file.size_bytes)

        each_in_threads(publish, files)
        for name in markers:
            path = f"{target}/{name}"
            with _taken(path), storage_errors("write", path):
                store.put_once(path, MARKERS[name], self.token)
        return self.final_path(directory)

    def take_back_files(
        self, directory: DirectoryText, files: Sequence[AcceptedFile], markers: Sequence[str]
    ) -> None:
        """Undo what `publish_files` did, however far it came; what is not ours is left alone.

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: removing failed.
        """
        fs, target = open_location(self.final_path(directory))
        store = fs.handler
        for name in reversed(markers):
            with storage_errors("delete", target):
                store.delete_marked(f"{target}/{name}", self.token)

        def take_back(file: AcceptedFile) -> None:
            path = open_location(self.attempt_path(directory, file.name, file.attempt))[1]
            with storage_errors("delete", path):
                store.take_back(path)

        each_in_threads(take_back, files)

    def discard(self) -> None:
        """Remove everything at this home that is not published; doing it again is no error.

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: removing failed otherwise.
        """
        delete_directory(*open_location(self.top))


def check_publishable(table: object, location: str) -> None:
    """See that directories at a location can become visible without being seen by halves.

    Raises:
        UnsupportedTableError: nobody has tried it with its store, and nobody asks for it.
        ConfigurationError: the location is no absolute path or URI.
    """
    scheme = scheme_of(location)
    if renames_directories(scheme) or publishes_files(scheme):
        return
    untried = f"{location} is on {scheme}://, where nobody has tried to change a table: "
    others = "Tables on hdfs://, s3a:// and file:// can be changed"
    if not might_rename_directories(scheme):
        raise UnsupportedTableError(
            table=table,
            detail=f"{untried}it has no renames of directories, so that a change could be seen by"
            f" halves, and no setting allows it. {others}",
        )
    if scheme not in untested_stores(given_settings()):
        raise UnsupportedTableError(
            table=table,
            detail=f"{untried}a change could be seen by halves. {others}. Whoever wants to try, on"
            f" a copy, with a hierarchical namespace, sets {UNTESTED_STORES}={scheme} in"
            f" core-site.xml, or as spark.hadoop.{UNTESTED_STORES}",
        )
    log.warning("%s allows what nobody has tested: %s is changed", UNTESTED_STORES, location)


def check_renames(table: object, location: str, what: str) -> None:
    """See that files and directories at a location can get another name in one step.

    Args:
        table: for the message.
        location: the place.
        what: what takes renames, as the beginning of a sentence.

    Raises:
        UnsupportedTableError: its store renames nothing.
        ConfigurationError: the location is no absolute path or URI.
    """
    scheme = scheme_of(location)
    if not renames_directories(scheme):
        raise UnsupportedTableError(
            table=table,
            detail=f"{what} gives files and directories other names, and {scheme}:// of {location}"
            " has no renames: it could be seen by halves. It can be done on hdfs:// and file://",
        )


@contextmanager
def _taken(path: str) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise DirectoryExistsError(path=path) from error
        raise
