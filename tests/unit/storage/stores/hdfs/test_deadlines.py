"""Calls that never end do not keep anybody."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import hdfs_native
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import StoreUnavailableError
from airflow_hiveacid.storage.stores.filesystem import exists, read_bytes
from airflow_hiveacid.storage.stores.hdfs.deadlines import within
from airflow_hiveacid.storage.stores.hdfs.handler import HdfsHandler

LONG_S = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call waits for that does not end; in the end it does."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_within_its_deadline_returns_its_result_or_raises_its_error() -> None:
    assert within(LONG_S, lambda: 7) == 7
    with pytest.raises(KeyError):
        within(LONG_S, lambda: {}["x"])
    assert within(LONG_S, lambda: None) is None


def test_a_call_that_exceeds_its_deadline_raises_a_timeout(gate: threading.Event) -> None:
    with pytest.raises(TimeoutError, match=r"no answer in 0\.01 s"):
        within(0.01, gate.wait)
    assert within(LONG_S, lambda: 8) == 8  # by another thread


def test_calls_run_in_parallel_and_reuse_their_threads() -> None:
    both = threading.Barrier(2)
    found: list[int] = []

    def call(number: int) -> None:
        found.append(within(LONG_S, lambda: (both.wait(LONG_S), number)[1]))

    threads = [threading.Thread(target=call, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert sorted(found) == [0, 1]
    before = threading.active_count()
    for number in range(20):
        assert within(LONG_S, lambda number=number: number) == number  # type: ignore[misc]
    assert threading.active_count() <= before


def test_a_call_in_a_process_forked_after_an_earlier_call_is_refused() -> None:
    """It would share connections to data nodes with its parent: it hangs, or reads another file."""
    within(LONG_S, lambda: 1)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            within(LONG_S, lambda: 2)
        except OSError as error:
            os._exit(0 if error.errno == errno.ENOTSUP and "forked" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert within(LONG_S, lambda: 3) == 3


def test_a_process_forked_before_any_call_can_make_calls() -> None:
    program = """
import os
from airflow_hiveacid.storage.stores.hdfs.deadlines import within
child = os.fork()
if child == 0:
    os._exit(within(60.0, lambda: 7))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_abandoned_call_does_not_abort_the_process_when_the_interpreter_exits() -> None:
    """The name node's connection breaks after the interpreter has begun to end."""
    program = """
import socket, sys, time, types
import hdfs_native
from airflow_hiveacid.storage.stores.hdfs.deadlines import within

silent = socket.create_server(("127.0.0.1", 0))
place = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
client = hdfs_native.Client(place, {"dfs.client.failover.max.attempts": "0"})
try:
    within(0.3, lambda: client.get_file_info("/t"))
except TimeoutError:
    print("abandoned", flush=True)

class Last:
    def __init__(self, close, sleep):
        self.close, self.sleep = close, sleep

    def __del__(self):
        self.close()
        self.sleep(1.0)
        print("ended", flush=True)

sys.modules["last"] = types.ModuleType("last")
sys.modules["last"].last = Last(silent.close, time.sleep)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "abandoned\nended\n"), ended.stderr


def test_an_unresponsive_name_node_raises_a_retryable_error() -> None:
    """Its kernel takes connections, and it never answers: hdfs-native would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
        client = hdfs_native.Client(place, {"dfs.client.failover.max.attempts": "0"})
        handler = HdfsHandler(place, client, 0o022, hdfs_native.WriteOptions, 0.3)
        fs = pafs.PyFileSystem(handler)
        for call in (exists, read_bytes):
            with pytest.raises(StoreUnavailableError, match=rf"no answer in 0\.3 s.*{place}/w/t"):
                call(fs, "/w/t")
