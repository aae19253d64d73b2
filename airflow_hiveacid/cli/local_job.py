"""A job that a command runs with Spark in its own process."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs.job import Job, JobSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient
    from airflow_hiveacid.spark.writing.context import JobContext


def require_pyspark(operator: str, *, plan: str = "give --dry-run") -> None:
    """Check that this environment has PySpark; the error recommends `operator` or `plan`."""
    # Airflow's environment has pyspark-client. Its modules have PySpark's names, but no local
    # Spark.
    if not any(importlib.metadata.distributions(name="pyspark")):
        raise ConfigurationError(
            "this environment has no PySpark, which the command needs to read and write rows: use"
            f" an environment with PySpark, use {operator}, or {plan}"
        )


def local_session(name: str) -> SparkSession:
    """Return a Spark session in this process, whose local Python workers also run this Python."""
    from airflow_hiveacid.spark.engine.session import open_session  # noqa: PLC0415 - PySpark

    # Spark starts the `python3` on PATH, so change PATH. A Spark setting with this Python's path
    # would also apply on the nodes of a cluster, where the path does not exist.
    folder = Path(sys.executable).parent
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return open_session(name)


def local_job(
    client: MetastoreClient, endpoint: MetastoreEndpoint, job: Job, key: str
) -> JobContext:
    """Return the context of a job in this process; `key` identifies the job, not a call."""
    from airflow_hiveacid.spark.writing.context import JobContext  # noqa: PLC0415 - PySpark

    spec = JobSpec(job_key=f"command line/{key}", metastore=endpoint, job=job)
    return JobContext.of(local_session(f"hiveacid-{spec.kind}"), spec, client)
