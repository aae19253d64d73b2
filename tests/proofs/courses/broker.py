"""One Kafka broker on this machine, in KRaft mode, with the jars of Maven Central."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import uuid
from typing import Final

from airflow_hiveacid.java_program import find_java
from airflow_hiveacid.local.distribution import cache_dir, fetch_class_path
from airflow_hiveacid.local.process import (
    Command,
    LocalServerError,
    MissingProgramError,
    RecordedServer,
    ServerConfig,
    free_port,
    log_progress,
)
from airflow_hiveacid.local.site import HOST
from tests.proofs.bench.systems import pom

KAFKA: Final = "4.1.1"
PARTITIONS: Final = 2
_JARS: Final = (
    f"org.apache.kafka:kafka_2.13:{KAFKA}",
    "org.apache.logging.log4j:log4j-core:2.25.3",
    "org.slf4j:slf4j-simple:1.7.36",
)
_JVM: Final = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions={partitions}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker(RecordedServer):
    """One broker, which creates topics when they are first used."""

    def __init__(self, config: ServerConfig) -> None:
        log = config.data_dir / "kafka.log"
        super().__init__(config, f"Kafka {KAFKA}", log, log_progress)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Format a new store, and start the broker.

        Raises:
            LocalServerError: Java or Maven is missing, or the broker does not start.
        """
        java = find_java(os.environ)
        if java is None:
            raise MissingProgramError("java", "install Java 17 (Debian: openjdk-17-jre-headless)")
        jars = fetch_class_path(cache_dir() / f"kafka-{KAFKA}", pom(_JARS), f"Kafka {KAFKA}")
        folder, port = self.config.data_dir, free_port(HOST)
        shutil.rmtree(folder / "logs", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "server.properties"
        text = _SETTINGS.format(
            host=HOST,
            port=port,
            controller=free_port(HOST),
            logs=folder / "logs",
            partitions=PARTITIONS,
        )
        settings.write_text(text)
        program = [java, *_JVM, "-cp", os.pathsep.join(map(str, jars))]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        formatted = subprocess.run(
            [*program, *tool], capture_output=True, text=True, errors="replace", check=False
        )
        if formatted.returncode:
            raise LocalServerError(f"Kafka's store: {formatted.stdout}{formatted.stderr}")
        command = Command(
            arguments=[*program, "kafka.Kafka", str(settings)],
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            cwd=folder,
            log=self.log_file,
            ends_with_parent=True,
        )
        self._launch(command, port)

    def _answers(self, port: int) -> bool:
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return True
        except OSError:
            return False
