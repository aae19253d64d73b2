"""Read ACID directories and files.

This module has the description of one file to read, as a plain value that is sent to tasks.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.ids import LONG_MAX, BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, ROOT_KINDS, ROOT_NAMES
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, LONG_MIN, Key, KeyRange, least_key
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

    Row IDs count up from `first_row_id`. `write_id` is 0 if the file is older than the table's
    conversion, else that of the directory into which LOAD DATA moved it.
    """

    write_id: WriteId
    bucket_property: BucketProperty
    first_row_id: RowId = _FIRST_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """The description of one file to read.

    `path` is the file's path on its store (`client_of`); `key` is relative to the root of the table
    or partition, or to `root` (a URI) for a staged file. `length` is the number of bytes to read,
    which is less than the file's size while a streaming writer has the file open.
    """

    store: str
    path: str
    key: str
    length: int
    root: str | None = None

    @property
    def top(self) -> str:
        """The first name in `key`, such as that of a base or delta."""
        return self.key.partition("/")[0]

    @property
    def fs(self) -> pafs.FileSystem:
        """The current process's client for the file's store."""
        return client_of(self.store)

    def tail(self) -> OrcTail:
        """Read and check the ORC tail of the file."""
        return read_tail(self.fs, self.path, self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidFile(StoredFile):
    """A file of events, or of rows that get identities (`synthetic`) when they are read.

    All rows have original write IDs from `least_write_id` to `greatest_write_id` (None: no bound),
    and identities in `keys`.
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
        """A lower bound for the row identities in the file; a merge opens the file there.

        If the file does not store identities, it is the identity of its first row.
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
        return is_row and isinstance(parse_directory_name(self.top), BaseName)

    def may_overlap(self, other: AcidFile) -> bool:
        """Return whether this file and `other` may contain events of the same row."""
        return (
            self.greatest_write_id is None or other.least_write_id <= self.greatest_write_id
        ) and (other.greatest_write_id is None or self.least_write_id <= other.greatest_write_id)


def has_acid_columns(tail: OrcTail) -> bool:
    """Return whether a file has the ACID root columns, in any case (checkAcidSchema)."""
    root = tail.types[0]
    kinds = tuple(tail.types[child].kind for child in root.children)
    names = tuple(name.lower() for name in root.field_names)
    return names == tuple(n.lower() for n in ROOT_NAMES) and kinds == ROOT_KINDS


KeyBounds = tuple[tuple[int, int] | None, ...]
"""Least and greatest value of each identity column of one stripe; None if unknown."""


def bounds_of(file: AcidFile, tail: OrcTail) -> list[KeyBounds]:
    """Return the bounds of every stripe, in file order."""
    identity = file.synthetic
    stripes = range(len(tail.stripes))
    if identity is None:
        return [tuple(tail.integer_range(c, s) for c in IDENTITY_COLUMN_IDS) for s in stripes]
    ends = itertools.accumulate(stripe.rows for stripe in tail.stripes)
    property_ = int(identity.bucket_property)
    return [
        (
            (int(identity.write_id), int(identity.write_id)),
            (property_, property_),
            (identity.first_row_id + end - stripe.rows, identity.first_row_id + end - 1),
        )
        for stripe, end in zip(tail.stripes, ends, strict=True)
    ]


def end_keys(file: AcidFile, bounds: Iterable[KeyBounds]) -> Iterator[tuple[Key, Key]]:
    """Yield bounds of each stripe's identities: the least, and the greatest, value per column."""
    greatest = LONG_MAX if file.greatest_write_id is None else file.greatest_write_id
    defaults = ((file.least_write_id, greatest), (LONG_MIN, LONG_MAX), (LONG_MIN, LONG_MAX))
    for ranges in bounds:
        write_id, bucket, row = (a or b for a, b in zip(ranges, defaults, strict=True))
        yield (write_id[0], bucket[0], row[0]), (write_id[1], bucket[1], row[1])


def meeting(found: Sequence[KeyBounds], wanted: Iterable[KeyBounds]) -> list[int]:
    """Return the indices of the stripes that may share a row with a stripe in `wanted`."""
    targets = list(wanted)
    return [
        number
        for number, bounds in enumerate(found)
        if any(_may_overlap(bounds, target) for target in targets)
    ]


def _may_overlap(one: KeyBounds, other: KeyBounds) -> bool:
    return all(
        a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])
        for a, b in zip(one, other, strict=True)
    )
