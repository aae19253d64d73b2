"""INSERT INTO or INSERT OVERWRITE a transactional table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.specs import InsertMode, InsertSpec
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.statements.insert import (
    fixed_partition,
    in_order,
    new_row_events,
    plan_insert,
)
from airflow_hiveacid.spark.writing.job import Change, run_change
from spark_apps.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def insert(job: JobContext) -> JobResult:
    """Run one INSERT as one transaction."""
    spec = job.job_of(InsertSpec)
    table = job.insertable_table(spec.target)
    source = in_order(spec, job.source_shape(spec.source))
    program = plan_insert(job.spark, table, spec, source)
    fixed = fixed_partition(job.spark, program, spec)
    overwrite = spec.mode is InsertMode.OVERWRITE
    return run_change(
        job,
        Change(
            table=table,
            operations=frozenset({DataOperation.OVERWRITE if overwrite else DataOperation.INSERT}),
            make_events=lambda _target, rows: new_row_events(program, in_order(spec, rows())),
            source=spec.source,
            shape=source,
            partitions=lambda: Touched(names=fixed),
        ),
    )


if __name__ == "__main__":
    main("insert", insert)
