"""The time of each phase of a job, measured at the steps of its transactions."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Final

# Each phase ends with one of these steps of the transaction. All other steps belong to "work".
_PHASES: Final = {
    "opened": "prepare",
    **dict.fromkeys(("allocated", "locked", "fenced", "snapshot"), "lock"),
    **dict.fromkeys(("registered", "verified", "noted", "published"), "publish"),
    **dict.fromkeys(("body_done", "committed"), "commit"),
}

log = logging.getLogger("hiveacid")


class StepClock:
    """Measures a job's phases, or kills it at one, in tests. Mutable, and shared by threads."""

    def __init__(self) -> None:
        self._stop_at = os.environ.get("HIVEACID_STOP_AT")
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._seconds: dict[str, float] = {}

    def reached(self, step: str) -> None:
        """Log a step, and add the time since the last step to the step's phase."""
        log.debug("step=%s", step)
        with self._lock:
            reached_s = time.monotonic()
            phase = _PHASES.get(step, "work")
            self._seconds[phase] = self._seconds.get(phase, 0.0) + reached_s - self._last
            self._last = reached_s
        if step == self._stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def phases(self) -> Mapping[str, float]:
        """The seconds of each phase, in the order in which the phases began."""
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}
