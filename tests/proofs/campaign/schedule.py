"""The schedule of every fault of a campaign, drawn from its seed.

A driver's end depends on its own life, not on the clock: it comes after some number of jobs, and
some seconds into the next. So it hits the write path at a random time, however fast the machine is,
and is the same for the same seed. Faults of servers and disks follow the campaign's clock.

Example:
    >>> doom(1, "writer-1", 3) == doom(1, "writer-1", 3)
    True
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final


class Blow(enum.Enum):
    """A fault of a driver."""

    KILL = "kill"
    """SIGKILL."""
    FREEZE = "freeze"
    """SIGSTOP beyond the transactions' time-out, then SIGCONT: a zombie that must notice itself."""
    FREEZE_AND_KILL = "freeze_and_kill"
    """SIGSTOP, then SIGKILL."""
    REPLACE = "replace"
    """SIGSTOP; a new driver retries its job; then SIGCONT, beside that driver."""
    STUTTER = "stutter"
    """SIGSTOP and SIGCONT in turn for a while, like a slow disk or a starved machine."""


_BLOWS: Final = {
    Blow.KILL: 84,
    Blow.FREEZE: 3,
    Blow.FREEZE_AND_KILL: 4,
    Blow.REPLACE: 5,
    Blow.STUTTER: 4,
}
_COLD_S: Final = 12.0  # about the duration of a driver's first job on two busy cores
_WARM_S: Final = 4.0
_AIMED: Final = 0.4  # the share of ends that wait for a step of a few milliseconds
_AIM_S: Final = 0.15
_READER_LIFE_S: Final = (5.0, 80.0)
_FROZEN: Final = (1.1, 1.6)  # multiples of the transactions' time-out
_STUTTER_S: Final = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The habits of a kind of driver: `jobs` before its fatal one, and the `steps` of that one."""

    jobs: Sequence[int]
    steps: Sequence[str]


WRITER: Final = Habits(
    jobs=(0, 1, 1, 2, 3, 5),
    steps=(
        "locked",
        "staged",
        "registered",
        "verified",
        "noted",
        "published",
        "body_done",
        "committed",
    ),
)
COMPACTOR: Final = Habits(
    jobs=(0, 2, 5, 10, 20), steps=("locked", "staged", "published", "body_done", "committed")
)
CLEANER: Final = Habits(jobs=(0, 2, 5, 10, 20), steps=("noted", "removed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """The fault in one life of a driver, which mostly ends it.

    It strikes `delay_s` after the start of the job that follows `after_jobs` others or, if the
    driver is idle then, during its next job. A reader, which gets no jobs, is struck `delay_s`
    after it was ready.
    """

    blow: Blow
    after_jobs: int
    delay_s: float
    lasts_s: float
    aim: str | None = None


def doom(
    seed: int, seat: str, life: int, *, habits: Habits = WRITER, timeout_s: float = 20.0
) -> Doom:
    """Return the fault of a driver of jobs; a survivor gets the next one, as another `life`."""
    random = Random(f"{seed}/doom/{seat}/{life}")
    blow = random.choices(list(_BLOWS), list(_BLOWS.values()))[0]
    frozen_s = timeout_s * random.uniform(*_FROZEN)
    after_jobs = random.choice(habits.jobs)
    aim = random.choice(habits.steps) if random.random() < _AIMED else None
    longest_s = _WARM_S if after_jobs else _COLD_S
    return Doom(
        blow=blow,
        after_jobs=after_jobs,
        delay_s=random.uniform(0.0, _AIM_S if aim else longest_s),
        lasts_s=_STUTTER_S if blow is Blow.STUTTER else frozen_s,
        aim=aim,
    )


def reader_doom(seed: int, seat: str, life: int) -> Doom:
    delay_s = Random(f"{seed}/doom/{seat}/{life}").uniform(*_READER_LIFE_S)
    return Doom(blow=Blow.KILL, after_jobs=0, delay_s=delay_s, lasts_s=0.0)


class ServerFault(enum.Enum):
    """A fault of something that all drivers share."""

    METASTORE_KILLED = "metastore_killed"
    METASTORE_RESTARTED = "metastore_restarted"
    DATABASE_KILLED = "database_killed"
    DISK_FULL = "disk_full"


_SERVER_FAULTS: Final = {
    ServerFault.METASTORE_KILLED: 40,
    ServerFault.METASTORE_RESTARTED: 20,
    ServerFault.DATABASE_KILLED: 15,
    ServerFault.DISK_FULL: 25,
}
_PAUSE_S: Final = (35.0, 80.0)
_LASTS_S: Final = (1.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One fault of a server or a disk, `at_s` after the start, mended after `lasts_s`."""

    fault: ServerFault
    at_s: float
    lasts_s: float


def incidents(seed: int, seconds: float) -> Sequence[Incident]:
    """Return all incidents in order of time. The first few are one of each kind."""
    random = Random(f"{seed}/incidents")
    first = list(ServerFault)
    random.shuffle(first)
    found: list[Incident] = []
    at_s = random.uniform(15.0, 30.0)
    while at_s < seconds:
        drawn = random.choices(list(_SERVER_FAULTS), list(_SERVER_FAULTS.values()))[0]
        fault = first[len(found)] if len(found) < len(first) else drawn
        found.append(Incident(fault=fault, at_s=at_s, lasts_s=random.uniform(*_LASTS_S)))
        at_s += random.uniform(*_PAUSE_S)
    return found
