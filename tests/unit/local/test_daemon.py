"""Servers beside a metastore: found again, ended by anybody, on the port of the last time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.local.process import ProcessRecord, ServerStartError, kill
from tests.support.logins.daemon import Daemon

_LISTENS = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(60)
"""


def daemon(folder: Path) -> Daemon:
    return Daemon("a listener", folder, ends_with_parent=True, progress=lambda _: None)


def start(folder: Path, script: str = _LISTENS) -> Daemon:
    made = daemon(folder)
    port = made.choose_port()
    command = [sys.executable, "-c", script, str(port)]
    made.start(command, dict(os.environ), port=port, log=folder / "log")
    return made


def test_a_second_process_finds_and_stops_the_daemon(tmp_path: Path) -> None:
    port = start(tmp_path).port
    assert port is not None
    assert daemon(tmp_path).port == port
    daemon(tmp_path).stop()
    assert daemon(tmp_path).port is None


def test_after_a_kill_the_daemon_starts_on_the_same_port(tmp_path: Path) -> None:
    port = start(tmp_path).port
    record = ProcessRecord.read(tmp_path / "process.json")
    assert record is not None
    kill(record)
    again = start(tmp_path)
    assert again.port == port
    again.stop()


def test_a_failed_start_shows_the_end_of_the_daemons_log(tmp_path: Path) -> None:
    with pytest.raises(ServerStartError, match=r"a listener ended(?s:.)*no such schema"):
        start(tmp_path, "import sys; sys.exit('no such schema')")
    assert daemon(tmp_path).port is None
