"""The story of one write, from a checked statement to its result.

Read `_run` downwards: the ledger says whether this job was done before; the statement's events are
made under the transaction's snapshot; executors write them to staging; the partitions are
registered; once more everything is verified and noted; directories are renamed into place; leaving
the `with` block commits.

What becomes of a failure is `writing.write`'s affair. A killed driver leaves an open transaction,
which the metastore aborts when its heartbeats stop.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    OvertakenError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import BucketId, StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.specs import OnRerun
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.plan.statements import check_alike
from airflow_hiveacid.spark.events import Events
from airflow_hiveacid.spark.reading.access import (
    Touched,
    is_still_all,
    reading,
)
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.reading.target import Target, resolve_target
from airflow_hiveacid.spark.tasks import job_group
from airflow_hiveacid.spark.writing.flat_files import write_flat
from airflow_hiveacid.spark.writing.order import WriteOrder
from airflow_hiveacid.spark.writing.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    empty_file,
)
from airflow_hiveacid.spark.writing.small_changes import write_here
from airflow_hiveacid.spark.writing.write import Write, writing
from airflow_hiveacid.spark.writing.writers import (
    WRITTEN_SCHEMA,
    WritePlan,
    Written,
    write_events,
    writer_options,
)

if TYPE_CHECKING:
    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.jobs.specs import SourceSpec
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.plan.reruns import LedgerEntry
    from airflow_hiveacid.spark.writing.context import JobContext

log = logging.getLogger("hiveacid")

MakeEvents = Callable[[Target, Callable[[], DataFrame]], Events]
"""Turns a target and a way to read the source into events."""

_STATEMENT: Final = StatementId(0)
# Each time somebody has committed meanwhile, so there is progress; but somebody has to say so.
_MOST_BEGINNINGS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A checked statement.

    `operations` is what it does to the table; they decide the lock. `make_events` turns the target
    (its files under the snapshot) and the source into events. `shape` is the frame that the source
    was checked by. `tables` are those that queries within its expressions ask, by their views.
    `partitions` answers the only partitions that it can touch, as they are now,
    where that is known.
    """

    table: TableInfo
    operations: frozenset[DataOperation]
    make_events: MakeEvents
    source: SourceSpec | None = None
    shape: DataFrame | None = None
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    partitions: Callable[[], Touched] = Touched


def run_change(job: JobContext, change: Change) -> JobResult:
    """Run one statement as one transaction.

    Whoever is overtaken before it could publish begins anew, a few times, under its old rank.

    Raises:
        HiveAcidError: nothing was changed, except after `CommitStateUnknownError`.
    """
    first_txn_id: TxnId | None = None
    for beginning in itertools.count(1):
        partitions = change.partitions().names
        order = _order(job, change, partitions, first_txn_id)
        with job_group(job.spark, str(order.run.attempt)) as cancel:
            order = dataclasses.replace(order, on_lost=cancel)
            try:
                with writing(job.client, order) as write:
                    first_txn_id = write.txn.first_txn_id
                    return _run(job, change, write, partitions, order.reads)
            except OvertakenError as error:
                if beginning == _MOST_BEGINNINGS:
                    raise
                log.warning("beginning anew, %d of %d: %s", beginning, _MOST_BEGINNINGS, error)
    raise AssertionError(first_txn_id)  # the last round has raised


def _run(
    job: JobContext,
    change: Change,
    write: Write,
    partitions: tuple[PartitionName, ...] | None,
    reads: tuple[TableAccess, ...],
) -> JobResult:
    """The story itself; leaving `writing` commits."""
    txn, table = write.txn, write.table
    earlier = write.earlier_run()
    if earlier is not None:
        return _already_done(job, write, earlier)
    touched = change.partitions()
    if touched.names != partitions:
        raise write.overtaken("it has other partitions now")
    for access in reads:
        if not is_still_all(job.client, access):
            raise write.overtaken(f"its source {access.ref} has other partitions now")
    known = partitions or (() if table.is_partitioned else (PartitionName(),))
    write.look_ahead(known)
    target = resolve_target(job.spark, job.client, table, txn.snapshot, touched)
    write.check_locations(list(target.elsewhere.values()))
    check_alike(table, target.partitions)
    plan = _write_plan(job, write, target, change)
    show(_frames(job, txn, job.tables(change.tables)))
    events = change.make_events(target, partial(_source_frame, job, txn, change))
    files = _write(plan, events)
    write.stage(_assemble(plan, files, partitions))
    write.register()
    write.verify()
    result = _result(job, write)
    write.note(result.dump())
    write.publish()
    return result


