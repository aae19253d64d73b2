"""The rule that decides when to repeat the event for a table that needs compaction.

A table stays above a threshold until a compaction commits, so the rule needs the time of the last
event. With many writers, no poll may see it below, so the rule also needs ended compactions.

Example:
    >>> last = Firing(table_id="3", write_id=7, at_s=1000.0, ended_entry=0)
    >>> later = Firing(table_id="3", write_id=8, at_s=1060.0, ended_entry=0)
    >>> fires(None, last, refire_after_s=3600), fires(last, later, refire_after_s=3600)
    (True, False)
    >>> fires(last, replace(later, ended_entry=1), refire_after_s=3600)
    True
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The state of a table that needs compaction, at the time of an event or of a poll.

    `table_id` distinguishes the table from an earlier one of the same name. `write_id` is the
    highest that a compaction may cover. `at_s` is in seconds since 1970. `ended_entry` is the ID of
    the newest compaction in the queue that has succeeded or failed: 0 if none has, None if the
    queue could not be read. `is_compacting` is true if a compaction is waiting or at work.
    """

    table_id: str
    write_id: int
    at_s: float
    ended_entry: int | None
    is_compacting: bool = False


def fires(last: Firing | None, now: Firing, *, refire_after_s: float) -> bool:
    """Return whether a table gets an event; without `last`, it has needed no compaction before."""
    if last is None or last.table_id != now.table_id:
        return True
    # A negative elapsed time means that the clock was set back.
    if not 0 <= now.at_s - last.at_s < refire_after_s:
        return True
    return _has_compaction_ended(last, now) and now.write_id > last.write_id


def can_fire(last: Firing | None, now: Firing, *, refire_after_s: float) -> bool:
    """Return false if `fires` would be false for every state of the compaction queue."""
    if last is None:
        return True
    newer = replace(now, ended_entry=(last.ended_entry or 0) + 1, is_compacting=False)
    return fires(last, newer, refire_after_s=refire_after_s)


def _has_compaction_ended(last: Firing, now: Firing) -> bool:
    if last.ended_entry is None or now.ended_entry is None or now.is_compacting:
        return False
    # A compaction that was at work at the last event may have a lower ID than an ended compaction.
    return last.is_compacting or now.ended_entry > last.ended_entry
