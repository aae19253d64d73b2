"""Convert a table between flat and transactional, keeping its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.specs.maintenance import ConvertSpec
from airflow_hiveacid.spark.conversions import convert_table
from airflow_hiveacid.spark.maintenance.conversion_survey import ConversionSurvey
from airflow_hiveacid.spark.runtime import main

if TYPE_CHECKING:
    from airflow_hiveacid.spark.writing.context import JobContext


def convert(job: JobContext) -> JobResult:
    """Convert one table, or only report the steps."""
    spec = job.job_of(ConvertSpec)
    ref = TableRef.parse(spec.target)
    if spec.plan_only:
        outcome = ConversionSurvey(client=job.client, ref=ref, to=spec.to).plan()
    else:
        outcome = convert_table(job, ref, spec.to)
    if outcome.done:
        status = JobStatus.COMMITTED
    elif spec.plan_only and outcome.before != outcome.after:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.NOTHING_TO_DO
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=status,
        table=spec.target,
        txn_id=outcome.txn_id,
        rows=RowCounts(),
        files=outcome.files_moved,
        details={"conversion": to_json(outcome)},
    )


if __name__ == "__main__":
    main("convert", convert)
