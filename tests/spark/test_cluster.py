"""MERGE and compaction on a standalone cluster of separate processes: one master, two workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs import CompactionChoice, CompactSpec
from fault_cases import AFTER, BEFORE, COLUMNS, change
from spark_submit import SPARK_HOME, submit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_lab import Lab

_DEPLOY = "org.apache.spark.deploy"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    work = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(work),
    }
    listen = ("--host", "127.0.0.1", "--webui-port", "0")
    worker = (f"{_DEPLOY}.worker.Worker", *listen, "-c", "1", "-m", "768m", "-d", str(work), url)
    commands = [(f"{_DEPLOY}.master.Master", *listen, "--port", str(port)), worker, worker]
    processes = []
    with (work / "log").open("wb") as log:
        for command in commands:
            processes.append(
                subprocess.Popen(
                    [str(SPARK_HOME / "bin" / "spark-class"), *command],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
            time.sleep(1.0)
        try:
            yield url
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)


def test_merge_and_major_compaction_run_on_separate_worker_processes(
    lab4: Lab, cluster: str, tmp_path: Path
) -> None:
    lab4.table("t", COLUMNS, partition={"p": "int"})
    lab4.insert("t", BEFORE, ["id", "name", "p"])
    merged = submit(tmp_path, lab4.endpoint, change(lab4), job_key=f"{lab4.db}/m", master=cluster)
    assert merged.code == 0, merged.log[-3000:]
    assert merged.result is not None
    assert merged.result.status is JobStatus.COMMITTED
    assert str(merged.result.spark_app_id).startswith("app-")
    assert lab4.rows("t") == AFTER
    spec = CompactSpec(target=f"{lab4.db}.t", choice=CompactionChoice.MAJOR)
    compacted = submit(tmp_path, lab4.endpoint, spec, job_key=f"{lab4.db}/c", master=cluster)
    assert compacted.code == 0, compacted.log[-3000:]
    assert lab4.rows("t") == AFTER
    lab4.clean("t")
    assert {d for p in ("p=1", "p=3") for d in lab4.directories("t", p)} == {"base_0000002"}
