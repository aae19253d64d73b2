"""The results of all pairs in docs/evidence/conflicts.json, and the page of them.

It keeps results, never expectations, which are the product's own tables. A run replaces the
pairs that it has run and leaves the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.conflicts import (
    ConflictOutcome,
    ConflictPolicy,
    Meeting,
    MetastoreGeneration,
    WriteKind,
    outcome,
)
from tests.proofs.conflicts.cells import Cell, Order, Seen, expected, is_right
from tests.support.documents import EVIDENCE, numbered_note, put_between

PAGE: Final = EVIDENCE / "conflicts.md"
FILE: Final = EVIDENCE / "conflicts.json"
MARK: Final = "pairs: written by `make conflicts`"
VERSIONS: Final[Mapping[MetastoreGeneration, str]] = {
    MetastoreGeneration.V3: "3.1.3",
    MetastoreGeneration.V4: "4.0.1",
}
_TITLES: Final[Mapping[WriteKind, str]] = {
    WriteKind.OVERWRITE: "OVERWRITE, TRUNCATE",
    WriteKind.INSERT: "INSERT",
    WriteKind.CHANGE: "UPDATE, DELETE, MERGE",
    WriteKind.MINOR: "minor compaction",
    WriteKind.MAJOR: "major compaction",
}

Record = dict["Cell", Seen]


def every_cell() -> Iterator[Cell]:
    """Yield all cells, in the order of the page."""
    for generation in MetastoreGeneration:
        for policy in ConflictPolicy:
            for order in Order:
                for earlier in WriteKind:
                    for later in WriteKind:
                        yield generation, policy, order, Meeting(earlier=earlier, later=later)


def read(file: Path = FILE) -> Record:
    """Return the earlier results; empty if the file is missing."""
    if not file.exists():
        return {}
    names = {_name(cell): cell for cell in every_cell()}
    return {
        names[name]: Seen(
            outcome=None if one["outcome"] is None else ConflictOutcome(one["outcome"]),
            told=one["told"],
            trouble=one["trouble"],
        )
        for name, one in json.loads(file.read_text()).items()
    }


def write(record: Record, *, file: Path = FILE, page: Path = PAGE) -> None:
    """Write the results, and put them into the page between its two marks."""
    kept = {
        _name(cell): {
            "outcome": None if seen.outcome is None else seen.outcome.value,
            "told": seen.told,
            "trouble": seen.trouble,
        }
        for cell in every_cell()
        if (seen := record.get(cell)) is not None
    }
    file.write_text(json.dumps(kept, indent=1) + "\n")
    page.write_text(put_between(page.read_text(), MARK, "\n".join(lines(record))))


def lines(record: Record) -> Iterator[str]:
    """Yield the tables of the page, and their notes."""
    notes: dict[str, int] = {}
    for policy in ConflictPolicy:
        for generation in MetastoreGeneration:
            yield f"### `{policy.value}`, Hive {VERSIONS[generation]}"
            yield ""
            yield f"| row: earlier; column: later | {' | '.join(_TITLES[d] for d in WriteKind)} |"
            yield f"| --- |{' --- |' * len(WriteKind)}"
            for earlier in WriteKind:
                cells = (
                    _letters(record, policy, generation, Meeting(earlier=earlier, later=d), notes)
                    for d in WriteKind
                )
                yield f"| {_TITLES[earlier]} | {' | '.join(cells)} |"
            yield ""
    for text, number in notes.items():
        yield from numbered_note(number, f"{text}.")


def _letters(
    record: Record,
    policy: ConflictPolicy,
    generation: MetastoreGeneration,
    meeting: Meeting,
    notes: dict[str, int],
) -> str:
    promised = outcome(policy, generation, meeting)
    found = [f"**{promised.value}**"]
    for order in Order:
        cell = generation, policy, order, meeting
        seen, (wanted, note) = record.get(cell), expected(cell)
        if seen is None:
            found.append(f"{order.value}: not run")
        elif not is_right(cell, seen):
            letter = "?" if seen.outcome is None else seen.outcome.value
            found.append(f"{order.value}: {letter}, **not expected**: {seen.trouble or seen.told}")
        elif wanted is not promised:
            mark = notes.setdefault(note, len(notes) + 1)
            found.append(f"{order.value}: {wanted.value} [{mark}]")
    return "; ".join(found)


def _name(cell: Cell) -> str:
    generation, policy, order, meeting = cell
    return (
        f"{VERSIONS[generation]} {policy.value} {order.value}:"
        f" {meeting.earlier.value}, {meeting.later.value}"
    )
