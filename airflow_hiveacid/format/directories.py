"""The contents of a root: files, listings, directories with their status, and small files.

Example:
    >>> from airflow_hiveacid.format.directories import FileEntry
    >>> names = ("base_2/bucket_00000", "delta_3_3/bucket_00000", "delta_4_4/bucket_00001")
    >>> files = [FileEntry(path=name, size_bytes=9) for name in names]
    >>> mergeable(files, TransactionalKind.FULL_ACID, small_file_bytes=10)
    1
"""

from __future__ import annotations

import enum
import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, OriginalFileName, parse_file_name
from airflow_hiveacid.format.snapshot import RangeVisibility
from airflow_hiveacid.format.table import TransactionalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file in a listing. `path` is relative to the root and uses `/` as separator.

    `modified_s` is in seconds since 1970 UTC; None if the file system does not provide it. A staged
    file is not yet below the listing's root: `root` is the URI of its current directory, and `path`
    is relative to that.
    """

    path: str
    size_bytes: int
    modified_s: float | None = None
    root: str | None = None

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All files and directories below a root, including hidden ones.

    `directories` are relative paths, also of empty directories. `metadata` maps directory names to
    the `dataFormat` in their `_metadata_acid` file, if they have one.
    """

    location: str
    files: tuple[FileEntry, ...]
    directories: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def tops(self) -> frozenset[str]:
        """The names of the directories in the root."""
        below = (file.path for file in self.files if "/" in file.path)
        return frozenset(path.partition("/")[0] for path in (*self.directories, *below))

    def without(self, tops: Collection[str]) -> Listing:
        """Return a copy without these directories in the root."""
        return replace(
            self,
            files=tuple(f for f in self.files if f.path.partition("/")[0] not in tops),
            directories=tuple(d for d in self.directories if d.partition("/")[0] not in tops),
        )


class DirectoryStatus(enum.Enum):
    """The status of a directory for one reader.

    LIVE: the reader reads it. OBSOLETE: a live directory replaces it. ABORTED: it contains only
    aborted writes, or the result of an aborted compaction. INVISIBLE: it is not yet committed for
    this reader, so cleaners must not delete it.
    """

    LIVE = "live"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    INVISIBLE = "invisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEntry:
    """An ignored or unusual file or directory, with the reason."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDirectory:
    """A base, delta or delete delta with its files, and its status for one reader.

    `text` is the name on disk, perhaps padded differently than `str(name)`. `files` are the data
    files, sorted by path; empty ones only if they have a side file, and in a base also those with
    unknown names, since Hive reads them. `unread` are the other files that are neither hidden nor
    empty: engines do not agree on whether they are data. `side_files` are the `_flush_length`
    files. `is_compacted` is True if a compactor wrote this base, and not INSERT OVERWRITE.
    `visibility` is SOME if a reader must check each row, ALL if every row is visible, and NONE if
    no row is. `why` is the reason for the status, in one line.
    `is_resolved` is False while the directory has a write ID that is open or above the high
    watermark. `superseded_by` names the directory, perhaps obsolete too, that replaces this one.
    `modified_s` is the newest modification time of all files inside, including hidden files.
    """

    name: BaseName | DeltaName
    text: str
    files: tuple[FileEntry, ...] = ()
    unread: tuple[UnknownEntry, ...] = ()
    side_files: tuple[FileEntry, ...] = ()
    is_compacted: bool = False
    is_resolved: bool = True
    visibility: RangeVisibility = RangeVisibility.ALL
    status: DirectoryStatus = DirectoryStatus.LIVE
    why: str = "live"
    superseded_by: str | None = None
    modified_s: float | None = None

    @property
    def size_bytes(self) -> int:
        """Total size of the data files, in bytes."""
        return sum(f.size_bytes for f in self.files)

    def require_known_files(self, location: str) -> None:
        """Raise UnsupportedFileError if a file may be data that this provider does not read."""
        if self.unread:
            first = self.unread[0]
            raise UnsupportedFileError(
                path=f"{location}/{first.path}",
                reason=f"{first.why}. Hive or Trino may read its rows. If it contains no rows, or"
                " rows that are also elsewhere, move it out of the table; else rename it",
            )

    @property
    def is_base(self) -> bool:
        """True if this is a base."""
        return isinstance(self.name, BaseName)

    @property
    def is_delete(self) -> bool:
        """True if this is a delete delta."""
        return self.name.is_delete

    @property
    def low(self) -> WriteId:
        """The lowest write ID that the name contains, inclusive; of a base, its only one."""
        return self.name.low if isinstance(self.name, DeltaName) else self.name.high

    @property
    def high(self) -> WriteId:
        """The highest write ID that the name covers, inclusive."""
        return self.name.high

    @property
    def may_be_raw(self) -> bool:
        """True if files may lack the ACID columns, for example after LOAD DATA.

        As in Hive's isRawFormat, delete deltas, compacted bases and deltas of several write IDs
        never contain such files.
        """
        if isinstance(self.name, DeltaName):
            if self.name.is_delete or self.name.low != self.name.high:
                return False
        elif self.is_compacted:
            return False
        return any(isinstance(parse_file_name(f.name), OriginalFileName) for f in self.files)


COMBINED_FILE_BYTES: Final = 256 << 20
"""The size up to which a compaction combines files of an insert-only table."""


def mergeable(files: Sequence[FileEntry], kind: TransactionalKind, *, small_file_bytes: int) -> int:
    """Return how many small files a compaction of the files into one directory merges away."""
    if kind is TransactionalKind.INSERT_ONLY:
        numbers = combined([file.size_bytes for file in files])
        results: list[object] = list(numbers)
    else:
        results = [result_of(file.name) for file in files]
    inputs: dict[object, list[FileEntry]] = defaultdict(list)
    for file, result in zip(files, results, strict=True):
        inputs[result].append(file)
    # If all files of a result are small, one of them stands for the result.
    return sum(
        min(sum(file.size_bytes < small_file_bytes for file in together), len(together) - 1)
        for together in inputs.values()
    )


@lru_cache(maxsize=4096)  # all deltas have the same names of files
def result_of(name: str) -> object:
    """Return a key for the result's file that takes the rows of a file: its bucket, or its name."""
    parsed = parse_file_name(name)
    return name if parsed is None else parsed.bucket_id


def combined(sizes: Sequence[int]) -> list[int]:
    """Return, for each file of an insert-only table, the number of the file that takes its rows.

    If the files are placed end to end, those that begin in one span of `COMBINED_FILE_BYTES` are
    combined. The numbers of the spans ascend, with gaps after a larger file.

    Example:
        >>> combined([100 << 20, 200 << 20, 900 << 20, 1 << 20])
        [0, 0, 1, 4]
    """
    ends = itertools.accumulate(sizes)
    return [(end - size) // COMBINED_FILE_BYTES for end, size in zip(ends, sizes, strict=True)]
