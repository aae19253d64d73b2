"""The failed compactions of a partition in a row, as a note of the table records them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailures:
    """The number of jobs that failed since the last success, and what the last one reported.

    `job_key` is the last job, whose retries do not count again. `last_s` is the time of its
    failure, in seconds since 1970. `why` is its error.
    """

    count: int
    job_key: str
    last_s: float
    why: str
