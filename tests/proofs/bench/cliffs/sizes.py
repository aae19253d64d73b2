"""The size of each cliff; a scale reduces all of them together.

Example:
    >>> CliffSizes().partitions, CliffSizes(scale=0.1).partitions
    ((400, 4000), (40, 400))
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CliffSizes:
    """The sizes of all cases. `scale` 1 is for the figures; 0.01 shows that everything runs."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a scale beyond the figures' own, or one of nothing.

        Raises:
            ValueError: The scale is out of range; it names the range.
        """
        if not 0 < self.scale <= 1:
            raise ValueError(f"scale must lie above 0 and not above 1, not {self.scale}")

    @property
    def rows(self) -> int:
        """Rows of a partitioned table, for any number of partitions."""
        return self._of(600_000, least=4_000)

    @property
    def partitions(self) -> tuple[int, int]:
        """Two numbers of partitions: few and many."""
        return self._of(400, least=3), self._of(4_000)

    @property
    def deltas(self) -> tuple[int, int]:
        """Two numbers of deltas: few and many."""
        return self._of(100, least=3), self._of(1_000)

    @property
    def delta_rows(self) -> int:
        """Rows of each delta."""
        return self._of(1_000, least=100)

    @property
    def columns(self) -> int:
        """Columns of a wide table."""
        return self._of(2_000, least=100)

    @property
    def column_rows(self) -> int:
        """Rows of a wide table."""
        return self._of(5_000, least=500)

    @property
    def text_bytes(self) -> int:
        """Bytes of each long text."""
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
        """Deltas among them, including the first and the last of all."""
        return self._of(100) + 1

    @property
    def planned_partitions(self) -> int:
        """Partitions of a planned read."""
        return self._of(10_000)

    @property
    def planned_buckets(self) -> int:
        """Files of each of these partitions."""
        return 10

    @property
    def planned_deltas(self) -> int:
        """Deltas of a planned read."""
        return self._of(1_000)

    @property
    def past_rows(self) -> int:
        """Rows of a base that is read as of a version."""
        return self._of(1_000_000, least=4_000)

    @property
    def past_deltas(self) -> int:
        """Deltas on top of that base."""
        return 20

    def _of(self, full: int, *, least: int = 4) -> int:
        return max(least, round(full * self.scale))
