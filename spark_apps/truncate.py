"""Truncate a transactional table, or some of its partitions, by writing an empty base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.statements import TruncateSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def truncate(job: JobContext) -> JobResult:
    """Run one TRUNCATE in one transaction."""
    return run_changes(job, planned(job, [job.job_of(TruncateSpec)]))


if __name__ == "__main__":
    main("truncate", truncate)
