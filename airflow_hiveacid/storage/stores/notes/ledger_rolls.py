"""Store many confirmed ledger entries in one immutable file, so that a table has few files.

Such a roll has a compressed line for each entry: the name and modification time of its original
file, and its JSON. It is written before the files that it replaces are deleted.

Example:
    >>> line = Line(name="_a.0.1-b.7.done.json", modified_s=5.0, text=b"{}")
    >>> unpacked(packed([line])) == (line,)
    True
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_hiveacid.format.errors import LedgerRollError
from airflow_hiveacid.storage.stores.notes.json_files import seconds


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
    """Return a roll's entries with this prefix, or raise LedgerRollError."""
    found = []
    try:
        wanted = prefix.encode()
        for line in zlib.decompress(content).split(b"\n"):
            if line.startswith(wanted) and line:
                name, modified_s, text = line.split(b" ", 2)
                found.append(
                    Line(name=name.decode(), modified_s=seconds(float(modified_s)), text=text)
                )
    except (zlib.error, ValueError) as error:
        raise LedgerRollError(path=path, reason=f"not a roll of ledger entries: {error}") from error
    return tuple(found)
