"""What a reader of a stream may see, and how long rows take from their source to a reader.

The source makes units: a file, or a Kafka message, of some rows. A unit is never split between
batches, so a reader sees all of its rows once, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BEFORE_KILL_S: Final = 5.0
"""A unit that was made up to so many seconds before a kill may wait for the next process."""


class Unit(NamedTuple):
    """One unit: its number, when its source made it and when a reader saw it first, in seconds."""

    number: int
    made_s: float
    seen_s: float


class Look(NamedTuple):
    """What one read shows: how many units are whole, and what is wrong with the others."""

    whole: list[int]
    wrong: list[str]


def look_at(units: npt.NDArray[np.int64], positions: npt.NDArray[np.int64], unit_rows: int) -> Look:
    """Judge the rows of one read by their unit and their position in it."""
    numbers, counts = np.unique(units, return_counts=True)
    keys = np.unique(units * unit_rows + positions)
    distinct = np.bincount(np.searchsorted(numbers, keys // unit_rows), minlength=len(numbers))
    wrong = [
        f"unit {number} has {count} rows, {rows} of them distinct, instead of {unit_rows}"
        for number, count, rows in zip(numbers, counts, distinct, strict=True)
        if not count == rows == unit_rows
    ]
    return Look(numbers[(counts == unit_rows) & (distinct == unit_rows)].tolist(), wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds from source to reader: percentiles, and two of them for each minute."""

    p50_s: float
    p99_s: float
    most_s: float
    between_kills_p99_s: float
    minutes: list[tuple[float, float, float]]


def latencies(units: Sequence[Unit], kills_s: Sequence[float], began_s: float) -> Latencies:
    """Return the latencies of units; a minute is counted from `began_s`, by when it was made."""
    made = np.array([unit.made_s for unit in units])
    waits = np.array([unit.seen_s for unit in units]) - made
    minutes = ((made - began_s) // 60).astype(int)
    waited = ~_delayed_by_kills(units, kills_s)
    return Latencies(
        p50_s=_percentile(waits, 50),
        p99_s=_percentile(waits, 99),
        most_s=_percentile(waits, 100),
        between_kills_p99_s=_percentile(waits[waited], 99),
        minutes=[
            (float(minute), _percentile(part, 50), _percentile(part, 99))
            for minute in sorted(set(minutes.tolist()))
            if len(part := waits[minutes == minute])
        ],
    )


def _delayed_by_kills(units: Sequence[Unit], kills_s: Sequence[float]) -> npt.NDArray[np.bool_]:
    """Return which units were made shortly before a kill, or before the next process wrote."""
    made = np.array([unit.made_s for unit in units])
    seen = np.array([unit.seen_s for unit in units])
    delayed = np.zeros(len(units), dtype=bool)
    for kill_s in kills_s:
        later = seen[made > kill_s]
        ends_s = later.min() if len(later) else np.inf
        delayed |= (made >= kill_s - BEFORE_KILL_S) & (made <= ends_s)
    return delayed


def _percentile(values: npt.NDArray[np.float64], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 3) if len(values) else float("nan")
