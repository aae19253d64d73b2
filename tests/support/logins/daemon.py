"""A server process that a metastore needs: start it, find it by its record, stop it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from airflow_hiveacid.local.process import (
    Command,
    ProcessRecord,
    Progress,
    ServerStartError,
    birth_of,
    free_port,
    is_port_free,
    kill,
    spawn,
    tail,
    terminate,
)
from airflow_hiveacid.local.site import HOST

_POLL_S: Final = 0.05
_START_TIMEOUT_S: Final = 20.0


def fill(name: str, target: Path, values: Mapping[str, object]) -> None:
    """Write a file of this folder with these values in the places of their names."""
    template = Template(Path(__file__).with_name(name).read_text())
    target.write_text(template.substitute(values))


class Daemon:
    """One server process, which a different program may have started. The object is mutable.

    Args:
        label: The server's name for messages.
        folder: The server's working folder. The folder also contains the record.
        ends_with_parent: See `LocalMetastoreConfig`.
        progress: Receives messages about starts and stops.
    """

    def __init__(
        self, label: str, folder: Path, *, ends_with_parent: bool, progress: Progress
    ) -> None:
        self._label, self._folder, self._progress = label, folder, progress
        self._ends_with_parent = ends_with_parent
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int | None:
        """The port on which the server listens; None if the server does not run."""
        record = ProcessRecord.read_alive(self._record_file)
        return None if record is None else record.port

    def choose_port(self) -> int:
        """Return the server's previous port, which clients may still use, or a free port."""
        file = self._folder / "port"
        try:
            port = int(file.read_text())
        except (FileNotFoundError, ValueError):
            port = 0
        if not port or not is_port_free(HOST, port):
            port = free_port(HOST)
            file.write_text(f"{port}\n")
        return port

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], *, port: int, log: Path
    ) -> None:
        """Start the server and wait until it listens.

        Raises:
            ServerStartError: The server ended, or did not listen in time.
        """
        self._progress(f"starting {self._label} on port {port}")
        command = Command(
            arguments=arguments,
            environment=environment,
            cwd=self._folder,
            log=log,
            ends_with_parent=self._ends_with_parent,
        )
        self._process = spawn(command)
        record = ProcessRecord(
            pid=self._process.pid,
            birth=birth_of(self._process.pid) or "ended",
            port=port,
            label=self._label,
            fingerprint="",
        )
        try:
            record.write(self._record_file)
            self._await_port(record, log)
        except BaseException:
            kill(record)
            self._forget()
            raise

    def stop(self) -> None:
        """Stop the server, if it runs."""
        record = ProcessRecord.read_alive(self._record_file)
        if record is not None:
            self._progress(f"stopping {self._label} (process {record.pid})")
            terminate(record)
        self._forget()

    @property
    def _record_file(self) -> Path:
        return self._folder / "process.json"

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._record_file.unlink(missing_ok=True)

    def _await_port(self, record: ProcessRecord, log: Path) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((HOST, record.port), timeout=1.0).close()
            except OSError:
                if not record.is_alive():
                    raise ServerStartError(self._label, "ended", log, tail(log)) from None
                if time.monotonic() >= deadline:
                    reason = f"did not listen within {_START_TIMEOUT_S:g} s"
                    raise ServerStartError(self._label, reason, log, tail(log)) from None
                time.sleep(_POLL_S)
            else:
                return
