"""The plan of a compaction of many tables, without Spark: which partitions are due, in which order.

Tables and partitions are planned in parallel. A table or partition that cannot be planned does not
stop the others.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import CompactionNotDoneError, typed
from airflow_hiveacid.format.words import age_text, first_few, several
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice
from airflow_hiveacid.maintenance.compaction_planner import (
    CompactionFacts,
    CompactionOutcome,
    check_can_serve,
    read_facts,
    switched_off_outcome,
)
from airflow_hiveacid.maintenance.many_tables import TablesRun, grouped, matching_tables
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction, in_queue
from airflow_hiveacid.metastore.listed_tables import matches
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries, end_entry
from airflow_hiveacid.plan.compaction import CompactionPlan
from airflow_hiveacid.plan.statements.dml import check_insertable
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.storage.plain.fitness import check_files_writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
    from airflow_hiveacid.jobs.specs.maintenance import CompactTablesSpec
    from airflow_hiveacid.maintenance.compaction_planner import Requests
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.compaction import NoCompaction

OVERDUE_S: Final = 7 * 86400.0
"""The age of its oldest delta at which a partition that is due comes before all younger ones."""

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCompaction:
    """A partition that needs compaction; its plan's list of files is not kept in memory.

    `oldest_delta_s` is the age of its oldest delta in seconds.
    """

    facts: CompactionFacts
    score: float
    oldest_delta_s: float
    outcome: CompactionOutcome

    @property
    def table(self) -> str:
        """The table's full name."""
        return str(self.facts.table.ref)

    @property
    def entry_id(self) -> int:
        """The ID of the request that waits in the queue; 0 if there is none."""
        request = self.facts.request
        return 0 if request is None else request.entry_id or 0

    @property
    def is_overdue(self) -> bool:
        """True if earlier jobs have probably left the partition again and again."""
        return self.oldest_delta_s >= OVERDUE_S

    @property
    def rank(self) -> tuple[float, float]:
        """The place in the order of the work; overdue partitions first, the oldest of them first.

        Otherwise a large partition, which has a low score, would be left every night.
        """
        return (self.oldest_delta_s if self.is_overdue else 0.0, self.score)


@dataclass(slots=True, kw_only=True)
class TablesPlan(TablesRun):
    """The plan of one job, and what came of it. Mutable.

    `due` are the partitions to compact, in the order of the work. `outcomes` are those of
    partitions that were compacted, planned or left, by table. `window_ended` is True if the job has
    left partitions, or all, because its window has ended.
    """

    due: list[DueCompaction] = field(default_factory=list)
    outcomes: list[tuple[str, CompactionOutcome]] = field(default_factory=list)
    window_ended: bool = False

    def report_due(self) -> None:
        """Add the partitions that are due to the outcomes, because the job only plans."""
        self.outcomes += [(one.table, one.outcome) for one in self.due]

    def leave(self, left: Sequence[DueCompaction]) -> None:
        """Leave partitions for a later job, because the window has ended."""
        for one in left:
            self.window_ended = True
            why = f"{one.outcome.why}; left for a later job, because the window has ended"
            self.outcomes.append((one.table, replace(one.outcome, why=why)))
        _warn_of_left([one for one in left if one.is_overdue], "the window has ended")

    @property
    def done(self) -> dict[str, str]:
        """What came of each compacted partition, by the name of its table and partition."""
        return {f"{t} {o.partition}".rstrip(): o.text for t, o in self.outcomes if o.done}


def plan_tables(client: MetastorePort, spec: CompactTablesSpec) -> TablesPlan:
    """Plan the compaction of all transactional tables with matching names.

    The partitions with the highest score come first, after those that are overdue
    (`DueCompaction.rank`). If the job serves the queue, the partitions with the oldest requests
    come first.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        MetastoreVersionError: the job serves the queue, and it is a 3.1 metastore.
        FencedError: a newer copy of the job is running.
    """
    run = TablesPlan()
    neighbours = Neighbours()
    for group in grouped(_tables(client, spec, run)):
        _plan(client, _facts(client, spec, group, run, neighbours), run)
    if spec.choice is CompactionChoice.QUEUED:
        run.due.sort(key=lambda one: one.entry_id)
    else:
        run.due.sort(key=lambda one: one.rank, reverse=True)
    log.info(
        "%d of %d partitions in %d tables need compaction", len(run.due), run.partitions, run.tables
    )
    if spec.max_bytes is not None:
        run.due = _within(run, spec.max_bytes)
    return run


def _tables(client: MetastorePort, spec: CompactTablesSpec, run: TablesPlan) -> list[TableInfo]:
    """Return the tables that can be compacted, and those with automatic compaction turned off.

    If the job serves the queue, return only tables with entries to serve or to end.
    """
    only = _queued_tables(client, spec, run) if spec.choice is CompactionChoice.QUEUED else None
    tables = []
    for table in matching_tables(client, spec.tables, _check_compactable, run, only=only):
        try:
            switched_off = switched_off_outcome(table, spec.of_table(str(table.ref)))
        except Exception as error:  # one table must not stop the others
            log.exception("%s cannot be planned", table.ref)
            run.fail(str(table.ref), typed(error))
            run.unlisted += 1
            continue
        tables.append(table)
        if switched_off is None:
            run.tables += 1
        else:
            run.skipped[str(table.ref)] = switched_off.why
    return tables


