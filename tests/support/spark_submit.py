"""Runs an application as users do: spark-submit, the zip, a shipped spec, a result file."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyspark

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, ProgramSpec, application_of
from airflow_hiveacid.jobs.packager import application_path, cached_archive
from tests.support.short_jvms import ENVIRONMENT, SHORT_LIVED

SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Submitted:
    """How an application ended: the process's code, its answer if there is one, its log."""

    code: int
    result: JobResult | None
    log: str


def submit(
    work: Path,
    endpoint: MetastoreEndpoint,
    job: Job,
    *,
    job_key: str,
    master: str = "local[2]",
    stop_at: str | None = None,
    environment: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
    start_timeout_s: float | None = None,
) -> Submitted:
    """Submit one job and wait for its end; `settings` are Spark's."""
    folder = work / uuid.uuid4().hex
    folder.mkdir(parents=True)
    result = folder / "result.json"
    spec = JobSpec(
        job_key=job_key,
        metastore=endpoint,
        job=job,
        result_uri=f"file:{result}",
        start_timeout_s=start_timeout_s,
    )
    (folder / "spec.json").write_text(spec.dump(), encoding="utf-8")
    extra = {"HIVEACID_STOP_AT": stop_at} if stop_at else {}
    done = subprocess.run(
        [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *("--master", master),
            *("--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", "spark.driver.bindAddress=127.0.0.1"),
            *("--conf", "spark.sql.shuffle.partitions=2"),
            *("--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED}"),
            *("--driver-memory", "768m"),
            *("--executor-memory", "512m"),
            *(word for name, v in (settings or {}).items() for word in ("--conf", f"{name}={v}")),
            *("--py-files", str(cached_archive())),
            *("--files", str(folder / "spec.json")),
            job.application
            if isinstance(job, ProgramSpec)
            else str(application_path(application_of(job))),
            *("--spec", "spec.json"),
            *(job.arguments if isinstance(job, ProgramSpec) else ()),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=300,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **ENVIRONMENT,
            **extra,
            **(environment or {}),
        },
    )
    answer = JobResult.parse(result.read_text(encoding="utf-8")) if result.exists() else None
    return Submitted(code=done.returncode, result=answer, log=done.stdout + done.stderr)
