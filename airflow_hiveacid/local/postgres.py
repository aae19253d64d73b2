"""Knows how to run a private PostgreSQL server below a metastore, from Debian's package.

For concurrency: Derby serialises every call. Takes a data directory, gives databases as
`PostgresDatabase` values. The server listens on 127.0.0.1 alone, has no socket file, and every
connection needs a password, which is made up once and kept in a file of mode 0600. PostgreSQL
refuses to run as root; then it runs as the package's user `postgres`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.errors import LocalServerError, MissingProgramError, ServerStartError
from airflow_hiveacid.local.lifetime import Server
from airflow_hiveacid.local.process import (
    Command,
    ProcessRecord,
    birth_of,
    free_port,
    kill,
    spawn,
    terminate,
)
from airflow_hiveacid.local.progress import Progress, log_progress, tail
from airflow_hiveacid.local.site import HOST, PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DEBIAN_ROOT: Final = Path("/usr/lib/postgresql")
_PACKAGE_USER: Final = "postgres"
_SUPERUSER: Final = "hiveacid"
_SHARED_FOLDER: Final = Path("/var/tmp")  # noqa: S108 -- see LocalPostgres._files
_POLL_S: Final = 0.1
_IDENTIFIER: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_SETTINGS: Final = (
    f"listen_addresses={HOST}",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
    # A killed process loses nothing by this; a power cut may, and the data is a test's.
    "fsync=off",
    "full_page_writes=off",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPostgresConfig:
    """What to start, and where.

    Attributes:
        data_dir: Everything the server keeps; made when missing.
        port: 0 takes a free one.
        start_timeout_s: Seconds until a server that does not answer is given up.
        ends_with_parent: See `LocalMetastoreConfig`.
    """

    data_dir: Path
    port: int = 0
    start_timeout_s: float = 60.0
    ends_with_parent: bool = False

    def __post_init__(self) -> None:
        """Checks the directory.

        Raises:
            ValueError: The directory is relative.
        """
        if not self.data_dir.is_absolute():
            raise ValueError(f"data_dir must be absolute, not {self.data_dir}")


class LocalPostgres(Server):
    """One PostgreSQL server. Mutable: it follows the life of a process."""

    def __init__(self, config: LocalPostgresConfig, *, progress: Progress = log_progress) -> None:
        self.config = config
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None
        self._port = config.port
        self._user = _PACKAGE_USER if os.geteuid() == 0 else None

    @property
    def port(self) -> int:
        """Port of the server that was started or found; it survives `restart` and `kill`.

        Raises:
            LocalServerError: The server was never started and no port was chosen.
        """
        if self._port == 0:
            raise LocalServerError(f"PostgreSQL in {self.config.data_dir} has not been started")
        return self._port

    @property
    def log_file(self) -> Path:
        """The server's output."""
        return self.config.data_dir / "postgres.log"

    def is_running(self) -> bool:
        """Tells whether the process runs, whoever started it."""
        return self._find() is not None

    def start(self) -> None:
        """Starts the server, or finds the one that already runs here, and waits for its answer.

        Raises:
            MissingProgramError: PostgreSQL is not installed.
            ServerStartError: The server died or did not answer in time.
        """
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        with self._alone():
            if self._find() is not None:
                return
            if not (self._files / "ready").is_file():
                self._create_cluster()
            self._serve()

    def stop(self) -> None:
        """Ends the server in this directory, whoever started it; nothing when there is none."""
        if not self.config.data_dir.is_dir():
            return
        with self._alone():
            record = self._find()
            if record is not None:
                self._progress(f"stopping PostgreSQL (process {record.pid})")
                terminate(record, first=signal.SIGINT)  # "fast": ends sessions, then itself
            self._forget()

    def kill(self) -> None:
        """Ends the server with SIGKILL, as a power cut would; `start` brings it back."""
        record = self._find()
        if record is not None:
            kill(record)
        self._forget()

    def database(self, name: str) -> PostgresDatabase:
        """Returns how to connect to a database of this server, which need not exist yet.

        Raises:
            ValueError: The name holds more than lower-case letters, digits and underscores.
        """
        if not name or not _IDENTIFIER.issuperset(name):
            raise ValueError(f"{name!r} is no plain database name")
        return PostgresDatabase(
            host=HOST, port=self.port, name=name, user=_SUPERUSER, password=self._password()
        )

    def has_database(self, name: str) -> bool:
        """Tells whether the database exists.

        Raises:
            LocalServerError: PostgreSQL refused.
        """
        return self.database(name).name in self._sql("SELECT datname FROM pg_database").split()

    def create_database(self, name: str, *, fresh: bool = False) -> PostgresDatabase:
        """Makes sure that a database exists, and returns how to connect to it.

        Args:
            name: Lower-case letters, digits and underscores.
            fresh: Whether one that exists is dropped first, with everything in it.

        Raises:
            LocalServerError: PostgreSQL refused.
        """
        database = self.database(name)
        if fresh:
            self._sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        if not self.has_database(name):
            self._sql(f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' TEMPLATE template0")
        return database

    def destroy(self) -> None:
        """Stops the server and removes its files, also those kept outside of the data directory."""
        self.stop()
        shutil.rmtree(self._files, ignore_errors=True)
        shutil.rmtree(self.config.data_dir, ignore_errors=True)

    @property
    def _files(self) -> Path:
        # As root the cluster belongs to another user, who often cannot reach a folder below a
        # home or a test's temporary folder; one of its own, named after ours, always works. Its
        # mode is 0700, and it is made, never taken over, so nobody can put one there before us.
        if self._user is None:
            return self.config.data_dir / "cluster"
        digest = hashlib.sha256(str(self.config.data_dir).encode()).hexdigest()[:16]
        return _SHARED_FOLDER / f"airflow_hiveacid-postgres-{digest}"

    @property
    def _record_file(self) -> Path:
        return self.config.data_dir / "postgres.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
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

    def _password(self) -> str:
        return (self.config.data_dir / "password").read_text().strip()

    def _create_cluster(self) -> None:
        self._progress("creating a PostgreSQL database cluster")
        files = self._files
        shutil.rmtree(files, ignore_errors=True)  # one without the marker was cut short
        files.mkdir(mode=0o700)
        passwords = (self.config.data_dir / "password", files / "password")
        secret = secrets.token_urlsafe(24)
        for file in passwords:
            file.touch(mode=0o600)
            file.chmod(0o600)
            file.write_text(f"{secret}\n")
        if self._user is not None:
            shutil.chown(files, self._user, self._user)
            shutil.chown(passwords[1], self._user, self._user)
        self._run(
            _program("initdb"),
            [
                "--pgdata=" + str(files / "data"),
                f"--username={_SUPERUSER}",
                f"--pwfile={passwords[1]}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
        )
        passwords[1].unlink()
        (files / "ready").touch()

    def _serve(self) -> None:
        port = self._port or free_port(HOST)
        self._progress(f"starting PostgreSQL on port {port}")
        arguments = [_program("postgres"), "-D", str(self._files / "data"), "-p", str(port)]
        for setting in _SETTINGS:
            arguments += ["-c", setting]
        self._process = spawn(
            Command(
                arguments=arguments,
                environment=_environment(),
                cwd=self._files,
                log=self.log_file,
                user=self._user,
                ends_with_parent=self.config.ends_with_parent,
            )
        )
        record = ProcessRecord(
            pid=self._process.pid,
            birth=birth_of(self._process.pid) or "ended",
            port=port,
            label="PostgreSQL",
            fingerprint="",
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
        ready = [_program("pg_isready"), "-q", "-h", HOST, "-p", str(record.port)]
        while subprocess.run(ready, check=False, env=_environment()).returncode != 0:
            if self._process is not None and self._process.poll() is not None:
                reason = f"ended with status {self._process.returncode}"
                raise ServerStartError("PostgreSQL", reason, self.log_file, tail(self.log_file))
            if time.monotonic() >= deadline:
                reason = f"did not answer within {self.config.start_timeout_s:g} s"
                raise ServerStartError("PostgreSQL", reason, self.log_file, tail(self.log_file))
            time.sleep(_POLL_S)

    def _sql(self, statement: str) -> str:
        arguments = ["-h", HOST, "-p", str(self.port), "-U", _SUPERUSER, "-d", "postgres"]
        arguments += ["--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--quiet"]
        return self._run(
            _program("psql"),
            [*arguments, "-v", "ON_ERROR_STOP=1"],
            text=statement,
            secret={"PGPASSWORD": self._password()},
        )

    def _run(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        text: str = "",
        secret: dict[str, str] | None = None,
    ) -> str:
        done = subprocess.run(
            [program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={**_environment(), **(secret or {})},
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
        )
        if done.returncode != 0:
            raise LocalServerError(f"{Path(program).name} failed: {done.stderr.strip()}")
        return done.stdout.strip()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _program(name: str) -> str:
    """Finds one of PostgreSQL's programs: on the path, else the newest Debian package's."""
    found = shutil.which(name)
    # Debian's psql on the path is a Perl wrapper that wants its own cluster layout.
    folders = sorted(_DEBIAN_ROOT.glob("*/bin"), key=lambda folder: _version(folder.parent.name))
    for folder in reversed(folders):
        if (folder / name).is_file():
            return str(folder / name)
    if found is None:
        raise MissingProgramError(
            name, "install PostgreSQL (Debian: apt-get install postgresql) to test concurrency"
        )
    return found


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
