"""Which files one reader opens, and what it has to know of each before it does.

Takes the directories that a snapshot chose (`AcidState`); gives `AcidFile` values, all together or
bucket by bucket. Three things are settled here, with a look at footers where the names do not say:
whether a file has ACID columns, the identity of the rows of those that have none, and how much of a
file that somebody still streams into counts. Must not know rows.
"""

from __future__ import annotations

import dataclasses
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
from airflow_hiveacid.storage.acid.read.dangling import require_rows
from airflow_hiveacid.storage.acid.read.footer_facts import Footers
from airflow_hiveacid.storage.stores.filesystem import file_errors, read_bytes
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory, FileEntry
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts

_BIG_ENDIAN_LONG: Final = struct.Struct(">q")
_BEFORE_ALL: Final = WriteId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of one bucket under one snapshot.

    `base_inserts` are those of the base or the original files, `delta_inserts` those of deltas.
    `deletes` are all delete files that may hold events for rows of this bucket; they may hold
    events for rows of others as well, which Hive 3.1's minor compaction copies around.
    """

    bucket_id: BucketId
    base_inserts: tuple[AcidFile, ...]
    delta_inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]

    @property
    def inserts(self) -> tuple[AcidFile, ...]:
        """Every file with rows."""
        return (*self.base_inserts, *self.delta_inserts)

    def deletes_of(self, data: AcidFile) -> tuple[AcidFile, ...]:
        """The delete files that may hold events for rows of one file.

        Whoever reads a thousand deltas apart would else read a thousand delete deltas for each.
        """
        found = tuple(file for file in self.deletes if file.may_meet(data))
        return self.deletes if len(found) == len(self.deletes) else found


def bucket_files(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """The files of every bucket that has any, by bucket; see `buckets_of`.

    Args:
        state: what a reader reads of one table or partition.
        write_ids: that reader's list; with it, delete deltas that are only partly visible are
            looked through for dangling events, too.

    Raises:
        DanglingDeleteError: visible delete events point at a bucket that no live file is of.
        CorruptFileError: a footer or side file cannot be read as what it must be.
        UnsupportedFileError: a file cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    (found,) = buckets_of([state], write_ids)
    return found


def buckets_of(
    states: Iterable[AcidState], write_ids: ValidWriteIdList | None = None
) -> tuple[tuple[BucketFiles, ...], ...]:
    """The files of every bucket of several partitions, in the partitions' order; by bucket in each.

    It costs a look at the footer of every delete file, and of every file whose name does not say
    what it is: each once, those of all partitions side by side. Whoever needs the answer again
    keeps it.

    Raises:
        HiveAcidError: as `bucket_files`.
    """
    places = _places(states)
    unclear: dict[int, tuple[Footers, list[tuple[str, int]]]] = {}
    for place in places:
        _, files = unclear.setdefault(id(place.footers), (place.footers, []))
        files.extend(_unclear(place))
    for footers, files in unclear.values():
        footers.read(files)
    return tuple(_buckets(place, write_ids) for place in places)


def _places(states: Iterable[AcidState]) -> list[_Place]:
    """One for each state; those on one file system share what is known of footers."""
    shared: dict[int, Footers] = {}
    places = []
    for state in states:
        fs, root = open_location(state.location)
        places.append(_Place(state, root, shared.setdefault(id(fs), Footers(fs))))
    return places


def _unclear(place: _Place) -> Iterator[tuple[str, int]]:
    """The files (path and length) that have to be looked into.

    Not among them are those that will be refused for their names, and those that are streamed
    into: how much of one counts is found out later.
    """
    for entry in place.state.originals:
        if isinstance(parse_file_name(entry.name), OriginalFileName):
            yield place.path(entry), entry.size_bytes
    for directory in place.state.live:
        for entry in () if directory.side_files else directory.files:
            is_clear = isinstance(parse_file_name(entry.name), BucketFileName)
            if directory.is_delete or not is_clear:
                yield place.path(entry), entry.size_bytes


def _buckets(place: _Place, write_ids: ValidWriteIdList | None) -> tuple[BucketFiles, ...]:
    state, footers = place.state, place.footers
    first, rest, deletes = place.first_files(), place.delta_files(), place.delete_files()
    facts = {f.path: footers.of(f.path, f.length) for f in deletes}
    present = {f.bucket_id for f in (*first, *rest)}
    require_rows(state, present, [(f, facts[f.path]) for f in deletes], write_ids)
    deletes = tuple(_bounded(f, facts[f.path].write_ids) for f in deletes)

    hit, everywhere = _by_bucket_hit(deletes, facts)
    of_base, of_deltas = _by_bucket(first), _by_bucket(rest)
    return tuple(
        BucketFiles(
            bucket_id=bucket,
            base_inserts=tuple(of_base.get(bucket, ())),
            delta_inserts=tuple(of_deltas.get(bucket, ())),
            deletes=tuple(deletes[at] for at in sorted((*hit.get(bucket, ()), *everywhere))),
        )
        for bucket in sorted(present | {f.bucket_id for f in deletes})
    )


def _bounded(file: AcidFile, write_ids: tuple[WriteId, WriteId] | None) -> AcidFile:
    if write_ids is None:
        return file
    least, greatest = write_ids
    return dataclasses.replace(file, least_write_id=least, greatest_write_id=greatest)


