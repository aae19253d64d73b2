"""Which doing of a job something belongs to: the one name that a submission has everywhere.

A task that runs again has the same job key; each time that it is submitted is an attempt of its
own. The attempt's ID stands in the job description, in the locks, in staging directories and in the
ledger, so that whoever finds something can tell whose it is.

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
"""What `str(AttemptId)` looks like, for larger grammars."""

_PATTERN: Final = re.compile(ATTEMPT_PATTERN)
_NONCE: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One submission of a job: the task's try number, and what no other submission has.

    Try numbers of one task only grow, also when it is cleared. 0 stands for no task.
    """

    try_number: int
    nonce: str

    def __post_init__(self) -> None:
        if self.try_number < 0 or not _NONCE.fullmatch(self.nonce):
            raise InvalidNameError(name=f"{self.try_number}-{self.nonce}", what="attempt ID")

    @classmethod
    def new(cls, try_number: int = 0) -> Self:
        """An attempt that there has never been."""
        return cls(try_number, uuid.uuid4().hex[:12])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes.

        Raises:
            InvalidNameError: it is something else.
        """
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise InvalidNameError(name=text, what="attempt ID (expected <try>-<12 hex digits>)")
        return cls(int(match["try_number"]), match["nonce"])

    def __str__(self) -> str:
        return f"{self.try_number}-{self.nonce}"

    def may_end(self, other: AttemptId) -> bool:
        """Whether who kills this attempt may end that one: itself, or an earlier try."""
        return other == self or other.try_number < self.try_number
