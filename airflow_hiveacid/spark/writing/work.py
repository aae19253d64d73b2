"""The statements of one transaction, one after another, each on what the earlier ones have left.

Takes an open write and checked statements; has their events made and written to staging, each under
a statement ID of its own. A later statement reads what earlier ones have staged as if it were
committed, and of everybody else what the transaction's one snapshot shows. `finish` publishes all.

Statement IDs grow, since Hive looks for the delete event of a row of the same write ID in later
statements only (VectorizedOrcAcidRowBatchReader).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import HiveAcidError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts, StatementResult
from airflow_hiveacid.plan.statements import check_alike
from airflow_hiveacid.spark.events import Events
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.reading.target import Target, resolve_target
from airflow_hiveacid.spark.store_tokens import with_tokens
from airflow_hiveacid.spark.writing.common import Common, common_frames
from airflow_hiveacid.spark.writing.flat_files import can_write_flat, write_flat
from airflow_hiveacid.spark.writing.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    empty_file,
)
from airflow_hiveacid.spark.writing.small_changes import write_here
from airflow_hiveacid.spark.writing.writers import (
    WRITTEN_SCHEMA,
    WritePlan,
    Written,
    write_events,
    writer_options,
)
from airflow_hiveacid.storage.plain.avro_schema import check_avro_alike
from airflow_hiveacid.storage.plain.text_form import check_text_writable
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.jobs.specs import SourceSpec
    from airflow_hiveacid.spark.writing.context import JobContext
    from airflow_hiveacid.spark.writing.write import Write

log = logging.getLogger("hiveacid")

_NOW: Final[Mapping[str, str]] = {}

MakeEvents = Callable[[Target, Callable[[], DataFrame]], Events]
"""Turns a target and a way to read the source into events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A checked statement.

    `kind` is its name: `insert`, `merge` and so on. `operations` is what it does to the table; they
    decide the lock. `make_events` turns the target (its files as the statement sees them) and the
    source into events; without it there are none. `make_files` stages files in another way than
    from events. `shape` is the frame that the source was checked
    by. `tables` are those that queries within its expressions ask, by their views. `partitions`
    answers the only partitions that it can touch, as they are now, where that is known; `fixed` are
    they if the statement itself names them, whatever there is. `empties` says which of those that
    there are an overwrite replaces, with rows or without; by default those that it can touch. With
    a shape and no source, the shape is the source. `common` is what it has in common with others,
    all of which see the tables as the first of them does.
    """

    kind: str
    table: TableInfo
    operations: frozenset[DataOperation]
    make_events: MakeEvents | None
    source: SourceSpec | None = None
    shape: DataFrame | None = None
    common: Common | None = None
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    partitions: Callable[[], Touched] = Touched
    fixed: tuple[PartitionName, ...] | None = None
    empties: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...]] | None = None
    make_files: Callable[[WritePlan], tuple[StagedFile, ...]] | None = None


@contextmanager
def naming(number: int, count: int) -> Iterator[None]:
    """Say of an error which of several statements it is of; numbers begin with 1.

    A worker's error becomes itself before that (`typed_failures`).
    """
    try:
        with typed_failures():
            yield
    except HiveAcidError as error:
        if count > 1:
            error.add_note(f"in statement {number} of the transaction")
        raise


class Work:
    """The work of one write. Mutable: it counts its statements."""

    def __init__(self, job: JobContext, write: Write) -> None:
        self._job, self._write = job, write
        self._results: list[StatementResult] = []
        self._common: tuple[Common, dict[str, DataFrame]] | None = None

    def target(
        self,
        table: TableInfo,
        touched: Touched | None = None,
        version: VersionSpec | None = None,
    ) -> Target:
        """A table as the next statement sees it, or as of a version.

        Raises:
            HiveAcidError: as `past_of`.
        """
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

    def run(self, change: Change, touched: Touched) -> StatementResult:
        """Have one statement's files written to staging.

        Args:
            change: the statement.
            touched: the only partitions that it can touch; they are locked.

        Raises:
            HiveAcidError: nothing of the transaction will be seen.
        """
        part = self._write.tables[change.table.ref]
        target = self.target(change.table, touched)
        part.check_locations(target.elsewhere.values())
        check_alike(change.table, target.partitions)
        check_avro_alike(change.table, target.partitions)
        check_text_writable(change.table, target.partitions)
        plan = self._plan(change, target)
        show(self._frames(self._job.tables(change.tables)))
        files: tuple[StagedFile, ...] = ()
        if change.make_events is not None:
            files = _written(plan, change.make_events(target, partial(self._source, change)))
        if change.make_files is not None:
            files = change.make_files(plan)
        replaced = touched.names
        if change.empties is not None:
            replaced = change.empties(tuple(p.name for p in target.partitions))
        directories = _assemble(plan, files, replaced)
        self._write.stage(change.table.ref, directories, change.operations)
        result = _result(change, directories)
        self._results.append(result)
        return result

    @property
    def results(self) -> tuple[StatementResult, ...]:
        """What each statement has done so far."""
        return tuple(self._results)

    def take_over(
        self,
        ref: TableRef,
        directories: tuple[StagedDirectory, ...],
        operations: frozenset[DataOperation],
        results: tuple[StatementResult, ...],
    ) -> None:
        """Count as done what an earlier beginning of this job has done, a single statement."""
        self._write.stage(ref, directories, operations)
        size = sum(file.size_bytes for directory in directories for file in directory.files)
        self._results += (dataclasses.replace(result, size_bytes=size) for result in results)

    def finish(self, retried: Mapping[str, JsonValue] | None = None) -> JobResult:
        """Publish what all statements have staged; what is left is to leave the write's block.

        Args:
            retried: what the result says of an earlier beginning that was lost.

        Raises:
            HiveAcidError: see the steps of `Write`.
        """
        self._write.register()
        self._write.verify()
        result = self._result(retried or {})
        self._write.note(result.dump())
        self._write.publish()
        return result

    def _plan(self, change: Change, target: Target) -> WritePlan:
        part, statement = self._write.tables[change.table.ref], StatementId(len(self._results))
        delta = DeltaName(low=part.write_id, high=part.write_id, statement_id=statement)
        overwrite = DataOperation.OVERWRITE in change.operations
        return WritePlan(
            table=target.table,
            write_id=part.write_id,
            statement_id=StatementId(0) if overwrite else statement,
            token=part.token(statement),
            insert_directory=BaseName(write_id=part.write_id) if overwrite else delta,
            delete_directory=dataclasses.replace(delta, is_delete=True),
            options=writer_options(target.table, self._job.client.generation, is_base=overwrite),
            given=(),
            locations=target.elsewhere,
        )

    def _source(self, change: Change) -> DataFrame:
        """Read the source; ACID tables as the statement sees them.

        Others are as they were found when the statement was checked: to list their files and to
        find out their columns once more would cost as much again, and find other files.
        """
        if change.common is not None and change.source is not None:
            frames = self._common_frames(change.common)
            return load_source(self._job.spark, change.source, frames)
        tables = self._job.source_tables(change.source)
        if not tables and change.shape is not None:
            return change.shape
        if change.source is None:
            raise TypeError("this statement has no source")
        frames = self._frames(tables, change.source.versions)
        return load_source(self._job.spark, change.source, frames)

    def _common_frames(self, common: Common) -> dict[str, DataFrame]:
        """What statements with something in common read: made for the first, kept for the others.

        Whatever earlier ones of them stage, files are looked up once.
        """
        if self._common is None or self._common[0] is not common:
            tables = self._frames(self._job.tables(common.tables), common.versions)
            self._common = (common, common_frames(self._job.spark, common, tables))
        return self._common[1]

    def _frames(
        self, tables: Mapping[str, TableInfo], versions: Mapping[str, str] = _NOW
    ) -> dict[str, DataFrame]:
        """Tables beside the target, by their views, as the next statement sees them.

        Args:
            tables: they.
            versions: what of them is read as of an earlier version (`SourceSpec.versions`).
        """
        return {
            view: self.target(
                table, version=VersionSpec.parse(versions[view]) if view in versions else None
            ).rows()
            for view, table in tables.items()
        }

    def _result(self, retried: Mapping[str, JsonValue]) -> JobResult:
        job, txn = self._job, self._write.txn
        results, directories = self._results, self._write.directories
        details: dict[str, JsonValue] = {
            "directories": [d.final_path for d in directories],
            "conflict_policy": {
                str(ref): job.policy_of(part.table).value
                for ref, part in self._write.tables.items()
            },
        }
        if retried:
            details["retried"] = dict(retried)
        one = results[0] if len(results) == 1 else None
        if job.spec.has_statements:
            details["statements"] = [to_json(result) for result in results]
        return JobResult(
            kind=job.spec.kind,
            job_key=job.spec.job_key,
            status=JobStatus.COMMITTED,
            table=", ".join(map(str, self._write.tables)),
            txn_id=txn.txn_id,
            write_ids={str(ref): write_id for ref, write_id in txn.write_ids.items()},
            rows=RowCounts(
                inserted=sum(r.rows.inserted for r in results),
                updated=sum(r.rows.updated for r in results),
                deleted=sum(r.rows.deleted for r in results),
            ),
            partitions=() if one is None else one.partitions,
            files=sum(r.files for r in results),
            size_bytes=sum(r.size_bytes for r in results),
            details=details,
        )


def _written(plan: WritePlan, events: Events) -> tuple[StagedFile, ...]:
    """Have the events written; what comes back names the files that count."""
    plan = dataclasses.replace(plan, given=events.given, old_files=events.old_files)
    written = _written_flat(plan, events.flat)
    if written is None and events.few is not None:
        written = write_here(plan, events.few)
    if written is None:
        write = with_tokens(partial(write_events, plan=plan))
        frame = events.frame().mapInArrow(write, WRITTEN_SCHEMA)
        written = [Written.of(row) for row in frame.collect()]
    log.info("staged files=%d table=%s", len(written), plan.table.ref)
    return tuple(
        StagedFile(
            partition=plan.partition(file.partition),
            directory=file.directory,
            bucket=BucketId(file.bucket),
            attempt=file.attempt,
            rows=file.rows,
            updated=file.updated,
            size_bytes=file.size_bytes,
            kind=plan.table.kind,
        )
        for file in written
    )


def _written_flat(plan: WritePlan, rows: DataFrame | None) -> list[Written] | None:
    """The same by Spark's own writer; None if that cannot store these rows as we would."""
    if rows is None or not can_write_flat(plan):
        return None
    try:
        return write_flat(plan, rows)
    except UnsupportedFileError as error:
        log.info("rows are written one by one: %s", error)
        return None


