"""Limits of a table's health, and the rule for when a table or partition reaches a limit.

Input is the measurements of a table and limits. Output is each limit that is reached, with the
partition and the measured value. Sensors and compaction share the rule for deltas, which is in
`plan.thresholds`.

Example:
    >>> health = TableHealth(table="db.t", location="/t", partition="month=1", small_files=120)
    >>> measures = TableMeasures(healths=(health,), aborted_transactions=3)
    >>> limits = HealthLimits(small_files=100, aborted_transactions=5)
    >>> [str(one) for one in measures.reached(limits)]
    ['month=1: 120 small files (threshold 100)']
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan.thresholds import (
    SMALL_FILE_BYTES,
    CompactionPolicy,
    Exceeded,
    TableHealth,
    Threshold,
    check_delta_ratio,
    exceeded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.plan.thresholds import Scalar


LIMITS: Final = (
    Threshold.DELTA_COUNT,
    Threshold.DELTA_RATIO,
    Threshold.OBSOLETE_DIRECTORIES,
    Threshold.ABORTED_DIRECTORIES,
    Threshold.SMALL_FILES,
    Threshold.DELETED_ROWS,
    Threshold.ABORTED_TRANSACTIONS,
    Threshold.OLDEST_TRANSACTION_S,
)
"""The limits of a table's health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Limits of a table's health; a measured value reaches a limit if it is equal or higher.

    A limit that is None is not given; no default and no table parameter replaces it. Each limit's
    name is a value of `LIMITS`. Limits of transactions apply to the whole table. All other
    limits apply to each partition. A file below `small_file_bytes` counts as small.

    Raises:
        ConfigurationError: a limit is not above 0, or there is no limit.
    """

    delta_count: int | None = None
    delta_ratio: float | None = None
    obsolete_directories: int | None = None
    aborted_directories: int | None = None
    small_files: int | None = None
    deleted_rows: int | None = None
    aborted_transactions: int | None = None
    oldest_transaction_s: float | None = None
    small_file_bytes: int = SMALL_FILE_BYTES

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # This form of the comparison also rejects NaN.
            if value is not None and not 0 < value < float("inf"):
                raise ConfigurationError(f"{field.name} must be above 0, found {value}")
        if self.delta_ratio is not None:
            check_delta_ratio(self.delta_ratio)
        if all(self.of(threshold) is None for threshold in LIMITS):
            names = ", ".join(threshold.value for threshold in LIMITS)
            raise ConfigurationError(f"no limit is given; give at least one of {names}")

    def record(self) -> dict[str, Scalar]:
        """Return the fields as plain values, for a trigger's arguments."""
        return asdict(self)

    @property
    def deltas(self) -> CompactionPolicy:
        """The limits of the deltas."""
        return CompactionPolicy(
            delta_count=self.delta_count, delta_ratio=self.delta_ratio, also_when={}
        )

    def of(self, threshold: Threshold) -> float | None:
        """Return one limit, or None if it is not given."""
        limit: float | None = getattr(self, threshold.value)
        return limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit:
    """A limit that a partition has reached; `partition` is empty for the whole table."""

    partition: str
    exceeded: Exceeded

    def record(self) -> dict[str, Scalar]:
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

    healths: tuple[TableHealth, ...]
    aborted_transactions: int = 0
    oldest_transaction_s: float | None = None

    def reached(self, limits: HealthLimits) -> tuple[ReachedLimit, ...]:
        """Return the limits that are reached, sorted by how far they are exceeded."""
        found = [ReachedLimit(partition="", exceeded=e) for e in _reached(self._of_table, limits)]
        for health in self.healths:
            both = (*exceeded(health, limits.deltas), *_reached(_of_partition(health), limits))
            found += (ReachedLimit(partition=health.partition, exceeded=e) for e in both)
        return tuple(sorted(found, key=lambda e: -e.exceeded.measured / e.exceeded.limit))

    def highest(self, limits: HealthLimits) -> dict[str, float]:
        """Return the highest measured value for each limit; 0 if there is no value."""
        each = [self._of_table]
        for one in self.healths:
            deltas = {
                Threshold.DELTA_COUNT: one.delta_count,
                Threshold.DELTA_RATIO: one.delta_ratio,
            }
            each.append({**_of_partition(one), **deltas})
        return {
            threshold.value: max((values.get(threshold) or 0 for values in each), default=0)
            for threshold in LIMITS
            if limits.of(threshold) is not None
        }

    @property
    def _of_table(self) -> dict[Threshold, float | None]:
        return {
            Threshold.ABORTED_TRANSACTIONS: self.aborted_transactions,
            Threshold.OLDEST_TRANSACTION_S: self.oldest_transaction_s,
        }


def _of_partition(health: TableHealth) -> dict[Threshold, float | None]:
    return {
        Threshold.OBSOLETE_DIRECTORIES: health.obsolete,
        Threshold.ABORTED_DIRECTORIES: health.aborted,
        Threshold.SMALL_FILES: health.small_files,
        Threshold.DELETED_ROWS: health.deleted_rows,
    }


def _reached(
    measured: Mapping[Threshold, float | None], limits: HealthLimits
) -> Iterator[Exceeded]:
    for threshold, value in measured.items():
        limit = limits.of(threshold)
        if limit is not None and value is not None and value >= limit:
            yield Exceeded(threshold=threshold, measured=value, limit=limit)
