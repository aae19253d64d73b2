"""One transaction, from its checked statements to its result.

`writing.write` handles failures, `writing.restarts` restarts. A killed driver leaves an open
transaction. The metastore aborts such a transaction when the heartbeats stop.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan.statements.dml import tables_of
from airflow_hiveacid.reading.access import Touched, nameable
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.writing.work import CheckedStatement, TransactionWork, naming
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.writing.restarts import (
    RestartState,
    already_done,
    begun,
    check_sources,
    until_not_overtaken,
)
from airflow_hiveacid.writing.second_try import StagedWork, reissued, why_in_full, why_not_kept
from airflow_hiveacid.writing.write import Write

if TYPE_CHECKING:
    from airflow_hiveacid.spark.writing.context import JobContext

_SIZES: Final = "path string, size_bytes long"


def run_changes(job: JobContext, changes: Sequence[CheckedStatement]) -> JobResult:
    """Run one or more statements, in order, as one transaction.

    If another transaction overtakes the job before the job publishes, the job restarts, at most
    four times. The restarted job keeps its rank among the copies of the job.

    Raises:
        HiveAcidError: the job failed. Nothing was changed, with one exception: after
            `CommitStateUnknownError`, it is unknown whether the transaction was committed.
    """
    restart_state = RestartState(not_kept=_why_not_kept(changes))

    def run() -> JobResult:
        touched = _touched(changes)
        accesses, sources = _accesses(changes, touched), _tables_read(job, changes)
        with begun(job, accesses, sources, restart_state) as write:
            result = _run(job, changes, write, touched, restart_state)
        restart_state.staged = None
        return result

    try:
        return until_not_overtaken(run, restart_state)
    finally:
        if restart_state.staged is not None:
            restart_state.staged.write.discard()


def _run(
    job: JobContext,
    changes: Sequence[CheckedStatement],
    write: Write,
    touched: Sequence[Touched],
    restart_state: RestartState,
) -> JobResult:
    """Run the statements and publish their files; leaving `begun` commits them."""
    earlier = write.earlier_run()
    if earlier is not None:
        return already_done(job, write, earlier)
    scopes = _touched(changes)
    for change, old_scope, new_scope in zip(changes, touched, scopes, strict=True):
        if old_scope != new_scope:
            raise write.tables[change.table.ref].overtaken("its partitions changed")
    check_sources(job, write)
    write.look_ahead()
    work = TransactionWork(job, write)
    why_not = _take_over(job, write, work, restart_state)
    if why_not is not None:
        for number, (change, scope) in enumerate(zip(changes, scopes, strict=True), start=1):
            with naming(number, len(changes)):
                work.run(change, scope)
    if restart_state.not_kept is None:
        restart_state.staged = _staged(changes[0], write, work)
    return work.finish(restart_state.details(why_not))


def _take_over(
    job: JobContext, write: Write, work: TransactionWork, restart_state: RestartState
) -> str | None:
    """Use the files that were staged before a restart; if this is impossible, return the reason."""
    staged, restart_state.staged = restart_state.staged, None
    if staged is None:
        return restart_state.not_kept or "it had staged nothing"
    (part,) = write.tables.values()
    try:
        why_not = why_in_full(job.client, part.table, staged)
        if why_not is None:
            directories = reissued(staged, part, partial(_copied_in_tasks, job.spark))
            work.take_over(part.table.ref, directories, staged.operations, staged.results)
    except HiveAcidError as error:
        why_not = str(error)
    finally:
        staged.write.discard()
    return why_not


def _why_not_kept(changes: Sequence[CheckedStatement]) -> str | None:
    """Return why a restart cannot use staged files of these statements; None if it can."""
    if len(changes) != 1:
        return "the transaction has several statements"
    change = changes[0]
    if change.operations == {DataOperation.INSERT} and change.make_files is not None:
        return "it copies existing files"
    return why_not_kept(
        change.table,
        change.operations,
        reads_tables=bool(change.tables or tables_of(change.source)),
    )


def _copied_in_tasks(spark: SparkSession, sizes: Mapping[Reissue, int]) -> dict[str, int]:
    with typed_failures():
        frame = run_tasks(spark, _reissue_task, list(sizes), _SIZES, work=sizes.__getitem__)
        return {row.path: row.size_bytes for row in frame.collect()}


def _reissue_task(work: Reissue) -> Iterator[pa.RecordBatch]:
    size = reissue(work)
    columns = {"path": pa.array([work.target]), "size_bytes": pa.array([size], pa.int64())}
    yield pa.RecordBatch.from_pydict(columns)


def _staged(change: CheckedStatement, write: Write, work: TransactionWork) -> StagedWork:
    (part,) = write.tables.values()
    return StagedWork(
        write=write,
        write_id=part.write_id,
        directories=part.directories,
        operations=change.operations,
        results=work.results,
    )


def _touched(changes: Sequence[CheckedStatement]) -> list[Touched]:
    """Return the partitions that each statement can touch now.

    If several statements change a table, an earlier statement may add partitions that the metastore
    does not list yet. So each of these statements gets only the partitions that the statement
    itself specifies.
    """
    count = Counter(change.table.ref for change in changes)
    scopes = [change.partitions() for change in changes]
    return [
        touched if count[change.table.ref] == 1 else Touched(names=change.fixed, seen=touched.seen)
        for change, touched in zip(changes, scopes, strict=True)
    ]


def _accesses(changes: Sequence[CheckedStatement], touched: Sequence[Touched]) -> list[TableAccess]:
    accesses: dict[TableRef, TableAccess] = {}
    for change, scope in zip(changes, touched, strict=True):
        access = TableAccess(
            table=change.table, operations=change.operations, partitions=scope.names
        )
        earlier = accesses.get(access.ref)
        accesses[access.ref] = access if earlier is None else _both(earlier, access)
    return list(accesses.values())


def _both(one: TableAccess, other: TableAccess) -> TableAccess:
    names = None
    if one.partitions is not None and other.partitions is not None:
        names = nameable(tuple(sorted({*one.partitions, *other.partitions}, key=str)))
    return dataclasses.replace(one, operations=one.operations | other.operations, partitions=names)


def _tables_read(job: JobContext, changes: Sequence[CheckedStatement]) -> list[TableInfo]:
    return [
        table
        for change in changes
        for tables in (job.source_tables(change.source), job.tables(change.tables))
        for table in tables.values()
    ]
