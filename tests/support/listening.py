"""Knows when a server that a test has started takes connections."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Final

from airflow_hiveacid.local.site import HOST

_START_S: Final = 120.0
_POLL_S: Final = 0.05


def until_listening(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until somebody listens on the port of this machine, as the server is to do."""
    give_up_s = time.monotonic() + _START_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        assert server.poll() is None, f"{server.args!r} ended with {server.returncode}"
        assert time.monotonic() < give_up_s, f"{server.args!r} does not listen on {port}"
        time.sleep(_POLL_S)
