"""Which jobs have changed a table, so that a job that runs again does not do it twice.

Small files in `<table location>/_hiveacid/`; directory and file names begin with an underscore, so
no reader minds them. There is one for each attempt of a job and each state of it, prepared before
anything is published and confirmed after the commit. A file is written aside, renamed, and never
changed: whoever writes touches nobody else's. Takes job keys and a snapshot's write IDs; gives the
entries whose changes are committed. What a result means is not known here: it is text.

Why a prepared entry is not believed by itself: the metastore forgets aborted write IDs once their
directories are cleaned, and then they look committed. A file's name says whose entry it is, of
which table, and its state, so that one with damaged text is still known to be there. See
docs/adr/0010.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import random
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import ATTEMPT_PATTERN, AttemptId
from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.plan.reruns import LedgerEntry
from airflow_hiveacid.storage.stores.filesystem import (
    ASIDE_PREFIX,
    delete_file,
    exists,
    read_bytes,
    write_new,
)
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.directories import FileEntry
    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo, TableRef

HIDDEN_DIRECTORY: Final = "_hiveacid"
"""Our own directory below a table's location."""

_VERSION: Final = 2
# A second or two of a job's time; every job adds two.
_MOST_PRUNED: Final = 1000
# Who has lost asks for somebody who committed a moment ago.
_MOST_SEARCHED: Final = 100
_PREPARED: Final = "prepared"
_DONE: Final = "done"
_NAME: Final = re.compile(
    r"_(?P<digest>[0-9a-f]{32})\.(?P<generation>\d+)\." + ATTEMPT_PATTERN + r"\.(?P<txn_id>\d+)"
    rf"\.(?P<state>{_PREPARED}|{_DONE})\.json"
)

# What text that is no entry makes of the steps of `parse_entry`.
_MALFORMED: Final = (
    ArithmeticError,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)

_log = logging.getLogger(__name__)


def entry_name(entry: LedgerEntry) -> str:
    """The file name of an entry."""
    return (
        f"{_prefix(entry.job_key, entry.table_id)}{entry.generation}.{entry.attempt}.{entry.txn_id}"
        f".{_DONE if entry.is_confirmed else _PREPARED}.json"
    )


def table_digest(table_id: str) -> str:
    """A table's ID in the names of notes, which tells it from one that was here before."""
    return hashlib.sha256(table_id.encode()).hexdigest()[:12]


def _prefix(job_key: str, table_id: str) -> str:
    """What the names of a job's entries begin with: 128 bits of a SHA-256."""
    return f"_{hashlib.sha256(f'{table_id} {job_key}'.encode()).hexdigest()[:32]}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of one table. Entries of another `table_id`, here before it, are never met."""

    location: str
    table_id: str

    @classmethod
    def of(cls, table: TableInfo) -> Ledger:
        """The ledger of a table as the metastore knows it now."""
        return cls(location=table.location, table_id=table.table_id)

    def is_certain(self, entry: LedgerEntry) -> bool:
        """Whether a committed entry is so beyond doubt, and tells what was done."""
        if entry.is_confirmed:
            return entry.is_legible
        return any(exists(*open_location(d)) for d in entry.directories)

    def entries(self, job_key: str) -> tuple[LedgerEntry, ...]:
        """Every entry of a job for this table, by name; of a torn one only what its name says.

        Raises:
            StorageError: one cannot be read now; nobody knows what it says.
        """
        found = []
        prefix = _prefix(job_key, self.table_id)
        for file in list_files(*open_location(self._root), prefix):
            if _NAME.fullmatch(file.name) is None:
                continue
            entry = self._read(file, job_key)
            if entry is not None:
                found.append(entry)
        return tuple(sorted(found, key=lambda e: (e.is_confirmed, entry_name(e))))

    def entry_of(self, *, txn_id: int | None, write_id: int | None) -> LedgerEntry | None:
        """The entry of a transaction, or of a write ID; None if none is found among the newest.

        Of a transaction the file names tell. By its write ID only so many are looked at, whose
        writers ended last.

        Raises:
            StorageError: an entry cannot be read now.
        """
        fs, root = open_location(self._root)
        names = [(file, _NAME.fullmatch(file.name)) for file in list_files(fs, root)]
        known = [(file, match) for file, match in names if match is not None]
        if txn_id is not None:
            known = [(file, match) for file, match in known if int(match["txn_id"]) == txn_id]
        known.sort(key=lambda one: (one[0].modified_s or 0.0, one[0].name), reverse=True)
        for file, _ in known[:_MOST_SEARCHED]:
            entry = self._read(file, "")
            if entry is None or not entry.is_legible or entry.table_id != self.table_id:
                continue
            if txn_id is not None or entry.write_id == write_id:
                return entry
        return None

    def write(self, entry: LedgerEntry) -> None:
        """Add an entry."""
        body = {**asdict(entry), "attempt": str(entry.attempt), "version": _VERSION}
        del body["is_legible"]
        uri = f"{self._root}/{entry_name(entry)}"
        write_new(*open_location(uri), json.dumps(body).encode())

    def withdraw(self, entry: LedgerEntry) -> None:
        """Remove an entry of an attempt that is known to have been aborted."""
        delete_file(*open_location(f"{self._root}/{entry_name(entry)}"))

    def prune(self, now_s: float, retention_s: float) -> int:
        """Remove what is older than this and than its own retention, also half-written entries.

        Another job's memory may have to last longer than that of the one that prunes. Time is that
        of the newest file if that is earlier: a machine whose clock is a month ahead must not make
        everybody forget. Of very many old ones some are looked at, the next time others: what each
        one says of itself takes reading it. Gives the number of what is removed.
        """
        fs, root = open_location(self._root)
        gone = 0
        files = list_files(fs, root)
        now_s = min(now_s, max((f.modified_s for f in files if f.modified_s), default=now_s))
        old = [
            file
            for file in files
            if (file.modified_s or now_s) < now_s - retention_s
            and (file.name.startswith(ASIDE_PREFIX) or _NAME.fullmatch(file.name))
        ]
        if len(old) > _MOST_PRUNED:
            old = random.sample(old, _MOST_PRUNED)
        for file in old:
            entry = None if file.name.startswith(ASIDE_PREFIX) else self._read(file, "")
            recorded_s = 0.0 if entry is None else max(entry.recorded_s, file.modified_s or 0.0)
            if entry is None or recorded_s + entry.retention_s < now_s:
                delete_file(fs, f"{root}/{file.name}")
                gone += 1
        return gone

    @property
    def _root(self) -> str:
        return f"{self.location.rstrip('/')}/{HIDDEN_DIRECTORY}"

    def _read(self, file: FileEntry, job_key: str) -> LedgerEntry | None:
        uri = f"{self._root}/{file.name}"
        try:
            return parse_entry(read_bytes(*open_location(uri)), uri)
        except FileNotFoundError:
            return None  # pruned a moment ago
        except CorruptFileError as error:
            # No other error is borne: what cannot be read now may say that the job was done.
            _log.warning("of a ledger entry only its name can be read: %s", error)
            return _named(file, job_key, self.table_id)


