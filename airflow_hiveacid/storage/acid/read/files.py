"""Which files one reader opens, and what it has to know of each before it does.

Takes the directories that a snapshot chose (`AcidState`); gives `AcidFile` values. Three things are
settled here, with a look at footers where the names do not say: whether a file has ACID columns,
the identity of the rows of those that have none, and how much of a file that somebody still streams
into counts. Must not know rows.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.bucket_codec import encode
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    UnsupportedFileError,
)
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
from airflow_hiveacid.storage.acid.read.acid_file import (
    AcidFile,
    FileKind,
    SyntheticIdentity,
)
from airflow_hiveacid.storage.acid.read.footer_facts import Footers
from airflow_hiveacid.storage.stores.filesystem import file_errors, read_bytes
from airflow_hiveacid.storage.stores.hdfs_streams import OPEN_FILE
from airflow_hiveacid.storage.stores.locations import client_of, locate
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory, FileEntry
    from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts

_BIG_ENDIAN_LONG: Final = struct.Struct(">q")
_BEFORE_ALL: Final = WriteId(0)


@dataclass(frozen=True, slots=True)
class Place:
    """What a snapshot reads of one root, and what is known of the footers there."""

    state: AcidState
    root: str
    footers: Footers

    @classmethod
    def of(cls, state: AcidState) -> Place:
        """That of one table or partition."""
        (place,) = places_of([state])
        return place

    @property
    def store(self) -> str:
        """Where it is."""
        return self.footers.store

    def path(self, entry: FileEntry) -> str:
        """The path of a file on its store."""
        root = self.root if entry.root is None else locate(entry.root)[1]
        return f"{root}/{entry.path}"

    def facts(self, entry: FileEntry, length: int) -> FooterFacts:
        """What the footer of a file says, that ends at this length."""
        return self.footers.of(self.path(entry), length)

    def first_files(self) -> tuple[AcidFile, ...]:
        """The files of the base, or the original files if there is none, by path.

        Raises:
            CorruptFileError: a footer or side file cannot be read as what it must be.
            UnsupportedFileError: a file has no name of the format, or cannot be read at all.
            LocationPermissionError: a file may not be read.
            StorageError: a file is gone, or reading failed otherwise.
        """
        if self.state.base is not None:
            return tuple(_in_directory(self, self.state.base, FileKind.DATA))
        return tuple(_originals(self, self.state.originals, _BEFORE_ALL, StatementId(0)))

    def delta_files(self) -> tuple[AcidFile, ...]:
        """The files of the deltas, directory by directory in Hive's order, by path in each.

        Raises:
            HiveAcidError: as `first_files`.
        """
        each = (_in_directory(self, d, FileKind.DATA) for d in self.state.deltas)
        return tuple(itertools.chain.from_iterable(each))

    def delete_files(self) -> tuple[AcidFile, ...]:
        """The files of the delete deltas, as `delta_files`.

        Raises:
            HiveAcidError: as `first_files`.
        """
        each = (_in_directory(self, d, FileKind.DELETE) for d in self.state.delete_deltas)
        return tuple(itertools.chain.from_iterable(each))


def places_of(states: Iterable[AcidState]) -> list[Place]:
    """One for each state; those on one store share what is known of footers."""
    shared: dict[str, Footers] = {}
    places = []
    for state in states:
        store, root = locate(state.location)
        places.append(Place(state, root, shared.setdefault(store, Footers(store))))
    return places


# ---- one directory -------------------------------------------------------------------------------


def _in_directory(place: Place, directory: AcidDirectory, kind: FileKind) -> Iterator[AcidFile]:
    raw: list[FileEntry] = []
    least, greatest = _bounds(directory, kind)
    for entry in directory.files:
        name = parse_file_name(entry.name)
        length = committed_length(client_of(place.store), place.root, directory, entry)
        if not length:
            continue
        if (
            kind is FileKind.DATA
            and not isinstance(name, BucketFileName)
            and not place.facts(entry, length).is_acid
        ):
            raw.append(entry)
            continue
        yield AcidFile(
            store=place.store,
            path=place.path(entry),
            key=entry.path,
            length=length,
            kind=kind,
            bucket_id=_bucket_id(place, entry, length) if name is None else name.bucket_id,
            least_write_id=least,
            greatest_write_id=greatest,
            root=entry.root,
        )
    if raw:
        yield from _loaded(place, directory, raw)


def _bounds(directory: AcidDirectory, kind: FileKind) -> tuple[WriteId, WriteId | None]:
    """Insert events of a delta carry its own write IDs; rows of bases, and deleted ones, any."""
    name = directory.name
    if isinstance(name, DeltaName) and kind is FileKind.DATA:
        return name.low, name.high
    return _BEFORE_ALL, None


def _bucket_id(place: Place, entry: FileEntry, length: int) -> BucketId:
    """The bucket of a file whose name says none (in bases only), by its rows."""
    found = place.facts(entry, length).buckets
    if found is None or len(found) != 1:
        raise UnsupportedFileError(
            path=place.path(entry), reason="neither its name nor its rows say of which bucket it is"
        )
    return next(iter(found))


def committed_length(
    fs: pafs.FileSystem, root: str, directory: AcidDirectory, entry: FileEntry
) -> int:
    """Where a file ends for a reader (AcidUtils.getLogicalLength, OrcAcidUtils.getLastFlushLength).

    While a batch of streamed transactions is open, a side file says after each commit how long the
    file then was; the last complete number counts. 0 means that nothing is committed yet. What the
    file system says of the size is not asked: HDFS counts the closed blocks only while a writer is
    at the file. Reading finds out.

    Raises:
        CorruptFileError: the side file holds no length.
        UnsupportedFileError: nor can it be known, as long as its writer is at it.
        LocationPermissionError: the side file may not be read.
        StorageError: it is gone, or reading failed otherwise.
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
            reason=f"nothing of it can be read, so nobody knows what counts: {OPEN_FILE}",
        )
    if not complete:
        raise CorruptFileError(
            path=f"{root}/{side}", reason="it holds no length; its writer may be at it"
        )
    length: int = _BIG_ENDIAN_LONG.unpack_from(content, complete - _BIG_ENDIAN_LONG.size)[0]
    if length < 0:
        raise CorruptFileError(path=f"{root}/{side}", reason=f"it says a length of {length}")
    return length


