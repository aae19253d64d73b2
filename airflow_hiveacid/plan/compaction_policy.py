"""The rule for which thresholds of compaction apply to a table, and limits of its health.

A threshold that a task gives comes first, then the one that the table's owner has set with a table
parameter of Hive, then the default. Operators, sensors, triggers, the collector and the commands
use this rule.

Limits follow the rule of compaction, in `plan.thresholds`.

Example:
    >>> off = maintenance.Off.OFF
    >>> given = GivenThresholds(delta_count=5, delta_ratio=off, also_when={"small_files": 200})
    >>> given.plain()
    {'delta_count': 5, 'delta_ratio': 'off', 'also_when': {'small_files': 200}}
    >>> of_month = {"partition": "month=1", "small_files": 120}
    >>> health = thresholds.TableHealth(table="db.t", location="/t", **of_month)
    >>> measures = TableMeasures(healths=(health,), aborted_transactions=3)
    >>> limits = HealthLimits(small_files=100, aborted_transactions=5)
    >>> [str(one) for one in measures.reached(limits)]
    ['month=1: 120 small files (threshold 100)']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Final, Generic, Self, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.words import digits
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.plan import thresholds

# A prefix and the name of Hive's setting. Hive's Initiator looks up exactly these names, in the
# parameters of the table only (CompactorUtil.determineCompactionType). So a different letter case,
# and parameters of partitions and databases, have no effect.
COUNT_PARAMETER: Final = "compactorthreshold.hive.compactor.delta.num.threshold"
RATIO_PARAMETER: Final = "compactorthreshold.hive.compactor.delta.pct.threshold"

_T = TypeVar("_T", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenThresholds:
    """The thresholds that a task gives; at least one must apply.

    None leaves a threshold to the table: its parameter applies, or else the default. `Off.OFF`
    switches it off, even if the table has a parameter for it. The keys of `also_when` are values of
    `ALSO_WHEN`, for which Hive has no table parameters; a missing one has its default: 1000 aborted
    transactions, and otherwise none.
    """

    delta_count: int | maintenance.Off | None = None
    delta_ratio: float | maintenance.Off | None = None
    also_when: Mapping[str, float | maintenance.Off] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.delta_count, int):
            thresholds.check_delta_count(self.delta_count)
        if isinstance(self.delta_ratio, int | float):
            thresholds.check_delta_ratio(self.delta_ratio)
        for name, limit in self.also_when.items():
            thresholds.check_also_when(name, 1 if isinstance(limit, maintenance.Off) else limit)
        maintenance.check_not_all_off(self.delta_count, self.delta_ratio, self.also_when)

    @classmethod
    def of(cls, spec: maintenance.CompactSpec) -> Self:
        """Return the thresholds of a compaction."""
        return cls(
            delta_count=spec.delta_count, delta_ratio=spec.delta_ratio, also_when=spec.also_when
        )

    @property
    def counts_rows(self) -> bool:
        """True if there is a threshold for deleted rows; counting them needs the files' footers."""
        return thresholds.Threshold.DELETED_ROWS in self.also_limits

    @property
    def also_limits(self) -> dict[thresholds.Threshold, float]:
        """The thresholds of `also_when` that apply, or their defaults, sorted as `ALSO_WHEN`."""
        limits = {
            thresholds.Threshold.ABORTED_TRANSACTIONS.value: maintenance.ABORTED_TRANSACTIONS,
            **self.also_when,
        }
        chosen = ((threshold, limits.get(threshold.value)) for threshold in thresholds.ALSO_WHEN)
        return {
            threshold: limit
            for threshold, limit in chosen
            if limit is not None and not isinstance(limit, maintenance.Off)
        }

    def plain(self) -> dict[str, Any]:
        """Return the fields as plain values, for a trigger's arguments and for XCom."""
        return {
            "delta_count": _plain(self.delta_count),
            "delta_ratio": _plain(self.delta_ratio),
            "also_when": {name: _plain(limit) for name, limit in self.also_when.items()},
        }

    def texts(self) -> Iterator[str]:
        """Yield the thresholds as words, for a statement that is only shown."""
        if self.delta_count is None:
            yield f"the table's own number of deltas (default {maintenance.DELTA_COUNT})"
        elif not isinstance(self.delta_count, maintenance.Off):
            yield f"{self.delta_count} deltas"
        if self.delta_ratio is None:
            yield f"the table's own delta ratio (default {maintenance.DELTA_RATIO})"
        elif not isinstance(self.delta_ratio, maintenance.Off):
            yield f"a delta ratio of {self.delta_ratio:g}"
        for threshold, limit in self.also_limits.items():
            yield thresholds.limit_text(threshold, limit)

    def policy_for(self, table: TableInfo) -> thresholds.CompactionPolicy:
        """Return the thresholds that apply to a table; Hive's own must be exceeded, not reached."""
        count, count_origin, wrong_count = _COUNT.choose(self.delta_count, table)
        ratio, ratio_origin, wrong_ratio = _RATIO.choose(self.delta_ratio, table)
        return thresholds.CompactionPolicy(
            delta_count=count,
            delta_ratio=ratio,
            count_origin=count_origin,
            ratio_origin=ratio_origin,
            also_when=self.also_limits,
            warnings=(*wrong_count, *wrong_ratio),
        )


