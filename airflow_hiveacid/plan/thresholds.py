"""Measurements of a table's health, and the rules that decide when it needs compaction.

Takes a policy, and the ACID state of a directory as a compactor sees it. Returns the thresholds
that are reached. A compactor sees only writes below the lowest open write ID, so all counted deltas
can be compacted. Sensors, triggers and compaction plans use these rules.

Example:
    >>> health = TableHealth(table="db.t", location="/t", base_bytes=1000, deltas=9, delta_bytes=99)
    >>> exceeded(health, CompactionPolicy())
    ()
    >>> from dataclasses import replace
    >>> [str(e) for e in exceeded(replace(health, delta_bytes=100), CompactionPolicy())]
    ['deltas hold 10.0 % of the base (threshold 10.0 %)']
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.words import age_text
from airflow_hiveacid.jobs.specs.maintenance import DELTA_COUNT, DELTA_RATIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hiveacid.format.state.acid_state import AcidState

Scalar = str | int | float | None
"""A JSON value in a record of measurements."""

SMALL_FILE_BYTES: Final = 16_000_000
"""The limit for small files: the default of Hive's `hive.merge.smallfiles.avgsize`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The thresholds that apply to a table; 10 deltas reach a threshold of 10.

    A threshold that is None does not apply; `plan.compaction_policy` decides that. `delta_count`
    counts delta and delete delta directories together, as Hive's Initiator does
    (AcidDirectory.getCurrentDirectories). `delta_ratio` is the size of delta and delete delta
    directories as a fraction of the base's size. `count_origin` and `ratio_origin` name the table
    parameter that sets the threshold; they are empty for all other thresholds. `warnings` are
    complaints about table parameters that do not apply because their values are wrong.

    Raises:
        ConfigurationError: a threshold is not positive, or the ratio is above 1.
    """

    delta_count: int | None = DELTA_COUNT
    delta_ratio: float | None = DELTA_RATIO
    count_origin: str = ""
    ratio_origin: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delta_count is not None:
            check_delta_count(self.delta_count)
        if self.delta_ratio is not None:
            check_delta_ratio(self.delta_ratio)

    def __str__(self) -> str:
        parts = []
        if self.delta_count is not None:
            parts.append(f"{self.delta_count} deltas{_by(self.count_origin)}")
        if self.delta_ratio is not None:
            parts.append(f"{100 * self.delta_ratio:g} %{_by(self.ratio_origin)}")
        return " or ".join(parts)


def _by(origin: str) -> str:
    return f" by {origin}" if origin else ""


def check_delta_count(value: int) -> None:
    """Check a threshold for the number of deltas.

    Raises:
        ConfigurationError: the value is below 1.
    """
    if value < 1:
        raise ConfigurationError(f"delta_count must be 1 or more, found {value}")


def check_delta_ratio(value: float) -> None:
    """Check a threshold for the bytes of deltas, as a fraction of the base's bytes.

    Raises:
        ConfigurationError: the value is not above 0, or is above 1. Such a value is a percentage by
            mistake, and the table would hardly ever be compacted.
    """
    if not value > 0:  # this form of the comparison also rejects NaN
        raise ConfigurationError(f"delta_ratio must be above 0, found {value}")
    if value > 1:
        raise ConfigurationError(
            f"delta_ratio must be at most 1, found {value:g}. It is a fraction of the base's size:"
            f" {value:g} means {100 * value:,g} %. For {value:g} %, use {value / 100:g}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The measurements of the directory of a table or partition.

    `base` is the name of the visible base. `base_bytes` is the size of the base, or of the original
    files if there is no base. Only visible deltas are counted. `obsolete` and `aborted` are the
    numbers of directories that the cleaner has not removed yet. `small_files` is the number of
    visible data files below `SMALL_FILE_BYTES`, or below the size that was passed to `of`.
    `deleted_rows` is the number of visible delete events, or None if they were not counted.
    """

    table: str
    location: str
    partition: str = ""
    base: str | None = None
    base_bytes: int = 0
    original_files: int = 0
    deltas: int = 0
    delete_deltas: int = 0
    delta_bytes: int = 0
    delete_delta_bytes: int = 0
    obsolete: int = 0
    aborted: int = 0
    small_files: int = 0
    deleted_rows: int | None = None

    @classmethod
    def of(
        cls,
        state: AcidState,
        *,
        table: str = "",
        partition: str = "",
        small_file_bytes: int = SMALL_FILE_BYTES,
    ) -> TableHealth:
        """Return the measurements of a directory's ACID state."""
        base = state.base
        files = [*state.originals, *(file for one in state.live for file in one.files)]
        originals = sum(file.size_bytes for file in state.originals)
        return cls(
            table=table,
            location=state.location,
            partition=partition,
            base=base.text if base else None,
            base_bytes=base.size_bytes if base else originals,
            original_files=len(state.originals),
            deltas=len(state.deltas),
            delete_deltas=len(state.delete_deltas),
            delta_bytes=sum(delta.size_bytes for delta in state.deltas),
            delete_delta_bytes=sum(delta.size_bytes for delta in state.delete_deltas),
            obsolete=len(state.obsolete),
            aborted=len(state.aborted),
            small_files=sum(1 for file in files if file.size_bytes < small_file_bytes),
        )

    @property
    def delta_count(self) -> int:
        """Number of visible delta and delete delta directories."""
        return self.deltas + self.delete_deltas

    @property
    def changed_bytes(self) -> int:
        """Bytes in all visible deltas and delete deltas."""
        return self.delta_bytes + self.delete_delta_bytes

    @property
    def delta_ratio(self) -> float | None:
        """Bytes of all visible deltas as a fraction of the base's bytes; None without a base."""
        return self.changed_bytes / self.base_bytes if self.base_bytes else None

    def record(self) -> dict[str, Scalar]:
        """Return all measurements as plain JSON values, for an XCom or an event."""
        return {**asdict(self), "delta_count": self.delta_count, "delta_ratio": self.delta_ratio}


