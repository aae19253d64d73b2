"""The spec of a job and the terms of its transactions, with values that most tests leave alone."""

from __future__ import annotations

from typing import Any

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobSpec
from airflow_hiveacid.metastore.transactions import JobTerms


def job_terms(job_key: str | None = "job", *, lock_timeout_s: float = 5, **others: Any) -> JobTerms:  # noqa: ANN401 - the fields of JobTerms
    """The terms of a job; each call makes a new attempt."""
    return JobTerms(job_key=job_key, lock_timeout_s=lock_timeout_s, **others)


def job_spec(job: Job, job_key: str = "dag/run/task/-1", **others: Any) -> JobSpec:  # noqa: ANN401 - the fields of JobSpec
    """The spec of a job for a metastore that no test reaches."""
    metastore = MetastoreEndpoint(uris=("thrift://hms:9083",))
    return JobSpec(job_key=job_key, metastore=metastore, job=job, **others)