def _queued_tables(
    client: MetastorePort, spec: CompactTablesSpec, run: TablesPlan
) -> set[TableRef]:
    """Return the tables with a waiting request or an unfinished entry of ours; skip rebalances."""
    check_can_serve(client, spec.choice)
    found = set()
    for entry in client.show_compactions():
        if not matches(str(entry.table), spec.tables):
            continue
        is_ours = entry.is_at_work and (entry.has_our_worker or entry.waits_for_us)
        if is_ours or (spec.serves(entry.pool) and entry.waits_for_anybody):
            found.add(entry.table)
        elif spec.serves(entry.pool) and entry.waits_for_hive:
            name = f"{entry.table} {entry.partition or ''}".rstrip()
            run.skipped[name] = f"only Hive's workers can serve {entry.asked_by}"
    return found


def _check_compactable(table: TableInfo) -> None:
    check_insertable(table)
    check_files_writable(table)


def _facts(
    client: MetastorePort,
    spec: CompactTablesSpec,
    tables: Sequence[TableInfo],
    run: TablesPlan,
    neighbours: Neighbours,
) -> list[CompactionFacts]:
    """Return the facts of the tables' partitions, except if automatic compaction is turned off."""

    def prepared(own: MetastorePort, table: TableInfo) -> list[CompactionFacts]:
        if str(table.ref) in run.skipped:
            if not spec.plan_only:
                end_dead_entries(own, table.ref)
            return []
        of_table = spec.of_table(str(table.ref))
        if spec.choice is CompactionChoice.QUEUED:
            find = partial(_requested, own, spec, table)
            return read_facts(own, table, of_table, find, neighbours)
        partitions = partitions_of(own, table, None)
        return read_facts(own, table, of_table, lambda _: partitions, neighbours)

    by_table = run.each_table(client, tables, prepared)
    return [facts for of_table in by_table for facts in of_table]


def _requested(
    client: MetastorePort, spec: CompactTablesSpec, table: TableInfo, requests: Requests
) -> list[PartitionInfo]:
    """Return the partitions with a waiting request; refuse requests for missing partitions."""
    served = {name: one for name, one in requests.items() if spec.serves(one.pool)}
    if table.is_partitioned:
        partitions = client.get_partitions(table, [name for name in served if name is not None])
    else:
        partitions = client.list_partitions(table)
    requested = [partition for partition in partitions if in_queue(partition) in served]
    missing = served.keys() - {in_queue(partition) for partition in requested}
    for name, entry in served.items():
        if name in missing and not spec.plan_only:
            end_entry(client, ClaimedCompaction.of_entry(entry), "the table has no such partition")
    return requested


def _plan(client: MetastorePort, partitions: Sequence[CompactionFacts], run: TablesPlan) -> None:
    """Plan every partition."""
    run.partitions += len(partitions)
    for facts, plan in run.each(client, partitions, _due, where=lambda facts: facts.where):
        if isinstance(plan, DueCompaction):
            run.due.append(plan)
        elif plan.is_hindered:
            outcome = facts.outcome(plan)
            run.outcomes.append((str(facts.table.ref), outcome))
            try:
                facts.checked(outcome)
            except CompactionNotDoneError as error:
                run.fail(facts.where.name, error)


def _due(client: MetastorePort, facts: CompactionFacts) -> DueCompaction | NoCompaction:
    """Return the compaction that is due, or the reason why none is."""
    plan = facts.plan(client)
    if not isinstance(plan, CompactionPlan):
        return plan
    health = TableHealth.of(plan.state, kind=facts.table.kind, now_s=time.time())
    return DueCompaction(
        facts=facts,
        score=plan.score,
        oldest_delta_s=health.oldest_delta_s or 0.0,
        outcome=facts.outcome(plan),
    )


def _within(run: TablesPlan, max_bytes: int) -> list[DueCompaction]:
    """Return the compactions whose inputs fit into `max_bytes`, and record the others as left.

    The first one is always chosen, because otherwise no job would ever compact a large partition.
    """
    chosen: list[DueCompaction] = []
    left: list[DueCompaction] = []
    left_bytes = max_bytes
    for one in run.due:
        if chosen and one.outcome.bytes_in > left_bytes:
            run.outcomes.append((one.table, _left(one.outcome, max_bytes)))
            left.append(one)
            continue
        chosen.append(one)
        left_bytes -= one.outcome.bytes_in
    _warn_of_left([one for one in left if one.is_overdue], f"max_bytes={max_bytes} is used up")
    large = [one for one in left if one.outcome.bytes_in > max_bytes and not one.is_overdue]
    _warn_of_left(
        large,
        f"each of them reads more than max_bytes={max_bytes}. Such a partition is compacted only if"
        f" it comes first, at the latest when its oldest delta is {age_text(OVERDUE_S)} old",
    )
    return chosen


def _warn_of_left(left: Sequence[DueCompaction], why: str) -> None:
    """Log one warning about partitions that are due, but were left; none if there are none."""
    if not left:
        return
    named = [
        f"{one.facts.where.name} ({one.outcome.bytes_in} bytes, oldest delta"
        f" {age_text(one.oldest_delta_s)} old)"
        for one in left
    ]
    log.warning(
        "%s left although due: %s, because %s",
        several(len(left), "partition"),
        first_few(named),
        why,
    )


def _left(outcome: CompactionOutcome, max_bytes: int) -> CompactionOutcome:
    if outcome.bytes_in > max_bytes:
        left = (
            f"left, because it reads {outcome.bytes_in} bytes, more than max_bytes={max_bytes}."
            " Raise max_bytes, or compact the partition with HiveAcidCompactOperator"
        )
    else:
        left = f"left for a later job, because max_bytes={max_bytes} is used up"
    return replace(outcome, why=f"{outcome.why}; {left}")
