"""The statements of a transaction, run in order; each sees the changes of earlier statements.

A later statement reads the staged files of earlier statements as if they were committed. All
statements see the changes of other transactions that the snapshot includes.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.statements import MultiInsertSpec, Parameter, SourceSpec
from airflow_hiveacid.plan.statements.dml import tables_of
from airflow_hiveacid.plan.transactions import numbered
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import collected, run_tasks, task_of
from airflow_hiveacid.spark.reading.events import Events
from airflow_hiveacid.spark.reading.source import show
from airflow_hiveacid.spark.reading.target import Target, empty_target, resolve_target
from airflow_hiveacid.spark.writing.flat_files import can_write_flat, write_flat
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.versions.past import past_of
from airflow_hiveacid.writing import event_files
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.restarts import SEVERAL, why_not_kept
from airflow_hiveacid.writing.runs import PlannedStatement, Run, StatementWork
from airflow_hiveacid.writing.write import Write

if TYPE_CHECKING:  # executors, which import this module, have no library of the metastore
    from airflow_hiveacid.spark.writing.context import JobContext

log = logging.getLogger("hiveacid")

_SIZES: Final = "path string, size_bytes long"
_NOW: Final[Mapping[str, str]] = {}

MakeEvents = Callable[[Target, Callable[[], DataFrame]], Events]
"""A function that makes events from a target, and from a function that reads the source."""

TargetAsOf = Callable[[VersionSpec], Target]
"""A function that returns the target as of a version, under the transaction's snapshot."""

