"""The ledger of jobs that have changed a table, so that no job changes the table twice.

Entries are small files in `<table location>/_hiveacid/`, which readers ignore. Each attempt of a
job writes a prepared entry before it publishes anything, and a confirmed entry after the commit,
trusted only if the metastore agrees, as other programs can write there, too. A file is renamed into
place, and never changed; many confirmed entries become one (`Line`).

A prepared entry alone is no proof of a commit: the metastore forgets aborted write IDs, which then
look committed. A file's name identifies its job, table and state, even if its content is damaged. A
job's result is only a string here. See docs/decisions/ledger.md.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import CorruptFileError, StorageError
from airflow_hiveacid.format.ids import ATTEMPT_PATTERN, AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry, doubt_of
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.filesystem import ASIDE_PREFIX, exists
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads

_VERSION: Final = 2
# Checking this many entries takes a job one or two seconds. Each job adds two entries.
_MOST_PRUNED: Final = 1000
# After a conflict, the failed job looks up a transaction that has just committed.
_MOST_SEARCHED: Final = 100
_PREPARED: Final = "prepared"
_DONE: Final = "done"
_PREPARED_END: Final = f"{_PREPARED}.json"
_DONE_END: Final = f"{_DONE}.json"
_NAME: Final = re.compile(
    r"_(?P<digest>[0-9a-f]{32})\.(?P<generation>\d+)\." + ATTEMPT_PATTERN + r"\.(?P<txn_id>\d+)"
    rf"\.(?P<state>{_PREPARED}|{_DONE})\.json"
)

# Roll names sort after entry names, which begin with hexadecimal digits, and after older rolls. A
# listing page by page, sorted by name, shows an entry or, later, the roll that replaced it.
ROLL: Final = "_rolled_"
_ROLL_AT: Final = 64
"""Confirmed entries are rolled up if at least this many are in separate files."""
_MERGE_AT: Final = 8
"""Small rolls are merged if there are at least this many."""
_LOOKED_AT_AGAIN_S: Final = 30 * 86400.0
"""A roll that is older than this, in seconds, is removed if all its entries have expired."""
_MOST_ROLLED: Final = 256
"""The maximum number of entries to roll up at once. On a remote store, so many entries take
about a second."""
_LOOKS: Final = 20
_FULL_ROLL: Final = 1000
"""A roll with at least this many entries is no longer merged."""

_log = logging.getLogger(__name__)


def entry_name(entry: LedgerEntry) -> str:
    """Return the file name of an entry."""
    return (
        f"{_prefix(entry.job_key, entry.table_id)}{entry.generation}.{entry.attempt}.{entry.txn_id}"
        f".{_DONE if entry.is_confirmed else _PREPARED}.json"
    )


def _prefix(job_key: str, table_id: str) -> str:
    return f"_{json_files.name_digest(f'{table_id} {job_key}')}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(json_files.NotesOfTable):
    """The ledger of one table."""

    def is_certain(self, entry: LedgerEntry) -> bool:
        """Return True if the entry is readable and its change is proven to be committed."""
        if entry.is_confirmed or entry.doubt:
            return entry.is_legible and not entry.doubt
        return any(exists(*open_location(d)) for d in entry.directories)

    def entries(self, job_key: str) -> tuple[LedgerEntry, ...]:
        """Return all entries of a job for this table: first prepared, then confirmed entries.

        An entry with damaged content has only the data from its file name. Raises StorageError if
        an entry cannot be read at the moment, so its content is unknown.
        """
        for _ in range(_LOOKS):
            entries = self._entries(job_key, self._list())
            if entries is not None:
                return tuple(sorted(entries, key=lambda e: (e.is_confirmed, entry_name(e))))
        raise StorageError(f"{self._uri()} kept changing while it was read; try again later")

    def _entries(self, job_key: str, files: Iterable[FileEntry]) -> list[LedgerEntry] | None:
        """Read a job's entries from listed files; return None if a listed file no longer exists."""
        files = tuple(files)
        prefix = _prefix(job_key, self.table_id)
        entries: dict[str, LedgerEntry] = {}
        rolled = self._rolled(files, prefix)
        if rolled is None:
            return None
        for line in rolled:
            self._keep(entries, line.name, self._in_roll(line, job_key), job_key)
        for file in files:
            if not file.name.startswith(prefix) or _NAME.fullmatch(file.name) is None:
                continue
            entry = self._read(file.name, job_key, file.modified_s)
            if entry is None:
                return None
            self._keep(entries, file.name, entry, job_key)
        return list(entries.values())

    def _keep(
        self, entries: dict[str, LedgerEntry], name: str, entry: LedgerEntry, job_key: str
    ) -> None:
        """Add an entry, unless it is damaged and an intact one of the same name was added."""
        earlier, own = entries.get(name), self._own(name, entry, job_key)
        if earlier is None or own.is_legible or not earlier.is_legible:
            entries[name] = own

    def _own(self, name: str, entry: LedgerEntry, job_key: str) -> LedgerEntry:
        if (entry.job_key, entry.table_id) == (job_key, self.table_id):
            return entry
        _log.warning("ignoring the text of a ledger entry: it names another job: %s", name)
        return _named(name, job_key, self.table_id)

    def _rolled(
        self, files: Iterable[FileEntry], prefix: str = ""
    ) -> tuple[json_files.Line, ...] | None:
        """Return the rolls' entries with this prefix; None if a listed roll no longer exists."""
        names = [f.name for f in files if f.name.startswith(self._roll_prefix)]
        rolls = each_in_threads(lambda name: self._lines(name, prefix), names)
        if None in rolls:
            return None
        lines = (line for lines in rolls for line in lines or ())
        return tuple(line for line in lines if _NAME.fullmatch(line.name) is not None)

    def _lines(self, name: str, prefix: str = "") -> tuple[json_files.Line, ...] | None:
        try:
            return json_files.unpacked(self._content(name), prefix=prefix, path=self._uri(name))
        except FileNotFoundError:
            return None

    def entry_of(self, *, txn_id: int | None, write_id: int | None) -> LedgerEntry | None:
        """Return the entry of a transaction or, among the newest entries, of a write ID."""
        names = [(file, _NAME.fullmatch(file.name)) for file in self._list()]
        matches = [(file, match) for file, match in names if match is not None]
        if txn_id is not None:
            matches = [(file, match) for file, match in matches if int(match["txn_id"]) == txn_id]
        matches.sort(key=lambda pair: (pair[0].modified_s or 0.0, pair[0].name), reverse=True)
        for file, _ in matches[:_MOST_SEARCHED]:
            entry = self._read(file.name, "")
            if entry is None or not entry.is_legible or entry.table_id != self.table_id:
                continue
            if txn_id is not None or entry.write_id == write_id:
                return entry
        return self._rolled_entry_of(txn_id=txn_id, write_id=write_id)

    def _rolled_entry_of(self, *, txn_id: int | None, write_id: int | None) -> LedgerEntry | None:
        """Return the entry from the rolls; None also if they change at each look."""
        end = "" if txn_id is None else f".{txn_id}.{_DONE}.json"
        for _ in range(_LOOKS):
            lines = self._rolled(self._list())
            if lines is not None:
                break
        else:
            return None
        digits = f"{write_id}".encode()  # lines without them need no parsing
        for line in lines:
            if line.name.endswith(end) and (txn_id is not None or digits in line.text):
                entry = self._in_roll(line, "")
                if entry.is_legible and (txn_id is not None or entry.write_id == write_id):
                    return entry
        return None

    def write(self, entry: LedgerEntry) -> None:
        """Write an entry to the ledger."""
        self._write(entry_name(entry), json_files.note_content(entry, version=_VERSION))

    def unconfirmed(self, txns: ValidTxnList) -> tuple[LedgerEntry, ...]:
        """Return the prepared entries that may be committed but have no confirmed entry.

        Their drivers may have been killed before the confirmation. The directory is listed after
        `txns` were fetched, because a job writes its entry before it commits.
        """
        names = {file.name for file in self._list()}
        prepared_names = []
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None or match["state"] == _DONE:
                continue
            if name.removesuffix(_PREPARED_END) + _DONE_END not in names and txns.is_visible(
                TxnId(int(match["txn_id"]))
            ):
                prepared_names.append(name)
        entries = each_in_threads(lambda name: self._read(name, ""), prepared_names)
        return tuple(
            e for e in entries if e is not None and e.is_legible and e.table_id == self.table_id
        )

    def confirm_committed(
        self,
        unconfirmed: Iterable[LedgerEntry],
        directories: Collection[str],
        write_ids: ValidWriteIdList,
        txns: ValidTxnList,
    ) -> tuple[LedgerEntry, ...]:
        """Confirm the entries of committed jobs that have published one of these directories.

        Call this before the directories, which prove the commits (`is_certain`), are compacted or
        removed.

        `directories` are the URIs of directories that exist. The lists are the metastore's current
        ones. Return the entries that are still unconfirmed.
        """
        remainder = []
        for entry in unconfirmed:
            is_there = not set(entry.directories).isdisjoint(directories)
            if is_there and _may_be_committed(entry, write_ids, txns):
                self.write(dataclasses.replace(entry, is_confirmed=True))
            else:
                remainder.append(entry)
        return tuple(remainder)

    def withdraw(self, entry: LedgerEntry) -> None:
        """Remove the entry of an aborted attempt."""
        self._delete(entry_name(entry))

    def supersede(self, entries: Iterable[LedgerEntry], files: Iterable[FileEntry]) -> None:
        """Remove the entries of a stream's earlier batches, after a newer one is confirmed.

        An old copy that repeats an earlier batch finds the newer batch, so it applies nothing.
        `files` are the listed files of the directory.
        """
        names = {file.name for file in files}
        for entry in sorted(entries, key=lambda e: e.is_confirmed):  # prepared entries first
            if entry_name(entry) in names:
                self._delete(entry_name(entry))

    def tidy(self, now_s: float, retention_s: float) -> tuple[FileEntry, ...]:
        """Remove old entries (`now_s` is since 1970) and roll up confirmed ones; list once."""
        files = self._list()
        self.prune(now_s, retention_s, files)
        self.roll_up(now_s, retention_s, files)
        return files

    def roll_up(self, now_s: float, retention_s: float, files: Iterable[FileEntry]) -> None:
        """Combine confirmed entries in a roll if there are many, and merge small rolls.

        Each step leaves every entry in at least one file; unreadable and unconfirmed ones stay in
        their own.

        By `now_s` and `retention_s`, entries in rolls expire; `files` are the listed files of the
        directory.
        """
        files = tuple(files)
        matches = [(file, _NAME.fullmatch(file.name)) for file in files]
        done = [file for file, match in matches if match is not None and match["state"] == _DONE]
        if len(done) >= _ROLL_AT:
            results = each_in_threads(self._line, done[:_MOST_ROLLED])
            lines = [line for line in results if line is not None]
            names = {file.name for file in files}
            self._write_roll(lines, names)
            prepared = (line.name.removesuffix(_DONE_END) + _PREPARED_END for line in lines)
            # Prepared entries first: each that remains still has its confirmed entry.
            each_in_threads(self._delete, [name for name in prepared if name in names])
            each_in_threads(self._delete, [line.name for line in lines])
        self._merge_rolls(now_s, retention_s, files)

    def _line(self, file: FileEntry) -> json_files.Line | None:
        try:
            text = self._content(file.name)
            entry = parse_entry(text, self._uri(file.name))
        except (FileNotFoundError, CorruptFileError):
            return None
        is_whole = entry.table_id == self.table_id and entry_name(entry) == file.name
        if not is_whole or b"\n" in text:
            return None
        modified_s = file.modified_s or entry.recorded_s
        return json_files.Line(name=file.name, modified_s=modified_s, text=text)

    def _merge_rolls(self, now_s: float, retention_s: float, files: Iterable[FileEntry]) -> None:
        """Merge small rolls if there are many, or else remove a roll whose entries have expired."""
        newest_s = max((f.modified_s for f in files if f.modified_s), default=now_s)
        now_s = min(now_s, newest_s)
        rolls = [f for f in files if f.name.startswith(self._roll_prefix)]
        small = [f for f in rolls if self._numbers(f.name)[1] < _FULL_ROLL]
        if len(small) >= _MERGE_AT:
            merged: dict[str, json_files.Line] = {}
            for file in small:
                lines = self._lines(file.name)
                if lines is None:
                    return  # another job is merging rolls
                merged |= {line.name: line for line in lines}
            unexpired_lines = [n for n in merged.values() if not _is_over(n, now_s, retention_s)]
            self._write_roll(unexpired_lines, {file.name for file in rolls})
            for file in small:
                self._delete(file.name)
            return
        old = min(rolls, key=lambda f: f.modified_s or now_s, default=None)
        if old is None or (old.modified_s or now_s) >= now_s - _LOOKED_AT_AGAIN_S:
            return
        lines = self._lines(old.name)
        if lines is not None and all(_is_over(n, now_s, retention_s) for n in lines):
            self._delete(old.name)

    def _write_roll(self, lines: Sequence[json_files.Line], names: Collection[str]) -> None:
        if lines:
            numbers = (self._numbers(n)[0] for n in names if n.startswith(self._roll_prefix))
            number = max(numbers, default=0) + 1
            name = f"{self._roll_prefix}{number:010d}.{len(lines)}.{uuid.uuid4().hex}.lines"
            self._write(name, json_files.packed(lines))

    def _numbers(self, name: str) -> tuple[int, int]:
        """Return a roll's number and number of entries; one with another name counts as full."""
        number, count, *_ = (*name.removeprefix(self._roll_prefix).split("."), "")
        return (
            (int(number), int(count))
            if number.isdecimal() and count.isdecimal()
            else (0, _FULL_ROLL)
        )

    @property
    def _roll_prefix(self) -> str:
        return f"{ROLL}{self._digest}."

    def prune(
        self, now_s: float, retention_s: float, files: Iterable[FileEntry] | None = None
    ) -> int:
        """Remove expired entries and incomplete files; return the number of removed files.

        An entry expires if it is older than both `retention_s` and its own retention, which its job
        has set. `now_s` is limited to the newest file's time, as a clock may be a month ahead. Of
        very many old entries, only a random sample is read.
        """
        removals = 0
        files = self._list() if files is None else tuple(files)
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
            entry = None if file.name.startswith(ASIDE_PREFIX) else self._read(file.name, "")
            recorded_s = 0.0 if entry is None else max(entry.recorded_s, file.modified_s or 0.0)
            if entry is None or recorded_s + entry.retention_s < now_s:
                self._delete(file.name)
                removals += 1
        return removals

    def _read(self, name: str, job_key: str, modified_s: float | None = None) -> LedgerEntry | None:
        try:
            return parse_entry(self._content(name), self._uri(name))
        except FileNotFoundError:
            return None  # a different job has just pruned the entry or put it into a roll
        except CorruptFileError as error:
            # An entry that cannot be read at the moment may confirm the job: raise.
            _log.warning("a ledger entry is damaged, only its name can be read: %s", error)
            return _named(name, job_key, self.table_id, modified_s)

    def _in_roll(self, line: json_files.Line, job_key: str) -> LedgerEntry:
        try:
            return parse_entry(line.text, line.name)
        except CorruptFileError as error:
            _log.warning("a rolled ledger entry is damaged, only its name can be read: %s", error)
            return _named(line.name, job_key, self.table_id, line.modified_s)