def _assemble(
    plan: WritePlan,
    files: tuple[StagedFile, ...],
    partitions: tuple[PartitionName, ...] | None,
) -> tuple[StagedDirectory, ...]:
    """Put the files together; an overwrite also replaces what gets no rows."""
    if isinstance(plan.insert_directory, BaseName):
        replaced = partitions if plan.table.is_partitioned else (PartitionName(),)
        for name in set(replaced or ()) - {f.partition for f in files}:
            empty = empty_file(
                plan.table, name, str(plan.insert_directory), plan.staging(name), plan.options
            )
            files = (*files, empty)
    return assemble(files, {f.partition: plan.staging(f.partition) for f in files})


def _result(change: Change, directories: tuple[StagedDirectory, ...]) -> StatementResult:
    files = [f for d in directories for f in d.files]
    inserted = sum(f.rows for f in files if not f.directory.startswith("delete_"))
    deleted = sum(f.rows for f in files if f.directory.startswith("delete_"))
    updated = sum(f.updated for f in files)
    return StatementResult(
        kind=change.kind,
        table=str(change.table.ref),
        rows=RowCounts(inserted=inserted - updated, updated=updated, deleted=deleted - updated),
        partitions=tuple(sorted({str(d.partition) for d in directories if d.partition.columns})),
        files=len(files),
        size_bytes=sum(f.size_bytes for f in files),
    )
