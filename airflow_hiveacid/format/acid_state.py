"""Choose the files of one root that a reader sees: base, deltas and original files.

`selection` decides the status of each directory.

Example:
    >>> from airflow_hiveacid.format.directories import FileEntry, Listing
    >>> from airflow_hiveacid.format.snapshot import ValidWriteIdList
    >>> listing = Listing(
    ...     location="/t",
    ...     files=(
    ...         FileEntry(path="base_0000002/bucket_00000", size_bytes=9),
    ...         FileEntry(path="delta_0000001_0000001_0000/bucket_00000", size_bytes=9),
    ...         FileEntry(path="delta_0000003_0000003_0000/bucket_00000", size_bytes=9),
    ...     ),
    ... )
    >>> state = resolve(listing, ValidWriteIdList.parse("db.t:3:9223372036854775807::"), None)
    >>> for directory in state.directories:
    ...     print(directory.text, "|", directory.why)
    base_0000002 | live
    delta_0000001_0000001_0000 | obsolete: covered by base_0000002
    delta_0000003_0000003_0000 | live
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format import selection
from airflow_hiveacid.format.directories import (
    AcidDirectory,
    DirectoryStatus,
    FileEntry,
    Listing,
    UnknownEntry,
)
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import (
    COMPACTED_FORMAT,
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    is_below_hidden,
    is_manifest,
    looks_like_directory_name,
    parse_directory_name,
    parse_file_name,
)
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind

# AcidMetaDataFile.DataFormat of Hive 4; Hive 3.1 supports only the first value.
_DATA_FORMATS: Final = frozenset({COMPACTED_FORMAT, "truncated", "dropped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedWrites:
    """The aborted write IDs of one root that a major compaction would cover.

    These are the aborted write IDs above the base, and up to the highest live delta, that the name
    of a live delta or of an aborted directory covers. So after a major compaction, none is left.
    Names of compactions with a `_v` suffix do not count, because a compaction has dropped the
    aborted rows. Without the suffix, a compaction's delta looks like that of a streaming writer,
    and counts. `since_s` is the lowest modification time of their directories (that of the newest
    file), in seconds since 1970 UTC; None if the file system does not provide the times.
    """

    number: int = 0
    since_s: float | None = None

    @classmethod
    def of(
        cls,
        base: AcidDirectory | None,
        deltas: Sequence[AcidDirectory],
        aborted: Sequence[AcidDirectory],
        write_ids: ValidWriteIdList,
    ) -> AbortedWrites:
        """Count the aborted write IDs in a root with these live and aborted directories."""
        reached = WriteId(0) if base is None else max(WriteId(0), base.high)
        highest = max((delta.high for delta in deltas), default=reached)
        written = [d for d in (*deltas, *aborted) if d.name.visibility_txn_id is None]
        number, times = 0, []
        for directory in sorted(written, key=lambda d: d.low):
            # A delta and a delete delta, or several statements, may have the same write IDs.
            low, high = max(directory.low, WriteId(reached + 1)), min(directory.high, highest)
            count = write_ids.aborted_within(low, high) if low <= high else 0
            if count and directory.modified_s is not None:
                times.append(directory.modified_s)
            number += count
            reached = max(reached, high)
        return cls(number=number, since_s=min(times, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidState:
    """The directories and files of one root, with each directory's status for one reader.

    `deltas` and `delete_deltas` are live and in Hive's order: low ascending, high descending,
    statement ascending. `originals` are live files without ACID columns, sorted by path, which
    decides their row IDs. `obsolete` contains directories sorted by name, then originals sorted by
    path.
    """

    location: str
    base: AcidDirectory | None = None
    deltas: tuple[AcidDirectory, ...] = ()
    delete_deltas: tuple[AcidDirectory, ...] = ()
    originals: tuple[FileEntry, ...] = ()
    obsolete: tuple[AcidDirectory | FileEntry, ...] = ()
    aborted: tuple[AcidDirectory, ...] = ()
    invisible: tuple[AcidDirectory, ...] = ()
    unknown: tuple[UnknownEntry, ...] = ()
    aborted_writes: AbortedWrites = AbortedWrites()

    @property
    def live(self) -> tuple[AcidDirectory, ...]:
        """The live directories: the base, deltas and delete deltas that the reader reads."""
        base = () if self.base is None else (self.base,)
        return (*base, *self.deltas, *self.delete_deltas)

    @property
    def obsolete_directories(self) -> tuple[AcidDirectory, ...]:
        """The directories among `obsolete`."""
        return tuple(o for o in self.obsolete if isinstance(o, AcidDirectory))

    @property
    def obsolete_originals(self) -> tuple[FileEntry, ...]:
        """The original files among `obsolete`."""
        return tuple(o for o in self.obsolete if isinstance(o, FileEntry))

    @property
    def directories(self) -> tuple[AcidDirectory, ...]:
        """Every base, delta and delete delta of any status, sorted by directory name."""
        rest = (*self.obsolete_directories, *self.aborted, *self.invisible)
        return tuple(sorted((*self.live, *rest), key=lambda d: d.text))

    @property
    def delta_count(self) -> int:
        """The number of live deltas and delete deltas together, as Hive's initiator counts them."""
        return len(self.deltas) + len(self.delete_deltas)

    @property
    def delta_bytes(self) -> int:
        """Total size of the live deltas and delete deltas, in bytes."""
        return sum(d.size_bytes for d in (*self.deltas, *self.delete_deltas))

    @property
    def base_bytes(self) -> int:
        """Size of the base in bytes; without a base, total size of the originals."""
        if self.base is not None:
            return self.base.size_bytes
        return sum(f.size_bytes for f in self.originals)


