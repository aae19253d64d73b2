"""The conversion of a table between flat and transactional, as a job description."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ConversionTarget(enum.Enum):
    """What a table is to be."""

    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"
    FLAT = "flat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSpec:
    """Make a flat table transactional, or the other way round, with the rows that it has."""

    target: str
    to: ConversionTarget
    plan_only: bool = False
