"""Looks at a table's partitions, and which writes have ended since.

The metastore says which write IDs have ended since a look, but not which partitions they changed.
The notes of our commits say that. If one write ID has no note, a writer of another engine may have
changed any partition, so all of them need a new look.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Final

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, RangeVisibility
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.plan.keeping import duration
from airflow_hiveacid.plan.thresholds import TableHealth, Threshold

FULL_LOOK: Final = "hiveacid.full.look.every"
"""The table parameter that sets after which time all partitions are looked at again: `1 hour`.

Only a full look finds what has no write ID, such as files that a user has moved.
"""

_MOST_WRITES: Final = 10_000
"""The most write IDs whose notes are read. After more of them, a full look hardly costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at all partitions of a table.

    `write_id` is the highest write ID that a compactor could process. `full_s` is when all
    partitions were looked at, in seconds since 1970. `every_s` is the default of `FULL_LOOK`.
    """

    every_s: ClassVar[float]

    table_id: str
    location: str
    write_id: WriteId
    full_s: float

    def news(self, table: TableInfo, write_ids: CompactorWriteIdList, now_s: float) -> range | None:
        """Return the write IDs that ended since; None if all partitions need a new look.

        An aborted write has no note, and its directories may be in any partition. Raises
        ConfigurationError if the table parameter `FULL_LOOK` is not a duration.
        """
        first, last = self.write_id + 1, write_ids.high_watermark
        text = table.parameters.get(FULL_LOOK)
        every_s = self.every_s if text is None else duration(text, f"table parameter {FULL_LOOK}")
        is_same = (table.table_id, table.location) == (self.table_id, self.location)
        is_known = first - 1 <= last < first + _MOST_WRITES
        if not (is_same and is_known and 0 <= now_s - self.full_s < every_s):
            return None
        visible = write_ids.range_visibility(WriteId(first), last) if first <= last else None
        return range(first, last + 1) if visible in (None, RangeVisibility.ALL) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook(Look):
    """The measurements of all partitions, for the next poll of the same process.

    A full look at 10,000 partitions takes 9.4 CPU seconds, so one each hour takes 0.3 % of a core.
    """

    every_s: ClassVar[float] = 3600.0

    healths: tuple[TableHealth, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLook(Look):
    """The look of a compaction job, for the next job with the same `terms`.

    `others` are the partitions that the next job plans again: those that were due or prevented, or
    whose plan failed. All others were below the thresholds.
    """

    every_s: ClassVar[float] = 86400.0

    terms: str
    others: tuple[str, ...]


def depends_on_time(thresholds: Collection[Threshold]) -> bool:
    """Return True if a partition may reach one of these thresholds without a write."""
    return not {Threshold.OLDEST_ABORTED_S, Threshold.OLDEST_DELTA_S}.isdisjoint(thresholds)
