"""Run DELETE on a full-ACID table: write a delete event for each row that matches the condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.statements import DeleteSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def delete(job: JobContext) -> JobResult:
    """Run one DELETE in one transaction."""
    return run_changes(job, planned(job, [job.job_of(DeleteSpec)]))


if __name__ == "__main__":
    main("delete", delete)
