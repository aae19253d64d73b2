from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.proofs.bench.meter import Meter, Process, cpu_seconds, peak_bytes, running, tree

TICKS = os.sysconf("SC_CLK_TCK")


def burn(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        sum(range(1_000))


def test_a_process_name_with_blanks_and_parentheses_is_parsed() -> None:
    times = [TICKS, 2 * TICKS, 3 * TICKS, 4 * TICKS]
    stat = f"42 (a b) c) S 7 42 42 0 -1 0 0 0 0 0 {' '.join(map(str, times))} 20 0 1 0 99"
    assert Process.parse(stat) == Process(pid=42, parent=7, cpu_seconds=10.0, waited_seconds=7.0)


def test_a_process_tree_contains_its_root_and_all_descendants() -> None:
    processes = {
        pid: Process(pid=pid, parent=parent, cpu_seconds=0.0, waited_seconds=0.0)
        for pid, parent in ((1, 0), (2, 1), (3, 2), (4, 1), (5, 4))
    }
    assert tree(2, processes) == {2, 3}
    assert tree(1, processes) == {1, 2, 3, 4, 5}
    assert tree(9, processes) == set()


def test_the_cpu_seconds_of_a_finished_child_are_included() -> None:
    before = cpu_seconds(os.getpid())
    work = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert cpu_seconds(os.getpid()) - before >= 0.25


def test_a_worker_whose_parent_ignores_its_end_does_not_reduce_a_measurement() -> None:
    # As Spark's daemon of Python workers does.
    daemon = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
worker = os.fork()
if not worker:
    while time.process_time() < 0.3: pass
    print(flush=True)
    time.sleep(60)
sys.stdin.readline()
os.kill(worker, signal.SIGKILL)
time.sleep(0.1)
print(flush=True)
sys.stdin.readline()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", daemon], stdin=pipe, stdout=pipe) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()  # the worker has worked, before the measurement

        def end_worker() -> None:
            started.stdin.write(b"\n")
            started.stdin.flush()
            started.stdout.readline()

        _, took = Meter(jvm_pid=started.pid).measure(end_worker)
        started.communicate(b"\n")
    assert -0.01 < took.cpu_seconds < 0.2  # a difference of two sums


def test_a_measurement_distinguishes_wall_seconds_from_cpu_seconds() -> None:
    meter = Meter(jvm_pid=os.getpid())
    _, busy = meter.measure(lambda: burn(0.2))
    assert busy.cpu_seconds >= 0.15
    result, idle = meter.measure(lambda: time.sleep(0.2) or "slept")
    assert result == "slept"
    assert idle.seconds >= 0.2
    assert idle.driver_peak_bytes > 1 << 20
    assert idle.cpu_seconds < idle.seconds


def test_the_peak_memory_is_known_after_the_process_released_the_memory() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "x = bytes(range(256)) * 400_000; del x; print(flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        assert peak_bytes(child.pid) > 100_000_000
        assert child.pid in tree(os.getpid(), running())
    finally:
        child.communicate(b"\n")
    assert peak_bytes(child.pid) == 0
