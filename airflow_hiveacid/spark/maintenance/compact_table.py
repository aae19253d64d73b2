"""Compaction of a whole table, or of one partition.

Partitions are compacted in parallel. Each partition has its own transaction and its own connection.
A partition that does not need compaction is reported and skipped. A partition on which a different
compactor works is also skipped, unless the user requested its compaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.maintenance.compaction_planner import (
    CompactionFacts,
    plan_table,
    switched_off_outcome,
)
from airflow_hiveacid.maintenance.results import compaction_result
from airflow_hiveacid.maintenance.side_by_side import each_partition
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.spark.maintenance.compact import Compactor
from airflow_hiveacid.spark.maintenance.shared_notes import SharedNotes

if TYPE_CHECKING:
    from airflow_hiveacid.format.policies import ConflictPolicy
    from airflow_hiveacid.format.table import PartitionInfo
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.maintenance.compaction_planner import CompactionOutcome
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCompaction:
    """What the compactions of a table's partitions share."""

    facts: CompactionFacts
    policy: ConflictPolicy
    shared: SharedNotes

    @classmethod
    def of(cls, job: JobContext, facts: CompactionFacts) -> Self:
        """Read the table's conflict policy.

        Raises:
            ConfigurationError: the table's conflict policy is invalid.
        """
        policy = job.policy_of(facts.table)
        return cls(facts=facts, policy=policy, shared=SharedNotes.of(facts.table))

    def compactor(self, job: JobContext, client: MetastorePort) -> Compactor:
        """Return a compactor for one thread."""
        return Compactor(
            spark=job.spark,
            client=client,
            table=self.facts.table,
            spec=self.facts.spec,
            terms=job.terms,
            known=self.facts.known,
            policy=self.policy,
            requests=self.facts.requests,
            shared=self.shared,
        )


def compact_table(job: JobContext) -> JobResult:
    """Compact the partitions that need it."""
    spec = job.job_of(CompactSpec)
    table = job.insertable_table(spec.target)
    policy = job.policy_of(table)
    if spec.plan_only:
        return compaction_result(job.spec, spec, plan_table(job.client, table, spec), policy)
    switched_off = switched_off_outcome(table, spec)
    if switched_off is not None:
        end_dead_entries(job.client, table.ref)
        return compaction_result(job.spec, spec, [switched_off], policy)
    partitions = partitions_of(job.client, table, spec.partition)
    shared = TableCompaction.of(job, CompactionFacts.of(job.client, table, spec))

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
