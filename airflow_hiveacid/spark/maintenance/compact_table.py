"""Compaction of a whole table, or of one partition.

Partitions are compacted in parallel. Each partition has its own transaction and its own connection.
A partition that does not need compaction is reported and skipped. A partition on which a different
compactor works is also skipped, unless the user requested its compaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.maintenance.compaction_planner import (
    CompactionPlanner,
    plan_table,
    switched_off_outcome,
)
from airflow_hiveacid.maintenance.results import compaction_result
from airflow_hiveacid.maintenance.side_by_side import each_partition
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.snapshots import snapshot_now
from airflow_hiveacid.metastore.transactions.compaction_work import (
    end_dead_entries,
    waiting_requests,
)
from airflow_hiveacid.spark.maintenance.compact import Compactor
from airflow_hiveacid.spark.maintenance.shared_notes import SharedNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.policies import ConflictPolicy
    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.maintenance.compaction_planner import CompactionOutcome
    from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCompaction:
    """The facts that the compactions of a table's partitions share.

    All partitions share the snapshot `known`, restricted to the write IDs that a compactor may
    process. `requests` are pending requests of other clients, by partition (None is the whole
    table).
    """

    table: TableInfo
    spec: CompactSpec
    policy: ConflictPolicy
    known: Snapshot
    requests: Mapping[PartitionName | None, CompactionEntry]
    shared: SharedNotes

    @classmethod
    def of(
        cls, job: JobContext, client: MetastorePort, table: TableInfo, spec: CompactSpec
    ) -> Self:
        """Read the facts; end the queue entries of dead workers, unless the job only plans.

        Raises:
            ConfigurationError: the table's conflict policy is invalid.
            MetastoreError: the metastore does not answer, or refuses a call.
        """
        # Read the requests before taking the snapshot. Then the snapshot includes all writes before
        # the requests.
        pending = waiting_requests if spec.plan_only else end_dead_entries
        requests = {entry.partition: entry for entry in pending(client, table.ref)}
        return cls(
            table=table,
            spec=spec,
            policy=job.policy_of(table),
            known=snapshot_now(client, [table.ref]).for_compactor(),
            requests=requests,
            shared=SharedNotes.of(table),
        )

    def planner(self, client: MetastorePort) -> CompactionPlanner:
        """Return a planner of the partitions' compactions."""
        return CompactionPlanner(
            client=client,
            table=self.table,
            spec=self.spec,
            known=self.known,
            requests=self.requests,
        )

    def compactor(self, job: JobContext, client: MetastorePort) -> Compactor:
        """Return a compactor for one thread."""
        return Compactor(
            spark=job.spark,
            client=client,
            table=self.table,
            spec=self.spec,
            job_key=job.spec.job_key,
            earlier_key=job.spec.earlier_key,
            attempt=AttemptId.parse(job.spec.attempt),
            lock_timeout_s=job.spec.lock_timeout_s,
            heartbeat_s=job.spec.heartbeat_s,
            on_step=job.on_step,
            known=self.known,
            policy=self.policy,
            requests=self.requests,
            shared=self.shared,
        )


def compact_table(job: JobContext) -> JobResult:
    """Compact the partitions that need it."""
    spec = job.job_of(CompactSpec)
    table = job.insertable_table(spec.target)
    policy = job.policy_of(table)
    if spec.plan_only:
        return compaction_result(job.spec, spec, plan_table(job.client, spec), policy)
    switched_off = switched_off_outcome(table, spec)
    if switched_off is not None:
        end_dead_entries(job.client, table.ref)
        return compaction_result(job.spec, spec, [switched_off], policy)
    partitions = partitions_of(job.client, table, spec.partition)
    shared = TableCompaction.of(job, job.client, table, spec)

    def compact_one(client: MetastorePort, partition: PartitionInfo) -> CompactionOutcome:
        return shared.compactor(job, client).compact(partition)

    outcomes = each_partition(
        job.client,
        table,
        partitions,
        compact_one,
        at_once=job.spark.sparkContext.defaultParallelism,
        describe=lambda outcome: outcome.text,
    )
    return compaction_result(job.spec, spec, outcomes, policy)
