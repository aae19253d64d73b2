"""The description of one file to read: path, kind of content and committed length.

The description is a plain value that is sent to Spark tasks. This module must not read rows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, Key, KeyRange, least_key
from airflow_hiveacid.storage.acid.row_schema import ROOT_KINDS, ROOT_NAMES
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.locations import client_of

_FIRST_ROW: Final = RowId(0)
_BEFORE_ALL: Final = WriteId(0)


class FileKind(enum.Enum):
    """The content of a file: insert events, delete events, or rows without ACID columns."""

    DATA = "data"
    DELETE = "delete"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticIdentity:
    """The row identities of a file whose rows have no stored identity.

    Row IDs count up from `first_row_id` in the order of the rows. `write_id` is 0 if the file is
    older than the table's conversion to transactional. Otherwise, `write_id` is the write ID of the
    directory into which LOAD DATA moved the file.
    """

    write_id: WriteId
    bucket_property: BucketProperty
    first_row_id: RowId = _FIRST_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """The description of one file to read, as a plain value that is sent to tasks.

    `path` is the file's path on its store (`client_of`). `key` is the path relative to the root of
    the table or partition. The key of a staged file is relative to `root` (a URI). `length` is the
    number of bytes that readers may read. `length` is less than the file's size while a streaming
    writer has the file open.
    """

    store: str
    path: str
    key: str
    length: int
    root: str | None = None

    @property
    def fs(self) -> pafs.FileSystem:
        """The current process's client for the file's store."""
        return client_of(self.store)

    def tail(self) -> OrcTail:
        """Read and check the ORC tail of the file."""
        return read_tail(self.fs, self.path, self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidFile(StoredFile):
    """A file of events, or of rows that get identities when they are read.

    `synthetic` is set for `FileKind.ORIGINAL` only. All rows of the file
    have original write IDs from `least_write_id` to `greatest_write_id`. None means no bound.
    All rows have identities in `keys`.
    """

    kind: FileKind
    bucket_id: BucketId
    least_write_id: WriteId = _BEFORE_ALL
    greatest_write_id: WriteId | None = None
    synthetic: SyntheticIdentity | None = None
    keys: KeyRange = EVERY_KEY

    def __post_init__(self) -> None:
        if (self.kind is FileKind.ORIGINAL) != (self.synthetic is not None):
            raise ValueError("each original file, and no other file, needs a synthetic identity")

    @property
    def least_key(self) -> Key:
        """A lower bound for the row identities in the file.

        A merge opens a file when it reaches this bound. So files with disjoint ranges are open one
        after the other. If the file does not store identities, the bound is the identity of its
        first row.
        """
        if self.keys.after is not None:
            return self.keys.after
        if self.synthetic is None:
            return least_key(self.least_write_id)
        identity = self.synthetic
        return identity.write_id, identity.bucket_property, identity.first_row_id

    @property
    def is_of_base(self) -> bool:
        """True if this is a data file in a base."""
        is_row = self.kind is FileKind.DATA
        return is_row and isinstance(parse_directory_name(self.key.partition("/")[0]), BaseName)

    def may_overlap(self, other: AcidFile) -> bool:
        """Return whether this file and `other` may contain events of the same row."""
        return (
            self.greatest_write_id is None or other.least_write_id <= self.greatest_write_id
        ) and (other.greatest_write_id is None or self.least_write_id <= other.greatest_write_id)


def has_acid_columns(tail: OrcTail) -> bool:
    """Return whether a file has the ACID root columns.

    Upper and lower case are equivalent, as in Hive (SchemaEvolution.checkAcidSchema).
    """
    root = tail.types[0]
    kinds = tuple(tail.types[child].kind for child in root.children)
    names = tuple(name.lower() for name in root.field_names)
    return names == tuple(n.lower() for n in ROOT_NAMES) and kinds == ROOT_KINDS
