"""Clean many transactional tables in one job, or report what would be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.maintenance import CleanTablesSpec
from airflow_hiveacid.maintenance import clean_tables as maintenance
from airflow_hiveacid.maintenance.results import cleanings_result
from airflow_hiveacid.spark.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def clean_tables(job: JobContext) -> JobResult:
    """Clean the tables of the job side by side."""
    spec = job.job_of(CleanTablesSpec)
    run = maintenance.clean_tables(job.client, spec, job.terms.on_step)
    return cleanings_result(job.spec, spec, run)


if __name__ == "__main__":
    main("clean_tables", clean_tables)
