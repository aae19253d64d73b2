"""Jobs and reads on a standalone cluster of separate processes: one master, two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.packager import cached_archive
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, TransactionSpec
from tests.support.fault_cases import AFTER, BEFORE, COLUMNS, change
from tests.support.short_jvms import ENVIRONMENT, SHORT_LIVED
from tests.support.spark_cluster import standalone_cluster
from tests.support.spark_lab import Lab
from tests.support.spark_submit import SPARK_HOME, submit

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    environment = {**os.environ, **ENVIRONMENT, "PYSPARK_PYTHON": sys.executable}
    work = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(SPARK_HOME, work, environment, workers=2) as url:
        yield url


def test_insert_merge_and_major_compaction_run_on_separate_worker_processes(
    lab4: Lab, cluster: str, tmp_path: Path
) -> None:
    lab4.table("t", COLUMNS, partition={"p": "int"}, buckets=("id", 2))
    source = SourceSpec(values=tuple(BEFORE), columns=("id", "name", "p"))
    rows = InsertSpec(target=f"{lab4.db}.t", source=source)
    # Rows of a bucketed table are written by tasks in Python, however few they are.
    both = TransactionSpec(statements=(rows, change(lab4)))
    key = f"{lab4.db}/b"
    merged = submit(tmp_path, lab4.endpoint, both, job_key=key, master=cluster, start_timeout_s=300)
    assert merged.code == 0, merged.log[-3000:]
    assert merged.result is not None
    assert merged.result.status is JobStatus.COMMITTED
    assert str(merged.result.spark_app_id).startswith("app-")
    assert lab4.rows("t") == AFTER
    spec = CompactSpec.of_table(f"{lab4.db}.t", choice=CompactionChoice.MAJOR)
    compacted = submit(tmp_path, lab4.endpoint, spec, job_key=f"{lab4.db}/c", master=cluster)
    assert compacted.code == 0, compacted.log[-3000:]
    assert lab4.rows("t") == AFTER
    lab4.clean("t")
    assert {d for p in ("p=1", "p=3") for d in lab4.directories("t", p)} == {"base_0000001"}


def test_a_cluster_without_free_executors_is_reported_before_the_job_starts(
    lab4: Lab, cluster: str, tmp_path: Path
) -> None:
    lab4.table("t", COLUMNS, partition={"p": "int"})
    source = SourceSpec(values=tuple(BEFORE), columns=("id", "name", "p"))
    job, key = InsertSpec(target=f"{lab4.db}.t", source=source), f"{lab4.db}/n"
    too_many = {"spark.executor.cores": "4"}
    late = submit(
        tmp_path,
        lab4.endpoint,
        job,
        job_key=key,
        master=cluster,
        settings=too_many,
        start_timeout_s=1,
    )
    assert late.result is not None, late.log[-3000:]
    assert late.result.error is not None
    assert late.result.error.type == "ExecutorsMissingError"
    assert cluster in late.result.error.message
    # With a free executor, the first test's jobs wait for it. Here, the job has changed nothing.
    assert lab4.run(job, job_key=key).status is JobStatus.COMMITTED
    assert lab4.rows("t") == sorted(BEFORE)


@pytest.mark.promise("T8")
def test_a_lost_read_task_reads_the_same_snapshot_when_it_runs_again(
    lab4: Lab, cluster: str, tmp_path: Path
) -> None:
    rows = [[i, i % 7] for i in range(40)]
    lab4.table("t", {"id": "bigint", "v": "int"})
    lab4.insert("t", [tuple(row) for row in rows], ["id", "v"])
    lab4.delete("t", "id >= 30")
    reader = start_reader(lab4, cluster, tmp_path)
    try:
        wait_for(reader, tmp_path / "begun")
        lab4.update("t", {"v": "-1"})
        lab4.compact("t", CompactionChoice.MAJOR)
        lab4.clean("t")
        (tmp_path / "changed").touch()
        log, _ = reader.communicate(timeout=240)
    finally:
        reader.kill()
        reader.wait()
    assert reader.returncode == 0, log[-3000:]
    for name in ("spark.killed", "spark.again", "arrow.killed", "arrow.again"):
        assert (tmp_path / name).exists(), name
    found = json.loads((tmp_path / "rows.json").read_text())
    assert found == {"spark": rows[:30], "arrow": rows[:30]}
    assert {v for _, v in lab4.rows("t")} == {-1}


def start_reader(lab: Lab, master: str, folder: Path) -> subprocess.Popen[str]:
    archive = cached_archive()
    (uri,) = lab.endpoint.uris
    driver = _ROOT / "tests" / "drivers" / "lost_read_tasks.py"
    return subprocess.Popen(
        [sys.executable, str(driver), uri, f"{lab.db}.t", str(archive), str(folder)],
        env={
            **os.environ,
            **ENVIRONMENT,
            "PYTHONPATH": str(_ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"--master {master} --conf spark.ui.enabled=false"
            " --conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1"
            f' --conf "spark.executor.extraJavaOptions={SHORT_LIVED}"'
            " --driver-memory 768m --executor-memory 512m pyspark-shell",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], file: Path) -> None:
    give_up_s = time.monotonic() + 120.0
    while not file.exists():
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < give_up_s, f"no {file.name}"
        time.sleep(0.1)
