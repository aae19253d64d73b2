"""Knows what a tree of processes costs: CPU seconds and peak memory, from Linux's /proc.

Takes process IDs, gives numbers. Children that have ended and were waited for count with their
parents, so the CPU seconds of a tree never go down while its root lives.
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
_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15  # places in `stat` after the name, counted from 0
_RESET_PEAK: Final = "5"  # see clear_refs in proc(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one moment. `cpu_seconds` holds that of children it has waited for."""

    pid: int
    parent: int
    cpu_seconds: float

    @classmethod
    def parse(cls, stat: str) -> Self:
        """Read /proc/PID/stat.

        Example:
            >>> Process.parse("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 150 50 20 0 20 0").parent
            1
        """
        pid, rest = stat.split(" ", 1)
        fields = rest.rpartition(")")[2].split()  # a name may hold spaces and parentheses
        ticks = sum(int(field) for field in fields[_FIRST_TIME:_AFTER_TIMES])
        return cls(pid=int(pid), parent=int(fields[_PARENT]), cpu_seconds=ticks / _TICKS)


def running() -> dict[int, Process]:
    """Every process of this machine, by ID."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                process = Process.parse((folder / "stat").read_text())
                found[process.pid] = process
    return found


def tree(root: int, processes: Mapping[int, Process]) -> set[int]:
    """The root and everything below it."""
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
    """CPU seconds that a tree has used so far, user and system, ended children included.

    One that ends while it is looked at would be in neither place: not there any more, and not yet
    with its parent when that was read. So the tree is read until nobody has come or gone.
    """
    before: set[int] = set()
    while True:
        processes = running()
        pids = tree(root, processes)
        if pids == before:
            return sum(processes[pid].cpu_seconds for pid in pids)
        before = pids


def machine_cpu_seconds() -> float:
    """CPU seconds that everything on this machine has used since it started."""
    user, nice, system, _idle, _iowait, *interrupts = (
        int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / _TICKS


def reset_peaks(pids: Iterable[int]) -> None:
    """Let the peaks of these processes begin anew at what they hold now."""
    for pid in pids:
        # Without the right to do so a peak is that of the process's whole life.
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)


def peak_bytes(pid: int) -> int:
    """The most resident memory of a process since its peak was reset; 0 once it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0
