"""What rows there have to be: every state that some serial order of the committed changes gives.

A row is (partition, key, text). A change is a pure function of all rows of its partitions. If one
change was committed before another took its snapshot, it comes first; else any order will do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

Row = tuple[str, str, str]
"""Partition (empty in an unpartitioned table), key, text."""

Rows = frozenset[Row]
Identity = tuple[int, int, int]

# The seeds that changes are about.
DOOMED, MATCHED = "seed0", "seed1"


@dataclass(frozen=True, slots=True)
class Change:
    """A job's change: `kind` of it, its name, and the partitions it is about."""

    kind: str
    name: str
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A change that happened. `snapshot` and `at` count the commits before them."""

    change: Change
    snapshot: int
    at: int


@dataclass(frozen=True, slots=True)
class Edit:
    """What a change does under its snapshot: rows to delete by their identity, rows to insert."""

    deletes: tuple[tuple[str, Identity], ...] = ()
    inserts: tuple[Row, ...] = ()


def edit(change: Change, rows: Iterable[tuple[Row, Identity]]) -> Edit:
    """What a writer does that sees these rows."""
    seen = [(row, identity) for row, identity in rows if row[0] in change.scope]
    new = tuple((partition, change.name, "new") for partition in change.scope)
    match change.kind:
        case "insert" | "overwrite":
            return Edit(inserts=new)
        case "update":
            return Edit(
                deletes=tuple((row[0], identity) for row, identity in seen),
                inserts=tuple((p, key, f"{text}+{change.name}") for (p, key, text), _ in seen),
            )
        case "delete":
            doomed = [(row, identity) for row, identity in seen if row[1] == DOOMED]
            return Edit(deletes=tuple((row[0], identity) for row, identity in doomed))
        case "merge":
            hit = [(row, identity) for row, identity in seen if row[1] == MATCHED]
            missed = set(change.scope) - {row[0] for row, _ in hit}
            return Edit(
                deletes=tuple((row[0], identity) for row, identity in hit),
                inserts=(
                    *((p, key, f"{text}+{change.name}") for (p, key, text), _ in hit),
                    *((partition, MATCHED, f"by {change.name}") for partition in sorted(missed)),
                    *new,
                ),
            )
        case _:
            raise ValueError(change.kind)


def apply(change: Change, rows: Rows) -> Rows:
    """The rows after a change that had them all to itself."""
    if change.kind == "drop":
        return frozenset()
    if change.kind == "truncate":
        return frozenset(row for row in rows if row[0] not in change.scope)
    numbered = [(row, (0, 0, i)) for i, row in enumerate(sorted(rows))]
    done = edit(change, numbered)
    gone = {identity for _, identity in done.deletes}
    kept = {row for row, identity in numbered if identity not in gone}
    if change.kind == "overwrite":
        kept = {row for row in kept if row[0] not in change.scope}
    return frozenset(kept | set(done.inserts))


@cache
def serial_states(before: Rows, commits: tuple[Commit, ...]) -> frozenset[tuple[Row, ...]]:
    """Every state that a serial order of these commits can give; rows sorted."""
    found: set[tuple[Row, ...]] = set()

    def go(rows: Rows, left: tuple[Commit, ...]) -> None:
        if not left:
            found.add(tuple(sorted(rows)))
        for commit in left:
            # Whoever was committed before this one's snapshot has to be there already.
            if all(other.at >= commit.snapshot for other in left if other is not commit):
                go(apply(commit.change, rows), tuple(c for c in left if c is not commit))

    go(before, commits)
    return frozenset(found)


# ---- files ---------------------------------------------------------------------------------------

BUCKET: Final = "bucket_00000"
PROPERTY: Final = 536870912


def insert_file(rows: Iterable[Row], write_id: int) -> bytes:
    """A data file: events in the order of their identity."""
    return _dump(
        [
            (write_id, PROPERTY, number, write_id, key, text)
            for number, (_, key, text) in enumerate(rows)
        ]
    )


def delete_file(identities: Iterable[Identity], write_id: int) -> bytes:
    return _dump([(*identity, write_id, None, None) for identity in sorted(identities)])


def _dump(events: list[tuple[object, ...]]) -> bytes:
    return json.dumps(events).encode()


def merged_file(events: Iterable[Event]) -> bytes:
    """A file of events that stay as they are, in the order of their identity."""
    return _dump(sorted(events, key=lambda e: (e[:3], -e[3])))


Event = tuple[int, int, int, int, str, str]
"""Identity, current write ID, key and text."""


@lru_cache(maxsize=100_000)
def events(content: bytes) -> tuple[Event, ...]:
    """The events of a file; those of a torn one are none."""
    return tuple(tuple(event) for event in json.loads(content)) if content else ()
