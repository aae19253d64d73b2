"""MERGE INTO a full-ACID table.

The statement is checked against both schemas. Where the source tells which partitions can be
touched, it is read and kept now, so that only these are locked. Then `spark.job.run_change` opens
the transaction, gets the statement's events from `merge_events`, has them written, published and
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.specs import MergeSpec
from airflow_hiveacid.spark.reading.access import Touched, nameable, touching
from airflow_hiveacid.spark.reading.source import tables_of
from airflow_hiveacid.spark.statements.merge import merge_events, plan_merge
from airflow_hiveacid.spark.statements.reach import is_bounded, partitions_reached
from airflow_hiveacid.spark.writing.job import Change, run_change
from spark_apps.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionName
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


def merge(job: JobContext) -> JobResult:
    """Run one MERGE as one transaction."""
    spec = job.job_of(MergeSpec)
    table = job.changeable_table(spec.target, "MERGE")
    source = job.source_shape(spec.source)
    program = plan_merge(job.spark, table, spec, source)
    # ACID tables are read under the job's snapshot, which comes with the locks.
    looks_ahead = not tables_of(spec.source) and is_bounded(program)
    kept = program.moment.fixed_in(source).localCheckpoint() if looks_ahead else None

    def reach(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        names = None if kept is None else partitions_reached(program, known, kept)
        return None if names is None else nameable(names)

    return run_change(
        job,
        Change(
            table=table,
            operations=frozenset({DataOperation.UPDATE}),
            make_events=lambda target, rows: merge_events(
                program, target, rows() if kept is None else kept
            ),
            source=spec.source,
            shape=source,
            partitions=Touched if kept is None else touching(job.client, table, reach),
        ),
    )


if __name__ == "__main__":
    main("merge", merge)
