"""What becomes of a file of rows that is finished, whatever its format. A plain value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """One finished file."""

    rows: int
    size_bytes: int
