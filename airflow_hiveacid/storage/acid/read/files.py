"""Find the facts about a root's visible files that readers need before they open the files.

These are: ACID columns, rows, buckets, write IDs, the identities of rows without ACID columns, and
the committed length of files that are open for streaming; from names or, if need be, footers.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format import names
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import AcidDirectory, FileEntry
from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError, UnsupportedFileError
from airflow_hiveacid.format.ids import (
    MAX_BUCKET_ID,
    BucketId,
    BucketProperty,
    RowId,
    StatementId,
    WriteId,
    decode,
    encode,
)
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, read
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors, read_bytes
from airflow_hiveacid.storage.stores.hdfs.handler import OPEN_FILE
from airflow_hiveacid.storage.stores.locations import client_of, locate, traits_of
from airflow_hiveacid.storage.stores.threads import each_in_threads

_WRITE_ID_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[0]
_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """The facts from one file's footer.

    `buckets` contains all buckets between the least and the greatest bucket property. `write_ids`
    are the least and the greatest original one. Unknown fields are None.
    """

    is_acid: bool
    rows: int
    buckets: frozenset[BucketId] | None
    write_ids: tuple[WriteId, WriteId] | None


def footer_facts(fs: pafs.FileSystem, path: str, length: int) -> FooterFacts:
    """Return the facts from one file's footer."""
    tail = read_tail(fs, path, length)
    is_acid = read.has_acid_columns(tail)
    bounds = tail.integer_range(_BUCKET_COLUMN_ID) if is_acid else None
    return FooterFacts(
        is_acid=is_acid,
        rows=tail.rows,
        buckets=frozenset() if not tail.rows else None if bounds is None else _between(*bounds),
        write_ids=_write_ids(tail) if is_acid else None,
    )


def _write_ids(tail: OrcTail) -> tuple[WriteId, WriteId] | None:
    """Return the least and greatest original write ID; None if statistics are incomplete."""
    statistics = tail.statistics(_WRITE_ID_COLUMN_ID)
    bounds = tail.integer_range(_WRITE_ID_COLUMN_ID)
    if bounds is None or statistics is None or statistics.values != tail.rows:
        return None
    return WriteId(bounds[0]), WriteId(bounds[1])


def _between(least: int, most: int) -> frozenset[BucketId] | None:
    # Unknown if `least` and `most` have different codecs, or span more buckets than a table may
    # have: a range of V0 properties could give half a billion numbers.
    try:
        first, last = decode(BucketProperty(least)), decode(BucketProperty(most))
    except InvalidNameError:
        return None
    if (
        first.codec_version != last.codec_version
        or last.bucket_id - first.bucket_id > MAX_BUCKET_ID
    ):
        return None
    return frozenset(map(BucketId, range(first.bucket_id, last.bucket_id + 1)))


@dataclass(frozen=True, slots=True)
class Footers:
    """Footer facts for one plan on one store: later, another file may have the same name."""

    store: str
    _facts: dict[str, FooterFacts] = field(default_factory=dict)

    def read(self, files: Sequence[tuple[str, int]]) -> None:
        """Read the footers of files (path and length) in parallel; each read may be slow."""
        missing = [(path, length) for path, length in files if path not in self._facts]
        fs = client_of(self.store)
        footers = each_in_threads(lambda file: footer_facts(fs, *file), missing)
        for (path, _), facts in zip(missing, footers, strict=True):
            self._facts[path] = facts

    def of(self, path: str, length: int) -> FooterFacts:
        """Return the facts about one file."""
        if path not in self._facts:
            self._facts[path] = footer_facts(client_of(self.store), path, length)
        return self._facts[path]


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

    def first_files(self) -> tuple[read.AcidFile, ...]:
        """Return the files of the base, or else the original files, sorted by path."""
        if self.state.base is not None:
            return tuple(_in_directory(self, self.state.base, read.FileKind.DATA))
        return tuple(_originals(self, self.state.originals, _BEFORE_ALL, StatementId(0)))

    def delta_files(self) -> tuple[read.AcidFile, ...]:
        """Return the files of the deltas, sorted by directory in Hive's order, then by path."""
        each = (_in_directory(self, d, read.FileKind.DATA) for d in self.state.deltas)
        return tuple(itertools.chain.from_iterable(each))

    def delete_files(self) -> tuple[read.AcidFile, ...]:
        """Return the files of the delete deltas, in the order of `delta_files`."""
        each = (_in_directory(self, d, read.FileKind.DELETE) for d in self.state.delete_deltas)
        return tuple(itertools.chain.from_iterable(each))


