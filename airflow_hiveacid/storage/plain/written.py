"""The result of writing a file of rows in any format, as a plain value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """One finished file."""

    rows: int
    size_bytes: int
