"""The cost of a tree of processes: CPU seconds and peak memory, from Linux's /proc.

Process IDs in, numbers out. Children that ended and whose status was read count with their
parents. A child of a process that ignores its children's ends is lost; see `lost_seconds`.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15  # positions in `stat` after the name, from 0
_RESET_PEAK: Final = "5"  # see clear_refs in proc(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one moment. `cpu_seconds` includes its children whose status it has read.

    `waited_seconds` are the CPU seconds of these children alone.
    """

    pid: int
    parent: int
    cpu_seconds: float
    waited_seconds: float

    @classmethod
    def parse(cls, stat: str) -> Self:
        """Parse the text of /proc/PID/stat.

        Example:
            >>> Process.parse("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 150 50 20 0 20 0").parent
            1
        """
        pid, rest = stat.split(" ", 1)
        fields = rest.rpartition(")")[2].split()  # a name may hold spaces and parentheses
        user, system, *waited = map(int, fields[_FIRST_TIME:_AFTER_TIMES])
        return cls(
            pid=int(pid),
            parent=int(fields[_PARENT]),
            cpu_seconds=(user + system + sum(waited)) / _TICKS,
            waited_seconds=sum(waited) / _TICKS,
        )


def running() -> dict[int, Process]:
    """Return every process of this machine, by ID."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                process = Process.parse((folder / "stat").read_text())
                found[process.pid] = process
    return found


def tree(root: int, processes: Mapping[int, Process]) -> set[int]:
    """Return the root and everything below it."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in processes and pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a tree so far, user and system, including ended children.

    A process that ends during the look would be missing twice: it is gone, and was not yet counted
    with its parent. So the tree is read until no process has started or ended in between.
    """
    before: set[int] = set()
    while True:
        processes = running()
        pids = tree(root, processes)
        if pids == before:
            return sum(processes[pid].cpu_seconds for pid in pids)
        before = pids


def lost_seconds(seen: Iterable[Process]) -> float:
    """Return the CPU seconds of processes that ended and count nowhere.

    Spark's daemon of Python workers ignores the ends of its children, and ends idle ones.
    """
    now = running()
    return sum(
        process.cpu_seconds
        for process in seen
        if process.pid not in now
        and process.parent in now
        and not now[process.parent].waited_seconds
    )


def machine_cpu_seconds() -> float:
    """Return the CPU seconds of everything on this machine since it started."""
    user, nice, system, _idle, _iowait, *interrupts = (
        int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / _TICKS


def reset_peaks(pids: Iterable[int]) -> None:
    """Reset the memory peaks of these processes to their current values."""
    for pid in pids:
        # Without the right to do so, a peak covers the process's whole life.
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)


def peak_bytes(pid: int) -> int:
    """Return the most resident memory of a process since the reset; 0 if it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0
