"""The URIs and the format of the JSON files in a table's hidden directory, and of rolls of them.

A damaged note raises `CorruptFileError`; the callers decide whether they can do without it.
`HiddenFiles` lists the directory once for many lookups, because a busy table has hundreds of notes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, Self, TypeVar, cast

from airflow_hiveacid.format.codec import Codec, MisfitError
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError, LedgerRollError
from airflow_hiveacid.format.ids import LONG_MAX, AttemptId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.storage.stores.filesystem import delete_file, read_bytes, write_new
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location

HIDDEN_DIRECTORY: Final = "_hiveacid"
"""This provider's directory below a table's location."""

_YEAR_9999_S: Final = 253_402_300_799

_T = TypeVar("_T")


def hidden_uri(location: str, name: str = "") -> str:
    """Return the URI of a file in a table's hidden directory, or of the directory itself."""
    root = f"{location.rstrip('/')}/{HIDDEN_DIRECTORY}"
    return f"{root}/{name}" if name else root


def table_digest(table_id: str) -> str:
    """Return a digest of a table's ID for note names; an earlier table had a different digest."""
    return hashlib.sha256(table_id.encode()).hexdigest()[:12]


def name_digest(text: str) -> str:
    """Return 128 bits of a string's SHA-256 in hexadecimal, for use in a file name."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def packed_json(body: Mapping[str, object]) -> bytes:
    """Return the content of a file with this JSON object."""
    return json.dumps(body).encode()


def whole_number(value: object) -> int:
    """Return a whole number of a note, from -1 to Hive's largest; otherwise raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= LONG_MAX:
        raise ValueError(f"{value!r:.40} is not a number from -1 to {LONG_MAX}")
    return value


def seconds(value: object) -> float:
    """Return a note's seconds, up to those of year 9999 since 1970; or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.40} is not a number of seconds")  # noqa: TRY004 - see Raises
    if not 0 <= value <= _YEAR_9999_S:  # NaN is not in this range, either
        raise ValueError(f"{value!r:.40} is not a number of seconds up to the year 9999")
    return float(value)


NOTES: Final = Codec(
    texts={
        AttemptId: AttemptId.parse,
        PartitionName: PartitionName.parse,
        TableRef: TableRef.parse,
    },
    numbers={int: whole_number, float: seconds},
    needs_all=True,
    ignores_unknown=True,
)
"""The JSON form of all notes. A note with unknown fields may be of a later release. A missing field
may be a field with a damaged name, so it is an error even if it has a default."""


def note_content(note: object, *, version: int | None = None) -> bytes:
    """Return the content of a note's file."""
    body = cast("dict[str, object]", NOTES.to_json(note))
    return packed_json(body if version is None else {**body, "version": version})


def read_note(cls: type[_T], content: bytes, uri: str, *, version: int | None = None) -> _T:
    """Read a note from its file's content; `version` is None for notes without a version."""
    (note,) = read_notes(cls, content, uri, version=version)
    return note


def read_notes(
    cls: type[_T],
    content: bytes,
    uri: str,
    *,
    version: int | None = None,
    listed_as: str | None = None,
) -> tuple[_T, ...]:
    """Read one note, or all in the list `listed_as` if there is one; or raise CorruptFileError."""
    try:
        body = json.loads(content)
        if not isinstance(body, dict):
            raise MisfitError("the document", f"an object, found {type(body).__name__}")
        if version is not None and body.get("version") != version:
            raise CorruptFileError(
                path=uri,
                reason=f"its version is {body.get('version')!r:.40}, and this release reads"
                f" {version}; if a later release wrote it, use that release",
            )
        notes = [body] if listed_as is None else body.get(listed_as, [body])
        if not isinstance(notes, list):
            raise MisfitError(str(listed_as), "a list")
        return tuple(NOTES.read(cls, note) for note in notes)
    except (ValueError, RecursionError, InvalidNameError) as error:
        raise CorruptFileError(path=uri, reason=f"not a note: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesOfTable:
    """Notes of one table. Notes of an earlier table at the same location are ignored."""

    location: str
    table_id: str

    @classmethod
    def of(cls, table: TableInfo) -> Self:
        """Return the notes of a table, given the metastore's current description of the table."""
        return cls(location=table.location, table_id=table.table_id)

    @property
    def _digest(self) -> str:
        return table_digest(self.table_id)

    def _uri(self, name: str = "") -> str:
        return hidden_uri(self.location, name)

    def _list(self, prefix: str = "") -> tuple[FileEntry, ...]:
        return list_files(*open_location(self._uri()), prefix)

    def _content(self, name: str) -> bytes:
        return read_bytes(*open_location(self._uri(name)))

    def _write(self, name: str, content: bytes) -> None:
        write_new(*open_location(self._uri(name)), content, like=open_location(self.location)[1])

    def _delete(self, name: str) -> None:
        delete_file(*open_location(self._uri(name)))


class HiddenFiles:
    """The listed files of one hidden directory. Mutable and thread-safe.

    The owner of the listing reports its own changes (`note_written`, `note_removed`); those of
    other processes show only after `refresh`.
    """

    def __init__(self, location: str) -> None:
        self._root = hidden_uri(location)
        self._names: set[str] | None = None
        self._lock = Lock()

    def named(self, prefix: str) -> list[str]:
        """Return the sorted names with this prefix; list the directory at the first call."""
        with self._lock:
            if self._names is None:
                self._names = {file.name for file in list_files(*open_location(self._root))}
            return sorted(name for name in self._names if name.startswith(prefix))

    def note_written(self, name: str) -> None:
        """Record a file that the owner of this listing has written."""
        with self._lock:
            if self._names is not None:
                self._names.add(name)

    def note_removed(self, name: str) -> None:
        """Record that the owner of this listing has removed a file."""
        with self._lock:
            if self._names is not None:
                self._names.discard(name)

    def refresh(self) -> None:
        """Discard the listing, so that the next lookup lists the directory again."""
        with self._lock:
            self._names = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry: the name and modification time of its original file, and its JSON in one line."""

    name: str
    modified_s: float
    text: bytes


def packed(lines: Iterable[Line]) -> bytes:
    """Return the content of a roll with these entries."""
    head = (f"{line.name} {line.modified_s!r} ".encode() + line.text for line in lines)
    return zlib.compress(b"\n".join(head))


def unpacked(content: bytes, *, prefix: str = "", path: str = "") -> tuple[Line, ...]:
    """Return a roll's entries with this prefix, or raise LedgerRollError.

    Example:
        >>> line = Line(name="_a.0.1-b.7.done.json", modified_s=5.0, text=b"{}")
        >>> unpacked(packed([line])) == (line,)
        True
    """
    lines = []
    try:
        start = prefix.encode()
        for line in zlib.decompress(content).split(b"\n"):
            if line.startswith(start) and line:
                name, modified_s, text = line.split(b" ", 2)
                lines.append(
                    Line(name=name.decode(), modified_s=seconds(float(modified_s)), text=text)
                )
    except (zlib.error, ValueError) as error:
        raise LedgerRollError(path=path, reason=f"not a roll of ledger entries: {error}") from error
    return tuple(lines)
