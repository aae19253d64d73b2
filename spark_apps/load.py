"""Run LOAD DATA for a transactional table: copy existing files into the table unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.statements import LoadSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def load(job: JobContext) -> JobResult:
    """Run one LOAD DATA in one transaction."""
    return run_changes(job, planned(job, [job.job_of(LoadSpec)]))


if __name__ == "__main__":
    main("load", load)
