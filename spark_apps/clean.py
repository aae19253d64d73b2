"""Clean a full-ACID table, or one partition of it: remove what no reader can need any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import CleanSpec
from airflow_hiveacid.spark.clean import Cleaner, CleaningOutcome
from airflow_hiveacid.spark.target import partitions_of
from spark_apps.runtime import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.spark.job import JobContext


def clean(job: JobContext) -> JobResult:
    """Clean every partition in turn, then the ledger."""
    spec = job.job_of(CleanSpec)
    table = job.changeable_table(spec.target, "cleaning")
    cleaner = Cleaner(client=job.client, table=table, spec=spec, on_step=job.on_step)
    partitions = partitions_of(job.client, table, spec.partition)
    outcomes = [cleaner.clean(partition) for partition in partitions]
    if table.is_partitioned and spec.partition is None:
        outcomes.append(cleaner.clean_unregistered(partitions))
    return _result(job, spec, outcomes, cleaner.forget_old_jobs())


def _result(
    job: JobContext, spec: CleanSpec, outcomes: Sequence[CleaningOutcome], old_jobs: int
) -> JobResult:
    removed = [r for o in outcomes for r in o.removed]
    if spec.dry_run:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.COMMITTED if removed else JobStatus.NOTHING_TO_DO
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=status,
        table=spec.target,
        partitions=tuple(o.partition for o in outcomes if o.partition and o.removed),
        files=len(removed),
        size_bytes=sum(r.size_bytes for r in removed),
        details={"cleanings": [to_json(o) for o in outcomes], "old_ledger_entries": old_jobs},
    )


if __name__ == "__main__":
    main("clean", clean)
