"""Raw figures in JSON lists: a record for each measured run, a finding for each aim.

A ratio compares two medians of one measurement, in which both systems ran in turn. It says more
than seconds do, which hold for one machine on one day.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final, Self, TypeVar

from tests.proofs.bench.meter import Measurement

OURS: Final = "hiveacid"
FLAT: Final = "flat-orc"
SPARK: Final = "spark"
"""Spark as it decodes and encodes the files that a compaction reads and writes."""

_YARDSTICKS: Final = (FLAT, SPARK)
_TICK_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one case on one system.

    Attributes:
        case: The work done, such as `scan.base.count`; of cliffs, cliff.PART.SIZE.WHAT.
        system: The system that did it: one of the names above, or a peer's.
        process: The system of the process it ran in; yardsticks are measured in each.
        run: Number of the run for one case and system, from 0.
        bytes: Bytes written; for a scan, the size of the files it concerns.
        rows: Rows read by a scan, otherwise changed or written.
        seconds: This and the others are the fields of a `Measurement`.
    """

    case: str
    system: str
    process: str
    run: int
    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float
    bytes: int
    rows: int
    driver_peak_bytes: int
    jvm_peak_bytes: int
    worker_peak_bytes: int

    @classmethod
    def of(
        cls,
        case: str,
        system: str,
        process: str,
        run: int,
        took: Measurement,
        *,
        size_bytes: int,
        rows: int,
    ) -> Self:
        costs = asdict(took)
        costs["seconds"] = round(took.seconds, 3)
        costs["cpu_seconds"] = round(took.cpu_seconds, 2)
        costs["other_cpu_seconds"] = round(took.other_cpu_seconds, 2)
        return cls(
            case=case,
            system=system,
            process=process,
            run=run,
            bytes=size_bytes,
            rows=rows,
            **costs,
        )

    @property
    def part(self) -> str:
        """The part of a cliff's course that measured it."""
        return self.case.split(".")[1]

    def cpu_over(self, other: Record) -> float:
        """Return its CPU seconds divided by another's."""
        # Work too short for the clock counts as one tick.
        return self.cpu_seconds / max(other.cpu_seconds, _TICK_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One measured value, beside what is asked: it is met if it is at most the limit.

    Attributes:
        part: The part of the course that measured it.
        unit: The unit of the values, such as `CPU s` or `of the CPU of cp`.
        runs: The values of all runs; their median counts.
        limit: The highest value that meets the aim; None if nothing is asked.
    """

    part: str
    case: str
    unit: str
    runs: tuple[float, ...]
    limit: float | None
    cpu_seconds: float
    other_cpu_seconds: float

    @property
    def value(self) -> float:
        return median(self.runs)

    @property
    def is_met(self) -> bool | None:
        """True if the aim is reached; None if nothing is asked."""
        return None if self.limit is None else self.value <= self.limit


_Part = TypeVar("_Part", Record, Finding)


def write_records(path: Path, records: Iterable[Record | Finding]) -> None:
    """Write the list in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.new")
    lines = ",\n ".join(json.dumps(asdict(record)) for record in records)
    scratch.write_text(f"[{lines}]\n", encoding="utf-8")
    scratch.replace(path)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read a list of records.

    Raises:
        FileNotFoundError: Nothing was measured.
        TypeError: Another version of this module wrote it.
    """
    return tuple(Record(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))


def read_findings(path: Path) -> tuple[Finding, ...]:
    """Read a list of findings; it raises as `read_records` does."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Finding(**{**entry, "runs": tuple(entry["runs"])}) for entry in entries)


def merged(former: Sequence[_Part], new: Sequence[_Part], order: Sequence[str]) -> list[_Part]:
    """Return the former figures of other parts and the new ones, in the order of the parts."""
    measured = {one.part for one in new}
    parts = [one for one in former if one.part not in measured]
    parts += new
    return sorted(parts, key=lambda one: order.index(one.part))


# ---- ratios --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A system beside the yardstick of its case, if there is one: flat files, or Spark alone.

    Both hold the medians of time and size over the runs of the case, and the highest peaks of
    memory.
    """

    figure: Record
    yardstick: Record | None

    @property
    def cpu_seconds(self) -> float:
        return self.figure.cpu_seconds

    @property
    def other_cpu_seconds(self) -> float:
        return self.figure.other_cpu_seconds

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
    figures = [_figure(each) for each in runs.values()]
    yardsticks = {(one.process, one.case): one for one in figures if one.system in _YARDSTICKS}
    return tuple(
        Pair(figure=figure, yardstick=yardsticks.get((figure.process, figure.case)))
        for figure in figures
        if figure.system not in _YARDSTICKS
    )


def _figure(runs: Sequence[Record]) -> Record:
    return replace(
        runs[0],
        seconds=median(r.seconds for r in runs),
        cpu_seconds=median(r.cpu_seconds for r in runs),
        other_cpu_seconds=median(r.other_cpu_seconds for r in runs),
        bytes=int(median(r.bytes for r in runs)),
        rows=int(median(r.rows for r in runs)),
        driver_peak_bytes=max(r.driver_peak_bytes for r in runs),
        jvm_peak_bytes=max(r.jvm_peak_bytes for r in runs),
        worker_peak_bytes=max(r.worker_peak_bytes for r in runs),
    )
