"""Spark's own cluster on this machine: a master and workers, each a process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import free_port
from airflow_hiveacid.local.site import HOST
from tests.support.listening import until_listening

_DEPLOY: Final = "org.apache.spark.deploy"
_LISTEN: Final = ("--host", HOST, "--webui-port", "0")
_END_S: Final = 30.0


@contextmanager
def standalone_cluster(
    spark_home: Path,
    work: Path,
    environment: Mapping[str, str],
    *,
    workers: int = 1,
    cores: int = 1,
    memory: str = "768m",
) -> Iterator[str]:
    """The URL of a master, which ends with the block.

    Args:
        spark_home: whose programs they are.
        work: a folder for their log, `log`, and for what executors leave.
        environment: of master and workers, whole; executors inherit it.
        workers: how many.
        cores: of each.
        memory: of each, as Spark writes it.
    """
    port = free_port(HOST)
    url = f"spark://{HOST}:{port}"
    master = (f"{_DEPLOY}.master.Master", *_LISTEN, "--port", str(port))
    size = ("-c", str(cores), "-m", memory, "-d", str(work))
    worker = (f"{_DEPLOY}.worker.Worker", *_LISTEN, *size, url)
    servers: list[subprocess.Popen[bytes]] = []
    with (work / "log").open("wb") as log:
        try:
            for command in (master, *[worker] * workers):
                servers.append(
                    subprocess.Popen(
                        [str(spark_home / "bin" / "spark-class"), *command],
                        env={**environment, "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"},
                        stdout=log,
                        stderr=log,
                    )
                )
                # A worker that comes too early tries again after ten seconds.
                until_listening(servers[0], port)
            yield url
        finally:
            for server in reversed(servers):
                server.terminate()
            for server in servers:
                server.wait(timeout=_END_S)
