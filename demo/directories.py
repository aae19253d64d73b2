"""A record of the table's directories over the course of the demonstration.

This module reads only names and sizes from the local warehouse, and does not interpret them. It
keeps a picture of each state, and the report shows the states before and after compactions.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PREFIXES: Final = ("base_", "delta_", "delete_delta_")
_HIDDEN: Final = ("_", ".")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DirectorySize:
    """One base, delta or delete delta, without hidden files.

    `path` is relative to the table's folder.
    """

    path: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All directories in order, and the first and last time of this state, in epoch seconds."""

    from_s: float
    until_s: float
    directories: tuple[DirectorySize, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all directories."""
        return sum(directory.size_bytes for directory in self.directories)


class DirectoryWatch:
    """Takes pictures of one table's folder. Mutable: it stores the pictures.

    The clock returns epoch seconds.
    """

    def __init__(self, table: Path, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._clock = clock
        self._pictures: list[Picture] = []

    def look(self) -> Picture:
        """Take a picture and return it; if nothing has changed, extend the last picture."""
        now = self._clock()
        picture = Picture(from_s=now, until_s=now, directories=_directories(self._table))
        if self._pictures and self._pictures[-1].directories == picture.directories:
            picture = replace(self._pictures.pop(), until_s=now)
        self._pictures.append(picture)
        return picture

    def before(self, moment_s: float) -> Picture | None:
        """Return the last picture before a time, or None."""
        earlier = [picture for picture in self._pictures if picture.from_s <= moment_s]
        return earlier[-1] if earlier else None

    def after(self, moment_s: float) -> Picture | None:
        """Return the first picture after a time, or None."""
        later = (picture for picture in self._pictures if picture.until_s >= moment_s)
        return next(later, None)


def _directories(table: Path) -> tuple[DirectorySize, ...]:
    found = []
    for name, below, _ in os.walk(table):  # skips folders that have just been deleted
        below[:] = [folder for folder in below if not folder.startswith(_HIDDEN)]
        folder = Path(name)
        if folder.name.startswith(_PREFIXES):
            found.append(_measure(folder, folder.relative_to(table)))
    return tuple(sorted(directory for directory in found if directory is not None))


def _measure(folder: Path, relative: Path) -> DirectorySize | None:
    try:
        files = [file for file in folder.iterdir() if not file.name.startswith(_HIDDEN)]
        sizes = [file.stat().st_size for file in files]
    except FileNotFoundError:  # a cleaner has just removed it
        return None
    return DirectorySize(path=str(relative), files=len(sizes), size_bytes=sum(sizes))