MakeFiles = Callable[[event_files.WritePlan, Target, TargetAsOf], tuple[StagedFile, ...]]
"""A function that stages files, from the write plan, the target, and the target's `TargetAsOf`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStatement(PlannedStatement):
    """A statement that was checked against its tables and is ready to run.

    `make_events` turns the target and the source into events; None means no events. The target has
    its files as the statement sees them. `make_files` stages files without events.

    `shape` is the frame with which the source was checked. If `source` is not given, `shape` is the
    source itself. `tables` are the tables for queries within the statement's expressions, by view
    name. `common` contains inputs that several statements share. All these statements see the
    tables as the first statement does.
    """

    make_events: MakeEvents | None
    source: SourceSpec | None = None
    shape: DataFrame | None = None
    common: Common | None = None
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    make_files: MakeFiles | None = None

    @property
    def together(self) -> int | None:
        """The position of the multi-insert that contains the statement, or None."""
        return None if self.common is None else self.common.number


@contextmanager
def naming(number: int, count: int) -> Iterator[None]:
    """Add the 1-based number to a typed error if there are several statements."""
    with numbered(number, count), typed_failures():
        yield


class TransactionWork(StatementWork[CheckedStatement, Target]):
    """The statements that run in one write. Mutable: it keeps inputs that statements share."""

    _job: JobContext

    def __init__(self, job: JobContext, write: Write) -> None:
        super().__init__(job, write)
        self._common: tuple[Common, dict[str, DataFrame]] | None = None

    def target(
        self,
        table: TableInfo,
        touched: Touched | None = None,
        version: VersionSpec | None = None,
    ) -> Target:
        """Return a table as the next statement sees it, or as of a version."""
        if version is not None and not version.is_now:
            job, txn = self._job, self._write.txn
            past = past_of(job.client, table, version, txn.snapshot, taken_s=txn.seen_after_s)
            return resolve_target(job.spark, job.client, table, txn.snapshot, touched, past=past)
        part = self._write.tables.get(table.ref)
        return resolve_target(
            self._job.spark,
            self._job.client,
            table,
            self._write.txn.snapshot,
            touched,
            staged=None if part is None else part.staged,
        )

    def view(self, table: TableInfo, touched: Touched) -> Target:
        """Return a table as the next statement sees it."""
        return self.target(table, touched)

    def files(
        self, change: CheckedStatement, plan: event_files.WritePlan, view: Target, touched: Touched
    ) -> tuple[StagedFile, ...]:
        """Stage the files of a statement that sees `view`."""
        show(self._frames(self._job.tables(change.tables)))
        files: tuple[StagedFile, ...] = ()
        if change.make_events is not None:
            files = written_files(plan, change.make_events(view, partial(self._source, change)))
        if change.make_files is not None:
            files = change.make_files(plan, view, partial(self.target, change.table, touched))
        return files

    def copied(self, sizes: Mapping[Reissue, int]) -> Mapping[str, int]:
        """Copy many files (`CopyMany`), in tasks."""
        with typed_failures():
            frame = run_tasks(
                self._job.spark, _reissue_task, list(sizes), _SIZES, work=sizes.__getitem__
            )
            return {row.path: row.size_bytes for row in frame.collect()}

    def _source(self, change: CheckedStatement) -> DataFrame:
        """Return the source: ACID tables are read now, others are the frame that was checked."""
        if change.common is not None and change.source is not None:
            frames = self._common_frames(change.common)
            return self._job.load(change.source, frames)
        tables = self._job.source_tables(change.source)
        if not tables and change.shape is not None:
            return change.shape
        if change.source is None:
            raise TypeError("this statement has no source")
        frames = self._frames(tables, change.source.versions)
        return self._job.load(change.source, frames)

    def _common_frames(self, common: Common) -> dict[str, DataFrame]:
        if self._common is None or self._common[0] is not common:
            tables = self._frames(self._job.tables(common.tables), common.versions)
            self._common = (common, common_frames(self._job, common, tables))
        return self._common[1]

    def _frames(
        self, tables: Mapping[str, TableInfo], versions: Mapping[str, str] = _NOW
    ) -> dict[str, DataFrame]:
        """Return frames by view name, as the next statement sees the tables and their versions."""
        return {
            view: self.target(
                table, version=VersionSpec.parse(versions[view]) if view in versions else None
            ).rows()
            for view, table in tables.items()
        }


def _reissue_task(work: Reissue) -> Iterator[pa.RecordBatch]:
    size = reissue(work)
    columns = {"path": pa.array([work.target]), "size_bytes": pa.array([size], pa.int64())}
    yield pa.RecordBatch.from_pydict(columns)


def written_files(plan: event_files.WritePlan, events: Events) -> tuple[StagedFile, ...]:
    """Write the events and return the files that the driver accepted."""
    plan = dataclasses.replace(plan, given=events.given, old_files=events.old_files)
    written = _written_flat(plan, events.flat)
    if written is None and events.few is not None:
        with typed_failures():
            written = event_files.write_here(plan, collected(events.few))
    if written is None:
        write = task_of(partial(event_files.write_events, plan=plan))
        frame = events.frame().mapInArrow(write, event_files.WRITTEN_SCHEMA)
        written = [event_files.Written.of(row) for row in frame.collect()]
    log.info("staged files=%d table=%s", len(written), plan.table.ref)
    return event_files.staged_files(plan, written)


def _written_flat(
    plan: event_files.WritePlan, rows: DataFrame | None
) -> list[event_files.Written] | None:
    if rows is None or not can_write_flat(plan):
        return None
    try:
        return write_flat(plan, rows)
    except UnsupportedFileError as error:
        log.info("writing rows with our writer instead of Spark's: %s", error)
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Common:
    """The inputs that the INSERTs of one FROM clause share: tables, queries by view name, the time.

    In Hive, these INSERTs are one statement, and each sees the tables as they were before it. A
    shared query returns the same rows to all of them, even with `rand()`, so its rows are kept
    (`localCheckpoint`). Shared tables are read again, as the files of a snapshot do not change.

    `number` is the position of the FROM clause among the statements of the transaction. `versions`
    contains the versions of tables that are read as of an earlier version.
    """

    tables: Mapping[str, str]
    queries: Mapping[str, str]
    moment: Moment
    number: int
    versions: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def common_of(job: JobContext, spec: MultiInsertSpec, number: int) -> Common:
    """Return the checked inputs that INSERTs share, and register their views for queries."""
    common = Common(
        tables=spec.tables,
        queries=spec.shared,
        moment=Moment.now(job.spark, job.text_terms({})),
        number=number,
        versions=spec.versions,
        parameters=spec.parameters,
    )
    shapes = {view: empty_target(job.spark, t) for view, t in job.tables(common.tables).items()}
    for view, query in common.queries.items():
        show({view: _shared_rows(job, common, query, shapes)})
    return common


def common_frames(
    job: JobContext, common: Common, tables: Mapping[str, DataFrame]
) -> dict[str, DataFrame]:
    """Run the shared queries; return a dict from view name to rows, for all shared inputs."""
    frames = dict(tables)
    for view, query in common.queries.items():
        rows = _shared_rows(job, common, query, frames)
        frames[view] = common.moment.fixed_in(rows).localCheckpoint()
    return frames


def _shared_rows(
    job: JobContext, common: Common, query: str, frames: Mapping[str, DataFrame]
) -> DataFrame:
    return job.load(SourceSpec(tables={}, query=query, parameters=common.parameters), frames)


def run_changes(job: JobContext, changes: Sequence[CheckedStatement]) -> JobResult:
    """Run one or more statements, in order, as one transaction; see `Run.result`."""
    return Run(
        job=job,
        changes=changes,
        work_of=partial(TransactionWork, job),
        not_kept=_why_not_kept(changes),
        sources=partial(_tables_read, job, changes),
        naming=naming,
    ).result()


def _why_not_kept(changes: Sequence[CheckedStatement]) -> str | None:
    """Return why a restart cannot use staged files of these statements; None if it can."""
    if len(changes) != 1:
        return SEVERAL
    change = changes[0]
    return why_not_kept(
        change.table,
        change.operations,
        reads_tables=bool(change.tables or tables_of(change.source)),
        copies_files=change.make_files is not None,
    )


def _tables_read(job: JobContext, changes: Sequence[CheckedStatement]) -> list[TableInfo]:
    return [
        table
        for change in changes
        for tables in (job.source_tables(change.source), job.tables(change.tables))
        for table in tables.values()
    ]
