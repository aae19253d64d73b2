"""What is asked of hdfs-native's client, and where a location has it go.

The contract suite's client in memory is one, too. Must not import hdfs-native: where no table lies
on HDFS it need not be there.

Example:
    >>> place_of("hdfs", "nn", {}), place_of("hdfs", "lake", {"dfs.ha.namenodes.lake": "nn1,nn2"})
    ('hdfs://nn:8020', 'hdfs://lake')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PORT: Final = 8020


class FileStatus(Protocol):
    """What hdfs-native tells of a file or directory; times in milliseconds since 1970."""

    path: str
    isdir: bool
    length: int
    modification_time: int


class AclEntry(Protocol):
    """One entry of an access control list; its scope is `access` or `default`."""

    scope: str


class AclStatus(Protocol):
    """The access control list of a file or directory."""

    entries: Sequence[AclEntry]


class HdfsClient(Protocol):
    """What is asked of `hdfs_native.Client`."""

    def get_file_info(self, path: str) -> FileStatus: ...  # noqa: D102 - as hdfs-native says
    def list_status(self, path: str, recursive: bool) -> Iterable[FileStatus]: ...  # noqa: D102, FBT001
    def read(self, path: str) -> FileSource: ...  # noqa: D102
    def create(self, path: str, write_options: object) -> FileSink: ...  # noqa: D102
    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None: ...  # noqa: D102, FBT001
    def rename(self, src: str, dst: str, overwrite: bool) -> None: ...  # noqa: D102, FBT001
    def delete(self, path: str, recursive: bool) -> bool: ...  # noqa: D102, FBT001
    def get_acl_status(self, path: str) -> AclStatus: ...  # noqa: D102


class FileSource(Protocol):
    """What is asked of hdfs-native's reader of one file."""

    def __len__(self) -> int:
        """Its length in bytes, as the name node knew it when it was opened: of closed blocks."""
        ...

    def read_range(self, offset: int, len: int, /) -> bytes:  # noqa: A002 - its name there
        """So many bytes from there on, all of which lie within the length."""
        ...


class FileSink(Protocol):
    """What is asked of hdfs-native's writer of one file."""

    def write(self, buf: bytes, /) -> int:
        """Write all of it."""
        ...

    def close(self) -> None:
        """Send what is left, and have the name node take the file for finished."""
        ...


def place_of(scheme: str, authority: str, settings: Mapping[str, str]) -> str:
    """Where Java's client would go: to the default authority, and to the port that is usual.

    hdfs-native takes whatever has no port for a name service.
    """
    start = f"{scheme}://"
    if not authority:
        default = settings.get("fs.defaultFS", "")
        authority = default.removeprefix(start).partition("/")[0] if start in default else ""
    is_service = f"dfs.ha.namenodes.{authority}" in settings
    if scheme == "hdfs" and authority and ":" not in authority and not is_service:
        authority = f"{authority}:{_PORT}"
    return f"{start}{authority or '/'}"
