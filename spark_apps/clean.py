"""Clean transactional tables or one partition: remove files that no reader needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.spark.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.job import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def clean(job: JobContext) -> JobResult:
    """Clean the partitions of the job's tables, several at a time."""
    run = clean_tables(job.client, job.job_of(CleanSpec), job.terms.on_step)
    return run.result(job.spec)


if __name__ == "__main__":
    main("clean", clean)
