"""The specs of jobs that compact, clean, restore or convert a table."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

# The default thresholds for compaction in all operators, sensors and triggers.
DELTA_COUNT: Final = 10
DELTA_RATIO: Final = 0.1


class CompactionChoice(enum.Enum):
    """The requested kind of compaction."""

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSpec:
    """Compact a table or one partition (`month=1`); AUTO applies the thresholds.

    Suppose a needed compaction is blocked. Then MINOR and MAJOR fail, and AUTO only reports the
    reason in its result. AUTO compacts in two cases: there are at least `delta_count` delta
    directories, or the deltas have at least `delta_ratio` times the size of the base.
    """

    target: str
    partition: str | None = None
    choice: CompactionChoice = CompactionChoice.AUTO
    delta_count: int = DELTA_COUNT
    delta_ratio: float = DELTA_RATIO
    plan_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSpec:
    """Remove obsolete directories, aborted directories, and staging directories of crashed writers.

    `retention_s` is how long a replaced directory is kept. `orphan_age_s` is the minimum age of a
    staging directory to remove.
    """

    target: str
    partition: str | None = None
    retention_s: float = 0.0
    orphan_age_s: float = 86400.0
    plan_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSpec:
    """Restore the rows that a table had at a version, with one overwrite.

    `version` is `VersionSpec.text`. Partitions without rows at that version become empty. Unchanged
    partitions are not rewritten. The job fails if a partition was dropped after the version, or if
    the version is unreadable. With `plan_only`, the job changes nothing.
    """

    target: str
    version: str
    plan_only: bool = False


class ConversionTarget(enum.Enum):
    """The kind of table that a conversion creates."""

    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"
    FLAT = "flat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSpec:
    """Make a flat table transactional, or a transactional table flat; keep its rows."""

    target: str
    to: ConversionTarget
    plan_only: bool = False
