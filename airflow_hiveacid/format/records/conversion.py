"""The notes that a conversion writes before it changes any file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file to rename; both paths are relative to the location of a table or partition."""

    location: str
    source: str
    target: str