def _by_bucket(files: Iterable[AcidFile]) -> dict[BucketId, list[AcidFile]]:
    found: dict[BucketId, list[AcidFile]] = {}
    for file in files:
        found.setdefault(file.bucket_id, []).append(file)
    return found


def _by_bucket_hit(
    deletes: Sequence[AcidFile], facts: Mapping[str, FooterFacts]
) -> tuple[dict[BucketId, list[int]], list[int]]:
    """The places of delete files by the buckets they may hit, and of those that may hit any."""
    hit: dict[BucketId, list[int]] = {}
    everywhere: list[int] = []
    for at, file in enumerate(deletes):
        found = facts[file.path].buckets
        if found is None:
            everywhere.append(at)
            continue
        for bucket in {file.bucket_id, *found}:
            hit.setdefault(bucket, []).append(at)
    return hit, everywhere


def first_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the base, or the original files if there is none, by path.

    Raises:
        CorruptFileError: a footer cannot be read.
        UnsupportedFileError: a file has no name of the format, or cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    return _Place.of(state).first_files()


def delta_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the deltas, directory by directory in Hive's order, by path in each.

    Raises:
        CorruptFileError: a footer or side file cannot be read as what it must be.
        UnsupportedFileError: a file has no name of the format, or cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    return _Place.of(state).delta_files()


def delete_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the delete deltas, directory by directory in Hive's order, by path in each.

    Raises:
        CorruptFileError: a footer cannot be read.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    return _Place.of(state).delete_files()


# ---- one directory -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """What a snapshot reads of one root, and what is known of the footers there."""

    state: AcidState
    root: str
    footers: Footers

    @classmethod
    def of(cls, state: AcidState) -> _Place:
        (place,) = _places([state])
        return place

    @property
    def fs(self) -> pafs.FileSystem:
        return self.footers.fs

    def path(self, entry: FileEntry) -> str:
        return f"{self.root}/{entry.path}"

    def facts(self, entry: FileEntry, length: int) -> FooterFacts:
        return self.footers.of(self.path(entry), length)

    def first_files(self) -> tuple[AcidFile, ...]:
        if self.state.base is not None:
            return tuple(_in_directory(self, self.state.base, FileKind.DATA))
        return tuple(_originals(self, self.state.originals, _BEFORE_ALL, StatementId(0)))

    def delta_files(self) -> tuple[AcidFile, ...]:
        each = (_in_directory(self, d, FileKind.DATA) for d in self.state.deltas)
        return tuple(itertools.chain.from_iterable(each))

    def delete_files(self) -> tuple[AcidFile, ...]:
        each = (_in_directory(self, d, FileKind.DELETE) for d in self.state.delete_deltas)
        return tuple(itertools.chain.from_iterable(each))


def _in_directory(place: _Place, directory: AcidDirectory, kind: FileKind) -> Iterator[AcidFile]:
    raw: list[FileEntry] = []
    least, greatest = _bounds(directory, kind)
    for entry in directory.files:
        name = parse_file_name(entry.name)
        length = committed_length(place.fs, place.root, directory, entry)
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
            fs=place.fs,
            path=place.path(entry),
            key=entry.path,
            length=length,
            kind=kind,
            bucket_id=_bucket_id(place, entry, length) if name is None else name.bucket_id,
            least_write_id=least,
            greatest_write_id=greatest,
        )
    if raw:
        yield from _loaded(place, directory, raw)


def _bounds(directory: AcidDirectory, kind: FileKind) -> tuple[WriteId, WriteId | None]:
    """Insert events of a delta carry its own write IDs; rows of bases, and deleted ones, any."""
    name = directory.name
    if isinstance(name, DeltaName) and kind is FileKind.DATA:
        return name.low, name.high
    return _BEFORE_ALL, None


def _bucket_id(place: _Place, entry: FileEntry, length: int) -> BucketId:
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
        LocationPermissionError: the side file may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    side = f"{entry.path}{FLUSH_LENGTH_SUFFIX}"
    if directory.is_delete or all(f.path != side for f in directory.side_files):
        return entry.size_bytes
    with file_errors("read", f"{root}/{side}"):
        content = read_bytes(fs, f"{root}/{side}")
    complete = len(content) // _BIG_ENDIAN_LONG.size * _BIG_ENDIAN_LONG.size
    if not complete:
        raise CorruptFileError(
            path=f"{root}/{side}", reason="it holds no length; its writer may be at it"
        )
    length: int = _BIG_ENDIAN_LONG.unpack_from(content, complete - _BIG_ENDIAN_LONG.size)[0]
    if length < 0:
        raise CorruptFileError(path=f"{root}/{side}", reason=f"it says a length of {length}")
    return length


# ---- files without ACID columns ------------------------------------------------------------------


def _loaded(
    place: _Place, directory: AcidDirectory, raw: Sequence[FileEntry]
) -> Iterator[AcidFile]:
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
    place: _Place,
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
            fs=place.fs,
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
        )


def why_no_original(entry: FileEntry) -> str:
    """What a file outside of base and delta is that has no name of an original file."""
    if any(parse_directory_name(part) is not None for part in entry.path.split("/")[:-1]):
        return (
            "its base or delta directory lies below another one; of a partitioned table, give the"
            " location of one partition"
        )
    return "it has no name of an original file, such as 000000_0, and lies in no base or delta"
