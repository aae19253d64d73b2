"""Servers, their records, with which any program can identify their processes, and their errors.

The system may reuse the process ID of a server. But the ID and the start time together identify one
process. `ProcessRecord` stores both in a small JSON file next to the server's data. So `down` in a
different shell stops only the process that `up` started.

```
LocalServerError
├── MissingProgramError        java, mvn or PostgreSQL's binaries are not installed
├── DownloadError              Maven could not fetch the server
├── ServerStartError           the server ended, or never answered
└── ServerConflictError        another server uses the data directory or the port
```
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, Self


class LocalServerError(Exception):
    """A server on this machine could not be started, found or stopped."""


class MissingProgramError(LocalServerError):
    """A required program was not found."""

    def __init__(self, program: str, remedy: str) -> None:
        super().__init__(f"{program} was not found: {remedy}")
        self.program = program
        self.remedy = remedy


class DownloadError(LocalServerError):
    """Maven failed to fetch `what`; the message ends with the last lines of Maven's log."""

    def __init__(self, what: str, log: Path, tail: str) -> None:
        super().__init__(f"Maven could not fetch {what}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log


class ServerStartError(LocalServerError):
    """A server process ended early or did not answer in time.

    In the message, `reason` (such as `ended with status 1`) follows `what`, a server or a step.
    """

    def __init__(self, what: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(f"{what} {reason}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log
        self.tail = tail


class ServerConflictError(LocalServerError):
    """A different server uses the port or directory, or a different release wrote the directory."""


Progress = Callable[[str], None]
"""A function that receives one line without a line break, about a step that may take minutes.

This package does not print. The command line passes a function that writes to standard error, and
tests pass a list's `append`. The default function writes to the log.
"""

_LOG: Final = logging.getLogger(__name__)
_POLL_S: Final = 0.05
_ANSWER_POLL_S: Final = 0.1
_STATE_FIELD: Final = 0  # an index in /proc/PID/stat, counted from the end of the program name
_START_FIELD: Final = 19

# The child processes of this process, by process ID. A child that has ended stays a zombie until
# its parent reads its status. PostgreSQL treats a zombie as a running server. This mapping is
# global, because any object of this process may have started the child.
_CHILDREN: Final[dict[int, subprocess.Popen[bytes]]] = {}


def log_progress(line: str) -> None:
    """Log a line at level info."""
    _LOG.info("%s", line)


def tail(log: Path, *, lines: int = 25, max_bytes: int = 16_384) -> str:
    """Return the last lines of a log; fewer if the file is short or missing."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - max_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(text.splitlines()[-lines:]) or "(no output)"


class Server(ABC):
    """A server that can be started and stopped, also as a context manager."""

    @abstractmethod
    def start(self) -> object:
        """Start the server, unless it already runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server, if it runs."""

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One running server.

    Attributes:
        birth: The process's start time, as `birth_of` returns it.
        port: The server's port on 127.0.0.1.
        label: The server's name for messages, such as `Hive metastore 4.0.1`.
        fingerprint: A digest of the server's settings.
    """

    pid: int
    birth: str
    port: int
    label: str
    fingerprint: str

    def is_alive(self) -> bool:
        """Return True if this process still runs; a later process with its ID does not count."""
        is_there = birth_of(self.pid) == self.birth
        # Poll last, so that a child that has just ended does not stay a zombie.
        child = _CHILDREN.get(self.pid)
        if child is not None and child.poll() is not None:
            del _CHILDREN[self.pid]
        return is_there

    def write(self, file: Path) -> None:
        """Write the record to a file, and replace an existing file atomically."""
        scratch = file.with_name(f"{file.name}.new")
        scratch.write_text(json.dumps(asdict(self), indent=2) + "\n")
        scratch.replace(file)

    @classmethod
    def read(cls, file: Path) -> ProcessRecord | None:
        """Return the record in a file; None if the file is missing or contains no record."""
        try:
            return cls(**json.loads(file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    @classmethod
    def read_alive(cls, file: Path) -> ProcessRecord | None:
        """Return the record in a file if its process still runs; otherwise remove the file."""
        record = cls.read(file)
        if record is not None and record.is_alive():
            return record
        file.unlink(missing_ok=True)
        return None


def birth_of(pid: int) -> str | None:
    """Return the start time of a process; None if the process has ended or is a zombie."""
    if not Path("/proc/self/stat").exists():
        return _birth_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program name is in brackets and may itself contain blanks and brackets. So split at the
    # last bracket.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE_FIELD] in {"Z", "X"}:
        return None
    return f"{boot}/{fields[_START_FIELD]}"


def _birth_by_ps(pid: int) -> str | None:
    process = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 -- the path of ps differs by system
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return process.stdout.strip() or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command line and environment of a server process, without secrets.

    Attributes:
        log: The file for standard output and standard error, which are appended.
        user: The user who runs the process; None for the current user.
        ends_with_parent: See `ServerConfig`.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    log: Path
    user: str | None = None
    ends_with_parent: bool = False


def spawn(command: Command) -> subprocess.Popen[bytes]:
    """Start a process in its own session, so that Ctrl-C does not stop the process."""
    arguments = list(command.arguments)
    setpriv = shutil.which("setpriv")
    if command.ends_with_parent and setpriv is not None:
        # The kernel sends the signal when the parent ends for any reason. setpriv replaces itself
        # with the program, so the process ID stays the same.
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
    """Stop the recorded process; send SIGKILL if it still runs after the grace period."""
    _send(record, first)
    if not wait_gone(record, timeout_s=grace_s):
        kill(record)


def kill(record: ProcessRecord) -> None:
    """Kill the recorded process with SIGKILL, and wait until it has ended."""
    _send(record, signal.SIGKILL)
    wait_gone(record, timeout_s=10.0)


def wait_gone(record: ProcessRecord, *, timeout_s: float) -> bool:
    """Wait for the process to end; return False if it still runs after `timeout_s`."""
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
    """Return a port that is free now; a different process may take the port later."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port


def is_port_free(host: str, port: int) -> bool:
    """Return True if a server could listen on the port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The location, port and lifetime of a server.

    Attributes:
        data_dir: The server's files; created if missing.
        port: The server's port on 127.0.0.1; 0 chooses a free port.
        start_timeout_s: The time limit in seconds for the server's first answer.
        ends_with_parent: True if the server must stop when its parent process ends for any reason
            (Linux only). Tests need this setting; by default, the server keeps running. The kernel
            watches the thread that called `start`. So call `start` in a thread that runs as long as
            the server.
    """

    data_dir: Path
    port: int = 0
    start_timeout_s: float = 60.0
    ends_with_parent: bool = False

    def __post_init__(self) -> None:
        """Check the directory."""
        if not self.data_dir.is_absolute():
            raise ValueError(f"data_dir must be absolute, not {self.data_dir}")


class RecordedServer(Server):
    """One server in one data directory; mutable, because the object tracks its process."""

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, config: ServerConfig, label: str, log: Path, progress: Progress) -> None:
        self.config = config
        self.label = label
        self.log_file = log
        self._record_file = config.data_dir / f"{log.stem}.json"
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None
        self._port = config.port

    @property
    def port(self) -> int:
        """The port of the server that was started or found; a restart keeps the port."""
        if self._port == 0:
            raise LocalServerError(f"{self.label} in {self.config.data_dir} has not been started")
        return self._port

    def is_running(self) -> bool:
        """Return True if the server runs, even if a different program has started it."""
        return self._find() is not None

    def stop(self) -> None:
        """Stop the server in this directory, if any, even if a different program has started it."""
        if not self.config.data_dir.is_dir():
            return
        with self._alone():
            record = self._find()
            if record is not None:
                self._progress(f"stopping {self.label} (process {record.pid})")
                terminate(record, first=self.stop_signal)
            self._forget()

    def kill(self) -> None:
        """Kill the server with SIGKILL, to simulate a crash; `start` starts it again."""
        record = self._find()
        if record is not None:
            kill(record)
        self._forget()

    @abstractmethod
    def _answers(self, port: int) -> bool: ...

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.config.data_dir / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _find(self) -> ProcessRecord | None:
        record = ProcessRecord.read_alive(self._record_file)
        if record is not None:
            self._port = record.port
        return record

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._record_file.unlink(missing_ok=True)

    def _launch(self, command: Command, port: int, fingerprint: str = "") -> None:
        self._process = spawn(command)
        record = ProcessRecord(
            pid=self._process.pid,
            birth=birth_of(self._process.pid) or "ended",
            port=port,
            label=self.label,
            fingerprint=fingerprint,
        )
        try:
            record.write(self._record_file)
            self._await_answer(record)
        except BaseException:
            kill(record)
            self._forget()
            raise
        self._port = port

    def _await_answer(self, record: ProcessRecord) -> None:
        deadline = time.monotonic() + self.config.start_timeout_s
        while not self._answers(record.port):
            reason = ""
            if self._process is not None and self._process.poll() is not None:
                reason = f"ended with status {self._process.returncode}"
            elif not record.is_alive():
                reason = "ended"
            elif time.monotonic() >= deadline:
                reason = f"did not answer within {self.config.start_timeout_s:g} s"
            if reason:
                raise ServerStartError(self.label, reason, self.log_file, tail(self.log_file))
            time.sleep(_ANSWER_POLL_S)