def _is_over(line: json_files.Line, now_s: float, retention_s: float) -> bool:
    """Return True if an entry in a roll is older than both `retention_s` and its own retention."""
    try:
        entry = parse_entry(line.text, line.name)
    except CorruptFileError:
        return False
    return max(entry.recorded_s, line.modified_s) + max(entry.retention_s, retention_s) < now_s


def _named(name: str, job_key: str, table_id: str, modified_s: float | None = None) -> LedgerEntry:
    """Return an entry with only the data from its file name, because its content is damaged."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(name)
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
        recorded_s=modified_s or 0.0,
        retention_s=0.0,
        is_confirmed=match["state"] == _DONE,
        is_legible=False,
    )


def committed(
    entries: Iterable[LedgerEntry], write_ids: ValidWriteIdList, txns: ValidTxnList
) -> tuple[LedgerEntry, ...]:
    """Return a job's entries with committed changes, one entry per transaction.

    If the metastore contradicts a confirmed entry, the returned entry states the reason in `doubt`.
    A prepared entry may be included although its commit is not proven (`Ledger.is_certain`): its
    files were compacted after a commit, or cleaned after an abort.

    `entries` are all entries of the job (`Ledger.entries`). The lists are those of the reader's
    snapshot.
    """
    changes: dict[TxnId, LedgerEntry] = {}
    prepared: dict[TxnId, LedgerEntry] = {}
    for entry in entries:  # prepared entries come first
        if entry.is_confirmed:
            twin = prepared.get(entry.txn_id)
            change = entry
            if not entry.is_legible and twin is not None:
                change = dataclasses.replace(twin, is_confirmed=True)
            if change.is_legible:
                change = dataclasses.replace(change, doubt=doubt_of(change, write_ids, txns))
            changes[entry.txn_id] = change
            continue
        prepared[entry.txn_id] = entry
        if _may_be_committed(entry, write_ids, txns):
            changes[entry.txn_id] = entry
    return tuple(changes.values())


def abandoned(
    entries: Iterable[LedgerEntry], ref: TableRef, snapshot: Snapshot
) -> tuple[LedgerEntry, ...]:
    """Return the entries of aborted attempts; their published files have no effect.

    The transaction's state shows whether an attempt is aborted, because metastore 4.0.1 may omit an
    aborted write ID from its list. An open write ID belongs to another transaction, whatever the
    entry says.
    """
    write_ids = snapshot.write_ids(ref)
    return tuple(
        entry
        for entry in entries
        if not entry.is_confirmed
        and snapshot.txns.is_aborted(entry.txn_id)
        and not (entry.is_legible and write_ids.is_visible(entry.write_id))
        and entry.write_id not in write_ids.open
    )


def _may_be_committed(entry: LedgerEntry, write_ids: ValidWriteIdList, txns: ValidTxnList) -> bool:
    if not entry.is_legible:
        return txns.is_visible(entry.txn_id)
    if not entry.directories:
        return False  # the job changed nothing, so it may run again
    if entry.write_id > write_ids.high_watermark:
        # A 4.0.1 metastore's list may end below a committed write ID.
        return txns.is_visible(entry.txn_id)
    return write_ids.is_visible(entry.write_id)


def parse_entry(content: bytes, path: str) -> LedgerEntry:
    """Parse the JSON of a ledger entry."""
    return json_files.read_note(LedgerEntry, content, path, version=_VERSION)
