"""Clean a full-ACID table, or one partition of it: remove files that no reader needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean_table import clean_table
from airflow_hiveacid.spark.runtime import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.maintenance.clean import CleaningOutcome
    from airflow_hiveacid.spark.writing.context import JobContext


def clean(job: JobContext) -> JobResult:
    """Clean the partitions of the job's table, several at a time."""
    spec = job.job_of(CleanSpec)
    return _result(job, spec, clean_table(job.client, spec, job.on_step))


def _result(job: JobContext, spec: CleanSpec, outcomes: Sequence[CleaningOutcome]) -> JobResult:
    removed = [r for o in outcomes for r in o.removed]
    if spec.plan_only:
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
        details={"cleanings": [to_json(o) for o in outcomes]},
    )


if __name__ == "__main__":
    main("clean", clean)
