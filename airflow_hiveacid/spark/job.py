"""The story of one write, from a checked statement to its result.

Read downwards. `run_change` opens the transaction and asks the ledger whether this job was done
before; the statement's events are made under the transaction's snapshot; executors write them to
staging; the partitions are registered; directories are renamed into place; leaving the `with`
block commits.

A failure anywhere before the commit aborts the transaction and removes what was staged or
published; a killed driver leaves an open transaction, which the metastore aborts when its
heartbeats stop.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.ids import BucketId, StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transaction import Transaction, begin
from airflow_hiveacid.plan.statements import check_changeable
from airflow_hiveacid.spark.events import Events
from airflow_hiveacid.spark.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    discard,
    discard_all,
    empty_file,
    publish,
)
from airflow_hiveacid.spark.source import check_source, load_source
from airflow_hiveacid.spark.target import Target, empty_target, partitions_where, resolve_target
from airflow_hiveacid.spark.writers import (
    WRITTEN_SCHEMA,
    WritePlan,
    write_events,
    writer_options,
)
from airflow_hiveacid.storage.filesystem import check_writable, delete_directory, open_location
from airflow_hiveacid.storage.job_ledger import Ledger, LedgerEntry

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.specs import JobSpec, SourceSpec
    from airflow_hiveacid.metastore.port import MetastorePort

log = logging.getLogger("hiveacid")

MakeEvents = Callable[[Target, Callable[[], DataFrame]], Events]
"""Turns a target and a way to read the source into events."""

_S = TypeVar("_S")
_STATEMENT: Final = StatementId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a job has to work with: a session, its spec, a metastore connection, a step hook."""

    spark: SparkSession
    spec: JobSpec
    client: MetastorePort
    on_step: Callable[[str], None]

    def job_of(self, kind: type[_S]) -> _S:
        """The job's own part of the spec, of the kind that the application is for.

        Raises:
            ConfigurationError: it is of another kind.
        """
        if not isinstance(self.spec.job, kind):
            raise ConfigurationError(f"this application does not do {self.spec.kind} jobs")
        return self.spec.job

    def changeable_table(self, name: str, operation: str) -> TableInfo:
        """The table, if its rows can be changed, here and now.

        Raises:
            InputError: it is missing or of the wrong kind.
            LocationPermissionError: its location cannot be written.
        """
        table = self.client.get_table(TableRef.parse(name))
        check_changeable(table, operation)
        check_writable(table.location)
        return table

    def partitions_touched(
        self, table: TableInfo, condition: str | None
    ) -> tuple[PartitionName, ...] | None:
        """The partitions that a statement's condition keeps it in; None if that is not known.

        Only these are locked and read. One that appears later is not among them: the statement
        then counts as done before it.
        """
        if not table.is_partitioned:
            return None
        known = self.client.list_partitions(table)
        found = partitions_where(self.spark, table, known, condition)
        return tuple(p.name for p in found) or None if found is not None else None

    def source_shape(self, source: SourceSpec) -> DataFrame:
        """A frame with the source's columns, to check a statement against before anything is begun.

        Raises:
            InputError: the source is missing, unreadable or nonsense.
        """
        check_source(source)
        table = self.source_table(source)
        return load_source(self.spark, source, empty_target(self.spark, table) if table else None)

    def source_table(self, source: SourceSpec | None) -> TableInfo | None:
        """The ACID table that the source is, if it is one."""
        if source is None or source.table is None:
            return None
        table = self.client.get_table(TableRef.parse(source.table))
        check_changeable(table, "reading it as a source")
        return table


def run_change(  # noqa: PLR0913 - the parts of one story
    job: JobContext,
    table: TableInfo,
    operations: frozenset[DataOperation],
    make_events: MakeEvents,
    *,
    source: SourceSpec | None = None,
    partitions: tuple[PartitionName, ...] | None = None,
) -> JobResult:
    """Run one statement as one transaction.

    Args:
        job: what there is to work with.
        table: the target.
        operations: what the statement does to it; they decide the lock.
        make_events: turns the target (its files under the snapshot) and the source into events.
        source: where rows come from.
        partitions: the only partitions that the statement can touch, where that is known.
    """
    ledger = Ledger(location=table.location)
    source_table = job.source_table(source)
    reads = [_reading(source_table)] if source_table else []
    writes = [TableAccess(table=table, operations=operations, partitions=partitions)]
    with _transaction(job, reads, writes) as txn:
        entry = ledger.done(job.spec.job_key, txn.snapshot.write_ids(table.ref))
        if entry is not None:
            log.info("already done by transaction %s", entry.txn_id)
            txn.abandon()
            return dataclasses.replace(JobResult.parse(entry.result), status=JobStatus.ALREADY_DONE)
        target = resolve_target(job.spark, job.client, table, txn.snapshot, partitions)
        plan = _write_plan(job, txn, target, overwrite=DataOperation.OVERWRITE in operations)
        with _removed_on_failure(plan, ledger, job.spec.job_key) as published:
            rows = partial(_source_frame, job, txn, source, source_table)
            events = make_events(target, rows)
            files = _write(plan, events)
            directories = _assemble(plan, files, partitions)
            txn.step("staged")
            _register(job, txn, table, directories, operations)
            txn.step("registered")
            txn.ensure_alive()
            published.extend(directories)
            publish(directories)
            txn.step("published")
            result = _result(job, table, txn, directories)
            entry = _entry(job, txn, table, directories, result)
            ledger.write(entry)
    ledger.write(dataclasses.replace(entry, is_confirmed=True))
    return result


