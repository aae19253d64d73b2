"""List every directory of a table or partition, with its status for one reader, rows and bytes.

Row counts come from footers, so the module reads no data. An unreadable file gives a remark, not an
error, because administrators use this list to investigate faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyarrow import fs as pafs

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import AcidDirectory, FileEntry
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import BaseName, DeltaName, OriginalFileName, parse_file_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import READS_ORIGINALS, TransactionalKind
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.file_check import require_new_rows
from airflow_hiveacid.storage.acid.read.files import committed_length, why_no_original
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import client_of, locate, open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads, side_by_side

RowsOf = Callable[[pafs.FileSystem, str, int], int]


def orc_rows(fs: pafs.FileSystem, path: str, length: int) -> int:
    """Return the number of rows or events in an ORC file, from its footer."""
    return read_tail(fs, path, length).rows


def delete_events(state: AcidState) -> int:
    """Return the number of delete events in the visible delete deltas, from the files' footers."""
    files = [file for delta in state.delete_deltas for file in delta.files]
    return file_rows(state.location, files)


def file_rows(location: str, files: Sequence[FileEntry]) -> int:
    """Return the number of rows or events in ORC files below a location, from their footers."""
    if not files:
        return 0
    fs, root = open_location(location)
    return sum(
        each_in_threads(lambda file: orc_rows(fs, f"{root}/{file.path}", file.size_bytes), files)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownRoot:
    store: str
    root: str
    kind: TransactionalKind
    with_originals: bool
    rows_of: RowsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedEntry:
    """One base or delta directory, or one file outside such directories.

    `type` is base, delta, delete_delta, original or other. `least_write_id` is None if the name
    does not contain this ID, as for a base. `state` is live, obsolete, aborted, invisible, ignored
    or refused. A refused file would be live, but has an invalid name or path, so a scan fails.
    `rows` is the number of rows or delete events by the footers; None if one could not be read
    (`why`).
    """

    name: str
    type: str
    least_write_id: int | None = None
    greatest_write_id: int | None = None
    statement_id: int | None = None
    visibility_txn_id: int | None = None
    state: str
    files: int = 1
    rows: int | None = None
    size_bytes: int = 0
    why: str


def inspect(  # noqa: PLR0913 - a snapshot has two lists; a table has a kind and files
    location: str,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
    with_originals: bool = False,
    rows_of: RowsOf = orc_rows,
    state: AcidState | None = None,
) -> tuple[InspectedEntry, ...]:
    """Describe every directory and file below one root, with its status for one reader.

    `txns` are the transactions whose compactions are visible; None means all. If `with_originals`,
    readers of an insert-only table also read files outside of bases and deltas. `rows_of` counts
    the rows of a file with this path and committed length. `state` has the files of a past version;
    by default, `write_ids` and `txns` select the files.
    """
    if state is None:
        state = resolve(list_table(location), write_ids, txns, kind)
    store, root = locate(location)
    live = {file.path for file in state.originals}
    originals = (*state.originals, *state.obsolete_originals)
    shown = _ShownRoot(
        store=store, root=root, kind=kind, with_originals=with_originals, rows_of=rows_of
    )
    directories = side_by_side(lambda d: _directory(shown, d), state.directories)
    files = side_by_side(lambda f: _original(shown, f, is_live=f.path in live), originals)
    paths = {file.path for file in originals}
    unknown_entries = [
        InspectedEntry(name=unknown.path, type="other", state="ignored", why=unknown.why)
        for unknown in state.unknown
        if unknown.path not in paths
    ]
    return tuple(sorted([*directories, *files, *unknown_entries], key=lambda entry: entry.name))


def _directory(shown: _ShownRoot, directory: AcidDirectory) -> InspectedEntry:
    name = directory.name
    rows, remark = _rows(shown, directory.files, directory)
    kind = "base" if isinstance(name, BaseName) else "delete_delta" if name.is_delete else "delta"
    return InspectedEntry(
        name=directory.text,
        type=kind,
        least_write_id=name.low if isinstance(name, DeltaName) else None,
        greatest_write_id=directory.high,
        statement_id=name.statement_id if isinstance(name, DeltaName) else None,
        visibility_txn_id=name.visibility_txn_id,
        state=directory.status.value,
        files=len(directory.files),
        rows=rows,
        size_bytes=directory.size_bytes,
        why="; ".join(filter(None, (directory.why, remark))),
    )


def _original(shown: _ShownRoot, file: FileEntry, *, is_live: bool) -> InspectedEntry:
    rows, remark = _rows(shown, (file,), None)
    state, why = ("live", "live") if is_live else ("obsolete", "obsolete: a base covers it")
    if is_live and shown.kind is TransactionalKind.INSERT_ONLY:
        if not shown.with_originals:
            state = "refused"
            why = f"it is not in a base or delta, and {READS_ORIGINALS} is not set"
    elif is_live and not isinstance(parse_file_name(file.name), OriginalFileName):
        state, why = "refused", why_no_original(file)
    return InspectedEntry(
        name=file.path,
        type="original",
        least_write_id=0,
        greatest_write_id=0,
        state=state,
        rows=rows,
        size_bytes=file.size_bytes,
        why="; ".join(filter(None, (why, remark))),
    )


def _rows(
    shown: _ShownRoot, files: tuple[FileEntry, ...], directory: AcidDirectory | None
) -> tuple[int | None, str]:
    try:
        return sum(_footer_rows(shown, files, directory)), ""
    except HiveAcidError as error:
        return None, str(error)


def _footer_rows(
    shown: _ShownRoot, files: tuple[FileEntry, ...], directory: AcidDirectory | None
) -> Iterator[int]:
    for file in files:
        length = file.size_bytes
        if directory is not None:
            length = committed_length(client_of(shown.store), shown.root, directory, file)
        if not length:
            continue
        path = f"{shown.root}/{file.path}"
        if directory is not None and shown.kind is TransactionalKind.FULL_ACID:
            yield _events(shown, path, file, length, directory)
        else:
            yield shown.rows_of(client_of(shown.store), path, length)


def _events(
    shown: _ShownRoot, path: str, file: FileEntry, length: int, directory: AcidDirectory
) -> int:
    is_delete = directory.is_delete
    acid = AcidFile(
        store=shown.store,
        path=path,
        key=file.path,
        length=length,
        kind=FileKind.DELETE if is_delete else FileKind.DATA,
        bucket_id=BucketId(0),  # not used here
    )
    tail = acid.tail()
    require_new_rows(acid, tail)
    return tail.rows
