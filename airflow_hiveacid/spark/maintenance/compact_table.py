"""Compaction of a whole table, or of one partition.

Partitions are compacted in parallel. Each partition has its own transaction and its own connection.
A partition that does not need compaction is reported and skipped. A partition on which a different
compactor works is also skipped, unless the user requested its compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.snapshots import snapshot_now
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.spark.maintenance.compact import Compactor
from airflow_hiveacid.spark.maintenance.compaction_planner import plan_table, switched_off_outcome
from airflow_hiveacid.spark.maintenance.shared_notes import SharedNotes
from airflow_hiveacid.spark.maintenance.side_by_side import each_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.maintenance.compaction_planner import CompactionOutcome
    from airflow_hiveacid.spark.writing.context import JobContext


def compact_table(job: JobContext) -> JobResult:
    """Compact the partitions that need it."""
    spec = job.job_of(CompactSpec)
    table = job.insertable_table(spec.target)
    if spec.plan_only:
        return _result(job, spec, table, plan_table(job.client, spec))
    policy = job.policy_of(table)
    # Read the requests before taking the snapshot. Then the snapshot includes all writes before the
    # requests.
    waiting = end_dead_entries(job.client, table.ref)
    switched_off = switched_off_outcome(table, spec)
    if switched_off is not None:
        return _result(job, spec, table, [switched_off])
    partitions = partitions_of(job.client, table, spec.partition)
    # All partitions share one snapshot, restricted to the write IDs that a compactor may process.
    known = snapshot_now(job.client, [table.ref]).for_compactor()
    shared = SharedNotes.of(table)

    def compact_one(client: MetastorePort, partition: PartitionInfo) -> CompactionOutcome:
        return Compactor(
            spark=job.spark,
            client=client,
            table=table,
            spec=spec,
            job_key=job.spec.job_key,
            earlier_key=job.spec.earlier_key,
            attempt=AttemptId.parse(job.spec.attempt),
            lock_timeout_s=job.spec.lock_timeout_s,
            heartbeat_s=job.spec.heartbeat_s,
            on_step=job.on_step,
            known=known,
            policy=policy,
            requests={entry.partition: entry for entry in waiting},
            shared=shared,
        ).compact(partition)

    at_once = job.spark.sparkContext.defaultParallelism
    outcomes = each_partition(
        job.client,
        table,
        partitions,
        compact_one,
        at_once=at_once,
        describe=lambda outcome: outcome.text,
    )
    return _result(job, spec, table, outcomes)


def _result(
    job: JobContext, spec: CompactSpec, table: TableInfo, outcomes: Sequence[CompactionOutcome]
) -> JobResult:
    done = [o for o in outcomes if o.done]
    if done:
        status = JobStatus.COMMITTED
    elif spec.plan_only:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.NOTHING_TO_DO
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=status,
        table=str(table.ref),
        txn_id=done[0].txn_id if len(done) == 1 else None,
        rows=RowCounts(),
        partitions=tuple(o.partition for o in done if o.partition),
        files=sum(o.files for o in done),
        size_bytes=sum(o.bytes_out for o in done),
        details={
            "compactions": [to_json(o) for o in outcomes],
            "conflict_policy": job.policy_of(table).value,
        },
    )
