"""Run UPDATE on a full-ACID table: set columns in the rows that match the condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.statements import UpdateSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def update(job: JobContext) -> JobResult:
    """Run one UPDATE in one transaction."""
    return run_changes(job, planned(job, [job.job_of(UpdateSpec)]))


if __name__ == "__main__":
    main("update", update)
