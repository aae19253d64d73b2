"""A clock that stands still until somebody sleeps."""

from __future__ import annotations

import threading
import time
from typing import Final

from airflow_hiveacid.metastore.transactions import Clock

_GLANCE_S: Final = 0.001
_LONGEST_REAL_WAIT_S: Final = 30.0


class ManualClock(Clock):
    """Time moves when `sleep` or `advance` is called, by that much; waiting threads notice."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._guard = threading.Lock()
        self.slept_s: list[float] = []

    def monotonic(self) -> float:
        with self._guard:
            return self._now_s

    def advance(self, seconds: float) -> None:
        with self._guard:
            self._now_s += seconds

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.advance(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Returns when the event is set or the time has come, by this clock."""
        due_s = self.monotonic() + seconds
        give_up_s = time.monotonic() + _LONGEST_REAL_WAIT_S
        while self.monotonic() < due_s and time.monotonic() < give_up_s:
            if event.wait(_GLANCE_S):
                return True
        return event.is_set()
