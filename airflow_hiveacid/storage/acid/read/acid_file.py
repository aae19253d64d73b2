"""One file that a reader reads: where it is, what it holds and how far it counts.

A plain value that travels to tasks. Must not know rows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.storage.acid.identity import Key, least_key
from airflow_hiveacid.storage.acid.row_schema import ROOT_KINDS, ROOT_NAMES
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.locations import client_of

if TYPE_CHECKING:
    from pyarrow import fs as pafs

    from airflow_hiveacid.storage.orc.footer import OrcTail

_FIRST_ROW: Final = RowId(0)
_BEFORE_ALL: Final = WriteId(0)


class FileKind(enum.Enum):
    """What a file holds: insert events, delete events, or rows without ACID columns."""

    DATA = "data"
    DELETE = "delete"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticIdentity:
    """The identity of the rows of a file that stores none.

    Row IDs count up from `first_row_id` in file order. `write_id` is 0 for a file from before the
    table was transactional, else that of the directory it was loaded into.
    """

    write_id: WriteId
    bucket_property: BucketProperty
    first_row_id: RowId = _FIRST_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidFile:
    """One file that a reader reads. A plain value: tasks get it as it is.

    `path` is the file as its store (`client_of`) names it, `key` its path below the table's or
    partition's root, or below `root` (a URI) while it is staged.
    `length` is where the file ends for a reader, in bytes: less than its size while a streaming
    writer is at it. `synthetic` goes with `FileKind.ORIGINAL` and no other. No row in it has an
    original write ID below `least_write_id` or above `greatest_write_id`; None sets no bound.
    """

    store: str
    path: str
    key: str
    length: int
    kind: FileKind
    bucket_id: BucketId
    least_write_id: WriteId = _BEFORE_ALL
    greatest_write_id: WriteId | None = None
    synthetic: SyntheticIdentity | None = None
    root: str | None = None

    def __post_init__(self) -> None:
        if (self.kind is FileKind.ORIGINAL) != (self.synthetic is not None):
            raise ValueError("an original file, and no other, has a synthetic identity")

    @property
    def fs(self) -> pafs.FileSystem:
        """The client of its store, in this process.

        Raises:
            ConfigurationError: it is missing.
        """
        return client_of(self.store)

    @property
    def least_key(self) -> Key:
        """An identity that no row of the file is smaller than.

        Files of rows without stored identity have one each, so that they are read in turn.
        """
        if self.synthetic is None:
            return least_key(self.least_write_id)
        made = self.synthetic
        return made.write_id, made.bucket_property, made.first_row_id

    @property
    def is_of_base(self) -> bool:
        """Whether it lies in a base."""
        is_row = self.kind is FileKind.DATA
        return is_row and isinstance(parse_directory_name(self.key.partition("/")[0]), BaseName)

    def may_meet(self, other: AcidFile) -> bool:
        """Whether both can hold an event of one row."""
        return (
            self.greatest_write_id is None or other.least_write_id <= self.greatest_write_id
        ) and (other.greatest_write_id is None or self.least_write_id <= other.greatest_write_id)

    def tail(self) -> OrcTail:
        """Read and check the end of the file.

        Raises:
            CorruptFileError: it is no ORC file, or damaged.
            UnsupportedFileError: it is written in a way that cannot be read.
            LocationPermissionError: it may not be read.
            StorageError: it is gone, or reading failed otherwise.
        """
        with file_errors("read", self.path):
            return read_tail(self.fs, self.path, self.length)


def has_acid_columns(tail: OrcTail) -> bool:
    """Whether a file has the six root columns, in any case (SchemaEvolution.checkAcidSchema)."""
    root = tail.types[0]
    kinds = tuple(tail.types[child].kind for child in root.children)
    names = tuple(name.lower() for name in root.field_names)
    return names == tuple(n.lower() for n in ROOT_NAMES) and kinds == ROOT_KINDS
