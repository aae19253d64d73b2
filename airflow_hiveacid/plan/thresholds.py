"""When a table needs compaction: its health as numbers, and the one predicate over them.

Takes the ACID state of one directory as a compactor sees it (nothing above the lowest open write
ID, so whatever fires here can be compacted) and a policy; gives the thresholds that are reached.
Sensors, triggers and the compaction plan all ask here and hold no rule of their own.

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
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.acid_state import AcidState

Scalar = str | int | float | None
"""What a record of measurements holds; every one of them is a JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The thresholds; both ends are inclusive: 10 deltas fire, 9 do not. None switches one off.

    `delta_count` counts delta and delete delta directories together, as Hive's Initiator does
    (AcidDirectory.getCurrentDirectories). `delta_ratio` compares their bytes with the base's.

    Raises:
        ConfigurationError: a threshold is not positive, or both are off.
    """

    delta_count: int | None = 10
    delta_ratio: float | None = 0.1

    def __post_init__(self) -> None:
        if self.delta_count is not None and self.delta_count < 1:
            raise ConfigurationError(f"delta_count must be 1 or more, found {self.delta_count}")
        # Written this way round so that NaN is refused too.
        if self.delta_ratio is not None and not 0 < self.delta_ratio < float("inf"):
            raise ConfigurationError(f"delta_ratio must be above 0, found {self.delta_ratio}")
        if self.delta_count is None and self.delta_ratio is None:
            raise ConfigurationError("a compaction policy needs delta_count, delta_ratio or both")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """What one directory of a table (the table's own, or one partition's) looks like.

    `base` is the live base directory's name; `base_bytes` its size, or that of the original files
    when there is no base yet. Deltas are the live ones. `obsolete` and `aborted` count directories
    that wait for the cleaner.
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

    @classmethod
    def of(cls, state: AcidState, *, table: str = "", partition: str = "") -> TableHealth:
        """Measure a directory's ACID state."""
        base = state.base
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
        )

    @property
    def delta_count(self) -> int:
        """Live delta and delete delta directories."""
        return self.deltas + self.delete_deltas

    @property
    def changed_bytes(self) -> int:
        """Bytes in all of them."""
        return self.delta_bytes + self.delete_delta_bytes

    @property
    def delta_ratio(self) -> float | None:
        """Their bytes as a share of the base's; None without a base to compare with."""
        return self.changed_bytes / self.base_bytes if self.base_bytes else None

    def record(self) -> dict[str, Scalar]:
        """Every number, for an XCom or an event: plain JSON values."""
        return {**asdict(self), "delta_count": self.delta_count, "delta_ratio": self.delta_ratio}


class Threshold(enum.Enum):
    """Which rule was reached."""

    DELTA_COUNT = "delta_count"
    DELTA_RATIO = "delta_ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """One threshold that is reached, with the number that reached it."""

    threshold: Threshold
    measured: float
    limit: float

    def __str__(self) -> str:
        match self.threshold:
            case Threshold.DELTA_COUNT:
                return f"{self.measured:.0f} delta directories (threshold {self.limit:.0f})"
            case Threshold.DELTA_RATIO:
                measured, limit = 100 * self.measured, 100 * self.limit
                return f"deltas hold {measured:.1f} % of the base (threshold {limit:.1f} %)"


def exceeded(health: TableHealth, policy: CompactionPolicy) -> tuple[Exceeded, ...]:
    """The thresholds that are reached, the ratio first; empty if none is.

    Without a base (or with an empty one) the ratio has no meaning and only the count can fire, as
    in Hive's Initiator (determineCompactionType, `noBase`): otherwise the first insert into every
    new table would already call for a compaction.
    """
    ratio, count = health.delta_ratio, health.delta_count
    found: list[Exceeded] = []
    if policy.delta_ratio is not None and ratio is not None:
        # Exact: 0.1 is not a tenth, and exactly 10 % must fire whatever the sizes.
        limit_bytes = Fraction(str(policy.delta_ratio)) * health.base_bytes
        if health.changed_bytes >= limit_bytes:
            found.append(
                Exceeded(threshold=Threshold.DELTA_RATIO, measured=ratio, limit=policy.delta_ratio)
            )
    if policy.delta_count is not None and count >= policy.delta_count:
        found.append(
            Exceeded(threshold=Threshold.DELTA_COUNT, measured=count, limit=policy.delta_count)
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One directory that is due, and by which thresholds."""

    health: TableHealth
    reached: tuple[Exceeded, ...]

    def record(self) -> dict[str, Scalar]:
        """The numbers and `why`, for an XCom or an event: plain JSON values."""
        return {**self.health.record(), "why": " and ".join(str(e) for e in self.reached)}


def due(healths: Iterable[TableHealth], policy: CompactionPolicy) -> tuple[Finding, ...]:
    """Those that have reached a threshold, in the order they came."""
    judged = (Finding(health=health, reached=exceeded(health, policy)) for health in healths)
    return tuple(finding for finding in judged if finding.reached)


def decide(state: AcidState, policy: CompactionPolicy) -> tuple[bool | None, str]:
    """Whether a directory is due: (True for major, False for minor, None for neither; why).

    As Hive's Initiator: the ratio asks for a major compaction; the count for a minor one, or for a
    major one where there is no base to build on.
    """
    health = TableHealth.of(state)
    reached = exceeded(health, policy)
    why = " and ".join(str(e) for e in reached)
    if not reached:
        return None, _below(health)
    if any(e.threshold is Threshold.DELTA_RATIO for e in reached):
        return True, why
    if not health.base_bytes:
        return True, f"{why} and no base"
    return False, why


def _below(health: TableHealth) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    return f"below the thresholds: {health.delta_count} delta directories, {share}"
