"""The part of hdfs-native's client that we use, and the URI of a location's file system.

The contract suite's in-memory client implements the same protocols. The module must not import
hdfs-native, because it need not be installed if no table is on HDFS.

Example:
    >>> root_uri("hdfs", "nn", {}), root_uri("hdfs", "lake", {"dfs.ha.namenodes.lake": "nn1,nn2"})
    ('hdfs://nn:8020', 'hdfs://lake')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

_PORT: Final = 8020


class FileStatus(Protocol):
    """hdfs-native's status of a file or directory; times are in milliseconds since 1970."""

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
    """The methods of `hdfs_native.Client` that we call."""

    def get_file_info(self, path: str) -> FileStatus: ...  # noqa: D102 - as hdfs-native says
    def list_status(self, path: str, recursive: bool) -> Iterable[FileStatus]: ...  # noqa: D102, FBT001
    def read(self, path: str) -> FileSource: ...  # noqa: D102
    def create(self, path: str, write_options: object) -> FileSink: ...  # noqa: D102
    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None: ...  # noqa: D102, FBT001
    def rename(self, src: str, dst: str, overwrite: bool) -> None: ...  # noqa: D102, FBT001
    def delete(self, path: str, recursive: bool) -> bool: ...  # noqa: D102, FBT001
    def get_acl_status(self, path: str) -> AclStatus: ...  # noqa: D102


class FileSource(Protocol):
    """The methods of hdfs-native's file reader that we call."""

    def __len__(self) -> int:
        """Return the total bytes of the blocks that were closed when the file was opened."""
        ...

    def read_range(self, offset: int, len: int, /) -> bytes:  # noqa: A002 - hdfs-native's name
        """Return `len` bytes from the offset on; the range must be inside the file."""
        ...


class FileSink(Protocol):
    """The methods of hdfs-native's file writer that we call."""

    def write(self, buf: bytes, /) -> int:
        """Write all bytes of `buf`."""
        ...

    def close(self) -> None:
        """Send the buffered bytes, and tell the name node to complete the file."""
        ...


def root_uri(scheme: str, authority: str, settings: Mapping[str, str]) -> str:
    """Return the file system's URI with the defaults of Java's client for authority and port.

    If an authority has no port, hdfs-native treats it as a name service.
    """
    start = f"{scheme}://"
    if not authority:
        default = settings.get("fs.defaultFS", "")
        authority = default.removeprefix(start).partition("/")[0] if start in default else ""
    is_service = f"dfs.ha.namenodes.{authority}" in settings
    if scheme == "hdfs" and authority and ":" not in authority and not is_service:
        authority = f"{authority}:{_PORT}"
    return f"{start}{authority or '/'}"
