"""What time is: a monotonic reading and two ways of waiting, so that tests can own it.

Takes nothing; gives the `Clock` protocol and the one of this machine. All values are seconds.

Example:
    >>> clock = SystemClock()
    >>> clock.monotonic() <= clock.monotonic()
    True
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading


class Clock(Protocol):
    """Time as the transaction sees it."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Return when the event is set, or after that many seconds; tells whether it is set."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Return when the event is set, or after that many seconds; tells whether it is set."""
        return event.wait(seconds)
