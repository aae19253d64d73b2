"""A job of simple statements, run in this process with the steps of `writing`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import partial

from airflow_hiveacid.arrow.limits import DEFAULT_LIMITS, Limits
from airflow_hiveacid.arrow.restore import restore
from airflow_hiveacid.arrow.statements import ArrowStatement, planned
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs import statements
from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec
from airflow_hiveacid.plan.statements import simple
from airflow_hiveacid.plan.transactions import check_order, numbered
from airflow_hiveacid.reading.access import Touched
from airflow_hiveacid.reading.table_view import TableView, view_of
from airflow_hiveacid.versions.past import past_of
from airflow_hiveacid.writing.event_files import WritePlan, staged_files, write_here
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.runs import Run, StatementWork
from airflow_hiveacid.writing.second_try import SEVERAL, why_not_kept
from airflow_hiveacid.writing.write import Write

log = logging.getLogger("hiveacid")


def run_in_process(job: WritingJob, limits: Limits = DEFAULT_LIMITS) -> JobResult:
    """Run a job's statements or restore in this process, as one transaction; see `Run.result`."""
    return prepared_job(job, limits)()


def prepared_job(job: WritingJob, limits: Limits = DEFAULT_LIMITS) -> Callable[[], JobResult]:
    """Check a job's statements against their tables; return the function that runs the job."""
    if isinstance(job.spec.job, RestoreSpec):
        return partial(restore, job, limits, lambda one: run_statements(job, [one], limits))
    specs = simple.simple_specs(job.spec.job)
    changes: list[ArrowStatement] = []
    for number, spec in enumerate(specs, start=1):
        with numbered(number, len(specs)):
            statement = simple.simple_statement(spec, _table(job, spec))
            changes.append(planned(spec, statement, job.client, limits))
    return partial(run_statements, job, changes, limits)


def run_statements(
    job: WritingJob, changes: Sequence[ArrowStatement], limits: Limits = DEFAULT_LIMITS
) -> JobResult:
    """Run planned statements in this process, as one transaction; see `Run.result`."""
    check_order([change.step for change in changes])
    first = changes[0]
    not_kept = (
        SEVERAL
        if len(changes) > 1
        else why_not_kept(
            first.table,
            first.operations,
            reads_tables=False,
            copies_files=first.make_files is not None,
        )
    )
    return Run(
        job=job, changes=changes, work_of=partial(ArrowWork, job, limits), not_kept=not_kept
    ).result()


def _table(job: WritingJob, spec: simple.SimpleSpec) -> TableInfo:
    match spec:
        case statements.InsertSpec():
            return job.with_constraints(job.insertable_table(spec.target))
        case statements.TruncateSpec() | statements.LoadSpec():
            return job.insertable_table(spec.target)
        case statements.UpdateSpec():
            return job.with_constraints(job.changeable_table(spec.target, "UPDATE"))
        case statements.DeleteSpec():
            return job.changeable_table(spec.target, "DELETE")
        case statements.MergeSpec():
            return job.with_constraints(job.changeable_table(spec.target, "MERGE"))


class ArrowWork(StatementWork[ArrowStatement, TableView]):
    """The work of this engine in one write. Mutable, as `StatementWork`."""

    def __init__(self, job: WritingJob, limits: Limits, write: Write) -> None:
        super().__init__(job, write)
        self._limits = limits

    def view(self, table: TableInfo, touched: Touched) -> TableView:
        """Return a table as the next statement sees it."""
        part = self._write.tables[table.ref]
        snapshot = self._write.txn.snapshot
        return view_of(self._job.client, table, snapshot, touched, staged=part.staged)

    def files(
        self,
        change: ArrowStatement,
        plan: WritePlan,
        view: TableView,
        touched: Touched,
    ) -> tuple[StagedFile, ...]:
        """Stage the files of a statement that sees `view`."""
        if change.make_files is not None:
            return change.make_files(plan, view, partial(self._as_of, change.table, touched))
        if change.make_events is None:
            return ()
        events = change.make_events(view, self._limits)
        every = frozenset(column.name for column in plan.columns)
        assigned = every if events.assigned is None else events.assigned
        old_files = {}
        if events.updated and not every <= assigned:  # else, no file need be listed
            old_files = {f.number: f.data for f in view.files if f.number in events.updated}
        plan = dataclasses.replace(plan, given=(assigned, every), old_files=old_files)
        files = staged_files(plan, write_here(plan, events.batches))
        log.info("staged files=%d table=%s", len(files), plan.table.ref)
        return files

    def _as_of(self, table: TableInfo, touched: Touched, version: VersionSpec) -> TableView:
        client, txn = self._job.client, self._write.txn
        past = past_of(client, table, version, txn.snapshot, taken_s=txn.seen_after_s)
        return view_of(client, table, txn.snapshot, touched, past=past)
