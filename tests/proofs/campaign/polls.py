"""The results of readers: one line of JSON for each look, and the rows under their digest.

Equal rows are kept once, for all readers, so that thousands of looks can be judged at the end.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

Row = tuple[int | str, ...]
"""A row of one of the campaign's tables: ID, value, change, and the partition if it has one."""

_COMPRESSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One table as of a version: its rows, and those of an earlier version with all changes since.

    None means that the read was refused; `refused` has the types of the errors.
    """

    version: int
    since: int
    digest: str | None = None
    replayed: str | None = None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One table under one snapshot: the snapshot's list, the rows read, the rows of a second read.

    `past` is the result for earlier versions, for readers that read them.
    """

    write_ids: str
    digest: str
    again: str
    past: Past | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One look of a reader. `error` is the type and the text of its failure."""

    reader: str
    began_at: float
    ended_at: float
    tables: Mapping[str, Seen]
    error: tuple[str, str] | None = None

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def digest(rows: Sequence[Row]) -> str:
    """Return a name for sorted rows that depends on their content."""
    return hashlib.sha256(_text(rows)).hexdigest()[:32]


def keep(folder: Path, rows: Sequence[Row]) -> str:
    """Keep sorted rows under their digest, in one step, and return it."""
    name = digest(rows)
    file = folder / f"{name}.json.gz"
    if not file.exists():
        scratch = folder / f"{name}.{os.getpid()}"
        scratch.write_bytes(gzip.compress(_text(rows), _COMPRESSION))
        scratch.replace(file)
    return name


def load(folder: Path, name: str) -> list[Row]:
    text = gzip.decompress((folder / f"{name}.json.gz").read_bytes())
    return [tuple(row) for row in json.loads(text)]


def read_polls(files: Iterable[Path]) -> list[Poll]:
    """Return all looks, by time, without lines that a killed reader left unfinished."""
    found = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                data = json.loads(line)
                tables = {name: _seen(seen) for name, seen in data.pop("tables").items()}
                error = data.pop("error")
                found.append(Poll(**data, tables=tables, error=tuple(error) if error else None))
    return sorted(found, key=lambda poll: poll.began_at)


def _seen(data: dict[str, Any]) -> Seen:
    past = data.pop("past")
    if past is not None:
        past = Past(**{**past, "refused": tuple(past["refused"])})
    return Seen(**data, past=past)


def _text(rows: Sequence[Row]) -> bytes:
    return json.dumps(rows, separators=(",", ":")).encode()


# ---- the bases that compactions wrote ------------------------------------------------------------
#
# The first base of a directory turns away a reader whose snapshot has an open write that the base
# includes (Hive 3.1's names have no suffix, so a name does not show for which snapshots a base is
# valid). Such a reader's error is foreseen; the same error because of a later base, or in a later
# snapshot, means that files were removed too early.


_TURNED_AWAY: Final = re.compile(
    r"^(?P<location>.*): not enough history .* is (?P<base>base_\d+)\."
)
_ERROR: Final = "NotEnoughHistoryError"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBase:
    """A base, the end of its directory's location (`parted/p=1`), and the time of the answer."""

    directory: str
    name: str
    answered_at: float


def read_bases(answers: Iterable[Path]) -> list[WrittenBase]:
    return [base for file in answers for base in _bases(file)]


def was_turned_away_by_first_base(poll: Poll, bases: Sequence[WrittenBase]) -> bool:
    """Return True if a poll failed because of its directory's first base, which it may not read."""
    if poll.error is None or poll.error[0] != _ERROR:
        return False
    found = _TURNED_AWAY.match(poll.error[1])
    if found is None:
        return False
    here = [base for base in bases if found["location"].endswith(f"/{base.directory}")]
    # A killed compactor gives no answer, so the named base may be missing from the list.
    return all(
        base.answered_at > poll.began_at
        if base.name == found["base"]
        else base.name > found["base"]
        for base in here
    )


def _bases(file: Path) -> Iterator[WrittenBase]:
    answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    answered_at = file.stat().st_mtime
    for done in answer["details"].get("compactions", ()):
        table = answer["table"].partition(".")[2]
        directory = f"{table}/{done['partition']}".rstrip("/")
        for name in done["outputs"]:
            if name.startswith("base_"):
                yield WrittenBase(directory=directory, name=name, answered_at=answered_at)
