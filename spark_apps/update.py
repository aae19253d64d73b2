"""UPDATE a full-ACID table: rows that the condition picks get new values in the named columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs import UpdateSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def update(job: JobContext) -> JobResult:
    """Run one UPDATE as one transaction."""
    return run_changes(job, planned(job, [job.job_of(UpdateSpec)]))


if __name__ == "__main__":
    main("update", update)
