"""The end of a window of quiet hours: a time of day in a time zone, or a moment.

Does not know the time now.

Example:
    >>> began = datetime(2026, 11, 27, 1, tzinfo=ZoneInfo("Europe/Zurich"))
    >>> print(WindowEnd.parse("05:00 Europe/Zurich").after(began))
    2026-11-27 05:00:00+01:00
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_hiveacid.format.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The end of a window: the next time of day in a zone, or the same moment for every window."""

    at: time | datetime
    zone: ZoneInfo | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `05:00 Europe/Zurich`, or an ISO 8601 time with an offset."""
        with suppress(ValueError):
            moment = datetime.fromisoformat(text.strip())
            if moment.tzinfo is not None:
                return cls(moment)
        clock, _, zone = text.strip().partition(" ")
        with suppress(ValueError, ZoneInfoNotFoundError, OSError):
            return cls(time.fromisoformat(clock), ZoneInfo(zone))
        raise ConfigurationError(
            f"expected a time of day with its zone, such as '05:00 Europe/Zurich', or a time with"
            f" an offset, such as '2026-11-27T05:00+01:00', found {text!r}"
        )

    def after(self, began: datetime) -> datetime:
        """Return when a window ends that began at this moment.

        For a time of day, this is the first later moment at which a clock in the zone shows it. If
        the clocks are set forward over the time, the window ends later by the skipped time.
        """
        if isinstance(self.at, datetime):
            return self.at
        day = began.astimezone(self.zone).date()
        moments = (
            datetime.combine(day + timedelta(days), self.at, self.zone).replace(fold=fold)
            for days in range(3)
            for fold in (0, 1)
        )
        # Compare in UTC: Python compares times of the same zone by their clocks. If the clocks skip
        # the time, the fold 1 is before the fold 0, so it is never the first.
        return next(end for end in moments if end.astimezone(UTC) > began.astimezone(UTC))