class Threshold(enum.Enum):
    """The kind of threshold that was reached."""

    DELTA_COUNT = "delta_count"
    DELTA_RATIO = "delta_ratio"
    OBSOLETE_DIRECTORIES = "obsolete_directories"
    ABORTED_DIRECTORIES = "aborted_directories"
    SMALL_FILES = "small_files"
    DELETED_ROWS = "deleted_rows"
    ABORTED_TRANSACTIONS = "aborted_transactions"
    OLDEST_TRANSACTION_S = "oldest_transaction_s"


_NOUNS: Final[Mapping[Threshold, str]] = {
    Threshold.DELTA_COUNT: "delta directories",
    Threshold.OBSOLETE_DIRECTORIES: "obsolete directories",
    Threshold.ABORTED_DIRECTORIES: "aborted directories",
    Threshold.SMALL_FILES: "small files",
    Threshold.DELETED_ROWS: "deleted rows",
    Threshold.ABORTED_TRANSACTIONS: "aborted transactions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A threshold that was reached, with the measured value.

    `origin` names the table parameter that sets the threshold, or is empty.
    """

    threshold: Threshold
    measured: float
    limit: float
    origin: str = ""

    def __str__(self) -> str:
        origin = _by(self.origin)
        match self.threshold:
            case Threshold.DELTA_RATIO:
                measured, limit = 100 * self.measured, 100 * self.limit
                return f"deltas hold {measured:.1f} % of the base (threshold {limit:.1f} %{origin})"
            case Threshold.OLDEST_TRANSACTION_S:
                open_for, limit_text = age_text(self.measured), age_text(self.limit)
                return f"a transaction has been open for {open_for} (threshold {limit_text})"
            case _:
                noun = _NOUNS[self.threshold]
                return f"{self.measured:.0f} {noun} (threshold {self.limit:.0f}{origin})"


def exceeded(health: TableHealth, policy: CompactionPolicy) -> tuple[Exceeded, ...]:
    """Return the thresholds that a directory has reached; the ratio comes first.

    If there is no base, or the base is empty, only the count applies, as in Hive's
    Initiator.determineCompactionType. If the ratio applied as well, the first insert into every new
    table would cause a compaction.
    """
    ratio, count = health.delta_ratio, health.delta_count
    found: list[Exceeded] = []
    if policy.delta_ratio is not None and ratio is not None:
        # Use exact arithmetic: with the float 0.1, a ratio of exactly 10 % might not reach the
        # threshold.
        limit_bytes = Fraction(str(policy.delta_ratio)) * health.base_bytes
        if health.changed_bytes >= limit_bytes:
            found.append(
                Exceeded(
                    threshold=Threshold.DELTA_RATIO,
                    measured=ratio,
                    limit=policy.delta_ratio,
                    origin=policy.ratio_origin,
                )
            )
    if policy.delta_count is not None and count >= policy.delta_count:
        found.append(
            Exceeded(
                threshold=Threshold.DELTA_COUNT,
                measured=count,
                limit=policy.delta_count,
                origin=policy.count_origin,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDirectory:
    """A directory that needs compaction, and the thresholds that it has reached."""

    health: TableHealth
    reached: tuple[Exceeded, ...]

    def record(self) -> dict[str, Scalar]:
        """Return the measurements and `why` as plain JSON values, for an XCom or an event."""
        return {**self.health.record(), "why": " and ".join(str(e) for e in self.reached)}


def due(healths: Iterable[TableHealth], policy: CompactionPolicy) -> tuple[DueDirectory, ...]:
    """Return the directories that have reached a threshold, in the given order."""
    judged = (DueDirectory(health=health, reached=exceeded(health, policy)) for health in healths)
    return tuple(finding for finding in judged if finding.reached)


def decide(state: AcidState, policy: CompactionPolicy) -> tuple[bool | None, str]:
    """Return the due compaction (True: major, False: minor, None: no compaction), and why.

    As in Hive's Initiator, the ratio requires a major compaction. The count requires a minor
    compaction, or a major compaction if there is no base.
    """
    health = TableHealth.of(state)
    reached = exceeded(health, policy)
    why = " and ".join(str(e) for e in reached)
    if not reached:
        return None, _below(health, policy)
    if any(e.threshold is Threshold.DELTA_RATIO for e in reached):
        return True, why
    if not health.base_bytes:
        return True, f"{why} and no base"
    return False, why


def _below(health: TableHealth, policy: CompactionPolicy) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    # Every reader knows the defaults and the task's arguments, but not the table's parameters.
    is_own = policy.count_origin or policy.ratio_origin
    limits = f"thresholds ({policy})" if is_own else "thresholds"
    return f"below the {limits}: {health.delta_count} delta directories, {share}"
