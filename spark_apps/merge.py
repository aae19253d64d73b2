"""MERGE INTO a full-ACID table.

The statement is checked against both schemas; then `spark.job.run_change` opens the transaction,
gets the statement's events from `merge_events`, has them written, published and committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.specs import MergeSpec
from airflow_hiveacid.spark.job import JobContext, run_change
from airflow_hiveacid.spark.merge import merge_events, plan_merge
from spark_apps.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult


def merge(job: JobContext) -> JobResult:
    """Run one MERGE as one transaction."""
    spec = job.job_of(MergeSpec)
    table = job.changeable_table(spec.target, "MERGE")
    program = plan_merge(job.spark, table, spec, job.source_shape(spec.source))
    return run_change(
        job,
        table,
        frozenset({DataOperation.UPDATE}),
        lambda target, rows: merge_events(program, target, rows()),
        source=spec.source,
    )


if __name__ == "__main__":
    main("merge", merge)