def _plain(given: float | maintenance.Off | None) -> float | str | None:
    return given.value if isinstance(given, maintenance.Off) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threshold(Generic[_T]):
    """A threshold's table parameter, with the parser and the range of its values."""

    parameter: str
    default: _T
    parse: Callable[[str], _T]
    check: Callable[[_T], None]
    expected: str

    def choose(
        self, given: _T | maintenance.Off | None, table: TableInfo
    ) -> tuple[_T | None, str, tuple[str, ...]]:
        """Return the value that applies, its table parameter if there is one, and complaints."""
        if given is not None:
            return (None if isinstance(given, maintenance.Off) else given), "", ()
        text = table.parameters.get(self.parameter)
        if text is None:
            return self.default, "", ()
        try:
            value = self.parse(text)
            self.check(value)
        except (ValueError, ConfigurationError):
            # Hive marks the compaction as failed. Here the default applies: without compaction,
            # readers of the table would become slower and slower, and one table's wrong parameter
            # would fail the task that compacts many tables. A ratio above 1 is valid for Hive, but
            # is a percentage by mistake, as in a task's argument (`check_delta_ratio`).
            complaint = (
                f"{table.ref}: table parameter {self.parameter}={text[:60]!r} is not"
                f" {self.expected}, so the default {self.default} applies; correct the parameter"
                " or unset it"
            )
            return self.default, "", (complaint,)
        return value, f"table parameter {self.parameter}", ()


_COUNT: Final = _Threshold(
    parameter=COUNT_PARAMETER,
    default=maintenance.DELTA_COUNT,
    parse=lambda text: int(digits(text)),
    check=thresholds.check_delta_count,
    expected="a whole number of 1 or more",
)
_RATIO: Final = _Threshold(
    parameter=RATIO_PARAMETER,
    default=maintenance.DELTA_RATIO,
    parse=lambda text: float(digits(text)),
    check=thresholds.check_delta_ratio,
    expected="a number above 0 and at most 1",
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
        for limit in fields(self):
            value = getattr(self, limit.name)
            # This form of the comparison also rejects NaN.
            if value is not None and not 0 < value < float("inf"):
                raise ConfigurationError(f"{limit.name} must be above 0, found {value}")
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


LIMITS: Final = tuple(
    thresholds.Threshold(limit.name)
    for limit in fields(HealthLimits)
    if limit.name != "small_file_bytes"
)


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
        # A threshold of compaction counts only those that a compaction would merge away.
        thresholds.Threshold.SMALL_FILES: health.small_files,
        thresholds.Threshold.DELETED_ROWS: health.deleted_rows,
    }