def resolve(
    listing: Listing,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
) -> AcidState:
    """Choose the files of one root that are visible to a reader.

    `write_ids` are the reader's; for a compactor or cleaner, only those that it can process. `txns`
    show whether a compactor's output (suffix `_v`) is visible. None means that all compactions
    count as committed, as in Trino; pass it only if no compaction is in progress and none has
    failed. In an insert-only table, a data file may have any name.

    Raises NotEnoughHistoryError as `selection.select`, CorruptFileError as `is_compacted`, and
    UnsupportedFileError if a directory's name has the prefix of a base or delta but cannot be
    parsed. Hive also fails on such a name.
    """
    contents = _Contents.of(listing, kind)
    directories = [contents.directory(text, listing) for text in contents.names]
    chosen = selection.select(directories, write_ids, txns, location=listing.location)
    live = [d for d in chosen if d.status is DirectoryStatus.LIVE]
    base = next((d for d in live if d.is_base), None)
    deltas = [d for d in live if not d.is_base]
    obsolete = _having(DirectoryStatus.OBSOLETE, chosen)
    aborted = _having(DirectoryStatus.ABORTED, chosen)
    originals = tuple(contents.originals)
    return AcidState(
        location=listing.location,
        base=base,
        deltas=tuple(d for d in deltas if not d.is_delete),
        delete_deltas=tuple(d for d in deltas if d.is_delete),
        originals=tuple(f for f in originals if f.size_bytes > 0) if base is None else (),
        obsolete=obsolete if base is None else (*obsolete, *originals),
        aborted=aborted,
        invisible=_having(DirectoryStatus.INVISIBLE, chosen),
        unknown=tuple(sorted(contents.unknown, key=lambda u: u.path)),
        aborted_writes=AbortedWrites.of(base, deltas, aborted, write_ids),
    )


def _having(
    status: DirectoryStatus, directories: Iterable[AcidDirectory]
) -> tuple[AcidDirectory, ...]:
    return tuple(sorted((d for d in directories if d.status is status), key=lambda d: d.text))


@dataclass(slots=True, kw_only=True)
class _Contents:
    """A listing grouped by directory. Mutable: it collects ignored files later."""

    kind: TransactionalKind
    names: dict[str, BaseName | DeltaName] = field(default_factory=dict)
    inside: dict[str, list[FileEntry]] = field(default_factory=dict)
    originals: list[FileEntry] = field(default_factory=list)
    unknown: list[UnknownEntry] = field(default_factory=list)

    @classmethod
    def of(cls, listing: Listing, kind: TransactionalKind) -> _Contents:
        contents = cls(kind=kind)
        for text in sorted(listing.tops):
            name = parse_directory_name(text)
            if name is not None:
                contents.names[text] = name
            elif looks_like_directory_name(text):
                raise UnsupportedFileError(
                    path=f"{listing.location}/{text}",
                    reason="its name starts like a base or delta directory but is not valid, so"
                    " Hive cannot read the table either. Move it away",
                )
        for file in sorted(listing.files, key=lambda f: f.path):
            top, slash, _ = file.path.partition("/")
            if slash and top in contents.names:
                contents.inside.setdefault(top, []).append(file)
            elif not is_below_hidden(file.path) and not is_manifest(file.path):
                contents.add_original(file)
        return contents

    def add_original(self, file: FileEntry) -> None:
        self.originals.append(file)
        if file.size_bytes == 0:
            self.unknown.append(UnknownEntry(path=file.path, why="ignored: it is empty"))
        elif not isinstance(parse_file_name(file.name), OriginalFileName):
            self.unknown.append(
                UnknownEntry(path=file.path, why="an original file whose name contains no bucket")
            )

    def directory(self, text: str, listing: Listing) -> AcidDirectory:
        name, files = self.names[text], self.inside.get(text, [])
        has_side_files = self.kind is not TransactionalKind.INSERT_ONLY
        streamed = _streamed(files, name) if has_side_files else frozenset()
        data: list[FileEntry] = []
        unread: list[UnknownEntry] = []
        side: list[FileEntry] = []
        for file in files:
            if is_below_hidden(file.path):
                continue
            if has_side_files and file.name.endswith(FLUSH_LENGTH_SUFFIX):
                side.append(file)
                continue
            # While a file is being streamed, HDFS reports only the length of closed blocks.
            if file.size_bytes == 0 and file.path not in streamed:
                self.unknown.append(UnknownEntry(path=file.path, why="ignored: it is empty"))
                continue
            why = _why_unread(file, name, self.kind)
            if why is None:
                data.append(file)
            else:
                unread.append(UnknownEntry(path=file.path, why=why))
        self.unknown += unread
        return AcidDirectory(
            name=name,
            text=text,
            files=tuple(data),
            unread=tuple(unread),
            side_files=tuple(side),
            is_compacted=isinstance(name, BaseName) and is_compacted(text, name, listing),
            modified_s=max((f.modified_s for f in files if f.modified_s is not None), default=None),
        )


