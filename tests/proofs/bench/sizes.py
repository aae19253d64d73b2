"""The sizes of a measurement; all of them follow from the rows of the base.

Example:
    >>> Sizes(rows=4_000_000).merge_rows
    100000
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BATCHES: Final = 10
"""Appends, and deletes, on top of the base when figures are taken."""

_SMALLEST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows of each part of the workload.

    `rows` is the size of the base; `batches` appends, and as many deletes, are on top of it.
    """

    rows: int
    batches: int = BATCHES

    def __post_init__(self) -> None:
        """Refuse a base in which a batch would be empty.

        Raises:
            ValueError: The base is too small; it names the smallest one.
        """
        if self.rows < _SMALLEST:
            raise ValueError(f"rows must be {_SMALLEST} or more, not {self.rows}")

    @property
    def stamped(self) -> Sizes:
        """Sizes of the second table, which also has a timestamp and a char."""
        return Sizes(rows=max(_SMALLEST, self.rows // 4), batches=self.batches)

    @property
    def append_rows(self) -> int:
        """Rows that one append adds."""
        return self.rows // 40

    @property
    def delete_rows(self) -> int:
        """Rows that one delete removes; all deletes together remove 1 % of the base."""
        return self.rows // 100 // self.batches

    @property
    def merge_rows(self) -> int:
        """Rows of the MERGE's source."""
        return self.rows // 40

    @property
    def merge_updates(self) -> int:
        """Source rows that update a row."""
        return self.merge_rows // 2

    @property
    def merge_deletes(self) -> int:
        """Source rows that delete a row."""
        return self.merge_rows // 10

    @property
    def merge_inserts(self) -> int:
        """Source rows that are new."""
        return self.merge_rows - self.merge_updates - self.merge_deletes