def _named(file: FileEntry, job_key: str, table_id: str) -> LedgerEntry:
    """What the name of an entry tells whose text is damaged."""
    match = _NAME.fullmatch(file.name)
    if match is None:
        raise ValueError(file.name)
    return LedgerEntry(
        job_key=job_key,
        generation=int(match["generation"]),
        attempt=AttemptId(int(match["try_number"]), match["nonce"]),
        statement={},
        table_id=table_id,
        txn_id=TxnId(int(match["txn_id"])),
        write_id=WriteId(0),
        directories=(),
        result="",
        recorded_s=file.modified_s or 0.0,
        retention_s=0.0,
        is_confirmed=match["state"] == _DONE,
        is_legible=False,
    )


def committed(
    entries: Iterable[LedgerEntry], write_ids: ValidWriteIdList, txns: ValidTxnList
) -> tuple[LedgerEntry, ...]:
    """Every run of a job whose change is committed, one entry a transaction.

    An entry that is not confirmed may be among them although nothing is left that tells
    (`Ledger.is_certain` is false of it): compacted after a commit, or cleaned after an abort.

    Args:
        entries: all of the job, as `Ledger.entries` gives them.
        write_ids: what the reader sees of the table.
        txns: what it sees of transactions.
    """
    found: dict[TxnId, LedgerEntry] = {}
    prepared: dict[TxnId, LedgerEntry] = {}
    for entry in entries:  # those that are not confirmed come first
        if entry.is_confirmed:
            twin = prepared.get(entry.txn_id)
            if not entry.is_legible and twin is not None:
                found[entry.txn_id] = dataclasses.replace(twin, is_confirmed=True)
            else:
                found[entry.txn_id] = entry
            continue
        prepared[entry.txn_id] = entry
        if _may_be_committed(entry, write_ids, txns):
            found[entry.txn_id] = entry
    return tuple(found.values())


def abandoned(
    entries: Iterable[LedgerEntry], ref: TableRef, snapshot: Snapshot
) -> tuple[LedgerEntry, ...]:
    """Entries of attempts that are known to have been aborted: what they published is void.

    By their transactions: 4.0.1 may leave an aborted write ID out of its list.
    """
    write_ids = snapshot.write_ids(ref)
    return tuple(
        entry
        for entry in entries
        if not entry.is_confirmed
        and snapshot.txns.is_aborted(entry.txn_id)
        and not (entry.is_legible and write_ids.is_visible(entry.write_id))
    )


def _may_be_committed(entry: LedgerEntry, write_ids: ValidWriteIdList, txns: ValidTxnList) -> bool:
    if not entry.is_legible:
        return txns.is_visible(entry.txn_id)
    if not entry.directories:
        return False  # nothing was changed, so doing it again changes nothing twice
    if entry.write_id > write_ids.high_watermark:
        # 4.0.1 may end its list below what somebody committed who began earlier.
        return txns.is_visible(entry.txn_id)
    return write_ids.is_visible(entry.write_id)


def parse_entry(content: bytes, path: str) -> LedgerEntry:
    """Read an entry's text.

    Raises:
        CorruptFileError: it is none, or of another version.
    """
    try:
        body = json.loads(content)
        if body.pop("version") != _VERSION:
            raise CorruptFileError(path=path, reason="a ledger entry of another version")
        return LedgerEntry(
            job_key=str(body["job_key"]),
            generation=int(body["generation"]),
            attempt=AttemptId.parse(body["attempt"]),
            statement={str(k): str(v) for k, v in body["statement"].items()},
            table_id=str(body["table_id"]),
            txn_id=TxnId(int(body["txn_id"])),
            write_id=WriteId(int(body["write_id"])),
            directories=tuple(str(d) for d in body["directories"]),
            result=str(body["result"]),
            recorded_s=float(body["recorded_s"]),
            retention_s=float(body["retention_s"]),
            is_confirmed=bool(body["is_confirmed"]),
        )
    except (*_MALFORMED, InvalidNameError) as error:
        raise CorruptFileError(path=path, reason=f"not a ledger entry: {error!r}") from error