def _order(
    job: JobContext,
    change: Change,
    partitions: tuple[PartitionName, ...] | None,
    first_txn_id: TxnId | None,
) -> WriteOrder:
    spec = job.spec
    beside = [*job.source_tables(change.source).values(), *job.tables(change.tables).values()]
    sources = {table.ref: table for table in beside}
    return WriteOrder(
        run=Run(
            job_key=spec.job_key,
            generation=spec.generation,
            attempt=AttemptId.parse(spec.attempt),
            statement=spec.statement,
            on_rerun=spec.on_rerun,
        ),
        access=TableAccess(table=change.table, operations=change.operations, partitions=partitions),
        reads=tuple(reading(job.client, table) for table in sources.values()),
        lock_timeout_s=spec.lock_timeout_s,
        heartbeat_s=spec.heartbeat_s,
        ledger_retention_s=spec.ledger_retention_s,
        first_txn_id=first_txn_id,
        on_step=job.on_step,
    )


def _already_done(job: JobContext, write: Write, earlier: LedgerEntry) -> JobResult:
    log.warning(
        "nothing is applied (on_rerun=%s): %s was done by transaction %s at %s (try %d, run %d of"
        " the task)%s",
        job.spec.on_rerun.value,
        job.spec.job_key,
        earlier.txn_id,
        earlier.when,
        earlier.attempt.try_number,
        earlier.generation + 1,
        "" if job.spec.on_rerun is OnRerun.SKIP else "; clear the task to apply it again",
    )
    write.txn.abandon()
    return dataclasses.replace(JobResult.parse(earlier.result), status=JobStatus.ALREADY_DONE)


def _write_plan(job: JobContext, write: Write, target: Target, change: Change) -> WritePlan:
    write_id = write.txn.write_ids[target.table.ref]
    delta = DeltaName(low=write_id, high=write_id, statement_id=_STATEMENT)
    overwrite = DataOperation.OVERWRITE in change.operations
    return WritePlan(
        table=target.table,
        write_id=write_id,
        statement_id=_STATEMENT,
        token=write.token,
        insert_directory=BaseName(write_id=write_id) if overwrite else delta,
        delete_directory=dataclasses.replace(delta, is_delete=True),
        options=writer_options(target.table, job.client.generation, is_base=overwrite),
        given=(),
        locations=target.elsewhere,
    )


def _source_frame(job: JobContext, txn: Transaction, change: Change) -> DataFrame:
    """Read the source; ACID tables under the job's own snapshot.

    Others are as they were found when the statement was checked: to list their files and to find
    out their columns once more would cost as much again, and find other files.
    """
    if change.source is None:
        raise TypeError("this statement has no source")
    tables = job.source_tables(change.source)
    if not tables and change.shape is not None:
        return change.shape
    return load_source(job.spark, change.source, _frames(job, txn, tables))


def _frames(
    job: JobContext, txn: Transaction, tables: Mapping[str, TableInfo]
) -> dict[str, DataFrame]:
    """Tables beside the target, as they are under the job's own snapshot."""
    return {
        view: resolve_target(job.spark, job.client, table, txn.snapshot).rows()
        for view, table in tables.items()
    }


def _write(plan: WritePlan, events: Events) -> tuple[StagedFile, ...]:
    """Have the events written; what comes back names the files that count."""
    plan = dataclasses.replace(plan, given=events.given, old_files=events.old_files)
    written = _written_flat(plan, events.flat)
    if written is None and events.few is not None:
        written = write_here(plan, events.few)
    if written is None:
        frame = events.frame().mapInArrow(partial(write_events, plan=plan), WRITTEN_SCHEMA)
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
    if rows is None:
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


def _result(job: JobContext, write: Write) -> JobResult:
    directories = write.directories
    files = [f for d in directories for f in d.files]
    inserted = sum(f.rows for f in files if not f.directory.startswith("delete_"))
    deleted = sum(f.rows for f in files if f.directory.startswith("delete_"))
    updated = sum(f.updated for f in files)
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=JobStatus.COMMITTED,
        table=str(write.table.ref),
        txn_id=write.txn.txn_id,
        write_ids={str(ref): write_id for ref, write_id in write.txn.write_ids.items()},
        rows=RowCounts(inserted=inserted - updated, updated=updated, deleted=deleted - updated),
        partitions=tuple(sorted({str(d.partition) for d in directories if d.partition.columns})),
        files=len(files),
        size_bytes=sum(f.size_bytes for f in files),
        details={"directories": [d.final_path for d in directories]},
    )
