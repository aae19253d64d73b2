"""The quiet hours of a running job, and what happens to its partitions at their end.

Input is a job's spec. `plan.window` says when a window ends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_hiveacid.jobs.specs.maintenance import AtEnd

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.specs.maintenance import CompactSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time in which a job may start partitions; `until_s` is None if it has no end.

    If `stops`, the job also stops the running partitions at the end.
    """

    until_s: float | None = None
    stops: bool = False

    @classmethod
    def of(cls, spec: CompactSpec) -> Self:
        """Return the window of a job; a plan has no end, because it changes nothing."""
        if spec.until_s is None or spec.plan_only:
            return cls()
        return cls(until_s=spec.until_s, stops=spec.at_end is AtEnd.STOP)

    @property
    def is_over(self) -> bool:
        """True once no partition may start."""
        return self.until_s is not None and time.time() >= self.until_s

    @property
    def is_stopped(self) -> bool:
        """True once no partition may run."""
        return self.stops and self.is_over
