"""Figures from raw records: medians of runs, and ratios to a yardstick.

A ratio compares two medians of one measurement, in which both systems ran in turn. It says more
than seconds do, which hold for one machine on one day. Records in, values out; no output.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, Self

from tests.proofs.bench.records import FLAT, SPARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.proofs.bench.records import Record

_YARDSTICKS: Final = (FLAT, SPARK)
_TICK_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One case on one system: medians of time and size over its runs, highest peaks of memory."""

    case: str
    system: str
    process: str
    runs: int
    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float
    bytes: int
    rows: int
    driver_peak_bytes: int
    jvm_peak_bytes: int
    worker_peak_bytes: int

    @classmethod
    def of(cls, runs: Sequence[Record]) -> Self:
        """Return the figure of all runs of one case on one system."""
        return cls(
            case=runs[0].case,
            system=runs[0].system,
            process=runs[0].process,
            runs=len(runs),
            seconds=median(r.seconds for r in runs),
            cpu_seconds=median(r.cpu_seconds for r in runs),
            other_cpu_seconds=median(r.other_cpu_seconds for r in runs),
            bytes=int(median(r.bytes for r in runs)),
            rows=int(median(r.rows for r in runs)),
            driver_peak_bytes=max(r.driver_peak_bytes for r in runs),
            jvm_peak_bytes=max(r.jvm_peak_bytes for r in runs),
            worker_peak_bytes=max(r.worker_peak_bytes for r in runs),
        )

    def cpu_over(self, other: Figure) -> float:
        """Return its CPU seconds divided by another's."""
        # Work too short for the clock counts as one tick.
        return self.cpu_seconds / max(other.cpu_seconds, _TICK_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A system beside the yardstick of its case, if there is one: flat files, or Spark alone."""

    figure: Figure
    yardstick: Figure | None

    @property
    def cpu_ratio(self) -> float | None:
        """Its CPU seconds divided by the yardstick's; None without one."""
        return None if self.yardstick is None else self.figure.cpu_over(self.yardstick)

    @property
    def wall_ratio(self) -> float | None:
        """Its seconds divided by the yardstick's; None without one."""
        if self.yardstick is None:
            return None
        return self.figure.seconds / max(self.yardstick.seconds, _TICK_S)


def pairs(records: Iterable[Record]) -> tuple[Pair, ...]:
    """Return every case of every system except yardsticks, in the order of measurement.

    The yardstick is that of the same process.
    """
    runs: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        runs.setdefault((record.process, record.case, record.system), []).append(record)
    found = [Figure.of(each) for each in runs.values()]
    yardsticks = {
        (figure.process, figure.case): figure for figure in found if figure.system in _YARDSTICKS
    }
    return tuple(
        Pair(figure=figure, yardstick=yardsticks.get((figure.process, figure.case)))
        for figure in found
        if figure.system not in _YARDSTICKS
    )
