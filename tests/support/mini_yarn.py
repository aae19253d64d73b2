"""A real YARN of one resource manager and one node manager, each a process of its own.

Maven brings Hadoop's own servers once: in the mini cluster's jar, which HDFS is started from, what
YARN says over HTTP has another form. Nothing survives a restart of the resource manager: it has no
recovery, so that it forgets its applications as one does that is past its memory.

With a `YarnLogin` everybody has to log in by Kerberos, and the resource manager's pages, too, are
for those who show a ticket. Containers are processes of the user who runs the node manager, as
Hadoop's DefaultContainerExecutor starts them; in YARN they belong to who has submitted them.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import requests

from airflow_hiveacid.metastore.auth.tokens import named_tokens
from airflow_hiveacid.operators.submission.http import Negotiate
from tests.contract.stores.kerberos_hdfs import KerberosHdfs
from tests.contract.stores.mini_hdfs import class_path

MEMORY_MB: Final = 3072
NARROW_QUEUE: Final = "narrow"
"""A queue in which no application ever gets a container."""

_START_S: Final = 180
_HOST: Final = "127.0.0.1"
_MANAGERS: Final = {
    "rm": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nm": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_JARS: Final = (
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-common",
    "hadoop-hdfs-client",
)
_QUEUES: Final = {
    "root.queues": f"default,{NARROW_QUEUE}",
    "root.default.capacity": "99",
    f"root.{NARROW_QUEUE}.capacity": "1",
    f"root.{NARROW_QUEUE}.maximum-capacity": "1",
    "maximum-am-resource-percent": "1.0",
}
_LOG: Final = """log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
_GIVEN: Final = ("JAVA_HOME", "PATH", "LANG")
_PORTS: Final = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnLogin:
    """What makes everybody log in, in the realm of an HDFS.

    Attributes:
        hdfs: where tables lie, and whose realm it is.
        user: who may ask the resource manager for the tests.
    """

    hdfs: KerberosHdfs
    user: str

    def settings(self, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
        """Of core-site.xml and of yarn-site.xml; the folder is for a secret of the servers'."""
        kdc, signature = self.hdfs.kdc, folder / "signature"
        signature.touch(0o600)
        signature.write_text(secrets.token_hex(32))
        pages = "hadoop.http.authentication"
        core = {
            **self.hdfs.client,
            "hadoop.http.filter.initializers": (
                "org.apache.hadoop.security.AuthenticationFilterInitializer"
            ),
            f"{pages}.type": "kerberos",
            f"{pages}.kerberos.principal": kdc.principal("HTTP/localhost"),
            f"{pages}.kerberos.keytab": str(kdc.keytab("HTTP/localhost")),
            f"{pages}.signature.secret.file": str(signature),
        }
        yarn: dict[str, str] = {}
        for server, name in (("resourcemanager", "rm"), ("nodemanager", "nm")):
            yarn[f"yarn.{server}.principal"] = kdc.principal(f"{name}/localhost")
            yarn[f"yarn.{server}.keytab"] = str(kdc.keytab(f"{name}/localhost"))
        return core, yarn

    @property
    def environment(self) -> dict[str, str]:
        """What a machine of the realm has in /etc/krb5.conf, for servers and their containers."""
        return {
            "KRB5_CONFIG": str(self.hdfs.kdc.configuration),
            "JAVA_TOOL_OPTIONS": self.hdfs.jvm_flag,
        }

    @property
    def auth(self) -> Negotiate:
        """Of this process, in which KRB5_CONFIG names the realm."""
        kdc = self.hdfs.kdc
        return Negotiate(
            client=kdc.principal(self.user),
            keytab=str(kdc.keytab(self.user)),
            realm=kdc.config.realm,
        )


@dataclass(slots=True)
class MiniYarn:
    """A server that runs; `conf` is a HADOOP_CONF_DIR for its clients."""

    folder: Path
    web: str
    login: YarnLogin | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @classmethod
    @contextmanager
    def started(
        cls,
        folder: Path,
        file_system: str,
        login: YarnLogin | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[MiniYarn]:
        """Run one as long as the block; its files, its containers' and logs are in the folder.

        Args:
            folder: of the servers.
            file_system: where applications leave what they bring.
            login: what everybody has to have.
            variables: what nodes give their containers, as a machine with keys of AWS would.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        # A ticket is for a name.
        web = f"http://{'localhost' if login else _HOST}:{ports['.webapp']}"
        yarn = cls(folder, web, login, variables or {})
        yarn._configure(ports, file_system)
        try:
            for name in _MANAGERS:
                yarn._start(name)
            yarn._wait_for_node()
            yield yarn
        finally:
            yarn._end()

    def get(self, path: str) -> dict[str, Any]:
        """What the resource manager answers; `path` is below /ws/v1/cluster."""
        auth = None if self.login is None else self.login.auth
        answer = requests.get(f"{self.web}/ws/v1/cluster/{path}", auth=auth, timeout=60)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def applications(self) -> list[dict[str, Any]]:
        """All that it knows, oldest first."""
        found = (self.get("apps").get("apps") or {}).get("app", [])
        return sorted(found, key=lambda app: str(app["id"]))

    def wait_for(self, state: str, number: int = -1, timeout_s: float = 240) -> dict[str, Any]:
        """The application that came as this one in order, once it is in the state."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with suppress(IndexError, OSError):
                app = self.applications()[number]
                if app["state"] == state:
                    return app
            time.sleep(0.2)
        raise AssertionError(f"no application became {state}: {self.applications()}")

    def containers(self) -> dict[int, str]:
        """Processes of containers, by ID, with the folder that each works in."""
        found = {}
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and str(self.folder) in (
                    cwd := str((process / "cwd").readlink())
                ):
                    found[int(process.name)] = cwd
        return {p: cwd for p, cwd in found.items() if "/container_" in cwd}

    def passwords(self) -> list[bytes]:
        """Of the tokens that containers were given."""
        tokens = (named_tokens(file.read_bytes()).values() for file in self.token_files())
        return [token.password for found in tokens for token in found]

    def token_files(self) -> list[Path]:
        """Those that containers were given, as the node manager keeps them; oldest first."""
        found = self.folder.glob("local/nmPrivate/**/*.tokens")
        return sorted(found, key=lambda file: file.stat().st_mtime)

    def keep_secrets(self) -> int:
        """Write them down for `KerberosLab.leaks`; answers how many they are."""
        found = sorted({password.hex() for password in self.passwords()})
        file = self.folder / "secrets.json"
        file.touch(0o600)
        file.write_text(json.dumps(found))
        return len(found)

    def forget(self) -> None:
        """End the resource manager and start another, which knows of no application."""
        manager = self.processes["rm"]
        manager.kill()
        manager.wait()
        self._start("rm")
        self._wait_for_node()

    def _configure(self, ports: Mapping[str, int], file_system: str) -> None:
        self.conf.mkdir()
        core, yarn = ({}, {}) if self.login is None else self.login.settings(self.folder)
        site = {
            "yarn.resourcemanager.hostname": _HOST,
            **{
                f"yarn.resourcemanager{name}.address": f"{_HOST}:{port}"
                for name, port in ports.items()
            },
            "yarn.resourcemanager.webapp.address": self.web.partition("//")[2],
            "yarn.resourcemanager.recovery.enabled": "false",
            "yarn.resourcemanager.am.max-attempts": "2",
            **{
                f"yarn.nodemanager.{name}address": f"{_HOST}:0"
                for name in ("", "localizer.", "webapp.")
            },
            "yarn.nodemanager.hostname": _HOST,
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
            "yarn.nodemanager.resource.cpu-vcores": "2",
            "yarn.nodemanager.heartbeat.interval-ms": "250",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
            "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.delete.debug-delay-sec": "3600",
            "yarn.nodemanager.env-whitelist": ",".join(
                (*_GIVEN, *(self.login.environment if self.login else ()), *self.variables)
            ),
            **yarn,
        }
        queues = {f"yarn.scheduler.capacity.{name}": value for name, value in _QUEUES.items()}
        _write(self.conf / "yarn-site.xml", site)
        _write(self.conf / "capacity-scheduler.xml", queues)
        _write(self.conf / "core-site.xml", {**core, "fs.defaultFS": file_system})
        (self.conf / "log4j.properties").write_text(_LOG)

    def _start(self, name: str) -> None:
        command = [
            *("java", "-Xmx320m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-Djava.net.preferIPv4Stack=true", "--add-opens", "java.base/java.lang=ALL-UNNAMED"),
            *("-cp", f"{self.conf}:{class_path('mini-yarn', _JARS)}", _MANAGERS[name]),
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**_environment(self.login), **self.variables},
            )

    def _wait_for_node(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self.processes.values()):
                break
            with suppress(OSError):
                nodes = (self.get("nodes")["nodes"] or {}).get("node", [])
                if any(node["state"] == "RUNNING" for node in nodes):
                    return
            time.sleep(0.2)
        logs = "\n".join(
            (self.folder / f"{name}.log").read_text(errors="replace")[-2000:] for name in _MANAGERS
        )
        raise RuntimeError(f"no YARN after {_START_S} s:\n{logs}")

    def _end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for process_id in self.containers():  # nobody starts more of them now
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


def outside(files: Sequence[str]) -> list[str]:
    """Those of the files that do not hold tokens and keytabs by nature.

    A container's folder has what it was given, and a data node what Spark has shipped.
    """
    own = ("yarn/local/", "hdfs/data/")
    return [file for file in files if not file.removeprefix("lab/").startswith(own)]


def _environment(login: YarnLogin | None) -> dict[str, str]:
    # What Python is told here, and who we are, is no business of a container's.
    own = ("PYTHON", "SPARK", "KRB5", "HADOOP_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, **({"HADOOP_USER_NAME": "root"} if login is None else login.environment)}


def _write(file: Path, settings: Mapping[str, str]) -> None:
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{entries}</configuration>\n")


def _free_ports(number: int) -> list[int]:
    """Ports that are free together: each is held until all are found."""
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
