"""A real HDFS of one name node and one data node, in one JVM of its own.

Maven brings Hadoop's mini cluster once, into its own repository; the server forgets everything.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import free_port
from airflow_hiveacid.local.releases import DEPENDENCY_PLUGIN

_BUILD: Final = Path(__file__).resolve().parents[3] / "build"
VERSION: Final = "3.4.2"
"""The release of Hadoop whose servers these are."""

_START_S: Final = 120
_MAIN: Final = "org.apache.hadoop.test.MiniDFSClusterManager"
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>hadoop</artifactId>
<version>1</version><packaging>pom</packaging><dependencies>{}</dependencies></project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{}</artifactId>"
    f"<version>{VERSION}</version></dependency>"
)
JARS: Final = ("hadoop-client-minicluster", "hadoop-client-api", "hadoop-client-runtime")
_SETTINGS: Final = {
    "dfs.replication": "1",
    "dfs.namenode.acls.enabled": "true",
    "dfs.namenode.fs-limits.min-block-size": "1024",
    "dfs.namenode.edits.noeditlogchannelflush": "true",
}


@dataclass(frozen=True, slots=True)
class MiniHdfs:
    """A server that runs; `authority` is that of its URIs."""

    authority: str
    process_id: int

    @property
    def uri(self) -> str:
        return f"hdfs://{self.authority}"

    @classmethod
    @contextmanager
    def started(
        cls, folder: Path, settings: Sequence[str] = (), flags: Sequence[str] = ()
    ) -> Iterator[MiniHdfs]:
        """Run one as long as the block; its files and its log are in the folder.

        Args:
            folder: of the server.
            settings: of Hadoop, each as `name=value`; no secret, since all are arguments.
            flags: of the JVM.
        """
        port, details = free_port("127.0.0.1"), folder / "details.json"
        options = [f"{name}={value}" for name, value in _SETTINGS.items()] + list(settings)
        command = [
            *("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-Djava.net.preferIPv4Stack=true", f"-Dtest.build.data={folder / 'data'}"),
            *flags,
            *("-cp", class_path("mini-hdfs", JARS), _MAIN),
            *("-datanodes", "1", "-nnport", str(port), "-format"),
            *("-writeDetails", str(details)),
            *(word for option in options for word in ("-D", option)),
        ]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                command,
                cwd=folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "HADOOP_USER_NAME": "root"},
            )
        try:
            _wait(server, details, folder / "log")
            yield cls(f"127.0.0.1:{port}", server.pid)
        finally:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], details: Path, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and server.poll() is None:
        if details.is_file() and details.stat().st_size:
            json.loads(details.read_text())
            return
        time.sleep(0.2)
    raise RuntimeError(f"no HDFS after {_START_S} s:\n{log.read_text()[-2000:]}")


def class_path(name: str, artifacts: Sequence[str]) -> str:
    """The jars of some of Hadoop's artifacts, as Java takes them; Maven brings them once."""
    build = _BUILD / name
    build.mkdir(parents=True, exist_ok=True)
    kept = build / f"class-path-{VERSION}.txt"
    with (build / "lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file() or not all(Path(jar).is_file() for jar in _jars(kept)):
            _bring(build, artifacts, kept)
    return kept.read_text()


def _jars(kept: Path) -> list[str]:
    return kept.read_text().split(":")


def _bring(build: Path, artifacts: Sequence[str], kept: Path) -> None:
    maven = shutil.which("mvn")
    assert maven is not None, "apt-get install maven"
    pom = build / "pom.xml"
    pom.write_text(_POM.format("".join(map(_DEPENDENCY.format, artifacts))))
    subprocess.run(
        [
            *(maven, "--batch-mode", "--quiet", "-f", str(pom)),
            *(f"{DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={kept}"),
        ],
        check=True,
    )
