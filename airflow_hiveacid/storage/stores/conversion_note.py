"""The saved plan of a table's conversion, for any process that finishes or undoes the conversion.

It is written before the first file is moved, and exists until the conversion has ended.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.errors import (
    DirectoryExistsError,
    UnsupportedFileError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import is_below_hidden
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.storage.stores.filesystem import (
    delete_file,
    exists,
    move,
    read_bytes,
    write_new,
)
from airflow_hiveacid.storage.stores.json_files import hidden_uri, note_content, read_note
from airflow_hiveacid.storage.stores.listing import list_roots
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import AT_ONCE, side_by_side

_NAME: Final = "_conversion.json"
_COPY: Final = re.compile(r"_copy_[0-9]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionNote:
    """A conversion in progress.

    `table_id` distinguishes the table from an earlier table of the same name. `emptied` are
    directories to hide once their files have been moved. `undo` has the original table parameters,
    None for missing ones. `write_id` is that of the delta to which files are moved; None if they
    are moved out of deltas. If `is_verified`, the rows were checked and are unchanged, so the
    conversion is never undone.
    """

    attempt: str
    table_id: str
    to: str
    undo: Mapping[str, str | None]
    moves: tuple[Move, ...]
    emptied: tuple[Move, ...] = ()
    write_id: WriteId | None = None
    is_verified: bool = False

    def write(self, location: str) -> None:
        """Write the note to a table's hidden directory, and replace an earlier note."""
        like = open_location(location)[1]
        write_new(*open_location(self.uri(location)), note_content(self), like=like)

    @classmethod
    def read(cls, location: str) -> Self | None:
        """Read the note of a table; None if it has no note."""
        uri = cls.uri(location)
        try:
            return read_note(cls, read_bytes(*open_location(uri)), uri)
        except FileNotFoundError:
            return None

    @staticmethod
    def uri(location: str) -> str:
        """Return the URI of a table's note, for messages."""
        return hidden_uri(location, _NAME)

    @staticmethod
    def remove(location: str) -> None:
        """Remove the note of a table, if there is one."""
        delete_file(*open_location(ConversionNote.uri(location)))

    def move_all(self, guard: Callable[[], None]) -> None:
        """Move all files and directories that are not yet at their new paths.

        `guard` is called before each small group of moves, and raises an error to stop them. Raises
        DirectoryExistsError if both paths of a move exist, StorageError if neither does.
        """
        for group in (self.moves, self.emptied):
            _each(lambda m: _move(m.location, m.source, m.target), group, guard)

    def move_back(self, guard: Callable[[], None]) -> None:
        """Move all files and directories back to their old paths.

        Directories without rows may be missing, as after a cleaning. Files that another writer of a
        flat table overwrote meanwhile stay deleted; if it created a file with an old name, the
        moved file gets a `_copy_N` name, as in Hive.
        """
        _each(lambda m: _move(m.location, m.target, m.source, may_lack=True), self.emptied, guard)
        if self.write_id is None:
            _each(lambda m: _move(m.location, m.target, m.source), self.moves, guard)
            return
        taken: list[Move] = []
        _each(lambda m: _put_back(m, taken), self.moves, guard)
        # A free `_copy_N` name may be the old name of a file that another thread moves back. So
        # choose such names when all other files are back, and one at a time.
        for moved in taken:
            guard()
            _put_beside(moved)

    def part(self, is_in: Callable[[str], bool]) -> Self:
        """Return a note of the moves below some locations."""
        moves, emptied = (
            tuple(move for move in group if is_in(move.location))
            for group in (self.moves, self.emptied)
        )
        return replace(self, moves=moves, emptied=emptied)

    def not_back(self) -> list[str]:
        """Return the sorted URIs of files that `move_back` left at their new paths."""
        uris = {f"{m.location.rstrip('/')}/{m.target}" for m in self.moves}
        return [uri for uri in sorted(uris) if exists(*open_location(uri))]


def unfinished_conversion(table: TableInfo) -> str | None:
    """Return what to do if a conversion of the table has moved files and has not ended, or None."""
    note = ConversionNote.read(table.location)
    if note is None or note.is_verified or note.table_id != table.table_id:
        return None
    return (
        f"a conversion to {note.to} was interrupted, or still runs. Move no files, because"
        f" {ConversionNote.uri(table.location)} lists where it moved them: run"
        f" `python -m airflow_hiveacid convert {table.ref} --to {note.to}`, which recovers them"
    )


@contextmanager
def naming_conversion(table: TableInfo) -> Iterator[None]:
    """If a block finds a file in a wrong place, name an unfinished conversion as the cause.

    Raises UnsupportedTableError instead of the block's UnsupportedFileError.
    """
    try:
        yield
    except UnsupportedFileError as error:
        if (why := unfinished_conversion(table)) is None:
            raise
        raise UnsupportedTableError(table=table.ref, detail=f"cannot be read: {why}") from error


def check_in_place(table: TableInfo, *listings: Listing) -> None:
    """Check that no unfinished conversion has moved files of these roots out of base and deltas.

    A base would hide the moved files. Raises UnsupportedTableError.
    """
    if table.kind is not TransactionalKind.INSERT_ONLY:
        return
    files = (file.path for listing in listings for file in listing.files)
    is_outside = any("/" not in path and not is_below_hidden(path) for path in files)
    if is_outside and (why := unfinished_conversion(table)) is not None:
        raise UnsupportedTableError(table=table.ref, detail=f"cannot be read: {why}")


def list_in_place(table: TableInfo, roots: Sequence[PartitionInfo]) -> list[Listing]:
    """Return the listing of each root of a table, in the same order; see `check_in_place`."""
    listings = list_roots(roots)
    check_in_place(table, *listings)
    return listings


def _each(do: Callable[[Move], None], moves: Sequence[Move], guard: Callable[[], None]) -> None:
    for start in range(0, len(moves), AT_ONCE):
        guard()
        side_by_side(do, moves[start : start + AT_ONCE])


def _move(location: str, source: str, target: str, *, may_lack: bool = False) -> None:
    if not _is_moved(location, source, target, may_lack=may_lack):
        raise DirectoryExistsError(path=f"{open_location(location)[1]}/{target}")


def _is_moved(location: str, source: str, target: str, *, may_lack: bool) -> bool:
    """Move a file or directory; return False if both paths exist."""
    fs, root = open_location(location)
    has_source = exists(fs, f"{root}/{source}")
    if exists(fs, f"{root}/{target}"):
        return not has_source  # an earlier attempt moved it
    if has_source or not may_lack:
        move(fs, f"{root}/{source}", f"{root}/{target}")
    return True


def _put_back(moved: Move, taken: list[Move]) -> None:
    if not _is_moved(moved.location, moved.target, moved.source, may_lack=True):
        taken.append(moved)


def _put_beside(moved: Move) -> None:
    fs, root = open_location(moved.location)
    name, dot, suffix = moved.source.partition(".")
    name = _COPY.sub("", name)
    names = (f"{name}_copy_{n}{dot}{suffix}" for n in itertools.count(1))
    free = next(free for free in names if not exists(fs, f"{root}/{free}"))
    _move(moved.location, moved.target, free, may_lack=True)
