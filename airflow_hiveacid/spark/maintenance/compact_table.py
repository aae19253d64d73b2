"""Compaction of a whole table, or of one partition.

Partitions are compacted in parallel. Each partition has its own transaction and its own connection.
A partition that does not need compaction is reported and skipped. A partition on which a different
compactor works is also skipped, unless the user requested its compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.maintenance.compaction_facts import (
    plan_table,
    read_facts,
    switched_off_outcome,
)
from airflow_hiveacid.maintenance.results import compaction_result
from airflow_hiveacid.maintenance.side_by_side import each_partition
from airflow_hiveacid.maintenance.window import Window
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.spark.maintenance.compact import Compactor
from airflow_hiveacid.spark.maintenance.shared_notes import SharedNotes

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.spark.writing.context import JobContext


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
    all_facts = read_facts(job.client, table, spec, lambda _: partitions)
    shared = SharedNotes.of(table)
    outcomes = each_partition(
        job.client,
        table,
        all_facts,
        lambda client, facts: Compactor.of(job, client, facts, shared, Window()).compact(),
        at_once=job.spark.sparkContext.defaultParallelism,
        describe=lambda outcome: outcome.text,
    )
    return compaction_result(job.spec, spec, outcomes, policy)
