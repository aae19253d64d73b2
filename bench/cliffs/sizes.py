"""Knows how large each cliff is; a scale makes all of them smaller together.

Example:
    >>> CliffSizes().partitions, CliffSizes(scale=0.1).partitions
    ((400, 4000), (40, 400))
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CliffSizes:
    """What the cases are made of. `scale` 1 is what figures are about; 0.01 shows that all runs."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuses what is larger than the figures, or nothing.

        Raises:
            ValueError: Says the range.
        """
        if not 0 < self.scale <= 1:
            raise ValueError(f"scale must lie above 0 and not above 1, not {self.scale}")

    @property
    def rows(self) -> int:
        """Of a partitioned table, whatever the number of its partitions."""
        return self._of(600_000, least=4_000)

    @property
    def partitions(self) -> tuple[int, int]:
        """Few and many."""
        return self._of(400, least=3), self._of(4_000)

    @property
    def deltas(self) -> tuple[int, int]:
        """Few and many."""
        return self._of(100, least=3), self._of(1_000)

    @property
    def delta_rows(self) -> int:
        """Of each delta."""
        return self._of(1_000, least=100)

    @property
    def columns(self) -> int:
        """Of a wide table."""
        return self._of(2_000, least=100)

    @property
    def column_rows(self) -> int:
        """Of a wide table."""
        return self._of(5_000, least=500)

    @property
    def text_bytes(self) -> int:
        """Of each long text."""
        return self._of(100_000, least=10_000)

    @property
    def texts(self) -> int:
        """Rows of a table of long texts."""
        return self._of(2_000, least=200)

    @property
    def aborted(self) -> int:
        """Aborted write IDs in a snapshot."""
        return self._of(1_000_000)

    @property
    def aborted_deltas(self) -> int:
        """Deltas among them, the first and the last of all included."""
        return self._of(100) + 1

    @property
    def planned_partitions(self) -> int:
        """Partitions to plan a read of."""
        return self._of(10_000)

    @property
    def planned_buckets(self) -> int:
        """Files of each of them."""
        return 10

    @property
    def planned_deltas(self) -> int:
        """Deltas to plan a read of."""
        return self._of(1_000)

    @property
    def past_rows(self) -> int:
        """Of a base that is read as of a version."""
        return self._of(1_000_000, least=4_000)

    @property
    def past_deltas(self) -> int:
        """On top of it."""
        return 20

    def _of(self, full: int, *, least: int = 4) -> int:
        return max(least, round(full * self.scale))
