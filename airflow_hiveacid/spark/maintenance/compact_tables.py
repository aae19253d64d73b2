"""Compaction of many tables in one job, in the order of the plan.

Partitions of all tables are compacted in parallel. Each partition has its own transaction, as in
`compact_table`. A partition that cannot be compacted does not stop the others; the job fails at its
end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.jobs.specs.maintenance import CompactTablesSpec
from airflow_hiveacid.maintenance.results import compactions_result
from airflow_hiveacid.maintenance.tables_planner import plan_tables
from airflow_hiveacid.spark.maintenance.compact_table import TableCompaction
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.maintenance.compaction_planner import CompactionOutcome
    from airflow_hiveacid.maintenance.tables_planner import Piece, TablesPlan
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.context import JobContext

log = logging.getLogger("hiveacid")


def compact_tables(job: JobContext) -> JobResult:
    """Compact the partitions that need it, of all transactional tables with matching names.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        FencedError: a newer copy of the job is running.
        PartitionsFailedError: a table or partition failed. The others are done.
    """
    spec = job.job_of(CompactTablesSpec)
    run = plan_tables(job.client, spec)
    if spec.plan_only:
        run.report_due()
    else:
        _compact(job, run)
    run.check(spec.target, run.done)
    return compactions_result(job.spec, spec, run)


def _compact(job: JobContext, run: TablesPlan) -> None:
    compactions: dict[TableRef, TableCompaction] = {}
    for facts in {one.piece.facts.table.ref: one.piece.facts for one in run.due}.values():
        table = facts.table
        try:
            check_publishable(table.ref, table.location)
            check_writable(table.location)
            compactions[table.ref] = TableCompaction.of(job, facts)
        except HiveAcidError as error:
            run.fail(str(table.ref), error)
    pieces = [one.piece for one in run.due if one.piece.facts.table.ref in compactions]

    def compact(client: MetastorePort, piece: Piece) -> CompactionOutcome:
        own = compactions[piece.facts.table.ref]
        return own.compactor(job, client).compact(piece.partition)

    found = run.each(
        job.client,
        pieces,
        compact,
        where=lambda piece: piece.where,
        at_once=job.spark.sparkContext.defaultParallelism,
    )
    for piece, outcome in found:
        log.info("%s: %s", piece.where.name, outcome.text)
        run.outcomes.append((piece.table, outcome))
