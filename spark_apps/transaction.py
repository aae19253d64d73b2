"""Run statements on several tables in one transaction.

All statements are checked before the first statement starts. Then they run one after another, and
each statement sees the changes of the earlier statements (`spark.writing.work`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.statements import TransactionSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def transaction(job: JobContext) -> JobResult:
    """Run all statements in one transaction."""
    return run_changes(job, planned(job, job.job_of(TransactionSpec).statements))


if __name__ == "__main__":
    main("transaction", transaction)
