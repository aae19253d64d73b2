"""Which files one reader opens, and what it has to know of each before it does.

Takes the directories that a snapshot chose (`AcidState`); gives `AcidFile` values, all together or
bucket by bucket. Three things are settled here, with a look at footers where the names do not say:
whether a file has ACID columns, the identity of the rows of those that have none, and how much of a
file that somebody still streams into counts. Must not know rows.
"""

from __future__ import annotations

import functools
import itertools
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from airflow_hiveacid.format.bucket_codec import decode, encode
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    DanglingDeleteError,
    InvalidNameError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, StatementId, WriteId
from airflow_hiveacid.format.names import (
    FLUSH_LENGTH_SUFFIX,
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    parse_directory_name,
    parse_file_name,
)
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidWriteIdList
from airflow_hiveacid.storage.filesystem import file_errors, open_location, read_bytes
from airflow_hiveacid.storage.identity import Keys, current_write_ids
from airflow_hiveacid.storage.orc_footer import read_tail
from airflow_hiveacid.storage.orc_reader import (
    AcidFile,
    FileKind,
    SyntheticIdentity,
    has_acid_columns,
    read_identity,
)
from airflow_hiveacid.storage.row_schema import IDENTITY_COLUMN_IDS
from airflow_hiveacid.storage.sorted_merge import visible_events, visible_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import AcidDirectory, AcidState, FileEntry

_BIG_ENDIAN_LONG: Final = struct.Struct(">q")
_BEFORE_ALL: Final = WriteId(0)
_REMEMBERED_STATES: Final = 1024
_PARALLEL_READS: Final = 8
_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]


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


