"""The meter of one piece of work: wall and CPU seconds of all our processes, peak memory.

The processes are this one, which is the Python half of the Spark driver, the driver's JVM, the
Python workers below the JVM, and the metastore. The CPU time of the rest of the machine is
noted, too, to show how far the figures can be trusted. All figures come from Linux's /proc.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

_T = TypeVar("_T")

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15  # positions in `stat` after the name, from 0
_RESET_PEAK: Final = "5"  # see clear_refs in proc(5)
_WATCH_S: Final = 1.0
"""The interval between looks at memory. The kernel keeps the peaks; looks in between are only for
workers that end before the work does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The cost of one piece of work.

    Attributes:
        seconds: Wall-clock seconds.
        cpu_seconds: CPU seconds of all our processes.
        other_cpu_seconds: CPU seconds of everything else on the machine meanwhile.
        driver_peak_bytes: Most resident memory of this process.
        jvm_peak_bytes: Most resident memory of the driver's JVM. A JVM returns little of the memory
            that it once had.
        worker_peak_bytes: Most resident memory of any one Python worker; 0 if there was none.
    """

    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float
    driver_peak_bytes: int
    jvm_peak_bytes: int
    worker_peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A meter of this process and everything below it. `jvm_pid` is the Spark driver's."""

    jvm_pid: int

    def measure(self, work: Callable[[], _T]) -> tuple[_T, Measurement]:
        """Do a piece of work once; return its result and measurement."""
        root = os.getpid()
        with _MemoryWatch(self.jvm_pid) as memory:
            everybody, own, began = _machine_cpu_seconds(), cpu_seconds(root), time.monotonic()
            result = work()
            seconds = time.monotonic() - began
            used = cpu_seconds(root) - own + _lost_seconds(memory.seen.values())
            others = _machine_cpu_seconds() - everybody - used
        return result, Measurement(
            seconds=seconds,
            cpu_seconds=used - memory.own_cpu_seconds,
            other_cpu_seconds=max(0.0, others),
            driver_peak_bytes=memory.peaks.get(root, 0),
            jvm_peak_bytes=memory.peaks.get(self.jvm_pid, 0),
            worker_peak_bytes=max(
                (peak for pid, peak in memory.peaks.items() if pid not in {root, self.jvm_pid}),
                default=0,
            ),
        )


class _MemoryWatch:
    """A watch on this process, the JVM and the processes below it: their last states, their peaks.

    Mutable: a thread fills it in.
    """

    def __init__(self, jvm_pid: int) -> None:
        self._jvm_pid = jvm_pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)
        self.peaks: dict[int, int] = {}
        self.seen: dict[int, Process] = {}
        self.own_cpu_seconds = 0.0

    def __enter__(self) -> Self:
        for pid in self._watched():
            # Without the right to do so, a peak covers the process's whole life.
            with contextlib.suppress(OSError):
                (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_S):
            self._look()
            self.own_cpu_seconds = time.thread_time()

    def _look(self) -> None:
        for pid in self._watched():
            self.peaks[pid] = max(self.peaks.get(pid, 0), peak_bytes(pid))

    def _watched(self) -> set[int]:
        processes = running()
        watched = {os.getpid(), *tree(self._jvm_pid, processes)}
        self.seen |= {pid: processes[pid] for pid in watched}
        return watched


# ---- a tree of processes -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one moment. `cpu_seconds` includes its children whose status it has read.

    `waited_seconds` are the CPU seconds of these children alone. A child of a process that ignores
    its children's ends is lost; see `_lost_seconds`.
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
    processes = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                process = Process.parse((folder / "stat").read_text())
                processes[process.pid] = process
    return processes


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


def _lost_seconds(seen: Iterable[Process]) -> float:
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


def _machine_cpu_seconds() -> float:
    """Return the CPU seconds of everything on this machine since it started."""
    user, nice, system, _idle, _iowait, *interrupts = (
        int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / _TICKS


def peak_bytes(pid: int) -> int:
    """Return the most resident memory of a process since the reset; 0 if it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)
