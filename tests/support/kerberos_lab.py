"""A cluster in which nobody gets anywhere without a login: KDC, HDFS, metastore, and Spark's jobs.

All of it lies in one folder and ends with its block. Drivers are started by `spark-submit`, as
users start them: a JVM logs in once, so none of the test's own could.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from tests.contract.stores.kerberos_hdfs import SERVICE as HDFS_SERVICE, KerberosHdfs
from tests.contract.stores.mini_hdfs import JARS, class_path
from tests.support import chosen_versions, secret_search, short_jvms, spark_submit
from tests.support.logins import access_kinds
from tests.support.logins.kdc import LocalKdc, LocalKdcConfig

USER: Final = "etl"
_ROOT: Final = Path(__file__).resolve().parents[2]
_MODULES: Final = f"{_ROOT}{os.pathsep}{_ROOT / 'tests'}"
_DRIVER: Final = _ROOT / "tests" / "drivers" / "kerberos_life.py"
_WAIT_S: Final = 600
# The superuser makes what an administrator would: a warehouse of Hive's that etl may write to, too.
_WAREHOUSE: Final = """
import sys, hdfs_native
client = hdfs_native.Client(sys.argv[1])
entry = hdfs_native.AclEntry
users = [(scope, user) for scope in ("access", "default") for user in ("hive", "etl")]
for folder in ("/warehouse", "/external"):
    client.mkdirs(folder, 0o770, True)
    client.set_owner(folder, "hive", "hive")
    client.modify_acl_entries(folder, [entry("user", scope, "rwx", user) for scope, user in users])
"""

FOLDERS: Final = """
import sys, hdfs_native
client = hdfs_native.Client(sys.argv[1])
client.mkdirs("/user", 0o755, True)
for folder in ("/user/etl", "/results"):
    client.mkdirs(folder, 0o700, True)
    client.set_owner(folder, "etl", "etl")