# ---- files without ACID columns ------------------------------------------------------------------


def _loaded(place: Place, directory: AcidDirectory, raw: Sequence[FileEntry]) -> Iterator[AcidFile]:
    """Files that LOAD DATA put into a delta or base: their rows are of that one write ID."""
    name = directory.name
    is_single = isinstance(name, BaseName) or name.low == name.high
    if not is_single or directory.is_compacted or directory.high < _BEFORE_ALL:
        raise CorruptFileError(
            path=place.path(raw[0]),
            reason="a compactor's directory holds a file without ACID columns",
        )
    statement = name.statement_id if isinstance(name, DeltaName) else None
    return _originals(place, raw, directory.high, statement or StatementId(0))


def _originals(
    place: Place,
    entries: Iterable[FileEntry],
    write_id: WriteId,
    statement_id: StatementId,
) -> Iterator[AcidFile]:
    """Files without ACID columns: row IDs go on from one file of a bucket to the next, by path.

    All writers must agree on that order, since the identities become permanent with the first
    compaction or delete (OrcRawRecordMerger.OriginalReaderPair).
    """
    next_row: dict[BucketId, int] = {}
    for entry in sorted(entries, key=lambda e: e.path):
        path = place.path(entry)
        name = parse_file_name(entry.name)
        if not isinstance(name, OriginalFileName):
            raise UnsupportedFileError(path=path, reason=why_no_original(entry))
        facts = place.facts(entry, entry.size_bytes)
        if facts.is_acid:
            raise CorruptFileError(path=path, reason="it has ACID columns outside base and delta")
        first = next_row.get(name.bucket_id, 0)
        next_row[name.bucket_id] = first + facts.rows
        yield AcidFile(
            store=place.store,
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
    """What a file outside of base and delta is that has no name of an original file."""
    if any(parse_directory_name(part) is not None for part in entry.path.split("/")[:-1]):
        return (
            "its base or delta directory lies below another one; of a partitioned table, give the"
            " location of one partition"
        )
    return "it has no name of an original file, such as 000000_0, and lies in no base or delta"
