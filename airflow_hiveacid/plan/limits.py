"""Limits of a table's health, and the rule for when a table or partition reaches a limit.

The rule is that of compaction, in `plan.thresholds`.

Example:
    >>> of_month = {"partition": "month=1", "small_files": 120}
    >>> health = thresholds.TableHealth(table="db.t", location="/t", **of_month)
    >>> measures = TableMeasures(healths=(health,), aborted_transactions=3)
    >>> limits = HealthLimits(small_files=100, aborted_transactions=5)
    >>> [str(one) for one in measures.reached(limits)]
    ['month=1: 120 small files (threshold 100)']
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan import thresholds

LIMITS: Final = (
    thresholds.Threshold.DELTA_COUNT,
    thresholds.Threshold.DELTA_RATIO,
    thresholds.Threshold.OBSOLETE_DIRECTORIES,
    thresholds.Threshold.ABORTED_DIRECTORIES,
    thresholds.Threshold.SMALL_FILES,
    thresholds.Threshold.DELETED_ROWS,
    thresholds.Threshold.ABORTED_TRANSACTIONS,
    thresholds.Threshold.OLDEST_TRANSACTION_S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Limits of a table's health, at least one; a value reaches a limit if it is equal or higher.

    No default and no table parameter replaces a limit that is None. The names are values of
    `LIMITS`. Limits of transactions apply to the whole table, all others to each partition. A file
    below `small_file_bytes` counts as small.
    """

    delta_count: int | None = None
    delta_ratio: float | None = None
    obsolete_directories: int | None = None
    aborted_directories: int | None = None
    small_files: int | None = None
    deleted_rows: int | None = None
    aborted_transactions: int | None = None
    oldest_transaction_s: float | None = None
    small_file_bytes: int = thresholds.SMALL_FILE_BYTES

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # This form of the comparison also rejects NaN.
            if value is not None and not 0 < value < float("inf"):
                raise ConfigurationError(f"{field.name} must be above 0, found {value}")
        if self.delta_ratio is not None:
            thresholds.check_delta_ratio(self.delta_ratio)
        if not self.by_threshold:
            names = ", ".join(threshold.value for threshold in LIMITS)
            raise ConfigurationError(f"no limit is given; give at least one of {names}")

    @property
    def counts_leftovers(self) -> bool:
        """True if there is a limit for directories that compactions leave without a write ID."""
        return self.obsolete_directories is not None or self.aborted_directories is not None

    @property
    def by_threshold(self) -> dict[thresholds.Threshold, float]:
        """The limits that are not None."""
        limits = ((threshold, getattr(self, threshold.value)) for threshold in LIMITS)
        return {threshold: limit for threshold, limit in limits if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit:
    """A limit that a partition has reached; `partition` is empty for the whole table."""

    partition: str
    exceeded: thresholds.Exceeded

    def record(self) -> dict[str, thresholds.Scalar]:
        """Return the fields as plain values, for XCom."""
        return {
            "partition": self.partition,
            "measure": self.exceeded.threshold.value,
            "measured": self.exceeded.measured,
            "limit": self.exceeded.limit,
        }

    def __str__(self) -> str:
        return f"{self.partition}: {self.exceeded}" if self.partition else str(self.exceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasures:
    """The measurements of a table's partitions and of its transactions.

    `oldest_transaction_s` is the age of the oldest transaction that cleaning waits for, or None if
    there is no such transaction.
    """

    healths: tuple[thresholds.TableHealth, ...]
    aborted_transactions: int = 0
    oldest_transaction_s: float | None = None

    def reached(self, limits: HealthLimits) -> tuple[ReachedLimit, ...]:
        """Return the limits that are reached, sorted by how far they are exceeded."""
        parts = [("", self._of_table)]
        parts += [(health.partition, _of_partition(health)) for health in self.healths]
        limits_reached = [
            ReachedLimit(partition=partition, exceeded=limit)
            for partition, measured in parts
            for limit in thresholds.reached(measured, limits.by_threshold, {})
        ]
        return tuple(sorted(limits_reached, key=lambda e: -e.exceeded.measured / e.exceeded.limit))

    def highest(self, limits: HealthLimits) -> dict[str, float]:
        """Return the highest measured value for each limit; 0 if there is no value."""
        each = [self._of_table, *map(_of_partition, self.healths)]
        highest = {
            threshold.value: max((values.get(threshold) or 0 for values in each), default=0)
            for threshold in limits.by_threshold
        }
        return {
            name: float(value) if isinstance(value, Fraction) else value
            for name, value in highest.items()
        }

    @property
    def _of_table(self) -> dict[thresholds.Threshold, thresholds.Measured]:
        return {
            thresholds.Threshold.ABORTED_TRANSACTIONS: self.aborted_transactions,
            thresholds.Threshold.OLDEST_TRANSACTION_S: self.oldest_transaction_s,
        }


def _of_partition(
    health: thresholds.TableHealth,
) -> dict[thresholds.Threshold, thresholds.Measured]:
    return {
        **thresholds.of_deltas(health),
        thresholds.Threshold.OBSOLETE_DIRECTORIES: health.obsolete,
        thresholds.Threshold.ABORTED_DIRECTORIES: health.aborted,
        thresholds.Threshold.SMALL_FILES: health.small_files,
        thresholds.Threshold.DELETED_ROWS: health.deleted_rows,
    }
