"""A clock with a monotonic time and two ways to wait; tests can replace it.

Holds the `Clock` protocol and this machine's implementation. All values are seconds.

Example:
    >>> clock = SystemClock()
    >>> clock.monotonic() <= clock.monotonic()
    True
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time for transactions."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; the value never decreases."""

    def sleep(self, seconds: float) -> None:
        """Block for the given number of seconds."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; return True if the event is set."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; the value never decreases."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block for the given number of seconds."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; return True if the event is set."""
        return event.wait(seconds)
