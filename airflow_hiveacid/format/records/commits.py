"""Notes of commits; a note contains the changes of a commit, and bounds for its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_hiveacid.format.ids import TxnId, WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBounds:
    """A time span from `after_s` to `by_s`, in seconds since 1970; None is an unknown bound."""

    after_s: float | None = None
    by_s: float | None = None

    def within(self, other: TimeBounds) -> TimeBounds:
        """Return the intersection of two spans."""
        starts = [s for s in (self.after_s, other.after_s) if s is not None]
        ends = [s for s in (self.by_s, other.by_s) if s is not None]
        return TimeBounds(after_s=max(starts, default=None), by_s=min(ends, default=None))

    @property
    def is_one(self) -> bool:
        """True if the span is not empty."""
        return self.after_s is None or self.by_s is None or self.after_s <= self.by_s

    def __str__(self) -> str:
        parts = []
        if self.after_s is not None:
            parts.append(f"after {time_text(self.after_s)}")
        if self.by_s is not None:
            parts.append(f"by {time_text(self.by_s)}")
        return " and ".join(parts) or "at an unknown time"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """The effect of one committed write by this provider on one table.

    `table_id` tells the table from an earlier one of the same name and location. `kind` names the
    statements. `directories` are relative to the table's location, so that a rename does not change
    them; others are URIs. `committed` contains the commit; `opened_s` is before the allocation of
    the write ID. `seen` is the table's write ID list in the writer's snapshot, in Hive's string
    form, taken between `seen_after_s` and `seen_by_s`; it is empty if the metastore did not return
    a time.
    """

    table_id: str
    write_id: WriteId
    txn_id: TxnId
    job_key: str
    attempt: str
    kind: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    directories: tuple[str, ...] = ()
    opened_s: float | None = None
    seen: str = ""
    seen_after_s: float = 0.0
    seen_by_s: float = 0.0
    committed: TimeBounds = field(default_factory=TimeBounds)


def time_text(seconds: float) -> str:
    """Format a time in UTC, to the millisecond.

    Example:
        >>> time_text(1.5)
        '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03d}Z"
