"""The compaction job: the partitions of all its tables, in the order of the plan.

Partitions are compacted in parallel, each with its own transaction and connection. One that cannot
be compacted does not stop the others; the job fails at its end. No partition starts after the
window.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_hiveacid.format.errors import (
    CompactionNotDoneError,
    HiveAcidError,
    JobFailedError,
    TaskKilledError,
    typed,
)
from airflow_hiveacid.format.table import TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
from airflow_hiveacid.maintenance.compaction_planner import Due, TablesPlan, Window, plan_tables
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.plain.files import check_files_writable
from airflow_hiveacid.storage.stores.conversion_note import unfinished_conversion
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable
from airflow_hiveacid.writing.compaction import CompactionEngine, Compactor
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.publish import SharedNotes

log = logging.getLogger("hiveacid")

_LOOK_EVERY_S: Final = 0.5


def planned_tables(job: WritingJob) -> TablesPlan:
    """Plan the compaction of the partitions of matching tables that need it."""
    spec = job.job_of(CompactSpec)
    return TablesPlan.ended(spec) if Window.of(spec).is_over else plan_tables(job.client, spec)


def compact_tables(job: WritingJob, engine: CompactionEngine, run: TablesPlan) -> JobResult:
    """Compact the partitions that are due in a plan, or only report them if the job only plans."""
    if run.spec.plan_only:
        run.report_due()
    elif run.due:
        _compact(job, engine, run, Window.of(run.spec))
    run.check(run.done)
    return run.result(job.spec)


def _notes_of_writable(job: WritingJob, run: TablesPlan) -> dict[TableRef, SharedNotes]:
    """Return the notes of the tables with due partitions that can be written; the others fail."""
    notes: dict[TableRef, SharedNotes] = {}
    for table in {facts.table.ref: facts.table for facts, _ in run.due}.values():
        try:
            check_files_writable(table)
            check_publishable(table.ref, table.location)
            check_writable(table.location)
            _check_converted(table, run.spec)
            job.policy_of(table)
            notes[table.ref] = SharedNotes.of(table)
        except Exception as error:  # one table must not stop the others
            if not isinstance(error, HiveAcidError):
                log.exception("%s cannot be compacted", table.ref)
            run.fail(str(table.ref), typed(error))
    return notes


def _check_converted(table: TableInfo, spec: CompactSpec) -> None:
    """Raise CompactionNotDoneError if an unfinished conversion has moved files of the table.

    A compaction could hide these files, or copy their rows, and prevent their recovery.
    """
    if table.kind is TransactionalKind.INSERT_ONLY and (why := unfinished_conversion(table)):
        raise CompactionNotDoneError(table=table.ref, partition="", kind=spec.choice.value, why=why)


def _compact(job: WritingJob, engine: CompactionEngine, run: TablesPlan, window: Window) -> None:
    notes = _notes_of_writable(job, run)

    def compact(client: MetastorePort, due: Due) -> CompactionOutcome | None:
        """Compact a partition; return None if it is left, because the window has ended."""
        if window.is_over:
            return None
        facts, _ = due
        try:
            shared = notes[facts.table.ref]
            return Compactor(
                job=job, engine=engine, client=client, facts=facts, shared=shared, window=window
            ).compact()
        except JobFailedError as error:
            if isinstance(error, TaskKilledError) or not window.is_stopped:
                raise
            log.info("%s: stopped at the end of the window: %s", facts.where.name, error)
            return None

    with _stopping(engine, window):
        results = run.each(
            job.client,
            [due for due in run.due if due[0].table.ref in notes],
            compact,
            where=lambda due: due[0].where,
            at_once=engine.at_once,
        )
    remainder = []
    for due, outcome in results:
        if outcome is None:
            remainder.append(due)
            continue
        facts, _ = due
        log.info("%s: %s", facts.where.name, outcome.text)
        run.add(facts, outcome)
    run.leave(remainder)


@contextmanager
def _stopping(engine: CompactionEngine, window: Window) -> Iterator[None]:
    """Cancel the engine's tasks during a block, again and again, once the window stops them."""
    end = threading.Event()

    def watch() -> None:
        while not end.wait(_LOOK_EVERY_S):
            if window.is_stopped:
                engine.stop()

    watcher = threading.Thread(target=watch, name="window", daemon=True)
    if window.stops:
        watcher.start()
    try:
        yield
    finally:
        end.set()
        if window.stops:
            watcher.join()
