"""The meter of one piece of work: wall and CPU seconds of all our processes, peak memory.

The processes are this one, which is the Python half of the Spark driver, the driver's JVM, the
Python workers below the JVM, and the metastore. The CPU time of the rest of the machine is
noted, too, to show how far the figures can be trusted.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

from tests.proofs.bench.processes import (
    Process,
    cpu_seconds,
    lost_seconds,
    machine_cpu_seconds,
    peak_bytes,
    reset_peaks,
    running,
    tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_T = TypeVar("_T")

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
            everybody, own, began = machine_cpu_seconds(), cpu_seconds(root), time.monotonic()
            result = work()
            seconds = time.monotonic() - began
            used = cpu_seconds(root) - own + lost_seconds(memory.seen.values())
            others = machine_cpu_seconds() - everybody - used
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
        reset_peaks(self._watched())
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
