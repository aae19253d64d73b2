"""A real YARN of one resource manager and one node manager, each a process of its own.

Maven brings Hadoop's own servers once: in the mini cluster's jar, which HDFS is started from, what
YARN says over HTTP has another form. Nothing survives a restart of the resource manager: it has no
recovery, so that it forgets its applications as one does that is past its memory.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contract.stores.mini_hdfs import class_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEMORY_MB: Final = 3072
NARROW_QUEUE: Final = "narrow"
"""A queue in which no application ever gets a container."""

_START_S: Final = 180
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
_PORTS: Final = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")


@dataclass(slots=True)
class MiniYarn:
    """A server that runs; `conf` is a HADOOP_CONF_DIR for its clients."""

    folder: Path
    web: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @classmethod
    @contextmanager
    def started(cls, folder: Path, file_system: str) -> Iterator[MiniYarn]:
        """Run one as long as the block; its files, its containers' and logs are in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        yarn = cls(folder, f"http://127.0.0.1:{ports['.webapp']}")
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
        with urllib.request.urlopen(f"{self.web}/ws/v1/cluster/{path}", timeout=60) as answer:  # noqa: S310 - our own
            found: dict[str, Any] = json.load(answer)
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

    def forget(self) -> None:
        """End the resource manager and start another, which knows of no application."""
        manager = self.processes["rm"]
        manager.kill()
        manager.wait()
        self._start("rm")
        self._wait_for_node()

    def _configure(self, ports: Mapping[str, int], file_system: str) -> None:
        self.conf.mkdir()
        site = {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            **{
                f"yarn.resourcemanager{name}.address": f"127.0.0.1:{port}"
                for name, port in ports.items()
            },
            "yarn.resourcemanager.recovery.enabled": "false",
            "yarn.resourcemanager.am.max-attempts": "2",
            **{
                f"yarn.nodemanager.{name}address": "127.0.0.1:0"
                for name in ("", "localizer.", "webapp.")
            },
            "yarn.nodemanager.hostname": "127.0.0.1",
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
        }
        queues = {f"yarn.scheduler.capacity.{name}": value for name, value in _QUEUES.items()}
        _write(self.conf / "yarn-site.xml", site)
        _write(self.conf / "capacity-scheduler.xml", queues)
        _write(self.conf / "core-site.xml", {"fs.defaultFS": file_system})
        (self.conf / "log4j.properties").write_text(_LOG)

    def _start(self, name: str) -> None:
        command = [
            *("java", "-Xmx320m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-Djava.net.preferIPv4Stack=true", "--add-opens", "java.base/java.lang=ALL-UNNAMED"),
            *("-cp", f"{self.conf}:{class_path('mini-yarn', _JARS)}", _MANAGERS[name]),
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=_environment()
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
        logs = "\n".join((self.folder / f"{name}.log").read_text()[-2000:] for name in _MANAGERS)
        raise RuntimeError(f"no YARN after {_START_S} s:\n{logs}")

    def _end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for process_id in self.containers():  # nobody starts more of them now
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


def _environment() -> dict[str, str]:
    # What Python is told here is no business of a container's.
    kept = {name: v for name, v in os.environ.items() if not name.startswith(("PYTHON", "SPARK"))}
    return {**kept, "HADOOP_USER_NAME": "root"}


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
