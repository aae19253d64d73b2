"""Notes that maintenance writes to a table's hidden directory; the ledger is there, too.

They record when a directory that replaces others was first seen, for cleaning; the highest write ID
of our compactions, which the queue lacks; and a partition's failed compactions. If one is lost,
cleaning is delayed, or a compaction is repeated.

A note names the directory's owner; any job that writes or maintains the table adds it. That of
another owner is replaced only if a user asks for it, or if the other table is gone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from airflow_hiveacid.format.errors import CorruptFileError, StorageError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import CompactionFailures, FirstSeen, Owner
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.filesystem import read_bytes, write_bytes, write_new
from airflow_hiveacid.storage.stores.locations import open_location

_SEEN: Final = "_seen_"
_COMPACTION: Final = "_compaction_"
_FAILURES: Final = "_failures_"
_ENTRY_ID: Final = re.compile("[0-9]{1,19}")

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compaction:
    highest_write_id: WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotes(json_files.NotesOfTable):
    """The notes of one table about its maintenance."""

    def noted(self, files: json_files.HiddenFiles) -> frozenset[str]:
        """Return the names of all existing notes about replacements (see `note_of`)."""
        return frozenset(files.named(f"{_SEEN}{self._digest}."))

    def note_of(self, partition: PartitionName) -> str:
        """Return the file name of the note about a partition's replacements."""
        return f"{_SEEN}{self._digest}.{json_files.name_digest(str(partition))}.json"

    def first_seen(self, partition: PartitionName) -> dict[str, FirstSeen]:
        """Return, by directory name, when each replacement in a partition was first seen."""
        return self._read(self.note_of(partition), dict[str, FirstSeen]) or {}

    def note_first_seen(self, partition: PartitionName, seen: Mapping[str, FirstSeen]) -> None:
        """Write the note about a partition's replacements; remove the note if there are none."""
        if not seen:
            self._delete(self.note_of(partition))
            return
        self._note(self.note_of(partition), seen)

    def highest_write_id(self, entry_id: int) -> WriteId | None:
        """Return the highest write ID recorded for a queue entry; None if there is no note."""
        note = self._read(self._compaction(entry_id), _Compaction)
        return None if note is None else note.highest_write_id

    def note_highest_write_id(self, entry_id: int, write_id: WriteId) -> None:
        """Record our compaction's highest write ID, before the entry is marked for cleaning."""
        self._note(self._compaction(entry_id), _Compaction(highest_write_id=write_id))

    def compactions(self, files: json_files.HiddenFiles) -> frozenset[int]:
        """Return the IDs of the queue entries with a recorded highest write ID."""
        prefix = f"{_COMPACTION}{self._digest}."
        numbers = (n.removeprefix(prefix).removesuffix(".json") for n in files.named(prefix))
        return frozenset(int(number) for number in numbers if _ENTRY_ID.fullmatch(number))

    def forget_compaction(self, entry_id: int) -> None:
        """Remove the note of a queue entry that was cleaned."""
        self._delete(self._compaction(entry_id))

    def failures(self, partitions: Collection[str]) -> dict[str, CompactionFailures]:
        """Return the noted failures of these partitions' compactions, by the partition's name."""
        names = {partition: self._failures(partition) for partition in partitions}
        if len(names) > 1:  # one listing instead of a request for each missing note
            files = set(json_files.HiddenFiles(self.location).named(f"{_FAILURES}{self._digest}."))
            names = {partition: name for partition, name in names.items() if name in files}
        notes = {p: self._read_failures(name) for p, name in names.items()}
        return {p: failures for p, failures in notes.items() if failures is not None}

    def note_failures(self, partition: str, failures: CompactionFailures | None) -> None:
        """Write the note about the failures of a partition's compactions; None removes it."""
        if failures is None:
            self._delete(self._failures(partition))
        else:
            self._note(self._failures(partition), failures)

    def _read(self, name: str, cls: type[_T]) -> _T | None:
        try:
            return json_files.read_note(cls, self._content(name), self._uri(name))
        except (FileNotFoundError, CorruptFileError):
            return None  # a half-written or invalid note counts as missing: it is written again

    def _read_failures(self, name: str) -> CompactionFailures | None:
        try:
            return self._read(name, CompactionFailures)
        except StorageError as error:  # a pause only saves work
            _log.warning("the failures of a partition's compactions are unknown: %s", error)
            return None

    def _note(self, name: str, note: object) -> None:
        like = open_location(self.location)[1]
        write_bytes(*open_location(self._uri(name)), json_files.note_content(note), like=like)

    def _compaction(self, entry_id: int) -> str:
        return f"{_COMPACTION}{self._digest}.{entry_id}.json"

    def _failures(self, partition: str) -> str:
        return f"{_FAILURES}{self._digest}.{json_files.name_digest(partition)}.json"


OWNER_FILE: Final = "_owner.json"
"""The name of the note."""

_OWNER_VERSION: Final = 1


def owner_uri(location: str) -> str:
    """Return the URI of a directory's note, for messages."""
    return json_files.hidden_uri(location, OWNER_FILE)


def noted_owner(location: str) -> Owner | None:
    """Return the noted owner of a directory, or None; raise CorruptFileError if damaged."""
    uri = owner_uri(location)
    try:
        return parsed_owner(read_bytes(*open_location(uri)), uri)
    except FileNotFoundError:
        return None


def note_owner(location: str, owner: Owner) -> None:
    """Write the note of a directory's owner, and replace an earlier note."""
    body = cast("dict[str, object]", json_files.NOTES.to_json(owner))
    like = open_location(location)[1]
    write_new(
        *open_location(owner_uri(location)),
        json_files.packed_json({"version": _OWNER_VERSION, **body}),
        like=like,
    )


def parsed_owner(content: bytes, uri: str) -> Owner:
    """Parse a note."""
    return json_files.read_note(Owner, content, uri, version=_OWNER_VERSION)
