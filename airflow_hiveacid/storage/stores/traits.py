"""In what file systems differ, as far as it matters here.

Takes a pyarrow file system, or the scheme of a location; gives what is true of its store. A store
that comes to be known later says here what it can do, and nobody else asks for its name.

Example:
    >>> renames_directories("hdfs"), renames_directories("s3a")
    (True, False)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.hdfs import HDFS_NATIVE
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, S3_SCHEMES
from airflow_hiveacid.storage.stores.s3_client import S3_BY_BOTO3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyarrow import fs as pafs


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """What a store does, through one client.

    `refuses_taken_names`: it renames no directory to a name that is there. Others replace an empty
    one, or land inside it (HIVE-25600).
    `deletes_at_once`: nobody sees half of a directory that is being deleted.
    `reads_open_files`: what a writer has flushed can be read before its file is closed, whatever
    length is listed.
    `renames`: files and directories get another name in one step. Elsewhere a file appears whole
    when it is closed, a directory file by file, and what a task writes can be read only once it is
    published.
    `keeps_directories`: a directory is there without anything in it.
    `lists_trees`: a call lists all below a directory, however deep.
    `may_want_keys`: directories may be made where no file can be, for want of a key (encryption
    zones).
    """

    refuses_taken_names: bool
    deletes_at_once: bool
    reads_open_files: bool
    renames: bool = True
    keeps_directories: bool = True
    lists_trees: bool = False
    may_want_keys: bool = False


_LOCAL: Final = StoreTraits(refuses_taken_names=False, deletes_at_once=False, reads_open_files=True)
# It asks for `rename2`; and no data node how long the last block is while a writer is at it.
_NATIVE: Final = StoreTraits(
    refuses_taken_names=True, deletes_at_once=True, reads_open_files=False, may_want_keys=True
)
# libhdfs, which asks for `rename`; and object stores, of which nothing is asked but to read.
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
    """What is true of the store behind a file system."""
    return _KNOWN.get(fs.type_name, _OTHER)


def renames_directories(scheme: str) -> bool:
    """Whether stores of this scheme give a directory another name in one step.

    That is how a directory is made visible: one that is built elsewhere appears whole.
    """
    return scheme == "file" or scheme in HADOOP_SCHEMES


def might_rename_directories(scheme: str) -> bool:
    """Whether stores of this scheme should do so, as far as is read: nobody has tried it.

    Azure's do where their namespace is hierarchical, and pyarrow's client refuses elsewhere. Of
    Google's none is among them: that client renames files alone.
    """
    return scheme in _MIGHT_RENAME


def publishes_files(scheme: str) -> bool:
    """Whether stores of this scheme show a file whole, and only when the driver says so.

    That is how a directory is made visible where none can be renamed: file by file, under a name
    that readers pass over until the commit.
    """
    return scheme in S3_SCHEMES
