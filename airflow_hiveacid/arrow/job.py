"""A job of statements, or a restore, run in this process with the steps of `writing`.

A restore reads and compares the row IDs of both states in memory; insert-only files are copied.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.arrow import TASK_LIMITS, Limits
from airflow_hiveacid.arrow.search import EventMaker, FileRows, Search
from airflow_hiveacid.arrow.statements import ArrowStatement, planned
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import SparkNeededError
from airflow_hiveacid.format.table import FileFormat, TableInfo, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.statements import simple
from airflow_hiveacid.plan.transactions import check_order, numbered
from airflow_hiveacid.reading.table_view import TableView, Touched, view_of
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.past import past_of
from airflow_hiveacid.writing.event_files import WritePlan, staged_files, write_here
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.loading import FileToCopy, copied_here
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.restarts import SEVERAL, why_not_kept
from airflow_hiveacid.writing.restoring import Comparison, PlainComparison, Restoring
from airflow_hiveacid.writing.runs import Run, StatementWork
from airflow_hiveacid.writing.write import Write

_EVERY_ROW: Final = Search(reach=None, columns=(), pick=None)
_ROW_BYTES: Final = 256
"""The memory for one row of each state while they are sorted and compared, rounded up."""

Marked = tuple[FileRows, np.ndarray]
"""Live rows of a file, and which of them only this state has."""


def restore(
    job: WritingJob, limits: Limits, run: Callable[[ArrowStatement], JobResult]
) -> JobResult:
    """Restore a version's rows with `run`, or only plan it; see `Restoring.result`."""

    def compare(now: TableView, then: TableView) -> Comparison[TableView]:
        if now.table.kind is TransactionalKind.INSERT_ONLY:
            return _FileComparison(now=now, then=then, limits=limits)
        return _RowComparison(now=now, then=then, limits=limits)

    restoring = Restoring[TableView].of(job, compare)
    table = restoring.table
    if table.constraints.checks or table.constraints.not_null:
        raise SparkNeededError(reason="the table has CHECK or NOT NULL constraints")
    change = ArrowStatement(
        spec=job.spec.job,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        make_files=restoring.stage,
        partitions=restoring.touched,
        empties=lambda _names: (),
        details=restoring.details,
    )
    return restoring.result(
        lambda: run(change),
        lambda snapshot, past: view_of(job.client, table, snapshot, past=past),
    )


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class _RowComparison(Comparison[TableView]):
    """A comparison of rows by row ID; writes and compactions do not change a row's ID."""

    limits: Limits

    def outcomes(self) -> tuple[RestoredPartition, ...]:
        now, then = self._marked
        go, come, all_now = (
            _by_partition(len(self.partitions), counts)
            for counts in (
                ((rows, int(mask.sum())) for rows, mask in now),
                ((rows, int(mask.sum())) for rows, mask in then),
                ((rows, len(mask)) for rows, mask in now),
            )
        )
        return tuple(
            RestoredPartition.of(
                come=come[index],
                go=go[index],
                stay=all_now[index] - go[index],
                is_plain=False,
                partition=str(info.name),
            )
            for index, info in enumerate(self.partitions)
        )

    def files(
        self, plan: WritePlan, delta: WritePlan, outcomes: Sequence[RestoredPartition]
    ) -> tuple[StagedFile, ...]:
        events = EventMaker(self.table, self.table.columns[:1])  # the writer fetches all values
        deltas: list[pa.RecordBatch] = []
        bases: list[pa.RecordBatch] = []
        now, then = self._marked
        for rows, mask in now:
            if outcomes[rows.file.partition].how is Way.DELTA and mask.any():
                deltas.append(events.deletes(self.now, _only(rows, mask)))
        for rows, mask in then:
            how = outcomes[rows.file.partition].how
            if how is Way.DELTA and mask.any():
                deltas.append(events.updates(self.then, _only(rows, mask), {}))
            elif how is Way.BASE:
                bases.append(events.updates(self.then, rows, {}))
        self.limits.check_changes(sum(batch.num_rows for batch in (*deltas, *bases)))
        old_files = {file.number: file.data for file in self.then.files}
        files = [
            file
            for own, batches in ((delta, deltas), (plan, bases))
            for fetching in [dataclasses.replace(own, given=(frozenset(),), old_files=old_files)]
            for file in staged_files(fetching, write_here(fetching, batches))
        ]
        # The writers count an insert event with an old row as an update. But these are inserts.
        return tuple(dataclasses.replace(file, updated=0) for file in files)

    @cached_property
    def _marked(self) -> tuple[list[Marked], list[Marked]]:
        """The rows of both states; raise SparkNeededError if several have one row ID."""
        row_limit = min(self.limits.rows, self.limits.memory_bytes // _ROW_BYTES)
        limits = dataclasses.replace(self.limits, rows=row_limit, changed_rows=row_limit)
        now, then = (_EVERY_ROW.find(view, limits) for view in (self.now, self.then))
        file_rows = [*now, *then]
        if not file_rows:
            return [], []
        sizes = [rows.rows.num_rows for rows in file_rows]
        state = np.repeat([number >= len(now) for number in range(len(file_rows))], sizes)
        keys = [
            np.repeat([rows.file.partition for rows in file_rows], sizes),
            *(
                np.concatenate([rows.rows.column(name).to_numpy() for rows in file_rows])
                for name in IDENTITY_COLUMNS
            ),
        ]
        # In order of partition, row ID and state, a row that both states have is two neighbours.
        order = np.lexsort((state, *keys[::-1]))
        is_same = np.ones(len(order) - 1, dtype=bool)
        for key in keys:
            is_same &= key[order[1:]] == key[order[:-1]]
        if (is_same & (state[order[1:]] == state[order[:-1]])).any():
            raise SparkNeededError(reason="several of its rows have the same row ID")
        is_alone = np.ones(len(order), dtype=bool)
        is_alone[order[1:][is_same]] = is_alone[order[:-1][is_same]] = False
        masks = np.split(is_alone, np.cumsum(sizes)[:-1])
        marked = list(zip(file_rows, masks, strict=True))
        return marked[: len(now)], marked[len(now) :]


@dataclass(frozen=True, kw_only=True)
class _FileComparison(PlainComparison[TableView]):
    """A comparison for rows without row IDs, whose files state their number of rows."""

    limits: Limits

    def rows_by_file(self, view: TableView) -> Mapping[int, int]:
        files = [(number, file) for number, file in view.plain_files if file.length]
        if any(file.format is FileFormat.TEXT for _, file in files):
            raise SparkNeededError(reason="text files do not state their number of rows")
        # Each block of an Avro file states its own rows, so counting reads whole files.
        in_blocks = (file.length for _, file in files if file.format is FileFormat.AVRO)
        self.limits.check_files(sum(in_blocks))
        counts = each_in_threads(
            lambda pair: rows_of(pair[1].format)(pair[1].fs, pair[1].path, pair[1].length), files
        )
        return {number: rows for (number, _), rows in zip(files, counts, strict=True) if rows}

    def check(self, past: TableView) -> None:
        """Do nothing, because the table has no constraints."""

    def copied(self, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
        self.limits.check_files(sum(copy.source.length for copy in copies))
        return copied_here(copies)


def _only(rows: FileRows, mask: np.ndarray) -> FileRows:
    return dataclasses.replace(rows, rows=rows.rows.filter(pa.array(mask)))


def _by_partition(partitions: int, counts: Iterable[tuple[FileRows, int]]) -> list[int]:
    totals = [0] * partitions
    for rows, count in counts:
        totals[rows.file.partition] += count
    return totals


log = logging.getLogger("hiveacid")


def run_in_process(job: WritingJob, limits: Limits = TASK_LIMITS) -> JobResult:
    """Run a job's statements or restore in this process, as one transaction; see `Run.result`."""
    return prepared_job(job, limits)()


def prepared_job(job: WritingJob, limits: Limits = TASK_LIMITS) -> Callable[[], JobResult]:
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
    job: WritingJob, changes: Sequence[ArrowStatement], limits: Limits = TASK_LIMITS
) -> JobResult:
    """Run planned statements in this process, as one transaction; see `Run.result`."""
    check_order([change.step for change in changes])
    first = changes[0]
    # Why a restart cannot use the staged files, or None.
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
