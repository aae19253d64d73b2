"""What every directory of a table or partition is for one reader, with its rows and bytes.

Takes a location and the two lists of a snapshot; gives one line a directory (and original file, and
file that plays no part), in the order of their names. Rows come from footers, so no data is read. A
file that cannot be read makes a remark, not an error: this is what one looks with when
something is wrong.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import (
    BaseName,
    DeltaName,
    OriginalFileName,
    parse_file_name,
)
from airflow_hiveacid.format.table import READS_ORIGINALS, TransactionalKind
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.file_check import require_new_rows
from airflow_hiveacid.storage.acid.read.files import committed_length, why_no_original
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import client_of, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory, FileEntry
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList

    RowsOf = Callable[[pafs.FileSystem, str, int], int]

_PARALLEL_READS: Final = 8


def orc_rows(fs: pafs.FileSystem, path: str, length: int) -> int:
    """How many rows or events are in an ORC file, by its footer."""
    with file_errors("read", path):
        return read_tail(fs, path, length).rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What is looked at, and how files are."""

    store: str
    root: str
    kind: TransactionalKind
    with_originals: bool
    rows_of: RowsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedEntry:
    """One directory, or one file outside of directories.

    `type` is base, delta, delete_delta, original or other. `least_write_id` is None where the name
    says none, as a base's does. `state` is live, obsolete, aborted, invisible, ignored, or refused:
    a live file that no reader can take for one, so that scanning the place fails. `rows` are rows
    or delete events, by the footers; None where a footer could not be read, which `why` then says.
    """

    name: str
    type: str
    least_write_id: int | None
    greatest_write_id: int | None
    statement_id: int | None
    visibility_txn_id: int | None
    state: str
    files: int
    rows: int | None
    size_bytes: int
    why: str


def inspect(  # noqa: PLR0913 - a snapshot is two lists, a table its kind and its files
    location: str,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
    with_originals: bool = False,
    rows_of: RowsOf = orc_rows,
    state: AcidState | None = None,
) -> tuple[InspectedEntry, ...]:
    """Look at everything below one root as a reader with these lists sees it.

    Args:
        location: the root.
        write_ids: which writes the reader sees.
        txns: which compactions it sees; None for all.
        kind: of the table.
        with_originals: whether files outside of base and delta count in an insert-only table.
        rows_of: how many rows are in a file of this path that counts up to this length.
        state: the files of a past version; by default those that the lists choose.

    Raises:
        LocationNotFoundError: the location does not exist.
        NotEnoughHistoryError: the snapshot is older than what is left.
        UnsupportedFileError: a directory is named like a base or delta and is none.
        CorruptFileError: a compactor's marker cannot be read.
        LocationPermissionError: the location may not be read.
        StorageError: reading it failed otherwise.
    """
    if state is None:
        state = resolve(list_table(location), write_ids, txns, kind)
    store, root = locate(location)
    live = {file.path for file in state.originals}
    originals = (*state.originals, *state.obsolete_originals)
    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        place = _Place(
            store=store, root=root, kind=kind, with_originals=with_originals, rows_of=rows_of
        )
        directories = list(pool.map(lambda d: _directory(place, d), state.directories))
        files = list(pool.map(lambda f: _original(place, f, is_live=f.path in live), originals))
    known = {file.path for file in originals}
    others = [
        _other(unknown.path, unknown.why) for unknown in state.unknown if unknown.path not in known
    ]
    return tuple(sorted([*directories, *files, *others], key=lambda entry: entry.name))


def _directory(place: _Place, directory: AcidDirectory) -> InspectedEntry:
    name = directory.name
    rows, remark = _rows(place, directory.files, directory)
    is_delta = isinstance(name, DeltaName)
    return InspectedEntry(
        name=directory.text,
        type="base"
        if isinstance(name, BaseName)
        else "delete_delta"
        if name.is_delete
        else "delta",
        least_write_id=name.low if is_delta and isinstance(name, DeltaName) else None,
        greatest_write_id=directory.high,
        statement_id=name.statement_id if isinstance(name, DeltaName) else None,
        visibility_txn_id=name.visibility_txn_id,
        state=directory.status.value,
        files=len(directory.files),
        rows=rows,
        size_bytes=directory.size_bytes,
        why="; ".join(filter(None, (directory.why, remark))),
    )


def _original(place: _Place, file: FileEntry, *, is_live: bool) -> InspectedEntry:
    rows, remark = _rows(place, (file,), None)
    state, why = ("live", "live") if is_live else ("obsolete", "obsolete: a base covers it")
    if is_live and place.kind is TransactionalKind.INSERT_ONLY:
        if not place.with_originals:
            state, why = "refused", f"it lies in no base or delta, and {READS_ORIGINALS} is not set"
    elif is_live and not isinstance(parse_file_name(file.name), OriginalFileName):
        state, why = "refused", why_no_original(file)
    return InspectedEntry(
        name=file.path,
        type="original",
        least_write_id=0,
        greatest_write_id=0,
        statement_id=None,
        visibility_txn_id=None,
        state=state,
        files=1,
        rows=rows,
        size_bytes=file.size_bytes,
        why="; ".join(filter(None, (why, remark))),
    )


def _other(path: str, why: str) -> InspectedEntry:
    return InspectedEntry(
        name=path,
        type="other",
        least_write_id=None,
        greatest_write_id=None,
        statement_id=None,
        visibility_txn_id=None,
        state="ignored",
        files=1,
        rows=None,
        size_bytes=0,
        why=why,
    )


def _rows(
    place: _Place, files: tuple[FileEntry, ...], directory: AcidDirectory | None
) -> tuple[int | None, str]:
    try:
        return sum(_footer_rows(place, files, directory)), ""
    except HiveAcidError as error:
        return None, str(error)


def _footer_rows(
    place: _Place, files: tuple[FileEntry, ...], directory: AcidDirectory | None
) -> Iterator[int]:
    for file in files:
        length = (
            file.size_bytes
            if directory is None
            else committed_length(client_of(place.store), place.root, directory, file)
        )
        if not length:
            continue
        path = f"{place.root}/{file.path}"
        if directory is not None and place.kind is TransactionalKind.FULL_ACID:
            yield _events(place, path, file, length, directory)
        else:
            yield place.rows_of(client_of(place.store), path, length)


def _events(
    place: _Place, path: str, file: FileEntry, length: int, directory: AcidDirectory
) -> int:
    """How many events a file has; changes of Hive before 3 are a remark, as an error."""
    is_delete = isinstance(directory.name, DeltaName) and directory.name.is_delete
    acid = AcidFile(
        store=place.store,
        path=path,
        key=file.path,
        length=length,
        kind=FileKind.DELETE if is_delete else FileKind.DATA,
        bucket_id=BucketId(0),  # no matter
    )
    tail = acid.tail()
    require_new_rows(acid, tail)
    return tail.rows
