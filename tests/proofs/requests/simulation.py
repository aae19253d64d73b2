"""A simulation of one metastore's queue, fed by the counts of `docs/evidence/requests.md`.

Each kind of job arrives at random times with a mean interval, and sends its calls one after the
other. The server has threads; a call occupies one for its service time. The result is the share of
the time that the threads are busy, and how long calls wait. Run it for warehouses of growing size
with `python -m tests.proofs.requests.simulation`.

Not simulated: locks that jobs wait for, and the growth of a call's own time with a table's names.
"""

from __future__ import annotations

import bisect
import heapq
import random
from dataclasses import dataclass
from typing import Final

CALLS: Final = {"write": 22, "poll": 5, "plan": 10, "clean": 9}
"""The calls of one job, of a table of any number of partitions (see the docs page)."""

SERVICE_S: Final = 0.005
"""The time that a thread of the server needs for a call: 0.1 CPU seconds for a write of 22 calls.

Derby needs three times as much, as a review of statements measured. Measure your own server.
"""


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """How often which jobs run, per second."""

    writes: float = 0.0
    polls: float = 0.0
    plans: float = 0.0
    cleanings: float = 0.0

    @classmethod
    def of(cls, *, tables: int, writers: int, watched: int = 0) -> Warehouse:
        """Writers that write each minute; sensors that poll each minute; nightly maintenance."""
        day_s, minute_s = 86_400.0, 60.0
        return cls(
            writes=writers / minute_s,
            polls=watched / minute_s,
            plans=tables / day_s,
            cleanings=tables / day_s,
        )

    @property
    def calls(self) -> float:
        """Calls per second."""
        of_jobs = {
            "write": self.writes,
            "poll": self.polls,
            "plan": self.plans,
            "clean": self.cleanings,
        }
        return sum(CALLS[kind] * rate for kind, rate in of_jobs.items())


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a simulation has seen: the busy share of the cores, and the waits of calls."""

    busy: float
    mean_wait_s: float
    p99_wait_s: float

    @property
    def is_saturated(self) -> bool:
        """True if calls wait longer than they are served, for one call in a hundred."""
        return self.busy >= 1.0 or self.p99_wait_s > 20 * SERVICE_S


def simulated(warehouse: Warehouse, *, cores: int, seconds: float = 60.0, seed: int = 1) -> Load:
    """Simulate a metastore that serves `cores` calls at a time."""
    chance = random.Random(seed)
    free = [0.0] * cores
    waits, served_s, now_s = [], 0.0, 0.0
    arrivals: list[tuple[float, int]] = []
    kinds = [
        (warehouse.writes, CALLS["write"]),
        (warehouse.polls, CALLS["poll"]),
        (warehouse.plans, CALLS["plan"]),
        (warehouse.cleanings, CALLS["clean"]),
    ]
    for rate, calls in kinds:
        at_s = chance.expovariate(rate) if rate else seconds
        while at_s < seconds:
            arrivals.append((at_s, calls))
            at_s += chance.expovariate(rate)
    heapq.heapify(arrivals)
    while arrivals:
        now_s, calls = heapq.heappop(arrivals)
        begun_s = max(now_s, heapq.heappop(free))
        service_s = chance.expovariate(1 / SERVICE_S)
        heapq.heappush(free, begun_s + service_s)
        served_s += service_s
        waits.append(begun_s - now_s)
        if calls > 1:
            heapq.heappush(arrivals, (begun_s + service_s, calls - 1))
    waits.sort()
    return Load(
        busy=served_s / (cores * seconds),
        mean_wait_s=sum(waits) / max(1, len(waits)),
        p99_wait_s=waits[len(waits) * 99 // 100] if waits else 0.0,
    )


def most_writers(*, tables: int, cores: int) -> int:
    """Return the most writers, to a hundred, that do not saturate it; each table is watched."""

    def is_saturated(hundreds: int) -> bool:
        writers = hundreds * 100
        size = Warehouse.of(tables=tables, writers=writers, watched=writers)
        return simulated(size, cores=cores, seconds=20.0).is_saturated

    return 100 * (bisect.bisect_left(range(1, 100), x=True, key=is_saturated))


if __name__ == "__main__":
    for cores in (2, 4, 8):
        of_sizes = [most_writers(tables=tables, cores=cores) for tables in (1_000, 100_000)]
        print(cores, "cores:", of_sizes, "writers each minute, with 1,000 and 100,000 tables")
    for writers in (100, 1_000, 3_000):
        size = Warehouse.of(tables=100_000, writers=writers, watched=writers)
        print(writers, f"{size.calls:.0f} calls/s", simulated(size, cores=4))