def roots_of(states: Iterable[AcidState]) -> list[RootFiles]:
    """Return the `RootFiles` of each state; roots on one store share a cache of footer facts."""
    shared: dict[str, Footers] = {}
    roots = []
    for state in states:
        store, root = locate(state.location)
        roots.append(RootFiles(state, root, shared.setdefault(store, Footers(store))))
    return roots


# ---- one directory -------------------------------------------------------------------------------


def _in_directory(
    root_files: RootFiles, directory: AcidDirectory, kind: read.FileKind
) -> Iterator[read.AcidFile]:
    directory.require_known_files(root_files.state.location)
    raw: list[FileEntry] = []
    low = _BEFORE_ALL
    high: WriteId | None = None
    if isinstance(directory.name, names.DeltaName) and kind is read.FileKind.DATA:
        low, high = directory.name.low, directory.name.high  # only these inserts have a bound
    for entry in directory.files:
        name = names.parse_file_name(entry.name)
        length = committed_length(client_of(root_files.store), root_files.root, directory, entry)
        if not length:
            continue
        if (
            kind is read.FileKind.DATA
            and not isinstance(name, names.BucketFileName)
            and not root_files.facts(entry, length).is_acid
        ):
            raw.append(entry)
            continue
        yield read.AcidFile(
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


def _bucket_id(root_files: RootFiles, entry: FileEntry, length: int) -> BucketId:
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

    As in AcidUtils.getLogicalLength and OrcAcidUtils.getLastFlushLength: while a streaming writer's
    transaction batch is open, a side file records the file's length after each commit. The last
    complete number in it counts; 0 means that nothing is committed yet. It is not compared with the
    file's size, because HDFS reports only closed blocks of an open file. Raises CorruptFileError if
    the side file has no valid length, and UnsupportedFileError if a writer has it open, and it
    cannot be read.
    """
    side = f"{entry.path}{names.FLUSH_LENGTH_SUFFIX}"
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
) -> Iterator[read.AcidFile]:
    """Yield files that LOAD DATA moved into a delta or base; rows get the directory's write ID."""
    name = directory.name
    # LOAD DATA moves files to a directory of one write ID, which is not `names.MINIMUM_BASE`.
    is_single = isinstance(name, names.BaseName) or name.low == name.high
    if not is_single or directory.is_compacted or directory.high < _BEFORE_ALL:
        raise CorruptFileError(
            path=root_files.path(raw[0]),
            reason="a compactor's directory holds a file without ACID columns",
        )
    statement = name.statement_id if isinstance(name, names.DeltaName) else None
    return _originals(root_files, raw, directory.high, statement or StatementId(0))


def _originals(
    root_files: RootFiles,
    entries: Iterable[FileEntry],
    write_id: WriteId,
    statement_id: StatementId,
) -> Iterator[read.AcidFile]:
    # Row IDs continue across the files of a bucket, sorted by path, in all readers and writers: the
    # first compaction or delete makes them permanent (OrcRawRecordMerger.OriginalReaderPair).
    next_row: dict[BucketId, int] = {}
    for entry in sorted(entries, key=lambda e: e.path):
        path = root_files.path(entry)
        name = names.parse_file_name(entry.name)
        if not isinstance(name, names.OriginalFileName):
            raise UnsupportedFileError(path=path, reason=why_no_original(entry))
        facts = root_files.facts(entry, entry.size_bytes)
        if facts.is_acid:
            raise CorruptFileError(path=path, reason="it has ACID columns outside base and delta")
        first = next_row.get(name.bucket_id, 0)
        next_row[name.bucket_id] = first + facts.rows
        yield read.AcidFile(
            store=root_files.store,
            path=path,
            key=entry.path,
            length=entry.size_bytes,
            kind=read.FileKind.ORIGINAL,
            bucket_id=name.bucket_id,
            least_write_id=write_id,
            greatest_write_id=write_id,
            synthetic=read.SyntheticIdentity(
                write_id=write_id,
                bucket_property=encode(name.bucket_id, statement_id),
                first_row_id=RowId(first),
            ),
            root=entry.root,
        )


def why_no_original(entry: FileEntry) -> str:
    """Return why a file outside of bases and deltas is not a valid original file."""
    if any(names.parse_directory_name(part) is not None for part in entry.path.split("/")[:-1]):
        return (
            "its base or delta directory is inside another directory. For a partitioned table, give"
            " the location of one partition"
        )
    return (
        "it is not in a base or delta, and its name is not that of an original file"
        " (such as 000000_0)"
    )
