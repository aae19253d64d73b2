"""DELETE FROM a full-ACID table: rows that the condition picks get delete events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.specs import DeleteSpec
from airflow_hiveacid.spark.job import JobContext, run_change
from airflow_hiveacid.spark.merge import change_events, plan_change
from spark_apps.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult


def delete(job: JobContext) -> JobResult:
    """Run one DELETE as one transaction."""
    spec = job.job_of(DeleteSpec)
    table = job.changeable_table(spec.target, "DELETE")
    program = plan_change(job.spark, table, spec)
    return run_change(
        job,
        table,
        frozenset({DataOperation.DELETE}),
        lambda target, _rows: change_events(program, target),
        partitions=job.partitions_touched(table, spec.where),
    )


if __name__ == "__main__":
    main("delete", delete)
