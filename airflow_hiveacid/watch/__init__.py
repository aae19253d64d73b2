"""Conditions of a table that sensors and assets wait for, and the triggers that poll for them.

This module has the result of one poll of a table, and the rule for polls that fail.

Example:
    >>> from airflow_hiveacid.format.errors import StorageError
    >>> Outage(max_s=600).after(StorageError("busy"), now_s=5.0)
    Outage(max_s=600, since_s=5.0)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.plan.looks import LastLook

DEFAULT_MAX_OUTAGE_S: Final = 900.0
"""The seconds of failed polls after which a sensor gives up, unless its `max_outage_s` differs.

The time is long enough to restart a metastore or a name node.
"""


class CheckedVersion(NamedTuple):
    """The newest version of a table that a poll has checked without finding new data.

    `table_id` distinguishes the table from an earlier table of the same name.
    """

    table_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of one poll: plain values, and one line for the log.

    `findings` is empty while the condition is not met. `checked` and `look` are for the next poll.
    """

    summary: str
    findings: tuple[dict[str, Any], ...] = ()
    checked: CheckedVersion | None = None
    look: LastLook | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A series of failed polls, during which a sensor continues to wait.

    `max_s` is the longest outage, or None for no limit. `since_s` is the time of the first failure,
    or None if the last poll succeeded. `since_s` is in seconds since 1970, because it is passed
    between processes.
    """

    max_s: float | None
    since_s: float | None = None

    def after(self, error: HiveAcidError, *, now_s: float) -> Outage:
        """Return this outage with one more failed poll added.

        Raises the error if no retry helps, or the outage has lasted longer than `max_s`. It reaches
        Airflow unchanged, and never as an AirflowFailException: Airflow does not pass that to a
        retry policy. With `soft_fail`, Airflow would skip the task, so a task with invalid settings
        would look like a task that found no new data.
        """
        since_s = now_s if self.since_s is None else self.since_s
        has_lasted = self.max_s is not None and now_s - since_s > self.max_s
        if has_lasted or not error.retryable:
            raise error
        return replace(self, since_s=since_s)