"""
"""What a superuser makes for YARN: where Spark and drivers in a cluster leave files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a driver ended: its code, what it has noted by name, and all that it said."""

    code: int
    notes: Mapping[str, Any]
    said: str


class KerberosLab:
    """The cluster. Mutable: it starts what is asked for.

    Args:
        folder: for everything.
        version: of Hive.
        protection: of HDFS's calls and data.
        settings: of HDFS's servers, such as the life of their tokens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str = "4.0.1",
        protection: str = "privacy",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._version = folder, version
        self._protection, self._settings = protection, settings or {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.kdc = LocalKdc(LocalKdcConfig(data_dir=self.folder / "kdc", ends_with_parent=True))
            stack.callback(self.kdc.stop)
            self.kdc.start()
            self.hdfs = stack.enter_context(
                KerberosHdfs.started(
                    self.folder / "hdfs",
                    self.kdc,
                    protection=self._protection,
                    settings=self._settings,
                )
            )
            self.as_superuser(_WAREHOUSE)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def metastore(self) -> LocalMetastore:
        """It makes directories on HDFS as hive, by its own keytab."""
        access = access_kinds.kerberos(self.kdc)
        access = replace(access, core_settings={**access.core_settings, **self.hdfs.client})
        config = LocalMetastoreConfig(
            version=chosen_versions.chosen(self._version),
            data_dir=self.folder / "metastore",
            access=access,
            log_level="INFO",
            txn_timeout_s=20.0,
            housekeeping_interval_s=2.0,
            ends_with_parent=True,
            extra_settings={
                "metastore.warehouse.dir": f"{self.hdfs.uri}/warehouse",
                "metastore.warehouse.external.dir": f"{self.hdfs.uri}/external",
            },
        )
        found = LocalMetastore(config)
        self._stack.callback(found.stop)
        found.start()
        return found

    def as_superuser(self, script: str) -> str:
        """What a script of Python says that runs as HDFS's superuser, with the address."""
        keytab = self.kdc.keytab(HDFS_SERVICE)
        return self.python(script, self.hdfs.uri, KRB5_CLIENT_KTNAME=str(keytab))

    def python(self, script: str, *arguments: str, **environment: str) -> str:
        """What a script says in a process of its own, which has the login that is given."""
        cache = f"FILE:{self.folder / uuid.uuid4().hex}"
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env={
                **os.environ,
                **self.hdfs.environment,
                "KRB5CCNAME": cache,
                "PYTHONPATH": str(_ROOT),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    # ---- Spark -----------------------------------------------------------------------------------

    @property
    def by_keytab(self) -> list[str]:
        """What spark-submit is told so that its JVM logs in."""
        return ["--principal", self.kdc.principal(USER), "--keytab", str(self.kdc.keytab(USER))]

    def cache(self, *, life: str | None = None) -> str:
        """The address of a cache with etl's fresh tickets."""
        file = self.folder / f"cache-{uuid.uuid4().hex}"
        self.kdc.fetch_tickets(USER, file, life=life)
        return f"FILE:{file}"

    def token_file(self) -> Path:
        """A file with a token of etl's for HDFS, as `hdfs fetchdt` makes it."""
        file = self.folder / f"cache-token-{uuid.uuid4().hex}"
        subprocess.run(
            [
                *("java", "-XX:TieredStopAtLevel=1", self.hdfs.jvm_flag),
                *("-cp", f"{self.hdfs.conf}{os.pathsep}{class_path('mini-hdfs', JARS)}"),
                *("org.apache.hadoop.hdfs.tools.DelegationTokenFetcher", "--renewer", USER),
                f"file:{file}",
            ],
            env=self.environment({"KRB5CCNAME": self.cache()}),
            check=True,
        )
        file.chmod(0o600)
        return file

    @contextmanager
    def cluster(self, **environment: str) -> Iterator[str]:
        """The address of a standalone master with one worker, which have the variables."""
        work = self.folder / f"cluster-{uuid.uuid4().hex[:8]}"
        work.mkdir()
        port = _free_port()
        url = f"spark://127.0.0.1:{port}"
        listen = ("--host", "127.0.0.1", "--webui-port", "0")
        deploy = "org.apache.spark.deploy"
        # The master, too, finds Kerberos in HADOOP_CONF_DIR, and looks for a realm.
        daemons = {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{self.hdfs.jvm_flag} {short_jvms.SHORT_LIVED}",
        }
        commands = [
            (f"{deploy}.master.Master", *listen, "--port", str(port)),
            (f"{deploy}.worker.Worker", *listen, "-c", "2", "-m", "1g", "-d", str(work), url),
        ]
        servers: list[subprocess.Popen[bytes]] = []
        with (work / "servers.log").open("wb") as log:
            try:
                servers.extend(
                    subprocess.Popen(
                        [str(spark_submit.SPARK_HOME / "bin" / "spark-class"), *command],
                        env=self.environment({**daemons, **environment}),
                        stdout=log,
                        stderr=log,
                    )
                    for command in commands
                )
                yield url
            finally:
                for server in reversed(servers):
                    server.terminate()
                for server in servers:
                    server.wait()

    def run(
        self, scenario: str, *options: str, master: str = "local[2]", **environment: str
    ) -> Ended:
        """Run a scenario of the driver to its end.

        Args:
            scenario: its name there.
            options: more for spark-submit.
            master: where.
            environment: of the driver.
        """
        with self.begun(scenario, *options, master=master, **environment) as driver:
            driver.wait(timeout=_WAIT_S)
            return Ended(code=driver.returncode, notes=self.notes(driver), said=self.said(driver))

    @contextmanager
    def begun(
        self, scenario: str, *options: str, master: str = "local[2]", **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The same, while it runs; it is killed at the end of the block."""
        work = self.folder / f"driver-{uuid.uuid4().hex[:8]}"
        for name in ("events", "local"):
            (work / name).mkdir(parents=True)
        keytab = str(self.kdc.keytab(USER))
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(work / "local"),
            "spark.executorEnv.PYTHONPATH": _MODULES,
            "spark.eventLog.enabled": "true",
            # Spark 4 compresses them otherwise, and nothing would be found in there.
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file:{work / 'events'}",
            "spark.driver.extraJavaOptions": self.hdfs.jvm_flag,
            "spark.executor.extraJavaOptions": f"{self.hdfs.jvm_flag} {short_jvms.SHORT_LIVED}",
        }
        command = [
            *(str(spark_submit.SPARK_HOME / "bin" / "spark-submit"), "--master", master),
            *(word for name in settings for word in ("--conf", f"{name}={settings[name]}")),
            *options,
            str(_DRIVER),
            *(scenario, self.metastore.uri, keytab, str(work)),
        ]
        with (work / "said.log").open("wb") as log:
            driver = subprocess.Popen(
                command, cwd=work, env=self.environment(environment), stdout=log, stderr=log
            )
        try:
            yield driver
        finally:
            driver.kill()
            driver.wait()

    @staticmethod
    def notes(driver: subprocess.Popen[bytes]) -> dict[str, Any]:
        """What a driver has noted until now."""
        file = _work_of(driver) / "notes.json"
        return json.loads(file.read_text()) if file.exists() else {}

    @staticmethod
    def said(driver: subprocess.Popen[bytes]) -> str:
        """What a driver and its JVM have said until now."""
        return (_work_of(driver) / "said.log").read_text(errors="replace")

    @staticmethod
    def go_on(driver: subprocess.Popen[bytes], *names: str) -> None:
        """Tell a driver what it waits for."""
        for name in names:
            (_work_of(driver) / name).touch()

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """That of a process which takes part; who it is, `more` has to say."""
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            **self.hdfs.environment,
            "PYTHONPATH": _MODULES,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **short_jvms.ENVIRONMENT,
            **more,
        }

    @property
    def encrypted(self) -> tuple[list[str], dict[str, str]]:
        """What drivers, and masters and workers, are told so that Spark encrypts all it sends."""
        settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": "of-no-concern",
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
        }
        flags = " ".join(f"-D{name}={value}" for name, value in settings.items())
        options = [word for name in settings for word in ("--conf", f"{name}={settings[name]}")]
        return options, {"SPARK_MASTER_OPTS": flags, "SPARK_WORKER_OPTS": flags}

    # ---- what must not be found ------------------------------------------------------------------

    def leaks(self) -> list[str]:
        """Files in which a key of a keytab or a token's password stands, in whatever letters.

        Keytabs and ticket caches hold them by nature, and what drivers kept for this search. Ended
        drivers alone have their tokens in there, so it comes last.
        """
        secrets: set[bytes] = set()
        for _, keytab in secret_search.files_below(self.folder, "*.keytab"):
            secrets.update(keys_of(keytab))
        for _, kept in secret_search.files_below(self.folder, "secrets.json"):
            secrets.update(bytes.fromhex(text) for text in json.loads(kept))
        assert secrets, "nothing to look for"
        wanted = [form for secret in secrets for form in secret_search.forms_of(secret)]
        pattern = re.compile(b"|".join(map(re.escape, wanted)))
        own = re.compile(r"(\.keytab|secrets\.json|principals|stash|cache-\w+|[0-9a-f]{32})\Z")
        found = [
            str(file.relative_to(self.folder))
            for file, content in secret_search.files_below(self.folder)
            if not own.search(file.name) and pattern.search(content)
        ]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            found += [f"process {process.name}"] if pattern.search(line) else []
        return found


def keys_of(keytab: bytes) -> list[bytes]:
    """The keys in a keytab of version 2."""
    keys, at = [], 2
    while at + 4 <= len(keytab):
        (size,) = struct.unpack_from(">i", keytab, at)
        at += 4
        entry = keytab[at : at + abs(size)]
        at += abs(size)
        if size <= 0:
            continue
        (parts,) = struct.unpack_from(">H", entry)
        place = 2
        for _ in range(parts + 1):  # the realm, and the parts of the name
            place += 2 + struct.unpack_from(">H", entry, place)[0]
        place += 4 + 4 + 1 + 2  # kind of name, time, version, kind of key
        (length,) = struct.unpack_from(">H", entry, place)
        keys.append(entry[place + 2 : place + 2 + length])
    return keys


def _work_of(driver: subprocess.Popen[bytes]) -> Path:
    arguments: Sequence[Any] = driver.args  # type: ignore[assignment]
    return Path(arguments[-1])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
