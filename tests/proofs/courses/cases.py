"""The use cases of large changes: what is loaded, changed, maintained and read, in which sizes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

PARTS: Final = 500
"""A delete of strewn keys takes every key whose remainder by this is that of its round."""


class Change(enum.Enum):
    """The change of each round."""

    UPSERT = "upsert"
    DELETE = "delete"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """One use case. Each round has a change, then a maintenance, then reads.

    Attributes:
        title: What happens, with `{rows}`, `{changes}` and `{rounds}`.
        rows: Rows of the table before the first round.
        changes: Rows, keys or events of each round's change.
        new: The share of an upsert's rows that have new keys.
        buckets, days: Buckets and partitions of the table; 0 means none.
        compacts_every: Rounds between two compactions of a peer; ours follow its thresholds.
        reads: How often every column of every row is read after each round.
        erases: True if the deleted rows must be gone from all files in the end.
        is_killed: True if the change is also repeated with kills, on a table of its own.
    """

    name: str
    title: str
    rows: int
    changes: int
    rounds: int
    change: Change
    new: float = 0.0
    buckets: int = 0
    days: int = 0
    compacts_every: int = 0
    reads: int = 0
    erases: bool = False
    is_killed: bool = False

    def scaled(self, scale: float) -> UseCase:
        """Return the use case with fewer rows; with few rounds, if it is much smaller."""
        if scale == 1:
            return self
        return replace(
            self,
            rows=max(10_000, round(self.rows * scale)),
            changes=max(100, round(self.changes * scale)),
            rounds=self.rounds if scale > _FEW_ROUNDS_BELOW else min(self.rounds, 3),
        )

    @property
    def words(self) -> str:
        """The title with its numbers."""
        return self.title.format(
            rows=f"{self.rows:,}", changes=f"{self.changes:,}", rounds=self.rounds
        )


_FEW_ROUNDS_BELOW: Final = 0.1

USE_CASES: Final = {
    case.name: case
    for case in (
        UseCase(
            name="W13",
            title="an hourly upsert of {changes} rows, a fifth of them new, into a dimension of"
            " {rows} rows in 8 buckets; {rounds} hours",
            rows=10_000_000,
            changes=500_000,
            rounds=6,
            change=Change.UPSERT,
            new=0.2,
            buckets=8,
            compacts_every=4,
        ),
        UseCase(
            name="W14",
            title="a daily delete of {changes} keys all over {rows} rows; {rounds} days, then the"
            " deleted rows are erased from all files",
            rows=50_000_000,
            changes=100_000,
            rounds=3,
            change=Change.DELETE,
            erases=True,
        ),
        UseCase(
            name="W15",
            title="an hourly log of {changes} inserts, updates and deletes, out of order, into"
            " {rows} rows in 8 partitions of 4 buckets; {rounds} hours",
            rows=10_000_000,
            changes=1_000_000,
            rounds=4,
            change=Change.LOG,
            buckets=4,
            days=8,
            is_killed=True,
        ),
        UseCase(
            name="W17",
            title="an upsert of {changes} of {rows} rows each hour; {rounds} hours with"
            " compactions and cleanings",
            rows=4_000_000,
            changes=40_000,
            rounds=24,
            change=Change.UPSERT,
            compacts_every=4,
            reads=3,
        ),
    )
}
