"""UPDATE a full-ACID table: rows that the condition picks get new values in the named columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.specs import UpdateSpec
from airflow_hiveacid.spark.statements.change import change_events, plan_change
from airflow_hiveacid.spark.writing.job import Change, run_change
from spark_apps.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def update(job: JobContext) -> JobResult:
    """Run one UPDATE as one transaction."""
    spec = job.job_of(UpdateSpec)
    table = job.changeable_table(spec.target, "UPDATE")
    job.show_shapes(spec.tables)
    program = plan_change(job.spark, table, spec)
    return run_change(
        job,
        Change(
            table=table,
            operations=frozenset({DataOperation.UPDATE}),
            make_events=lambda target, _rows: change_events(program, target),
            tables=spec.tables,
            partitions=job.partitions_touched(table, spec.where, program.moment),
        ),
    )


if __name__ == "__main__":
    main("update", update)
