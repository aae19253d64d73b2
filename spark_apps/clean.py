"""Clean a full-ACID table, or one partition of it: remove files that no reader needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.keeping import NO_CLEANUP
from airflow_hiveacid.spark.maintenance.clean import (
    Cleaner,
    CleaningOutcome,
    forget_unreadable,
    left_alone,
)
from airflow_hiveacid.spark.maintenance.overview import with_past
from airflow_hiveacid.spark.maintenance.side_by_side import each_partition
from airflow_hiveacid.spark.reading.target import partitions_of
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.traits import publishes_files
from airflow_hiveacid.versions.keeping import opted_out_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.context import JobContext


def clean(job: JobContext) -> JobResult:
    """Clean the partitions of the job's table, several at a time."""
    spec = job.job_of(CleanSpec)
    table = job.transactional_table(spec.target)

    partitions = partitions_of(job.client, table, spec.partition)
    if not spec.plan_only:
        # End queue entries of dead workers first: a table cannot be kept while a compaction
        # seems to run.
        end_dead_entries(job.client, table.ref)
    table, overview = with_past(job.client, table, plan_only=spec.plan_only)
    why_not = opted_out_of(table, NO_CLEANUP)
    if why_not is not None:
        return _result(job, spec, [left_alone(table, f"cleaning is turned off by {why_not}")])

    def cleaner(client: MetastorePort) -> Cleaner:
        return Cleaner(
            client=client, table=table, spec=spec, on_step=job.on_step, overview=overview
        )

    outcomes = each_partition(
        job.client,
        table,
        partitions,
        lambda c, p: cleaner(c).clean(p),
        at_once=len(partitions),
        tell=lambda outcome: outcome.told,
    )
    if spec.partition is None and not spec.plan_only:
        forget_unreadable(table, outcomes, overview.notes)
    if table.is_partitioned and spec.partition is None:
        outcomes.append(cleaner(job.client).clean_staging())
    for place in _uploaded_to(table, spec, [p.location for p in partitions]):
        outcomes.append(cleaner(job.client).clean_uploads(place))
    return _result(job, spec, outcomes)


def _uploaded_to(table: TableInfo, spec: CleanSpec, locations: Sequence[str]) -> list[str]:
    """Return the locations, sorted, where dead workers may have left incomplete uploads."""
    places = set(locations)
    if spec.partition is None:
        within = f"{table.location.rstrip('/')}/"
        places = {table.location, *(p for p in places if not p.startswith(within))}
    return [place for place in sorted(places) if publishes_files(scheme_of(place))]


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
