"""How a directory is built where no reader looks, and appears whole under its final name.

Takes one table or partition location and a token; gives paths to write at, the small files that
belong into a directory, and the renames that publish it. Everything lies below
`<home>/_tmp_hiveacid_<token>/`: `<final name>/` is what will be published, `_attempts/` holds what
tasks wrote and nobody has accepted yet, `_flat/` rows on their way into such files. Home is the
table's location, so that a partition has no directory before it exists; a partition that is
elsewhere is its own home. Must not know what the data files hold.

This is the only place that knows how a directory becomes visible: by a rename, which a store must
do in one step (`check_publishable`).

Example:
    >>> staging = Staging(location="file:/warehouse/t", token="job-1")
    >>> staging.path_for("base_0000005")
    'file:/warehouse/t/_tmp_hiveacid_job-1/base_0000005'
"""

from __future__ import annotations

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
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    exists,
    make_directory,
    move,
    rename_directory,
    write_bytes,
)
from airflow_hiveacid.storage.stores.listing import metadata_text
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.traits import renames_directories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import TableInfo

DirectoryText = BaseName | DeltaName | str
"""A final directory name, as a value or as its text."""

_ATTEMPTS: Final = "_attempts"
_FLAT: Final = "_flat"
_ACID_VERSION: Final = b"2"


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
        return f"{self.root}/{_ATTEMPTS}/{attempt}/{directory}/{file_name}"

    def flat_path(self, attempt: str) -> str:
        """Where one attempt puts rows that are not yet in files of the format."""
        return f"{self.top}/{_FLAT}/{attempt}"

    def accept(self, directory: DirectoryText, file_name: str, attempt: str) -> str:
        """Move the file of the attempt that counts into its directory; gives its path there.

        Raises:
            DirectoryExistsError: another attempt was accepted before.
            StorageError: the attempt wrote no such file, or moving failed.
        """
        fs, target = open_location(f"{self.path_for(directory)}/{file_name}")
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
        self._add(directory, ACID_VERSION_FILE, _ACID_VERSION)

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

    def discard(self) -> None:
        """Remove everything at this home that is not published; doing it again is no error.

        Raises:
            LocationPermissionError: the location may not be written.
            StorageError: removing failed otherwise.
        """
        delete_directory(*open_location(self.top))


def check_publishable(table: object, location: str) -> None:
    """See that directories at a location can become visible in one step.

    Raises:
        UnsupportedTableError: its store has no rename of directories.
        ConfigurationError: the location is no absolute path or URI.
    """
    scheme = scheme_of(location)
    if not renames_directories(scheme):
        raise UnsupportedTableError(
            table=table,
            detail=f"{location} is on {scheme}://, where no directory can be renamed in one step:"
            " a change could be seen by halves. Tables on hdfs:// and file:// can be changed",
        )
