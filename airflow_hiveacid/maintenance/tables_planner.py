"""The plan of a compaction of many tables, without Spark: which partitions are due, in which order.

Tables and partitions are planned in parallel. A table or partition that cannot be planned does not
stop the others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    FencedError,
    HiveAcidError,
    PartitionsFailedError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.maintenance.compaction_planner import (
    CompactionFacts,
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
from airflow_hiveacid.storage.plain.fitness import check_files_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.specs.maintenance import CompactTablesSpec
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.compaction import NoCompaction

_PLANS_AT_ONCE: Final = 64  # `each_piece` has its own, lower limit

# The snapshot of a table may contain 100,000 transactions. After each group of tables, only the
# snapshots of tables with due partitions remain in memory.
_TABLES_IN_GROUP: Final = 256

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One partition of one table."""

    facts: CompactionFacts
    partition: PartitionInfo

    @property
    def table(self) -> str:
        """The table's full name."""
        return str(self.facts.table.ref)

    @property
    def name(self) -> str:
        """The name of the table and partition in messages."""
        return f"{self.table} {self.partition.name}".rstrip()

    def plan(self, client: MetastorePort) -> Due | NoCompaction:
        """Return the compaction that is due, or the reason why none is."""
        plan = self.facts.planner(client).plan(self.partition)
        if not isinstance(plan, CompactionPlan):
            return plan
        return Due(piece=self, score=plan.score, outcome=planned_outcome(self.partition, plan))

    def is_dropped(self, client: MetastorePort) -> bool:
        """Return whether the table or partition no longer exists; False if that is unknown."""
        return _is_dropped(client, self.facts.table, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A partition that needs compaction; its plan's list of files is not kept in memory."""

    piece: Piece
    score: float
    outcome: CompactionOutcome


@dataclass(slots=True, kw_only=True)
class TablesPlan:
    """The plan of one job, and what came of it, in the order of its findings. Mutable.

    `due` are the partitions to compact, by falling score. `outcomes` are those of partitions that
    were compacted, planned or left. `skipped` has the reasons by table. `unlisted` is the number of
    failed tables whose partitions are unknown.
    """

    due: list[Due] = field(default_factory=list)
    outcomes: list[tuple[str, CompactionOutcome]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, HiveAcidError] = field(default_factory=dict)
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

    def report_due(self) -> None:
        """Add the partitions that are due to the outcomes, because the job only plans."""
        self.outcomes += [(one.piece.table, one.outcome) for one in self.due]

    def check(self, spec: CompactTablesSpec) -> None:
        """Raise an error if a table or partition failed.

        Raises:
            PartitionsFailedError: at least one failed; the error lists what is done.
        """
        if self.failed:
            raise PartitionsFailedError(
                table=spec.target,
                failed={name: str(error) for name, error in self.failed.items()},
                of=self.partitions + self.unlisted,
                done={f"{t} {o.partition}".rstrip(): o.text for t, o in self.outcomes if o.done},
            )


def plan_tables(client: MetastorePort, spec: CompactTablesSpec) -> TablesPlan:
    """Plan the compaction of all transactional tables with matching names.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        FencedError: a newer copy of the job is running.
    """
    for name in spec.tables:
        if not is_pattern(name):
            table = client.get_table(TableRef.parse(name))
            check_insertable(table)
            check_files_writable(table)
    run = TablesPlan()
    tables = _tables(client, spec, run)
    if not run.tables and not run.skipped:
        log.warning("no transactional table matches %s", spec.target)
    for start in range(0, len(tables), _TABLES_IN_GROUP):
        group = tables[start : start + _TABLES_IN_GROUP]
        _plan(client, list(_pieces(client, spec, group, run)), run)
    run.due.sort(key=lambda one: one.score, reverse=True)
    log.info(
        "%d of %d partitions in %d tables need compaction", len(run.due), run.partitions, run.tables
    )
    if spec.max_bytes is not None:
        run.due = _within(run, spec.max_bytes)
    return run


def _tables(client: MetastorePort, spec: CompactTablesSpec, run: TablesPlan) -> list[TableInfo]:
    """Return the tables that can be compacted, and those with automatic compaction turned off."""
    tables: list[TableInfo] = []
    for name, table in transactional_tables(client, spec.tables):
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
    client: MetastorePort, spec: CompactTablesSpec, tables: Sequence[TableInfo], run: TablesPlan
) -> Iterator[Piece]:
    """Yield the partitions of the tables; none of tables with automatic compaction turned off."""

    def prepared(own: MetastorePort, table: TableInfo) -> list[Piece]:
        if str(table.ref) in run.skipped:
            if not spec.plan_only:
                end_dead_entries(own, table.ref)
            return []
        partitions = partitions_of(own, table, None)
        facts = CompactionFacts.of(own, table, spec.of_table(str(table.ref)))
        return [Piece(facts=facts, partition=partition) for partition in partitions]

    found = each_piece(
        client, tables, prepared, at_once=_PLANS_AT_ONCE, name=lambda one: f"table {one.ref}"
    )
    for table, pieces in zip(tables, found, strict=True):
        if isinstance(pieces, HiveAcidError):
            is_dropped = _is_dropped(client, table)
            run.fail(str(table.ref), pieces, is_dropped=is_dropped)
            run.unlisted += not is_dropped
        else:
            yield from pieces


def _plan(client: MetastorePort, pieces: Sequence[Piece], run: TablesPlan) -> None:
    """Plan every partition."""
    plans = each_piece(
        client,
        pieces,
        lambda own, piece: piece.plan(own),
        at_once=_PLANS_AT_ONCE,
        name=lambda piece: piece.name,
    )
    run.partitions += len(pieces)
    for piece, plan in zip(pieces, plans, strict=True):
        if isinstance(plan, HiveAcidError):
            run.fail(piece.name, plan, is_dropped=piece.is_dropped(client))
        elif isinstance(plan, Due):
            run.due.append(plan)
        elif plan.is_hindered:
            outcome = planned_outcome(piece.partition, plan)
            run.outcomes.append((piece.table, outcome))
            error = why_failed(piece.facts.table, piece.facts.spec, outcome)
            if error is not None:
                run.fail(piece.name, error)


def _within(run: TablesPlan, max_bytes: int) -> list[Due]:
    """Return the compactions whose inputs fit into `max_bytes`, and record the others as left.

    The first one is always chosen, because otherwise no job would ever compact a large partition.
    """
    chosen: list[Due] = []
    left_bytes = max_bytes
    for one in run.due:
        if chosen and one.outcome.bytes_in > left_bytes:
            run.outcomes.append((one.piece.table, _left(one.outcome, max_bytes)))
            continue
        chosen.append(one)
        left_bytes -= one.outcome.bytes_in
    return chosen


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
