"""Clean a full-ACID table, or one partition of it: remove what no reader can need any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import CleanSpec
from airflow_hiveacid.spark.maintenance.clean import Cleaner, CleaningOutcome, forget_unreadable
from airflow_hiveacid.spark.maintenance.overview import with_past
from airflow_hiveacid.spark.maintenance.side_by_side import each_partition
from airflow_hiveacid.spark.reading.target import partitions_of
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.traits import publishes_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.context import JobContext


def clean(job: JobContext) -> JobResult:
    """Clean every partition, some at a time."""
    spec = job.job_of(CleanSpec)
    table = job.transactional_table(spec.target)

    partitions = partitions_of(job.client, table, spec.partition)
    table, overview = with_past(job.client, table, is_dry=spec.dry_run)

    def cleaner(client: MetastorePort) -> Cleaner:
        return Cleaner(
            client=client, table=table, spec=spec, on_step=job.on_step, overview=overview
        )

    outcomes = each_partition(
        job.client, table, partitions, lambda c, p: cleaner(c).clean(p), at_once=len(partitions)
    )
    if spec.partition is None and not spec.dry_run:
        forget_unreadable(table, outcomes)
    if table.is_partitioned and spec.partition is None:
        outcomes.append(cleaner(job.client).clean_staging())
    places = {p.location for p in partitions}
    if spec.partition is None:
        within = f"{table.location.rstrip('/')}/"
        places = {table.location, *(p for p in places if not p.startswith(within))}
    for place in sorted(places):
        if publishes_files(scheme_of(place)):
            outcomes.append(cleaner(job.client).clean_uploads(place))
    return _result(job, spec, outcomes)


def _result(job: JobContext, spec: CleanSpec, outcomes: Sequence[CleaningOutcome]) -> JobResult:
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
        details={"cleanings": [to_json(o) for o in outcomes]},
    )


if __name__ == "__main__":
    main("clean", clean)
