"""Find the facts about a root's visible files that readers need before they open the files.

This module finds out whether a file has ACID columns. The module also finds the row identities of
files without ACID columns, and the committed length of files that are still open for streaming. If
the file names do not show these facts, the module reads footers. This module must not read rows.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.bucket_codec import encode
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId
from airflow_hiveacid.format.names import (
    FLUSH_LENGTH_SUFFIX,
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    parse_directory_name,
    parse_file_name,
)
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.format.state.directories import AcidDirectory, FileEntry
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind, SyntheticIdentity
from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts, Footers
from airflow_hiveacid.storage.stores.filesystem import file_errors, read_bytes
from airflow_hiveacid.storage.stores.hdfs.streams import OPEN_FILE
from airflow_hiveacid.storage.stores.locations import client_of, locate
from airflow_hiveacid.storage.stores.traits import traits_of

_BIG_ENDIAN_LONG: Final = struct.Struct(">q")
_BEFORE_ALL: Final = WriteId(0)


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The visible files of one root, with a cache of facts from their footers."""

    state: AcidState
    root: str
    footers: Footers

    @classmethod
    def of(cls, state: AcidState) -> RootFiles:
        """Return the `RootFiles` of one table or partition."""
        (root_files,) = roots_of([state])
        return root_files

    @property
    def store(self) -> str:
        """The store of the root."""
        return self.footers.store

    def path(self, entry: FileEntry) -> str:
        """Return the path of a file on its store."""
        root = self.root if entry.root is None else locate(entry.root)[1]
        return f"{root}/{entry.path}"

    def facts(self, entry: FileEntry, length: int) -> FooterFacts:
        """Return the facts from the footer of a file with this committed length."""
        return self.footers.of(self.path(entry), length)

    def first_files(self) -> tuple[AcidFile, ...]:
        """Return the files of the base, or else the original files, sorted by path."""
        if self.state.base is not None:
            return tuple(_in_directory(self, self.state.base, FileKind.DATA))
        return tuple(_originals(self, self.state.originals, _BEFORE_ALL, StatementId(0)))

    def delta_files(self) -> tuple[AcidFile, ...]:
        """Return the files of the deltas, sorted by directory in Hive's order, then by path."""
        each = (_in_directory(self, d, FileKind.DATA) for d in self.state.deltas)
        return tuple(itertools.chain.from_iterable(each))

    def delete_files(self) -> tuple[AcidFile, ...]:
        """Return the files of the delete deltas, in the order of `delta_files`."""
        each = (_in_directory(self, d, FileKind.DELETE) for d in self.state.delete_deltas)
        return tuple(itertools.chain.from_iterable(each))


def roots_of(states: Iterable[AcidState]) -> list[RootFiles]:
    """Return the `RootFiles` of each state.

    Roots on the same store share a cache of footer facts.
    """
    shared: dict[str, Footers] = {}
    roots = []
    for state in states:
        store, root = locate(state.location)
        roots.append(RootFiles(state, root, shared.setdefault(store, Footers(store))))
    return roots


# ---- one directory -------------------------------------------------------------------------------


def _in_directory(
    root_files: RootFiles, directory: AcidDirectory, kind: FileKind
) -> Iterator[AcidFile]:
    directory.require_known_files(root_files.state.location)
    raw: list[FileEntry] = []
    low, high = _bounds(directory, kind)
    for entry in directory.files:
        name = parse_file_name(entry.name)
        length = committed_length(client_of(root_files.store), root_files.root, directory, entry)
        if not length:
            continue
        if (
            kind is FileKind.DATA
            and not isinstance(name, BucketFileName)
            and not root_files.facts(entry, length).is_acid
        ):
            raw.append(entry)
            continue
        yield AcidFile(
            store=root_files.store,
            path=root_files.path(entry),
            key=entry.path,
            length=length,
            kind=kind,
            bucket_id=_bucket_id(root_files, entry, length) if name is None else name.bucket_id,
            least_write_id=low,
            greatest_write_id=high,
            root=entry.root,
        )
    if raw:
        yield from _loaded(root_files, directory, raw)


def _bounds(directory: AcidDirectory, kind: FileKind) -> tuple[WriteId, WriteId | None]:
    """Return bounds of the original write IDs.

    Only insert events of a delta have an upper bound. The upper bound of all other files is None.
    """
    name = directory.name
    if isinstance(name, DeltaName) and kind is FileKind.DATA:
        return name.low, name.high
    return _BEFORE_ALL, None


