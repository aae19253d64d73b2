"""The bases that compactions wrote, from the answers of the part's drivers.

The first base of a directory turns away a reader whose snapshot has an open write that the base
includes (Hive 3.1's names have no suffix, so a name does not show for which snapshots a base is
valid). Such a reader's error is foreseen; the same error because of a later base, or in a later
snapshot, means that files were removed too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.proofs.campaign.polls import Poll

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
