"""Compaction of many tables in one job: plan all partitions, rank them, compact those that are due.

Tables and partitions are processed in parallel. Each partition has its own transaction, as in
`compact_table`. A table that cannot be planned, or a partition that cannot be compacted, does not
stop the others; the job fails at its end.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    FencedError,
    HiveAcidError,
    PartitionsFailedError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CompactTablesSpec
from airflow_hiveacid.maintenance.compaction_planner import (
    CompactionOutcome,
    planned_outcome,
    switched_off_outcome,
    why_failed,
)
from airflow_hiveacid.maintenance.side_by_side import each_piece
from airflow_hiveacid.metastore.listed_tables import is_pattern, transactional_tables
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.compaction import CompactionPlan
from airflow_hiveacid.plan.statements.dml import check_insertable
from airflow_hiveacid.spark.maintenance.compact_table import TableCompaction
from airflow_hiveacid.storage.plain.fitness import check_files_writable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.compaction import NoCompaction
    from airflow_hiveacid.spark.writing.context import JobContext

_PLANS_AT_ONCE: Final = 64  # `each_piece` has its own, lower limit

# The snapshot of a table may contain 100,000 transactions. After each group of tables, only the
# snapshots of tables with due partitions remain in memory.
_TABLES_IN_GROUP: Final = 256

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One partition of one table."""

    of: TableCompaction
    partition: PartitionInfo

    @property
    def table(self) -> str:
        return str(self.of.table.ref)

    @property
    def name(self) -> str:
        return f"{self.table} {self.partition.name}".rstrip()

    def plan(self, client: MetastorePort) -> _Due | NoCompaction:
        plan = self.of.planner(client).plan(self.partition)
        if not isinstance(plan, CompactionPlan):
            return plan
        return _Due(piece=self, score=plan.score, outcome=planned_outcome(self.partition, plan))

    def is_dropped(self, client: MetastorePort) -> bool:
        return _is_dropped(client, self.of.table, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """A partition that needs compaction; its plan's list of files is not kept in memory."""

    piece: _Piece
    score: float
    outcome: CompactionOutcome


@dataclass(slots=True, kw_only=True)
class _Run:
    """The findings of one job, in the order in which they are made. Mutable.

    `unlisted` is the number of failed tables whose partitions are unknown.
    """

    due: list[_Due]
    outcomes: list[tuple[str, CompactionOutcome]]
    skipped: dict[str, str]
    failed: dict[str, HiveAcidError]
    tables: int = 0
    partitions: int = 0
    unlisted: int = 0

    def fail(self, name: str, error: HiveAcidError, *, is_dropped: bool = False) -> None:
        """Remember a failure; skip what was dropped. A newer copy of the job ends this one.

        Raises:
            FencedError: a newer copy of the job is running.
        """
        if isinstance(error, FencedError):
            raise error
        if is_dropped:
            self.skipped[name] = "it was dropped or renamed while the job ran"
        else:
            self.failed[name] = error


def compact_tables(job: JobContext) -> JobResult:
    """Compact the partitions that need it, of all transactional tables with matching names.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        FencedError: a newer copy of the job is running.
        PartitionsFailedError: a table or partition failed. The others are done.
    """
    spec = job.job_of(CompactTablesSpec)
    for name in spec.tables:
        if not is_pattern(name):
            table = job.client.get_table(TableRef.parse(name))
            check_insertable(table)
            check_files_writable(table)
    run = _Run(due=[], outcomes=[], skipped={}, failed={})
    tables = _tables(job, spec, run)
    if not run.tables and not run.skipped:
        log.warning("no transactional table matches %s", spec.target)
    for start in range(0, len(tables), _TABLES_IN_GROUP):
        _plan(job, list(_pieces(job, spec, tables[start : start + _TABLES_IN_GROUP], run)), run)
    run.due.sort(key=lambda one: one.score, reverse=True)
    chosen = run.due if spec.max_bytes is None else _within(run, spec.max_bytes)
    log.info(
        "%d of %d partitions in %d tables need compaction", len(run.due), run.partitions, run.tables
    )
    if spec.plan_only:
        run.outcomes += [(one.piece.table, one.outcome) for one in chosen]
    else:
        _compact(job, chosen, run)
    if run.failed:
        raise PartitionsFailedError(
            table=spec.target,
            failed={name: str(error) for name, error in run.failed.items()},
            of=run.partitions + run.unlisted,
            done={f"{t} {o.partition}".rstrip(): o.text for t, o in run.outcomes if o.done},
        )
    return _result(job, spec, run)


def _tables(job: JobContext, spec: CompactTablesSpec, run: _Run) -> list[TableInfo]:
    """Return the tables that can be compacted, and those with automatic compaction turned off."""
    tables: list[TableInfo] = []
    for name, table in transactional_tables(job.client, spec.tables):
        try:
            if isinstance(table, HiveAcidError):
                raise table
            check_insertable(table)
            check_files_writable(table)
        except HiveAcidError as error:  # nothing that a retry or an administrator has to mend
            run.skipped[name] = str(error)
            continue
        switched_off = switched_off_outcome(table, spec.of_table(name))
        if switched_off is None:
            run.tables += 1
        else:
            run.skipped[name] = switched_off.why
        tables.append(table)
    return tables


def _pieces(
    job: JobContext, spec: CompactTablesSpec, tables: Sequence[TableInfo], run: _Run
) -> Iterator[_Piece]:
    """Yield the partitions of the tables; none of tables with automatic compaction turned off."""

    def prepared(client: MetastorePort, table: TableInfo) -> list[_Piece]:
        if str(table.ref) in run.skipped:
            if not spec.plan_only:
                end_dead_entries(client, table.ref)
            return []
        partitions = partitions_of(client, table, None)
        of = TableCompaction.of(job, client, table, spec.of_table(str(table.ref)))
        return [_Piece(of=of, partition=partition) for partition in partitions]

    found = each_piece(
        job.client, tables, prepared, at_once=_PLANS_AT_ONCE, name=lambda one: f"table {one.ref}"
    )
    for table, pieces in zip(tables, found, strict=True):
        if isinstance(pieces, HiveAcidError):
            is_dropped = _is_dropped(job.client, table)
            run.fail(str(table.ref), pieces, is_dropped=is_dropped)
            run.unlisted += not is_dropped
        else:
            yield from pieces


def _plan(job: JobContext, pieces: Sequence[_Piece], run: _Run) -> None:
    """Plan every partition."""
    plans = each_piece(
        job.client,
        pieces,
        lambda client, piece: piece.plan(client),
        at_once=_PLANS_AT_ONCE,
        name=lambda piece: piece.name,
    )
    run.partitions += len(pieces)
    for piece, plan in zip(pieces, plans, strict=True):
        if isinstance(plan, HiveAcidError):
            run.fail(piece.name, plan, is_dropped=piece.is_dropped(job.client))
        elif isinstance(plan, _Due):
            run.due.append(plan)
        elif plan.is_hindered:
            outcome = planned_outcome(piece.partition, plan)
            run.outcomes.append((piece.table, outcome))
            error = why_failed(piece.of.table, piece.of.spec, outcome)
            if error is not None:
                run.fail(piece.name, error)


def _within(run: _Run, max_bytes: int) -> list[_Due]:
    """Return the compactions whose inputs fit into `max_bytes`, and record the others as left.

    The first one is always chosen, because otherwise no job would ever compact a large partition.
    """
    chosen: list[_Due] = []
    left_bytes = max_bytes
    for one in run.due:
        if chosen and one.outcome.bytes_in > left_bytes:
            run.outcomes.append((one.piece.table, _left(one.outcome, max_bytes)))
            continue
        chosen.append(one)
        left_bytes -= one.outcome.bytes_in
    return chosen


def _compact(job: JobContext, chosen: Sequence[_Due], run: _Run) -> None:
    unwritable: dict[TableRef, HiveAcidError] = {}
    for table in {one.piece.of.table.ref: one.piece.of.table for one in chosen}.values():
        try:
            check_publishable(table.ref, table.location)
            check_writable(table.location)
        except HiveAcidError as error:
            unwritable[table.ref] = error
            run.fail(str(table.ref), error)
    pieces = [one.piece for one in chosen if one.piece.of.table.ref not in unwritable]
    found = each_piece(
        job.client,
        pieces,
        lambda client, piece: piece.of.compactor(job, client).compact(piece.partition),
        at_once=job.spark.sparkContext.defaultParallelism,
        name=lambda piece: piece.name,
    )
    for piece, outcome in zip(pieces, found, strict=True):
        if isinstance(outcome, HiveAcidError):
            run.fail(piece.name, outcome, is_dropped=piece.is_dropped(job.client))
        else:
            log.info("%s: %s", piece.name, outcome.text)
            run.outcomes.append((piece.table, outcome))


def _is_dropped(
    client: MetastorePort, table: TableInfo, partition: PartitionInfo | None = None
) -> bool:
    """Return whether a table or partition no longer exists; False if that is unknown."""
    try:
        now = client.get_table(table.ref)
        if partition is None or not partition.name.columns:
            return now.table_id != table.table_id
        return not client.get_partitions(now, [partition.name])
    except TableNotFoundError:
        return True
    except HiveAcidError:
        return False


def _left(outcome: CompactionOutcome, max_bytes: int) -> CompactionOutcome:
    if outcome.bytes_in > max_bytes:
        left = (
            f"left, because it reads {outcome.bytes_in} bytes, more than max_bytes={max_bytes}."
            " Raise max_bytes, or compact the partition with HiveAcidCompactOperator"
        )
    else:
        left = f"left for a later job, because max_bytes={max_bytes} is used up"
    return replace(outcome, why=f"{outcome.why}; {left}")


def _result(job: JobContext, spec: CompactTablesSpec, run: _Run) -> JobResult:
    done = [outcome for _, outcome in run.outcomes if outcome.done]
    if done:
        status = JobStatus.COMMITTED
    elif spec.plan_only:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.NOTHING_TO_DO
    compactions: list[JsonValue] = [
        {"table": table, **_record(outcome)} for table, outcome in run.outcomes
    ]
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=status,
        table=spec.target,
        files=sum(outcome.files for outcome in done),
        size_bytes=sum(outcome.bytes_out for outcome in done),
        details={
            "compactions": compactions,
            "tables": run.tables,
            "partitions": run.partitions,
            "skipped": [{"table": table, "why": why} for table, why in run.skipped.items()],
        },
    )


def _record(outcome: CompactionOutcome) -> dict[str, JsonValue]:
    record = to_json(outcome)
    if not isinstance(record, dict):
        raise TypeError("an outcome is an object")
    return record
