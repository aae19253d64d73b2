"""What a conversion was about to do to a table, so that whoever comes next can finish or undo it.

One small file in the table's hidden directory, there from before the first file is moved until the
conversion is done or undone.
"""

from __future__ import annotations

import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import CorruptFileError, DirectoryExistsError
from airflow_hiveacid.plan.conversion import Move
from airflow_hiveacid.storage.stores.filesystem import (
    delete_file,
    exists,
    move,
    read_bytes,
    write_new,
)
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hiveacid.format.ids import WriteId

_NAME: Final = "_conversion.json"
_PARALLEL: Final = 16
_COPY: Final = re.compile(r"_copy_[0-9]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionNote:
    """A conversion on its way.

    `attempt` is whose it is. `table_id` tells the table from one that had its name before.
    `emptied` are directories that get out of sight once their files have been moved. `undo` are the
    parameters as they were, None for none. `write_id` is that of the delta that files are moved
    into; None if they are moved out. `is_verified` says that the rows are known to be the same: it
    is done, and never undone.
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
        """Put it into a table's hidden directory, in place of an earlier one.

        Raises:
            LocationPermissionError, StorageError: it cannot be written.
        """
        write_new(*open_location(_uri(location)), json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, location: str) -> Self | None:
        """That of a table; None if there is none.

        Raises:
            CorruptFileError: it is there and cannot be read.
            LocationPermissionError, StorageError: reading failed otherwise.
        """
        try:
            body = json.loads(read_bytes(*open_location(_uri(location))))
            moves, emptied = (
                tuple(Move(**entry) for entry in body.pop(name)) for name in ("moves", "emptied")
            )
            return cls(moves=moves, emptied=emptied, **body)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptFileError(path=_uri(location), reason=f"{error!r}") from error

    @staticmethod
    def place(location: str) -> str:
        """Where that of a table lies, for messages."""
        return _uri(location)

    @staticmethod
    def remove(location: str) -> None:
        """Remove it; nothing if there is none.

        Raises:
            LocationPermissionError, StorageError: it cannot be removed.
        """
        delete_file(*open_location(_uri(location)))

    def move_all(self, guard: Callable[[], None]) -> None:
        """Move everything that is not yet in its new place.

        `guard` is called before every few moves: what it raises ends them, so that a process whose
        lock is gone does not go on beside its successor.

        Raises:
            DirectoryExistsError: one is in both.
            StorageError: one is in neither, or cannot be moved.
        """
        for group in (self.moves, self.emptied):
            _each(lambda m: _move(m.location, m.source, m.target), group, guard)

    def move_back(self, guard: Callable[[], None]) -> None:
        """Move everything that is in its new place to its old one.

        A cleaner may have removed directories without rows, which nobody needs. Somebody may have
        written a flat table meanwhile: a file that he has overwritten stays gone, and one whose
        name he has taken gets another, as Hive names a copy.

        Raises:
            DirectoryExistsError, StorageError: as `move_all`.
        """
        is_in = self.write_id is not None
        _each(lambda m: _move(m.location, m.target, m.source, may_lack=True), self.emptied, guard)
        put_back = _move_into_flat if is_in else _move
        _each(lambda m: put_back(m.location, m.target, m.source), self.moves, guard)

    def not_back(self) -> list[str]:
        """The files that are in their new places in spite of `move_back`; as URIs, sorted."""
        places = {f"{m.location.rstrip('/')}/{m.target}" for m in self.moves}
        return [place for place in sorted(places) if exists(*open_location(place))]


def _each(do: Callable[[Move], None], moves: Sequence[Move], guard: Callable[[], None]) -> None:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for at in range(0, len(moves), _PARALLEL):
            guard()
            list(pool.map(do, moves[at : at + _PARALLEL]))


def _move(location: str, source: str, target: str, *, may_lack: bool = False) -> None:
    fs, root = open_location(location)
    is_there = exists(fs, f"{root}/{source}")
    if exists(fs, f"{root}/{target}"):
        if is_there:
            raise DirectoryExistsError(path=f"{root}/{target}")
        return  # it was moved before
    if is_there or not may_lack:
        move(fs, f"{root}/{source}", f"{root}/{target}")


def _move_into_flat(location: str, source: str, target: str) -> None:
    fs, root = open_location(location)
    if exists(fs, f"{root}/{source}") and exists(fs, f"{root}/{target}"):
        name, dot, suffix = target.partition(".")
        name = _COPY.sub("", name)
        names = (f"{name}_copy_{n}{dot}{suffix}" for n in itertools.count(1))
        target = next(free for free in names if not exists(fs, f"{root}/{free}"))
    _move(location, source, target, may_lack=True)


def _uri(location: str) -> str:
    return f"{location.rstrip('/')}/{HIDDEN_DIRECTORY}/{_NAME}"
