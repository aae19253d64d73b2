from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.local import process
from airflow_hiveacid.local.process import Command, ProcessRecord

SLEEP = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"]
DEAF_PROGRAM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
DEAF = [sys.executable, "-c", DEAF_PROGRAM]


def record_of(pid: int) -> ProcessRecord:
    birth = process.birth_of(pid)
    assert birth is not None
    return ProcessRecord(pid=pid, birth=birth, port=1, label="sleeper", fingerprint="f")


@pytest.fixture(params=[SLEEP])
def sleeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = tmp_path / "sleeper.log"
    child = process.spawn(
        Command(arguments=request.param, environment=dict(os.environ), cwd=tmp_path, log=log)
    )
    while not log.read_text():  # its signal handlers are in place once it has spoken
        time.sleep(0.01)
    yield child
    child.kill()
    child.wait()


def test_a_process_record_is_read_back_unchanged(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    record = record_of(sleeper.pid)
    record.write(tmp_path / "record.json")
    assert ProcessRecord.read_alive(tmp_path / "record.json") == record


def test_a_foreign_process_with_a_recorded_process_id_is_not_ended(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    stale = replace(record_of(sleeper.pid), birth="earlier")
    stale.write(tmp_path / "record.json")
    process.terminate(stale, grace_s=0.1)
    process.kill(stale)
    assert sleeper.poll() is None
    assert ProcessRecord.read_alive(tmp_path / "record.json") is None
    assert not (tmp_path / "record.json").exists()


def test_a_zombie_process_counts_as_ended() -> None:
    with subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL) as child:  # not by spawn: never polled
        record = record_of(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        assert process.wait_gone(record, timeout_s=5)
        assert Path(f"/proc/{child.pid}").exists()


def test_a_killed_child_process_leaves_no_zombie(sleeper: subprocess.Popen[bytes]) -> None:
    process.kill(record_of(sleeper.pid))
    assert not Path(f"/proc/{sleeper.pid}").exists()


def test_terminate_ends_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    process.terminate(record_of(sleeper.pid), grace_s=5)
    assert sleeper.wait() == -signal.SIGTERM


@pytest.mark.parametrize("sleeper", [DEAF], indirect=True)
def test_terminate_kills_a_process_that_ignores_sigterm(sleeper: subprocess.Popen[bytes]) -> None:
    process.terminate(record_of(sleeper.pid), grace_s=0.2)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_server_is_not_in_the_process_group_of_the_shell(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert os.getpgid(sleeper.pid) != os.getpgid(0)


def test_a_server_that_is_bound_to_its_parent_ends_with_it(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from airflow_hiveacid.local.process import Command, spawn\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "child = spawn(Command(arguments=[sys.executable, '-c',"
        " \"print('up', flush=True); import time; time.sleep(60)\"],"
        " environment=dict(os.environ), cwd=here, log=here / 'log', ends_with_parent=True))\n"
        "while not (here / 'log').read_text(): pass\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False
    )
    for _ in range(2000):  # 40 s; its own end comes after 60
        if process.birth_of(int(parent.stdout)) is None:
            break
        time.sleep(0.02)
    assert process.birth_of(int(parent.stdout)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"nonsense": true}'])
def test_an_invalid_record_file_is_read_as_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "record.json").write_text(text)
    assert ProcessRecord.read(tmp_path / "record.json") is None


def test_a_process_that_does_not_exist_has_no_start_time() -> None:
    assert process.birth_of(2**22 + 1) is None


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not process.is_port_free("127.0.0.1", listener.getsockname()[1])
    assert process.is_port_free("127.0.0.1", process.free_port("127.0.0.1"))


def test_a_child_process_that_ends_during_a_check_leaves_no_zombie(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    record, look = record_of(sleeper.pid), process.birth_of

    def end_first(pid: int) -> str | None:
        os.kill(pid, signal.SIGKILL)
        while look(pid) is not None:
            time.sleep(0.01)
        return None

    monkeypatch.setattr(process, "birth_of", end_first)
    assert not record.is_alive()
    assert not Path(f"/proc/{sleeper.pid}").exists()