@functools.lru_cache(maxsize=_REMEMBERED_STATES)
def bucket_files(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """The files of every bucket that has any, by bucket.

    The answer for one listing is remembered: it costs a look at the footer of every delete file.

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
    first, rest, deletes = first_files(state), delta_files(state), delete_files(state)
    facts = _facts_of(deletes)
    present = {f.bucket_id for f in (*first, *rest)}
    _require_rows(state, present, [(f, facts[f.path]) for f in deletes], write_ids)

    def may_hit(file: AcidFile, bucket: BucketId) -> bool:
        found = facts[file.path].buckets
        return file.bucket_id == bucket or found is None or bucket in found

    return tuple(
        BucketFiles(
            bucket_id=bucket,
            base_inserts=tuple(f for f in first if f.bucket_id == bucket),
            delta_inserts=tuple(f for f in rest if f.bucket_id == bucket),
            deletes=tuple(f for f in deletes if may_hit(f, bucket)),
        )
        for bucket in sorted(present | {f.bucket_id for f in deletes})
    )


def first_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the base, or the original files if there is none, by path.

    Raises:
        CorruptFileError: a footer cannot be read.
        UnsupportedFileError: a file has no name of the format, or cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    fs, root = open_location(state.location)
    if state.base is not None:
        return tuple(_in_directory(fs, root, state.base, FileKind.DATA))
    return tuple(_originals(fs, root, state.originals, _BEFORE_ALL, StatementId(0)))


def delta_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the deltas, directory by directory in Hive's order, by path in each.

    Raises:
        CorruptFileError: a footer or side file cannot be read as what it must be.
        UnsupportedFileError: a file has no name of the format, or cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    fs, root = open_location(state.location)
    each = (_in_directory(fs, root, d, FileKind.DATA) for d in state.deltas)
    return tuple(itertools.chain.from_iterable(each))


def delete_files(state: AcidState) -> tuple[AcidFile, ...]:
    """The files of the delete deltas, directory by directory in Hive's order, by path in each.

    Raises:
        CorruptFileError: a footer cannot be read.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    fs, root = open_location(state.location)
    each = (_in_directory(fs, root, d, FileKind.DELETE) for d in state.delete_deltas)
    return tuple(itertools.chain.from_iterable(each))


# ---- one directory -------------------------------------------------------------------------------


def _in_directory(
    fs: pafs.FileSystem, root: str, directory: AcidDirectory, kind: FileKind
) -> Iterator[AcidFile]:
    raw: list[FileEntry] = []
    for entry in directory.files:
        name = parse_file_name(entry.name)
        length = committed_length(fs, root, directory, entry)
        if not length:
            continue
        if (
            kind is FileKind.DATA
            and not isinstance(name, BucketFileName)
            and not _is_acid(fs, root, entry)
        ):
            raw.append(entry)
            continue
        yield AcidFile(
            fs=fs,
            path=f"{root}/{entry.path}",
            key=entry.path,
            length=length,
            kind=kind,
            bucket_id=_bucket_id(fs, root, entry),
            least_write_id=_least_write_id(directory, kind),
        )
    if raw:
        yield from _loaded(fs, root, directory, raw)


def _least_write_id(directory: AcidDirectory, kind: FileKind) -> WriteId:
    """Insert events of a delta carry its own write IDs; rows of bases, and deleted ones, any."""
    name = directory.name
    is_delta = isinstance(name, DeltaName) and kind is FileKind.DATA
    return name.low if is_delta and isinstance(name, DeltaName) else _BEFORE_ALL


def _bucket_id(fs: pafs.FileSystem, root: str, entry: FileEntry) -> BucketId:
    """The bucket of a file by its name, or by its rows if the name says none (in bases only)."""
    name = parse_file_name(entry.name)
    if name is not None:
        return name.bucket_id
    path = f"{root}/{entry.path}"
    found = _facts(fs, path, entry.size_bytes).buckets
    if found is None or len(found) != 1:
        raise UnsupportedFileError(
            path=path, reason="neither its name nor its rows say of which bucket it is"
        )
    return next(iter(found))


def committed_length(
    fs: pafs.FileSystem, root: str, directory: AcidDirectory, entry: FileEntry
) -> int:
    """Where a file ends for a reader (AcidUtils.getLogicalLength, OrcAcidUtils.getLastFlushLength).

    While a batch of streamed transactions is open, a side file says after each commit how long the
    file then was; the last complete number counts. 0 means that nothing is committed yet.

    Raises:
        CorruptFileError: the side file holds no length, or one that the file does not have.
        LocationPermissionError: the side file may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    side = f"{entry.path}{FLUSH_LENGTH_SUFFIX}"
    if directory.is_delete or all(f.path != side for f in directory.side_files):
        return entry.size_bytes
    with file_errors("read", f"{root}/{side}"):
        content = read_bytes(fs, f"{root}/{side}")
        # Asked for after the side file: its writer may have gone on since the files were listed.
        size = fs.get_file_info(f"{root}/{entry.path}").size or 0
    complete = len(content) // _BIG_ENDIAN_LONG.size * _BIG_ENDIAN_LONG.size
    if not complete:
        raise CorruptFileError(
            path=f"{root}/{side}", reason="it holds no length; its writer may be at it"
        )
    length: int = _BIG_ENDIAN_LONG.unpack_from(content, complete - _BIG_ENDIAN_LONG.size)[0]
    if not 0 <= length <= size:
        raise CorruptFileError(
            path=f"{root}/{entry.path}",
            reason=f"{length} bytes are committed, but it has {size}",
        )
    return length


# ---- files without ACID columns ------------------------------------------------------------------


def _loaded(
    fs: pafs.FileSystem, root: str, directory: AcidDirectory, raw: Sequence[FileEntry]
) -> Iterator[AcidFile]:
    """Files that LOAD DATA put into a delta or base: their rows are of that one write ID."""
    name = directory.name
    is_single = isinstance(name, BaseName) or name.low == name.high
    if not is_single or directory.is_compacted or directory.high < _BEFORE_ALL:
        raise CorruptFileError(
            path=f"{root}/{raw[0].path}",
            reason="a compactor's directory holds a file without ACID columns",
        )
    statement = name.statement_id if isinstance(name, DeltaName) else None
    return _originals(fs, root, raw, directory.high, statement or StatementId(0))


def _originals(
    fs: pafs.FileSystem,
    root: str,
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
        path = f"{root}/{entry.path}"
        name = parse_file_name(entry.name)
        if not isinstance(name, OriginalFileName):
            raise UnsupportedFileError(path=path, reason=_why_no_original(entry))
        facts = _facts(fs, path, entry.size_bytes)
        if facts.is_acid:
            raise CorruptFileError(path=path, reason="it has ACID columns outside base and delta")
        first = next_row.get(name.bucket_id, 0)
        next_row[name.bucket_id] = first + facts.rows
        yield AcidFile(
            fs=fs,
            path=path,
            key=entry.path,
            length=entry.size_bytes,
            kind=FileKind.ORIGINAL,
            bucket_id=name.bucket_id,
            least_write_id=write_id,
            synthetic=SyntheticIdentity(
                write_id=write_id,
                bucket_property=encode(name.bucket_id, statement_id),
                first_row_id=RowId(first),
            ),
        )


def _why_no_original(entry: FileEntry) -> str:
    if any(parse_directory_name(part) is not None for part in entry.path.split("/")[:-1]):
        return (
            "its base or delta directory lies below another one; of a partitioned table, give the"
            " location of one partition"
        )
    return "it has no name of an original file, such as 000000_0, and lies in no base or delta"


# ---- footers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What a footer says; `buckets` between the least and greatest property, None if unknown."""

    is_acid: bool
    rows: int
    buckets: frozenset[BucketId] | None


def _facts(fs: pafs.FileSystem, path: str, length: int) -> _Facts:
    with file_errors("read", path):
        tail = read_tail(fs, path, length)
    is_acid = has_acid_columns(tail)
    found = tail.integer_range(_BUCKET_COLUMN_ID) if is_acid else None
    return _Facts(
        is_acid=is_acid,
        rows=tail.rows,
        buckets=frozenset() if not tail.rows else None if found is None else _between(*found),
    )


def _between(least: int, most: int) -> frozenset[BucketId] | None:
    """The buckets that properties from `least` to `most` can be of; None when the codecs differ."""
    try:
        first, last = decode(BucketProperty(least)), decode(BucketProperty(most))
    except InvalidNameError:
        return None
    if first.codec_version != last.codec_version:
        return None
    return frozenset(map(BucketId, range(first.bucket_id, last.bucket_id + 1)))


def _is_acid(fs: pafs.FileSystem, root: str, entry: FileEntry) -> bool:
    return _facts(fs, f"{root}/{entry.path}", entry.size_bytes).is_acid


def _facts_of(files: Sequence[AcidFile]) -> dict[str, _Facts]:
    """The facts of many files, by path; footers are small, far away and independent."""
    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        facts = pool.map(lambda f: _facts(f.fs, f.path, f.length), files)
        return {file.path: found for file, found in zip(files, facts, strict=True)}


# ---- delete events without rows ------------------------------------------------------------------


def _require_rows(
    state: AcidState,
    present: AbstractSet[BucketId],
    deletes: Sequence[tuple[AcidFile, _Facts]],
    write_ids: ValidWriteIdList | None,
) -> None:
    """Object to visible delete events for rows of a bucket that has no file: it was lost.

    Events for rows of their own write ID are let pass, since a compactor may have dropped the
    pair's other half, and events for rows that the reader could not see anyway.
    """
    resolved = {d.text for d in state.delete_deltas if d.visibility is RangeVisibility.ALL}
    for file, facts in deletes:
        if facts.buckets is not None and facts.buckets <= present:
            continue
        if write_ids is None and file.key.partition("/")[0] not in resolved:
            continue
        missing = _buckets_hit(file, write_ids) - present
        if missing:
            raise DanglingDeleteError(
                path=file.path,
                reason="no file of the snapshot is of bucket "
                + ", ".join(map(str, sorted(missing))),
            )


def _buckets_hit(file: AcidFile, write_ids: ValidWriteIdList | None) -> set[BucketId]:
    """The buckets of the rows that visible events of a delete file must have found there."""
    found: set[BucketId] = set()
    events = read_identity(file)
    for batch in events if write_ids is None else visible_events(events, write_ids):
        keys = Keys.of(batch)
        others = keys.original != current_write_ids(batch)
        if write_ids is not None:
            others &= visible_mask(keys.original, write_ids)
        properties = np.unique(keys.bucket[others]).tolist()
        found.update(decode(BucketProperty(p)).bucket_id for p in properties)
    return found
