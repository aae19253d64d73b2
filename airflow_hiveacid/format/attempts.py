"""The attempt ID, which identifies one submission of a job.

A task that runs again keeps its job key, but every submission is a new attempt. The job
description, the locks, the staging directories and the ledger show which attempt made them.

Example:
    >>> AttemptId.parse("2-00c0ffee0123")
    AttemptId(try_number=2, nonce='00c0ffee0123')
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.errors import InvalidNameError

ATTEMPT_PATTERN: Final = r"(?P<try_number>\d{1,6})-(?P<nonce>[0-9a-f]{12})"
"""The pattern of `str(AttemptId)`, for use in larger patterns."""

_PATTERN: Final = re.compile(ATTEMPT_PATTERN)
_NONCE: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One submission of a job: the task's try number and a unique nonce.

    A task's try number never decreases, even if it is cleared. 0 means that there is no task.
    """

    try_number: int
    nonce: str

    def __post_init__(self) -> None:
        if self.try_number < 0 or not _NONCE.fullmatch(self.nonce):
            raise InvalidNameError(name=f"{self.try_number}-{self.nonce}", what="attempt ID")

    @classmethod
    def new(cls, try_number: int = 0) -> Self:
        """Return the ID of a new attempt."""
        return cls(try_number, uuid.uuid4().hex[:12])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the string form of an attempt ID. Raises InvalidNameError."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise InvalidNameError(name=text, what="attempt ID (expected <try>-<12 hex digits>)")
        return cls(int(match["try_number"]), match["nonce"])

    def __str__(self) -> str:
        return f"{self.try_number}-{self.nonce}"

    def may_end(self, other: AttemptId) -> bool:
        """Return whether a kill of this attempt may also end `other`."""
        return other == self or other.try_number < self.try_number
