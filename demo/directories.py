"""Knows how the directories of the table looked at any moment of the demonstration.

Reads names and sizes from the local warehouse, nothing else; what they mean is not judged here.
Remembers a picture whenever something has changed, so that "before the compaction" can be shown
after it.
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
    """One base, delta or delete delta. `path` is below the table; hidden files do not count."""

    path: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All of them, in order, and when they were seen so first and last, in seconds of the epoch."""

    from_s: float
    until_s: float
    directories: tuple[DirectorySize, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all directories."""
        return sum(directory.size_bytes for directory in self.directories)


class DirectoryWatch:
    """Pictures of one table's folder, by a clock in seconds of the epoch. Mutable: it remembers."""

    def __init__(self, table: Path, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._clock = clock
        self._pictures: list[Picture] = []

    def look(self) -> Picture:
        """Take a picture and return it; one that equals the last only lengthens that one's time."""
        now = self._clock()
        picture = Picture(from_s=now, until_s=now, directories=_directories(self._table))
        if self._pictures and self._pictures[-1].directories == picture.directories:
            picture = replace(self._pictures.pop(), until_s=now)
        self._pictures.append(picture)
        return picture

    def before(self, moment_s: float) -> Picture | None:
        """How it looked when last looked at before a moment; None if nobody did."""
        earlier = [picture for picture in self._pictures if picture.from_s <= moment_s]
        return earlier[-1] if earlier else None

    def after(self, moment_s: float) -> Picture | None:
        """How it looked when first looked at after a moment; None if nobody did."""
        later = (picture for picture in self._pictures if picture.until_s >= moment_s)
        return next(later, None)


def _directories(table: Path) -> tuple[DirectorySize, ...]:
    found = []
    for name, below, _ in os.walk(table):  # folders that vanish meanwhile are passed over
        below[:] = [folder for folder in below if not folder.startswith(_HIDDEN)]
        folder = Path(name)
        if folder.name.startswith(_PREFIXES):
            found.append(_measure(folder, folder.relative_to(table)))
    return tuple(sorted(directory for directory in found if directory is not None))


def _measure(folder: Path, relative: Path) -> DirectorySize | None:
    try:
        files = [file for file in folder.iterdir() if not file.name.startswith(_HIDDEN)]
        sizes = [file.stat().st_size for file in files]
    except FileNotFoundError:  # a cleaner took it away while we looked
        return None
    return DirectorySize(path=str(relative), files=len(sizes), size_bytes=sum(sizes))
