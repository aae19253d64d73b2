"""Which job wrote a directory, so that the same job never does its work twice.

A hidden file `_hiveacid.json` lies in every directory we publish, beside the data: it is committed
with the data, needs no other service, and is carried forward when the directory is compacted.
Takes entries and listings; gives entries back, but only those whose write the reader's snapshot
says is committed. Must not know what a result means: it is text here.

Example:
    >>> entry = LedgerEntry(
    ...     job_key="dag/run/task", table="db.t", write_id=WriteId(7), result="{}", recorded_s=0.0
    ... )
    >>> parse(render([entry]), path="x") == (entry,)
    True
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.errors import CorruptFileError, StorageError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import (
    LEDGER_FILE,
    BaseName,
    DeltaName,
    DirectoryName,
    parse_directory_name,
)
from airflow_hiveacid.storage.filesystem import open_location, read_bytes, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import Listing
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One finished job: its key, the table and write ID it wrote, its result as JSON text.

    `recorded_s` is seconds since 1970 UTC at the time of writing; it decides how long compaction
    carries the entry forward.
    """

    job_key: str
    table: str
    write_id: WriteId
    result: str
    recorded_s: float


def render(entries: Iterable[LedgerEntry]) -> bytes:
    """The text of a ledger file, entries by write ID and job key, each once."""
    ordered = sorted(set(entries), key=lambda e: (e.write_id, e.job_key, e.recorded_s))
    body = [
        {
            "job_key": e.job_key,
            "table": e.table,
            "write_id": e.write_id,
            "result": e.result,
            "recorded_s": e.recorded_s,
        }
        for e in ordered
    ]
    return json.dumps({"version": _VERSION, "entries": body}).encode()


def parse(content: bytes, *, path: str) -> tuple[LedgerEntry, ...]:
    """Read the text of a ledger file.

    Raises:
        CorruptFileError: it is no ledger of this version. That is never passed over: the job that
            it records might be done again.
    """
    try:
        body = json.loads(content)
        if body["version"] != _VERSION:
            raise CorruptFileError(
                path=path, reason=f"a ledger of version {body['version']!r}, not {_VERSION}"
            )
        return tuple(_entry(item) for item in body["entries"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(path=path, reason=f"not a ledger: {error!r}") from error


def _entry(item: dict[str, Any]) -> LedgerEntry:
    return LedgerEntry(
        job_key=str(item["job_key"]),
        table=str(item["table"]),
        write_id=WriteId(int(item["write_id"])),
        result=str(item["result"]),
        recorded_s=float(item["recorded_s"]),
    )


def write(fs: pafs.FileSystem, directory: str, entries: Iterable[LedgerEntry]) -> None:
    """Write the ledger of one directory, which is not published yet.

    Raises:
        LocationPermissionError: the directory may not be written.
        StorageError: writing failed otherwise.
    """
    write_bytes(fs, posixpath.join(directory, LEDGER_FILE), render(entries))


def find(
    listings: Iterable[Listing],
    *,
    job_key: str,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
) -> LedgerEntry | None:
    """Find the committed work of a job; None when there is none.

    An entry counts only where its write ID is visible, lies within the directory's own range, and
    the directory is no compaction that has not committed. Directories that a newer one covers
    count too: a compactor that is not ours leaves our entries behind in them.

    Args:
        listings: the table's root, or the partitions that the job may have written.
        job_key: whose work is looked for.
        write_ids: the reader's list for the table.
        txns: the reader's transactions, for compactors' output.

    Raises:
        CorruptFileError: a ledger is unreadable, so nobody can say that the work is not done.
        LocationPermissionError: a ledger may not be read.
        StorageError: a ledger vanished since it was listed, or reading failed otherwise.
    """
    for listing in listings:
        for entry in committed(listing, write_ids=write_ids, txns=txns):
            if entry.job_key == job_key:
                return entry
    return None


def committed(
    listing: Listing, *, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> Iterator[LedgerEntry]:
    """Every entry below one root whose work is committed, newest directory names first.

    Raises:
        CorruptFileError: a ledger is unreadable.
        LocationPermissionError: a ledger may not be read.
        StorageError: a ledger vanished since it was listed, or reading failed otherwise.
    """
    for name, path in reversed(list(_ledgers(listing))):
        if not _is_committed(name, txns):
            continue
        for entry in _read(listing.location, path):
            if _covers(name, entry.write_id) and write_ids.is_visible(entry.write_id):
                yield entry


def carried_forward(
    listing: Listing, directories: Iterable[str], *, newer_than_s: float
) -> tuple[LedgerEntry, ...]:
    """The entries that a compaction of these directories writes into its own ledger, each once.

    Args:
        listing: the root that was compacted.
        directories: names on disk of the compaction's inputs and of what its output replaces.
        newer_than_s: entries recorded before this second (since 1970 UTC) are left behind.

    Raises:
        CorruptFileError: a ledger is unreadable.
        LocationPermissionError: a ledger may not be read.
        StorageError: a ledger vanished since it was listed, or reading failed otherwise.
    """
    wanted = set(directories)
    entries = {
        entry
        for _, path in _ledgers(listing)
        if path.partition("/")[0] in wanted
        for entry in _read(listing.location, path)
        if entry.recorded_s >= newer_than_s
    }
    return tuple(sorted(entries, key=lambda e: (e.write_id, e.job_key)))


def _ledgers(listing: Listing) -> Iterator[tuple[DirectoryName, str]]:
    for file in listing.files:
        top, _, rest = file.path.partition("/")
        name = parse_directory_name(top)
        if rest == LEDGER_FILE and name is not None:
            yield name, file.path


def _read(location: str, path: str) -> tuple[LedgerEntry, ...]:
    fs, root = open_location(location)
    full = posixpath.join(root, path)
    try:
        return parse(read_bytes(fs, full), path=full)
    except FileNotFoundError as error:
        # Passing over it could do a job twice: what carries its entries now may not be listed here.
        raise StorageError(f"{full} vanished after it was listed; list again") from error


def _is_committed(name: DirectoryName, txns: ValidTxnList | None) -> bool:
    txn_id = name.visibility_txn_id
    return txn_id is None or txns is None or txns.is_visible(txn_id)


def _covers(name: DirectoryName, write_id: WriteId) -> bool:
    match name:
        case BaseName():
            return write_id <= name.write_id
        case DeltaName():
            return name.low <= write_id <= name.high