def _transaction(
    job: JobContext, reads: Sequence[TableAccess], writes: Sequence[TableAccess]
) -> AbstractContextManager[Transaction]:
    return begin(
        job.client,
        job_key=job.spec.job_key,
        reads=reads,
        writes=writes,
        lock_timeout_s=job.spec.lock_timeout_s,
        heartbeat_s=job.spec.heartbeat_s,
        on_step=job.on_step,
    )


def _reading(table: TableInfo) -> TableAccess:
    return TableAccess(table=table, operations=frozenset({DataOperation.SELECT}))


def _write_plan(job: JobContext, txn: Transaction, target: Target, *, overwrite: bool) -> WritePlan:
    write_id = txn.write_ids[target.table.ref]
    delta = DeltaName(low=write_id, high=write_id, statement_id=_STATEMENT)
    return WritePlan(
        table=target.table,
        write_id=write_id,
        statement_id=_STATEMENT,
        token=str(txn.txn_id),
        insert_directory=BaseName(write_id=write_id) if overwrite else delta,
        delete_directory=dataclasses.replace(delta, is_delete=True),
        options=writer_options(target.table, job.client.generation, is_base=overwrite),
        given=(),
        locations=target.locations,
    )


@contextmanager
def _removed_on_failure(
    plan: WritePlan, ledger: Ledger, job_key: str
) -> Iterator[list[StagedDirectory]]:
    """Take back what this job has put anywhere, should it not come to a commit."""
    published: list[StagedDirectory] = []
    try:
        yield published
    except BaseException:
        for directory in published:
            delete_directory(*open_location(directory.final_path))
        discard_all(plan.table, plan.locations.values(), plan.token)
        ledger.withdraw(job_key)
        raise
    discard(d.staging for d in published)


def _source_frame(
    job: JobContext,
    txn: Transaction,
    source: SourceSpec | None,
    source_table: TableInfo | None,
) -> DataFrame:
    """Read the source; an ACID table under the job's own snapshot."""
    if source is None:
        raise TypeError("this statement has no source")
    rows = (
        resolve_target(job.spark, job.client, source_table, txn.snapshot).rows()
        if source_table
        else None
    )
    return load_source(job.spark, source, rows)


def _write(plan: WritePlan, events: Events) -> tuple[StagedFile, ...]:
    """Let executors write the events; what comes back names the files that count."""
    plan = dataclasses.replace(plan, given=events.given, old_files=events.old_files)
    written = events.frame.mapInArrow(partial(write_events, plan=plan), WRITTEN_SCHEMA).collect()
    log.info("staged files=%d table=%s", len(written), plan.table.ref)
    return tuple(
        StagedFile(
            partition=plan.partition(row.partition),
            directory=row.directory,
            bucket=BucketId(row.bucket),
            attempt=row.attempt,
            rows=row.rows,
            updated=row.updated,
            size_bytes=row.size_bytes,
        )
        for row in written
    )


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


def _register(
    job: JobContext,
    txn: Transaction,
    table: TableInfo,
    directories: Sequence[StagedDirectory],
    operations: frozenset[DataOperation],
) -> None:
    """Tell the metastore which partitions change, before the first file appears in one."""
    if not table.is_partitioned or not directories:
        return
    names = sorted({d.partition for d in directories}, key=str)
    job.client.add_partitions(table, names)
    txn.register_partitions(table.ref, names, operations)


def _result(
    job: JobContext,
    table: TableInfo,
    txn: Transaction,
    directories: Sequence[StagedDirectory],
) -> JobResult:
    files = [f for d in directories for f in d.files]
    inserted = sum(f.rows for f in files if not f.directory.startswith("delete_"))
    deleted = sum(f.rows for f in files if f.directory.startswith("delete_"))
    updated = sum(f.updated for f in files)
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=JobStatus.COMMITTED,
        table=str(table.ref),
        txn_id=txn.txn_id,
        write_ids={str(ref): write_id for ref, write_id in txn.write_ids.items()},
        rows=RowCounts(inserted=inserted - updated, updated=updated, deleted=deleted - updated),
        partitions=tuple(sorted({str(d.partition) for d in directories if d.partition.columns})),
        files=len(files),
        size_bytes=sum(f.size_bytes for f in files),
        details={"directories": [d.final_path for d in directories]},
    )


def _entry(
    job: JobContext,
    txn: Transaction,
    table: TableInfo,
    directories: Sequence[StagedDirectory],
    result: JobResult,
) -> LedgerEntry:
    return LedgerEntry(
        job_key=job.spec.job_key,
        txn_id=txn.txn_id,
        write_id=txn.write_ids[table.ref],
        directories=tuple(d.final_path for d in directories),
        result=result.dump(),
        recorded_s=time.time(),
    )
