"""LOAD DATA into a transactional table: files that are there become files of it, as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.loading import LoadSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def load(job: JobContext) -> JobResult:
    """Run one LOAD DATA as one transaction."""
    return run_changes(job, planned(job, [job.job_of(LoadSpec)]))


if __name__ == "__main__":
    main("load", load)
