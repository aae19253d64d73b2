"""The plan of a compaction, without Spark: which partitions are due, and in which order.

Tables and partitions are planned in parallel. A table or partition that cannot be planned does not
stop the others.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import CompactionNotDoneError, typed
from airflow_hiveacid.format.words import age_text, first_few, several
from airflow_hiveacid.jobs.specs.maintenance import AtEnd, CompactionChoice
from airflow_hiveacid.maintenance.compaction_facts import (
    CompactionFacts,
    CompactionOutcome,
    check_can_serve,
    read_facts,
    why_turned_off,
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
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
    from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
    from airflow_hiveacid.maintenance.compaction_facts import Requests
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.compaction import NoCompaction

OVERDUE_S: Final = 7 * 86400.0
"""The age of its oldest delta at which a partition that is due comes before all younger ones."""

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time in which a job may start partitions; `until_s` is None if it has no end.

    If `stops`, the job also stops the running partitions at the end.
    """

    until_s: float | None = None
    stops: bool = False

    @classmethod
    def of(cls, spec: CompactSpec) -> Self:
        """Return the window of a job; a plan has no end, because it changes nothing."""
        if spec.until_s is None or spec.plan_only:
            return cls()
        return cls(until_s=spec.until_s, stops=spec.at_end is AtEnd.STOP)

    @property
    def is_over(self) -> bool:
        """True once no partition may start."""
        return self.until_s is not None and time.time() >= self.until_s

    @property
    def is_stopped(self) -> bool:
        """True once no partition may run."""
        return self.stops and self.is_over


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
    partitions that were compacted, planned or left, by table; if the job is of one table, also of
    those that are not due. `table` is the only table of such a job. `window_ended` is True if the
    job has left partitions, or all, because its window has ended.
    """

    due: list[DueCompaction] = field(default_factory=list)
    outcomes: list[tuple[str, CompactionOutcome]] = field(default_factory=list)
    table: TableInfo | None = None
    window_ended: bool = False

    def report_due(self) -> None:
        """Add the partitions that are due to the outcomes, because the job only plans."""
        self.outcomes += [(due.table, due.outcome) for due in self.due]

    def leave(self, left: Sequence[DueCompaction]) -> None:
        """Leave partitions for a later job, because the window has ended."""
        for due in left:
            self.window_ended = True
            why = f"{due.outcome.why}; left for a later job, because the window has ended"
            self.outcomes.append((due.table, replace(due.outcome, why=why)))
        _warn_of_left([due for due in left if due.is_overdue], "the window has ended")

    @property
    def of_table(self) -> list[CompactionOutcome]:
        """The outcomes of the only table's partitions, in the order of their names."""
        return sorted((outcome for _, outcome in self.outcomes), key=lambda one: one.partition)

    @property
    def done(self) -> dict[str, str]:
        """The outcome of each compacted partition, by the name of its table and partition.

        If the job is of one table, also those of the partitions that are not due.
        """
        return {
            f"{table} {outcome.partition}".rstrip(): outcome.text
            for table, outcome in self.outcomes
            if outcome.done or self.is_of_table
        }


def plan_tables(client: MetastorePort, spec: CompactSpec) -> TablesPlan:
    """Plan the compaction of all transactional tables with matching names, or of one partition.

    Unless the spec is `plan_only`, this function also ends the queue entries of dead workers.

    The partitions with the highest score come first, after those that are overdue
    (`DueCompaction.rank`). If the job serves the queue, the partitions with the oldest requests
    come first.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        MetastoreVersionError: the job serves the queue, and it is a 3.1 metastore.
        FencedError: a newer copy of the job is running.
    """
    run = TablesPlan(is_of_table=spec.is_of_table)
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


def _tables(client: MetastorePort, spec: CompactSpec, run: TablesPlan) -> list[TableInfo]:
    """Return the tables that can be compacted, and those with automatic compaction turned off.

    If a job of many tables serves the queue, return only tables with entries to serve or to end.
    """
    only = _queued_tables(client, spec, run) if _is_by_queue(spec) else None
    tables = []
    for table in matching_tables(client, spec.tables, _check_compactable, run, only=only):
        try:
            why_not = why_turned_off(table, spec)
        except Exception as error:  # one table must not stop the others
            log.exception("%s cannot be planned", table.ref)
            run.fail(str(table.ref), typed(error))
            run.unlisted += 1
            continue
        tables.append(table)
        if run.is_of_table:
            run.table = table
        if why_not is None:
            run.tables += 1
            continue
        run.skipped[str(table.ref)] = why_not
        if run.is_of_table:
            outcome = CompactionOutcome(partition="", done=False, kind="none", why=why_not)
            run.outcomes.append((str(table.ref), outcome))
    return tables


