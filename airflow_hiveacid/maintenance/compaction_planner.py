"""The plan of a compaction, without Spark: which partitions are due, and in which order.

Tables and partitions are planned in parallel. A table or partition that cannot be planned does not
stop the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.conflicts import chosen_policy
from airflow_hiveacid.format.errors import CompactionNotDoneError, ConfigurationError, typed
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.format.words import age_text, first_few, several
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.jobs.maintenance import AtEnd, CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.compaction_facts import (
    NOTHING,
    OVERDUE_S,
    CompactionFacts,
    CompactionOutcome,
    Requests,
    check_can_serve,
    read_facts,
    thresholds_of,
    why_switched_off,
)
from airflow_hiveacid.maintenance.health import PlannedPart, PlanNotes
from airflow_hiveacid.maintenance.many_tables import TablesRun, grouped, matching_tables
from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction, in_queue
from airflow_hiveacid.metastore.listed_tables import matches, partitions_of
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries, end_entry
from airflow_hiveacid.plan.compaction import CompactionPlan
from airflow_hiveacid.plan.statements.dml import check_insertable
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.storage.plain.files import check_files_writable
from airflow_hiveacid.storage.stores.locations import open_location

Due = tuple[CompactionFacts, CompactionOutcome]
"""A partition that is due, and its planned outcome."""

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


@dataclass(slots=True, kw_only=True)
class TablesPlan(TablesRun):
    """The plan of one job, and what came of it. Mutable.

    `due` are the partitions to compact, in the order of the work, each with its planned outcome,
    which does not keep the plan's list of files in memory. `outcomes` are those of partitions that
    were compacted, planned or left, by table; if the job is of one table, also of those that are
    not due. `parts` are the parts of tables that are about to be planned. `window_ended` is True if
    the job has left partitions because its window has ended.
    """

    spec: CompactSpec
    due: list[Due] = field(default_factory=list)
    outcomes: list[tuple[str, CompactionOutcome]] = field(default_factory=list)
    table: TableInfo | None = None
    window_ended: bool = False
    parts: dict[TableRef, tuple[PlanNotes, PlannedPart]] = field(default_factory=dict)

    @classmethod
    def ended(cls, spec: CompactSpec) -> Self:
        """Return the plan of a job whose window has ended before it began."""
        log.info("the window has ended, so this job does nothing")
        return cls(spec=spec, window_ended=True)

    def add(self, facts: CompactionFacts, outcome: CompactionOutcome) -> None:
        """Add the outcome of a partition."""
        self.outcomes.append((str(facts.table.ref), outcome))

    def report_due(self) -> None:
        """Add the partitions that are due to the outcomes, because the job only plans."""
        for facts, outcome in self.due:
            self.add(facts, outcome)

    def leave(self, left: Sequence[Due]) -> None:
        """Leave partitions for a later job, because the window has ended."""
        for facts, outcome in left:
            self.window_ended = True
            why = f"{outcome.why}; left for a later job, because the window has ended"
            self.add(facts, replace(outcome, why=why))
        _warn_of_left([due for due in left if due[1].is_overdue], "the window has ended")

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

    def result(self, job: JobSpec) -> JobResult:
        """Return the result of the compaction, or of its plan."""
        compacted = [outcome for _, outcome in self.outcomes if outcome.done]
        details: dict[str, JsonValue]
        if self.table is not None:
            parameters, default = self.table.parameters, job.default_conflict_policy
            policy = chosen_policy(job.conflict_policy, parameters, default, table=self.table.ref)
            details = {
                "compactions": [to_json(outcome) for outcome in self.of_table],
                "conflict_policy": policy.value,
            }
        else:
            details = {
                "compactions": [
                    {"table": table, **_record(outcome)} for table, outcome in self.outcomes
                ],
                "window_ended": self.window_ended,
                **self.details(),
            }
        of_table = self.of_table if self.is_of_table else []
        return JobResult(
            kind=job.kind,
            job_key=job.job_key,
            status=self.status(is_done=bool(compacted)),
            table=self.spec.target,
            txn_id=compacted[0].txn_id if of_table and len(compacted) == 1 else None,
            partitions=tuple(o.partition for o in of_table if o.done and o.partition),
            files=sum(outcome.files for outcome in compacted),
            size_bytes=sum(outcome.bytes_out for outcome in compacted),
            details=details,
        )


def _record(outcome: CompactionOutcome) -> dict[str, JsonValue]:
    record = to_json(outcome)
    if not isinstance(record, dict):
        raise TypeError("an outcome is an object")
    return record


def plan_tables(client: MetastorePort, spec: CompactSpec) -> TablesPlan:
    """Plan the compaction of all transactional tables with matching names, or of one partition.

    Unless the spec is `plan_only`, also end the queue entries of dead workers. The partitions with
    the highest score come first, after those that are overdue (`CompactionOutcome.rank`); if the
    job serves the queue, those with the oldest requests.
    """
    run = TablesPlan(spec=spec)
    for group in grouped(_tables(client, run)):
        _plan(client, _facts(client, group, run), run)
    if spec.choice is CompactionChoice.QUEUED:
        run.due.sort(key=lambda due: due[0].entry_id)
    else:
        run.due.sort(key=lambda due: due[1].rank, reverse=True)
    log.info(
        "%d of %d partitions in %d tables need compaction", len(run.due), run.partitions, run.tables
    )
    if spec.max_bytes is not None:
        run.due = _within(run, spec.max_bytes)
    return run


def _tables(client: MetastorePort, run: TablesPlan) -> list[TableInfo]:
    """Return the tables that can be compacted, and those with automatic compaction switched off.

    If a job of many tables serves the queue, return only tables with entries to serve or to end.
    """
    only = _queued_tables(client, run) if _is_by_queue(run.spec) else None
    # If the only table needs no compaction, it does not matter whether its files can be written.
    check = check_insertable if run.is_of_table else _check_compactable
    tables = []
    for table in matching_tables(client, check, run, only=only):
        try:
            why_not = why_switched_off(table, run.spec)
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
            outcome = CompactionOutcome(partition="", done=False, kind=NOTHING, why=why_not)
            run.outcomes.append((str(table.ref), outcome))
    return tables


def _is_by_queue(spec: CompactSpec) -> bool:
    """Return True if the queue names the partitions; one table reports each of its partitions."""
    return spec.choice is CompactionChoice.QUEUED and not spec.is_of_table


def _queued_tables(client: MetastorePort, run: TablesPlan) -> set[TableRef]:
    """Return the tables with a waiting request or an unfinished entry of ours; skip rebalances."""
    spec = run.spec
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
    with suppress(ConfigurationError):  # a package is missing here, which a driver may have
        check_files_writable(table)


def _facts(
    client: MetastorePort, tables: Sequence[TableInfo], run: TablesPlan
) -> list[CompactionFacts]:
    """Return the facts of the tables' partitions, except if their compaction is switched off."""
    spec = run.spec

    def prepared(own: MetastorePort, table: TableInfo) -> list[CompactionFacts]:
        if str(table.ref) in run.skipped:
            if spec.partition is not None:
                partitions_of(own, table, spec.partition)  # a missing one is an error all the same
            if not spec.plan_only:
                end_dead_entries(own, table.ref)
            return []
        # If the store's client is missing, fail once, and not once for each partition.
        open_location(table.location)
        if _is_by_queue(spec):
            find = partial(_requested, own, spec, table)
            return read_facts(own, table, spec, find, run.neighbours)
        return read_facts(own, table, spec, _to_plan(own, table, run), run.neighbours)

    by_table = run.each_table(client, tables, prepared)
    return [facts for of_table in by_table for facts in of_table]


