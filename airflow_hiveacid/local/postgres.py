"""A private PostgreSQL server for a metastore, from Debian's package.

With PostgreSQL, a metastore can run calls concurrently; Derby runs one call at a time. Input is a
data directory. Output is databases, as `PostgresDatabase` values. The server listens only on
127.0.0.1, has no socket file, and requires a password. The password is generated once and stored in
a file of mode 0600. PostgreSQL refuses to run as root. If root starts the server, it runs as the
package's user `postgres`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import (
    Command,
    LocalServerError,
    MissingProgramError,
    Progress,
    RecordedServer,
    ServerConfig,
    ServerStartError,
    free_port,
    log_progress,
)
from airflow_hiveacid.local.site import HOST, PostgresDatabase

_DEBIAN_ROOT: Final = Path("/usr/lib/postgresql")
_PACKAGE_USER: Final = "postgres"
_SUPERUSER: Final = "hiveacid"
_SHARED_FOLDER: Final = Path("/var/tmp")  # noqa: S108 -- see LocalPostgres._files
_POLL_S: Final = 0.1
_MEMORY_IN_USE: Final = "pre-existing shared memory block"
_IDENTIFIER: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_SETTINGS: Final = (
    f"listen_addresses={HOST}",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
    # With these settings, a kill loses no data. A power failure may lose data, but only test data.
    "fsync=off",
    "full_page_writes=off",
)


class LocalPostgres(RecordedServer):
    """One PostgreSQL server."""

    stop_signal = signal.SIGINT
    """PostgreSQL's "fast" stop ends sessions, then the server."""

    def __init__(self, config: ServerConfig, *, progress: Progress = log_progress) -> None:
        super().__init__(config, "PostgreSQL", config.data_dir / "postgres.log", progress)
        self._user = _PACKAGE_USER if os.geteuid() == 0 else None

    def start(self) -> None:
        """Start the server, unless it already runs in this directory; wait until it answers.

        Raises MissingProgramError or ServerStartError.
        """
        with self._alone():
            if self._find() is not None:
                return
            # The password is only in the data directory. If a user has removed that directory, the
            # files in /var/tmp are useless.
            if not ((self._files / "ready").is_file() and self._password_file.is_file()):
                self._create_cluster()
            self._serve_when_free()

    def database(self, name: str) -> PostgresDatabase:
        """Return the connection to a database of this server; the database may not exist yet.

        Its name may have lower-case letters, digits and underscores.
        """
        if not name or not _IDENTIFIER.issuperset(name):
            raise ValueError(f"{name!r} is not a plain database name")
        return PostgresDatabase(
            host=HOST, port=self.port, name=name, user=_SUPERUSER, password=self._password()
        )

    def has_database(self, name: str) -> bool:
        """Return True if the database exists."""
        return self.database(name).name in self._sql("SELECT datname FROM pg_database").split()

    def create_database(self, name: str, *, fresh: bool = False) -> PostgresDatabase:
        """Create a database if it is missing; return the connection to it.

        `fresh` drops an existing database first, with all its contents. Raises LocalServerError if
        PostgreSQL refuses.
        """
        database = self.database(name)
        if fresh:
            self._sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        if not self.has_database(name):
            self._sql(f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' TEMPLATE template0")
        return database

    def destroy(self) -> None:
        """Stop the server; remove its files, including those outside the data directory."""
        self.stop()
        shutil.rmtree(self._files, ignore_errors=True)
        shutil.rmtree(self.config.data_dir, ignore_errors=True)

    @property
    def _files(self) -> Path:
        # If root starts the server, the cluster belongs to the user `postgres`. This user often
        # cannot access a home directory or a test's temporary folder. So the files are in a
        # separate folder in /var/tmp. The name of this folder depends on the data directory. The
        # folder has mode 0700 and must be new, so no other user can put files there in advance.
        if self._user is None:
            return self.config.data_dir / "cluster"
        digest = hashlib.sha256(str(self.config.data_dir).encode()).hexdigest()[:16]
        return _SHARED_FOLDER / f"airflow_hiveacid-postgres-{digest}"

    @property
    def _password_file(self) -> Path:
        return self.config.data_dir / "password"

    def _password(self) -> str:
        return self._password_file.read_text().strip()

    def _create_cluster(self) -> None:
        self._progress("creating a PostgreSQL database cluster")
        files = self._files
        shutil.rmtree(files, ignore_errors=True)  # a cluster without the file `ready` is unfinished
        files.mkdir(mode=0o700)
        passwords = (self._password_file, files / "password")
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

    def _serve_when_free(self) -> None:
        """Start the server; the processes of a killed server may use its memory a little longer."""
        deadline = time.monotonic() + self.config.start_timeout_s
        while True:
            try:
                return self._serve()
            except ServerStartError as error:
                if _MEMORY_IN_USE not in str(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_S)

    def _serve(self) -> None:
        port = self._port or free_port(HOST)
        self._progress(f"starting PostgreSQL on port {port}")
        arguments = [_program("postgres"), "-D", str(self._files / "data"), "-p", str(port)]
        for setting in _SETTINGS:
            arguments += ["-c", setting]
        command = Command(
            arguments=arguments,
            environment=_environment(),
            cwd=self._files,
            log=self.log_file,
            user=self._user,
            ends_with_parent=self.config.ends_with_parent,
        )
        self._launch(command, port)

    def _answers(self, port: int) -> bool:
        ready = [_program("pg_isready"), "-q", "-h", HOST, "-p", str(port)]
        return subprocess.run(ready, check=False, env=_environment()).returncode == 0

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
        process = subprocess.run(
            [program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env={**_environment(), **(secret or {})},
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
        )
        if process.returncode != 0:
            raise LocalServerError(f"{Path(program).name} failed: {process.stderr.strip()}")
        return process.stdout.strip()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _program(name: str) -> str:
    """Return the path of a PostgreSQL program, from Debian's newest package or else from PATH."""
    on_path = shutil.which(name)
    # Debian's psql in PATH is a Perl wrapper that requires Debian's own cluster layout.
    folders = sorted(_DEBIAN_ROOT.glob("*/bin"), key=lambda folder: _version(folder.parent.name))
    for folder in reversed(folders):
        if (folder / name).is_file():
            return str(folder / name)
    if on_path is None:
        raise MissingProgramError(
            name, "install PostgreSQL (Debian: apt-get install postgresql) to test concurrency"
        )
    return on_path


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
