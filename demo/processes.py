"""Find and stop the processes of a demonstration.

Airflow's components start executors, executors start tasks, tasks start Spark, and Spark starts
Java and Python. All of them inherit the variable `environment.MARK`. So a process with this
variable belongs to the demonstration, even if its parents have exited. This module reads /proc, so
it needs Linux.
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
# The indexes of parent, group and session in /proc/PID/stat, counted from the first field after the
# process name.
_IDS: Final = slice(1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedProcess:
    """One running process of a demonstration."""

    pid: int
    parent_pid: int
    group_id: int
    session_id: int

    @classmethod
    def read(cls, pid: int, home: Path) -> Self | None:
        """Inspect a process; return None if it has exited, or is not part of the demonstration."""
        try:
            variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
            stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        except OSError:  # it has ended, or belongs to another user
            return None
        # A zombie, whose parent has not read its exit status, has an empty environment.
        if f"{MARK}={home}".encode() not in variables:
            return None
        parent, group, session = map(int, stat.rpartition(")")[2].split()[_IDS])
        return cls(pid=pid, parent_pid=parent, group_id=group, session_id=session)


def processes_of(home: Path) -> tuple[MarkedProcess, ...]:
    """Return all running processes of this demonstration, except the caller."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    found = (MarkedProcess.read(pid, home) for pid in pids if pid != os.getpid())
    return tuple(process for process in found if process is not None)


def end_all(home: Path, *, task_s: float, ask_s: float, grace_s: float) -> int:
    """Stop every process of the demonstration, and return the number of processes.

    Running tasks get a SIGTERM first, while all other processes still run. Each task then has
    `task_s` to stop its Spark job and release its locks. Then processes whose parent does not
    belong to the demonstration get a SIGINT. After a SIGINT, Airflow's components shut down in
    order. After `ask_s` the remaining processes get a SIGTERM, and after another `grace_s` a
    SIGKILL.
    """
    found = processes_of(home)
    tasks = tasks_of(found)
    _signal(tasks, signal.SIGTERM)
    pids = {task.pid for task in tasks}
    _wait(lambda: pids.isdisjoint(p.pid for p in processes_of(home)), timeout_s=task_s)
    left = processes_of(home)
    pids = {process.pid for process in left}
    _signal([process for process in left if process.parent_pid not in pids], signal.SIGINT)
    if not _wait(lambda: not processes_of(home), timeout_s=ask_s):
        _signal(processes_of(home), signal.SIGTERM)
        _wait(lambda: not processes_of(home), timeout_s=grace_s)
    while left := processes_of(home):
        _signal(left, signal.SIGKILL)
        time.sleep(_POLL_S)
    return len(found)


def descendants_of(pid: int, home: Path) -> tuple[MarkedProcess, ...]:
    """Return the running processes of a demonstration that a process has started, at any depth."""
    found, family = processes_of(home), {pid}
    while more := {one.pid for one in found if one.parent_pid in family} - family:
        family |= more
    return tuple(one for one in found if one.pid in family - {pid})


def tasks_of(found: Sequence[MarkedProcess]) -> Sequence[MarkedProcess]:
    """Return the processes in which Airflow runs tasks.

    Airflow gives each task's process its own process group. The parent of a task's process is a
    worker, which belongs to the component's process group.
    """
    by_pid = {process.pid: process for process in found}
    tasks = []
    for process in found:
        parent = by_pid.get(process.parent_pid)
        below_component = parent is not None and parent.group_id == parent.session_id
        if below_component and process.pid == process.group_id != process.session_id:
            tasks.append(process)
    return tasks


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