def _to_plan(
    client: MetastorePort, table: TableInfo, run: TablesPlan
) -> Callable[[Requests], Sequence[PartitionInfo]]:
    """Return a function that finds the partitions that may be due (`maintenance.health`).

    Without notes, they are found now, so that a missing one is an error before anything is written.
    """
    notes = PlanNotes.for_job(table, run.spec, thresholds_of(table, run.spec))
    if notes is None:
        partitions = partitions_of(client, table, run.spec.partition)
        return lambda _: partitions

    def find(requests: Requests) -> Sequence[PartitionInfo]:
        part = notes.part(client, [str(name) for name in requests if name is not None])
        run.parts[table.ref] = notes, part
        return part.partitions

    return find


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
    """Plan partitions; note, for the next job, the `others`: those not below the thresholds."""
    run.partitions += len(partitions) + sum(part.below for _, part in run.parts.values())
    others = {(facts.table.ref, str(facts.name)) for facts in partitions}
    for facts, outcome in run.each(client, partitions, _planned, where=lambda facts: facts.where):
        if outcome.kind != NOTHING:
            run.due.append((facts, outcome))
        elif outcome.is_hindered or run.is_of_table:
            try:
                run.add(facts, facts.checked(outcome))
            except CompactionNotDoneError as error:
                run.fail(facts.where.name, error)
        if outcome.kind == NOTHING and not outcome.is_hindered:
            others.remove((facts.table.ref, str(facts.name)))
    known = {facts.table.ref: facts.known for facts in partitions if not run.spec.plan_only}
    for ref in known.keys() & run.parts.keys():
        notes, part = run.parts[ref]
        notes.note(known[ref], part, [name for table, name in others if table == ref])
    run.parts.clear()


def _planned(client: MetastorePort, facts: CompactionFacts) -> CompactionOutcome:
    plan = facts.plan(client)
    outcome = facts.outcome(plan)
    if not isinstance(plan, CompactionPlan):
        return outcome
    health = TableHealth.of(plan.state, kind=facts.table.kind, now_s=time.time())
    return replace(outcome, score=plan.score, oldest_delta_s=health.oldest_delta_s or 0.0)


def _within(run: TablesPlan, max_bytes: int) -> list[Due]:
    """Return the compactions whose inputs fit into `max_bytes`, and record the others as left.

    The first one is always chosen, because otherwise no job would ever compact a large partition.
    """
    chosen: list[Due] = []
    remainder: list[Due] = []
    left_bytes = max_bytes
    for facts, outcome in run.due:
        if chosen and outcome.bytes_in > left_bytes:
            run.add(facts, _left(outcome, max_bytes))
            remainder.append((facts, outcome))
            continue
        chosen.append((facts, outcome))
        left_bytes -= outcome.bytes_in
    overdue = [due for due in remainder if due[1].is_overdue]
    _warn_of_left(overdue, f"max_bytes={max_bytes} is used up")
    large = [due for due in remainder if due[1].bytes_in > max_bytes and not due[1].is_overdue]
    _warn_of_left(
        large,
        f"each of them reads more than max_bytes={max_bytes}. Such a partition is compacted only if"
        f" it comes first, at the latest when its oldest delta is {age_text(OVERDUE_S)} old",
    )
    return chosen


def _warn_of_left(left: Sequence[Due], why: str) -> None:
    if not left:
        return
    texts = [
        f"{facts.where.name} ({outcome.bytes_in} bytes, oldest delta"
        f" {age_text(outcome.oldest_delta_s)} old)"
        for facts, outcome in left
    ]
    log.warning(
        "did not compact %s, although due: %s; reason: %s",
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