def _is_by_queue(spec: CompactSpec) -> bool:
    """Return True if the queue names the partitions; one table reports each of its partitions."""
    return spec.choice is CompactionChoice.QUEUED and not spec.is_of_table


def _queued_tables(client: MetastorePort, spec: CompactSpec, run: TablesPlan) -> set[TableRef]:
    """Return the tables with a waiting request or an unfinished entry of ours; skip rebalances."""
    check_can_serve(client, spec.choice)
    tables = set()
    for entry in client.show_compactions():
        if not matches(str(entry.table), spec.tables):
            continue
        is_ours = entry.is_at_work and (entry.has_our_worker or entry.waits_for_us)
        if is_ours or (spec.serves(entry.pool) and entry.waits_for_anybody):
            tables.add(entry.table)
        elif spec.serves(entry.pool) and entry.waits_for_hive:
            name = f"{entry.table} {entry.partition or ''}".rstrip()
            run.skipped[name] = f"only Hive's workers can serve {entry.asked_by}"
    return tables


def _check_compactable(table: TableInfo) -> None:
    check_insertable(table)
    check_files_writable(table)


def _facts(
    client: MetastorePort,
    spec: CompactSpec,
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
        # If the store's client is missing, fail once, and not once for each partition.
        open_location(table.location)
        if _is_by_queue(spec):
            find = partial(_requested, own, spec, table)
            return read_facts(own, table, spec, find, neighbours)
        partitions = partitions_of(own, table, spec.partition)
        return read_facts(own, table, spec, lambda _: partitions, neighbours)

    by_table = run.each_table(client, tables, prepared)
    return [facts for of_table in by_table for facts in of_table]


def _requested(
    client: MetastorePort, spec: CompactSpec, table: TableInfo, requests: Requests
) -> list[PartitionInfo]:
    """Return the partitions with a waiting request; refuse requests for missing partitions."""
    served = {name: entry for name, entry in requests.items() if spec.serves(entry.pool)}
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
    run.partitions += len(partitions)
    for facts, plan in run.each(client, partitions, _due, where=lambda facts: facts.where):
        if isinstance(plan, DueCompaction):
            run.due.append(plan)
        elif plan.is_hindered or run.is_of_table:
            try:
                outcome = facts.checked(facts.outcome(plan))
            except CompactionNotDoneError as error:
                run.fail(facts.where.name, error)
            else:
                run.outcomes.append((str(facts.table.ref), outcome))


def _due(client: MetastorePort, facts: CompactionFacts) -> DueCompaction | NoCompaction:
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
    remainder: list[DueCompaction] = []
    left_bytes = max_bytes
    for due in run.due:
        if chosen and due.outcome.bytes_in > left_bytes:
            run.outcomes.append((due.table, _left(due.outcome, max_bytes)))
            remainder.append(due)
            continue
        chosen.append(due)
        left_bytes -= due.outcome.bytes_in
    _warn_of_left([due for due in remainder if due.is_overdue], f"max_bytes={max_bytes} is used up")
    large = [due for due in remainder if due.outcome.bytes_in > max_bytes and not due.is_overdue]
    _warn_of_left(
        large,
        f"each of them reads more than max_bytes={max_bytes}. Such a partition is compacted only if"
        f" it comes first, at the latest when its oldest delta is {age_text(OVERDUE_S)} old",
    )
    return chosen


def _warn_of_left(left: Sequence[DueCompaction], why: str) -> None:
    if not left:
        return
    texts = [
        f"{due.facts.where.name} ({due.outcome.bytes_in} bytes, oldest delta"
        f" {age_text(due.oldest_delta_s)} old)"
        for due in left
    ]
    log.warning(
        "%s left although due: %s, because %s",
        several(len(left), "partition"),
        first_few(texts),
        why,
    )


def _left(outcome: CompactionOutcome, max_bytes: int) -> CompactionOutcome:
    if outcome.bytes_in > max_bytes:
        reason = (
            f"left, because it reads {outcome.bytes_in} bytes, more than max_bytes={max_bytes}."
            " Raise max_bytes, or compact the partition with HiveAcidCompactOperator"
        )
    else:
        reason = f"left for a later job, because max_bytes={max_bytes} is used up"
    return replace(outcome, why=f"{outcome.why}; {reason}")