def _streamed(files: Sequence[FileEntry], name: BaseName | DeltaName) -> frozenset[str]:
    """Return the files with a side file; OrcRecordUpdater writes none for delete deltas."""
    if isinstance(name, BaseName) or name.is_delete:
        return frozenset()
    sides = (f.path for f in files if f.path.endswith(FLUSH_LENGTH_SUFFIX))
    return frozenset(side.removesuffix(FLUSH_LENGTH_SUFFIX) for side in sides)


def _why_unread(file: FileEntry, name: BaseName | DeltaName, kind: TransactionalKind) -> str | None:
    """Return why it is not certain whether a file in a directory is data; None if it is data."""
    components = file.path.split("/")[1:-1]
    if any(parse_directory_name(component) is not None for component in components):
        # A rename onto an existing directory moves the source directory into that directory
        # (HIVE-25600). Hive 3.1 and Trino ignore the moved directory. Hive 4 reads it as a second
        # directory (AcidUtils.isChildOfDelta), and reads it in an insert-only table.
        return "it is in a base or delta inside another base or delta"
    if isinstance(name, BaseName) or kind is TransactionalKind.INSERT_ONLY:
        # Hive reads every file in a base (ParsedBase.getFiles). In an insert-only table, Hive reads
        # every file in any directory (HiveInputFormat.processPathsForMmRead).
        return None
    parsed = parse_file_name(file.name)
    if isinstance(parsed, BucketFileName) or (parsed is not None and not name.is_delete):
        return None
    # Hive 4 reads every name that begins with bucket_ (AcidUtils.bucketFileFilter), Trino any.
    kinds = "bucket_00000" if name.is_delete else "bucket_00000 or 000000_0"
    return f"its name is not that of a data file, such as {kinds}"


def is_compacted(text: str, name: BaseName, listing: Listing) -> bool:
    """Return whether a compactor wrote a base; CorruptFileError for an unknown data format."""
    if name.visibility_txn_id is not None:
        return True
    data_format = listing.metadata.get(text)
    if data_format is not None and data_format not in _DATA_FORMATS:
        raise CorruptFileError(
            path=f"{listing.location}/{text}/{METADATA_FILE}",
            reason=f"it specifies the data format {data_format!r}, which no Hive version writes",
        )
    return data_format == COMPACTED_FORMAT


def flat_state(listing: Listing) -> AcidState:
    """Return the visible files of one root as original files.

    Raises UnsupportedFileError if a directory is named like a base or delta, so the table is
    transactional. Some files of a transactional table are not visible.
    """
    originals = []
    for file in sorted(listing.files, key=lambda f: f.path):
        if is_below_hidden(file.path):
            continue
        for name in file.path.split("/")[:-1]:
            if parse_directory_name(name) is not None or looks_like_directory_name(name):
                raise UnsupportedFileError(
                    path=f"{listing.location}/{file.path}",
                    reason=f"{name} is a directory of a transactional table, but this table is"
                    " not transactional: rows of aborted and replaced writes would be read. Use the"
                    " transactional table, or copy its rows. If a conversion of the table was"
                    " interrupted, convert it again instead",
                )
        if file.size_bytes:
            originals.append(file)
    return AcidState(location=listing.location, originals=tuple(originals))
