"""The differences between stores that matter to this package.

A new store needs only its traits here: no other module checks for specific stores.

Example:
    >>> renames_directories("hdfs"), renames_directories("s3a")
    (True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.storage.stores.hdfs.handler import HDFS_NATIVE
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, S3_SCHEMES
from airflow_hiveacid.storage.stores.s3.client import S3_BY_BOTO3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """The behaviour of a store when one client accesses it.

    `refuses_taken_names`: a directory cannot be renamed to an existing name. On other stores, the
    renamed directory replaces an existing empty directory, or is moved into the existing directory
    (HIVE-25600). `deletes_at_once`: no reader sees half of a directory that is being deleted.
    `reads_open_files`: flushed bytes can be read before the file is closed, even beyond the length
    in a listing. `renames`: files and directories are renamed in one step. Without, a file appears
    whole when it is closed, a directory one file at a time, and a task's file cannot be read before
    it is published. `keeps_directories`: an empty directory can exist. `lists_trees`: one call
    lists everything below a directory at any depth. `may_want_keys`: in an encryption zone, a
    client needs a key to create files, but not to create directories.
    """

    refuses_taken_names: bool
    deletes_at_once: bool
    reads_open_files: bool
    renames: bool = True
    keeps_directories: bool = True
    lists_trees: bool = False
    may_want_keys: bool = False


_LOCAL: Final = StoreTraits(refuses_taken_names=False, deletes_at_once=False, reads_open_files=True)
# hdfs-native calls `rename2`, and does not ask data nodes for the length of an open block.
_NATIVE: Final = StoreTraits(
    refuses_taken_names=True, deletes_at_once=True, reads_open_files=False, may_want_keys=True
)
# The traits of libhdfs, which calls `rename`, and of object stores that we only read.
_OTHER: Final = StoreTraits(refuses_taken_names=False, deletes_at_once=True, reads_open_files=True)
_MIGHT_RENAME: Final = frozenset({"abfs", "abfss"})
_S3: Final = StoreTraits(
    refuses_taken_names=True,
    deletes_at_once=False,
    reads_open_files=False,
    renames=False,
    keeps_directories=False,
    lists_trees=True,
)
_KNOWN: Final[Mapping[str, StoreTraits]] = {
    "local": _LOCAL,
    f"py::{HDFS_NATIVE}": _NATIVE,
    f"py::{S3_BY_BOTO3}": _S3,
}


def traits_of(fs: pafs.FileSystem) -> StoreTraits:
    """Return the traits of the store behind a file system."""
    return _KNOWN.get(fs.type_name, _OTHER)


def renames_directories(scheme: str) -> bool:
    """Return True if stores of this scheme rename, and so publish, a directory in one step."""
    return scheme == "file" or scheme in HADOOP_SCHEMES


def might_rename_directories(scheme: str) -> bool:
    """Return True if documentation suggests that stores of this scheme rename directories.

    They are untested. Azure's rename directories if their namespace is hierarchical, else pyarrow's
    client refuses. For Google's, it renames only files.
    """
    return scheme in _MIGHT_RENAME


def publishes_files(scheme: str) -> bool:
    """Return True if the driver publishes each file separately, unread before the commit."""
    return scheme in S3_SCHEMES
