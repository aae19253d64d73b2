"""Knows which processes belong to a demonstration, and how all of them end.

Airflow's components start executors, those start tasks, those start Spark, and Spark starts Java
and Python. Every one of them inherits `environment.MARK`; a process with that mark is ours, however
its parents ended. Reads /proc, so it is for Linux.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from demo.environment import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.1
_PARENT_FIELD: Final = 1  # of /proc/PID/stat, counted after the closing bracket of the name


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedProcess:
    """One live process of a demonstration."""

    pid: int
    parent_pid: int

    @classmethod
    def read(cls, pid: int, home: Path) -> Self | None:
        """Look at one process; None where it is not ours, or has ended."""
        try:
            variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
            stat = (_PROC / str(pid) / "stat").read_text()
        except OSError:  # it ended meanwhile, or is another user's
            return None
        # A process that has ended, but that nobody has asked about yet, has no environment.
        if f"{MARK}={home}".encode() not in variables:
            return None
        return cls(pid=pid, parent_pid=int(stat.rpartition(")")[2].split()[_PARENT_FIELD]))


def processes_of(home: Path) -> tuple[MarkedProcess, ...]:
    """All live processes that carry the mark of this demonstration, less the one that asks."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    found = (MarkedProcess.read(pid, home) for pid in pids if pid != os.getpid())
    return tuple(process for process in found if process is not None)


def end_all(home: Path, *, ask_s: float, grace_s: float) -> int:
    """End every marked process and return how many there were.

    First those without a marked parent get a SIGINT, on which Airflow's components end in order,
    but not before their tasks; after `ask_s` whatever is left gets a SIGTERM, upon which a task
    ends its Spark job and gives its locks back; after `grace_s` more, SIGKILL.
    """
    found = processes_of(home)
    pids = {process.pid for process in found}
    _signal([process for process in found if process.parent_pid not in pids], signal.SIGINT)
    if not _wait(lambda: not processes_of(home), timeout_s=ask_s):
        _signal(processes_of(home), signal.SIGTERM)
        _wait(lambda: not processes_of(home), timeout_s=grace_s)
    while left := processes_of(home):
        _signal(left, signal.SIGKILL)
        time.sleep(_POLL_S)
    return len(found)


def _signal(found: Sequence[MarkedProcess], number: signal.Signals) -> None:
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _wait(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
