"""Knows which server process is ours, across programs and restarts of this machine.

A process ID alone may have been given to a stranger since; with the time the process was born it
names one process. `ProcessRecord` keeps both in a small JSON file beside the server's data, so
that `down` in another shell ends exactly the process that `up` started, or nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_POLL_S: Final = 0.05
_STATE_FIELD: Final = 0  # of /proc/PID/stat, counted after the closing bracket of the name
_START_FIELD: Final = 19

# Children of this process, by process ID. One that has ended stays a zombie until its parent asks
# for its status, and PostgreSQL takes a zombie for a running server. Any object of this process may
# have started it, so the list is the process's.
_CHILDREN: Final[dict[int, subprocess.Popen[bytes]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One running server.

    Attributes:
        pid: Process ID.
        birth: When it was started, in a form that only `birth_of` compares.
        port: Where it listens on 127.0.0.1.
        label: What it is, for people: `Hive metastore 4.0.1`.
        fingerprint: Digest of its settings.
    """

    pid: int
    birth: str
    port: int
    label: str
    fingerprint: str

    def is_alive(self) -> bool:
        """Tells whether this very process still runs."""
        is_there = birth_of(self.pid) == self.birth
        # Asked last: what has ended by then does not stay a zombie.
        child = _CHILDREN.get(self.pid)
        if child is not None and child.poll() is not None:
            del _CHILDREN[self.pid]
        return is_there

    def write(self, file: Path) -> None:
        """Replaces the file in one step."""
        scratch = file.with_name(f"{file.name}.new")
        scratch.write_text(json.dumps(asdict(self), indent=2) + "\n")
        scratch.replace(file)

    @classmethod
    def read(cls, file: Path) -> ProcessRecord | None:
        """Returns the record, or None where there is none or it is not one of ours."""
        try:
            return cls(**json.loads(file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    @classmethod
    def read_alive(cls, file: Path) -> ProcessRecord | None:
        """Returns the record if its process still runs; removes a stale file."""
        record = cls.read(file)
        if record is not None and record.is_alive():
            return record
        file.unlink(missing_ok=True)
        return None


def birth_of(pid: int) -> str | None:
    """Returns when a live process was started, None for one that is gone or only a zombie."""
    if not Path("/proc/self/stat").exists():
        return _birth_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold blanks and brackets itself: cut at the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE_FIELD] in {"Z", "X"}:
        return None
    return f"{boot}/{fields[_START_FIELD]}"


def _birth_by_ps(pid: int) -> str | None:
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 -- where ps lies differs by system
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start a server process; secrets never stand here.

    Attributes:
        arguments: Program and arguments.
        environment: The whole environment.
        cwd: Working directory.
        log: Takes standard output and standard error, appended.
        user: Other user to run as; None stays who we are.
        ends_with_parent: See `LocalMetastoreConfig`.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    log: Path
    user: str | None = None
    ends_with_parent: bool = False


def spawn(command: Command) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, so that Ctrl-C in this shell does not reach it."""
    arguments = list(command.arguments)
    setpriv = shutil.which("setpriv")
    if command.ends_with_parent and setpriv is not None:
        # The kernel sends the signal however the parent ends. setpriv becomes the program: the
        # process ID stays.
        arguments = [setpriv, "--pdeathsig", "TERM", "--", *arguments]
    with command.log.open("ab") as output:
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(command.environment),
            cwd=command.cwd,
            user=command.user,
            group=command.user,
            extra_groups=[] if command.user else None,
            start_new_session=True,
        )
    _CHILDREN[child.pid] = child
    return child


def terminate(
    record: ProcessRecord, *, grace_s: float = 20.0, first: signal.Signals = signal.SIGTERM
) -> None:
    """Ends the recorded process, with SIGKILL once the grace is over; a stranger is left alone."""
    _send(record, first)
    if not wait_gone(record, timeout_s=grace_s):
        kill(record)


def kill(record: ProcessRecord) -> None:
    """Ends the recorded process without a chance to say goodbye, and waits until it is gone."""
    _send(record, signal.SIGKILL)
    wait_gone(record, timeout_s=10.0)


def wait_gone(record: ProcessRecord, *, timeout_s: float) -> bool:
    """Tells whether the process is gone within the time."""
    deadline = time.monotonic() + timeout_s
    while record.is_alive():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _send(record: ProcessRecord, number: signal.Signals) -> None:
    if record.is_alive():
        with suppress(ProcessLookupError):
            os.kill(record.pid, number)


def free_port(host: str) -> int:
    """Returns a port that nobody listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port


def is_port_free(host: str, port: int) -> bool:
    """Tells whether a server could listen on the port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
        return True
