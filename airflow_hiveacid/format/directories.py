"""What lies below one table or partition root: files, a listing of them, directories as judged.

Plain values; `acid_state` makes directories of listings. Must not know file contents: whether a
file lacks the ACID columns is only a guess from its name here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.format.names import (
    BaseName,
    DeltaName,
    OriginalFileName,
    parse_file_name,
)
from airflow_hiveacid.format.selection import DirectoryStatus
from airflow_hiveacid.format.snapshot import RangeVisibility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.ids import WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a listing; `path` is relative to the root, components separated by `/`.

    `modified_s` is seconds since 1970 UTC, None where the file system does not say. `root` is the
    URI of the root of a file that is not yet where the listing has it: somebody has staged it.
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
    """Everything below one table or partition root, hidden names included.

    `directories` are relative paths and hold the empty ones too. `metadata` maps a directory's name
    to the `dataFormat` of the `_metadata_acid` file in it, for those that have one.
    """

    location: str
    files: tuple[FileEntry, ...]
    directories: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDirectory:
    """One base, delta or delete delta, as found and as judged.

    `text` is the name on disk, which may be padded otherwise than `str(name)`. `files` are data
    files with bytes in them, by path, or with a side file; in a base they include names that no
    rule knows, since Hive reads them as data. `side_files` are the `_flush_length` files.
    `visibility` says whether rows must be asked one by one (SOME) or not (ALL). `is_resolved`
    is False while a write ID in the name is open or above the watermark. `superseded_by` names
    the live directory that made this one obsolete. `modified_s` is the newest change of any
    file inside, hidden ones included.
    """

    name: BaseName | DeltaName
    text: str
    files: tuple[FileEntry, ...]
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
        """Bytes of the data files."""
        return sum(f.size_bytes for f in self.files)

    @property
    def is_base(self) -> bool:
        """Whether this is a base."""
        return isinstance(self.name, BaseName)

    @property
    def is_delete(self) -> bool:
        """Whether this is a delete delta."""
        return isinstance(self.name, DeltaName) and self.name.is_delete

    @property
    def high(self) -> WriteId:
        """The highest write ID that the name covers, inclusive."""
        return self.name.high

    @property
    def may_be_raw(self) -> bool:
        """Whether the files may lack the ACID columns, as after LOAD DATA; opening one tells.

        Delete deltas, compactors' bases and deltas of several write IDs never do (isRawFormat).
        """
        if isinstance(self.name, DeltaName):
            if self.name.is_delete or self.name.low != self.name.high:
                return False
        elif self.is_compacted:
            return False
        return any(isinstance(parse_file_name(f.name), OriginalFileName) for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEntry:
    """A file or directory that plays no part, and why."""

    path: str
    why: str