def _bucket_id(root_files: RootFiles, entry: FileEntry, length: int) -> BucketId:
    """Read a base file's bucket from its footer, because its name does not show the bucket."""
    buckets = root_files.facts(entry, length).buckets
    if buckets is None or len(buckets) != 1:
        raise UnsupportedFileError(
            path=root_files.path(entry), reason="neither its name nor its rows identify one bucket"
        )
    return next(iter(buckets))


def committed_length(
    fs: pafs.FileSystem, root: str, directory: AcidDirectory, entry: FileEntry
) -> int:
    """Return how many bytes of a file may be read.

    The rule is the same as in AcidUtils.getLogicalLength and OrcAcidUtils.getLastFlushLength. While
    a streaming writer's transaction batch is open, a side file records the file's length after each
    commit. The last complete number in the side file is the committed length. 0 means that nothing
    is committed yet. This function does not compare the committed length with the file size. HDFS
    reports only closed blocks while a writer has the file open. Reading fails if the file is
    shorter than its committed length.

    Raises:
        CorruptFileError: the side file contains no valid length.
        UnsupportedFileError: a writer has the side file open, and it cannot be read.
    """
    side = f"{entry.path}{FLUSH_LENGTH_SUFFIX}"
    if directory.is_delete or all(f.path != side for f in directory.side_files):
        return entry.size_bytes
    with file_errors("read", f"{root}/{side}"):
        content = read_bytes(fs, f"{root}/{side}")
    complete = len(content) // _BIG_ENDIAN_LONG.size * _BIG_ENDIAN_LONG.size
    if not complete and not traits_of(fs).reads_open_files:
        raise UnsupportedFileError(
            path=f"{root}/{side}",
            reason=f"none of it can be read, so the committed length is unknown: {OPEN_FILE}",
        )
    if not complete:
        raise CorruptFileError(
            path=f"{root}/{side}",
            reason="the side file contains no length; a writer may still be writing the file",
        )
    length: int = _BIG_ENDIAN_LONG.unpack_from(content, complete - _BIG_ENDIAN_LONG.size)[0]
    if length < 0:
        raise CorruptFileError(
            path=f"{root}/{side}", reason=f"the side file contains the length {length}"
        )
    return length


# ---- files without ACID columns ------------------------------------------------------------------


def _loaded(
    root_files: RootFiles, directory: AcidDirectory, raw: Sequence[FileEntry]
) -> Iterator[AcidFile]:
    """Yield files that LOAD DATA moved into a delta or base; rows get the directory's write ID."""
    name = directory.name
    is_single = isinstance(name, BaseName) or name.low == name.high
    if not is_single or directory.is_compacted or directory.high < _BEFORE_ALL:
        raise CorruptFileError(
            path=root_files.path(raw[0]),
            reason="a compactor's directory holds a file without ACID columns",
        )
    statement = name.statement_id if isinstance(name, DeltaName) else None
    return _originals(root_files, raw, directory.high, statement or StatementId(0))


def _originals(
    root_files: RootFiles,
    entries: Iterable[FileEntry],
    write_id: WriteId,
    statement_id: StatementId,
) -> Iterator[AcidFile]:
    """Yield files without ACID columns; row IDs continue across the files of a bucket.

    The files are sorted by path. All readers and writers must use this order, because the first
    compaction or delete makes the identities permanent (OrcRawRecordMerger.OriginalReaderPair).
    """
    next_row: dict[BucketId, int] = {}
    for entry in sorted(entries, key=lambda e: e.path):
        path = root_files.path(entry)
        name = parse_file_name(entry.name)
        if not isinstance(name, OriginalFileName):
            raise UnsupportedFileError(path=path, reason=why_no_original(entry))
        facts = root_files.facts(entry, entry.size_bytes)
        if facts.is_acid:
            raise CorruptFileError(path=path, reason="it has ACID columns outside base and delta")
        first = next_row.get(name.bucket_id, 0)
        next_row[name.bucket_id] = first + facts.rows
        yield AcidFile(
            store=root_files.store,
            path=path,
            key=entry.path,
            length=entry.size_bytes,
            kind=FileKind.ORIGINAL,
            bucket_id=name.bucket_id,
            least_write_id=write_id,
            greatest_write_id=write_id,
            synthetic=SyntheticIdentity(
                write_id=write_id,
                bucket_property=encode(name.bucket_id, statement_id),
                first_row_id=RowId(first),
            ),
            root=entry.root,
        )


def why_no_original(entry: FileEntry) -> str:
    """Return why a file outside of bases and deltas is not a valid original file."""
    if any(parse_directory_name(part) is not None for part in entry.path.split("/")[:-1]):
        return (
            "its base or delta directory is inside another directory. For a partitioned table, give"
            " the location of one partition"
        )
    return (
        "it is not in a base or delta, and its name is not that of an original file"
        " (such as 000000_0)"
    )
