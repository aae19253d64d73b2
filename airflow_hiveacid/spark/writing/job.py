"""One transaction of Spark's engine, from its checked statements to its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.plan.statements.dml import tables_of
from airflow_hiveacid.spark.writing.work import CheckedStatement, TransactionWork, naming
from airflow_hiveacid.writing.runs import Run
from airflow_hiveacid.writing.second_try import SEVERAL, why_not_kept

if TYPE_CHECKING:
    from airflow_hiveacid.spark.writing.context import JobContext


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
    if change.operations == {DataOperation.INSERT} and change.make_files is not None:
        return "it copies existing files"
    return why_not_kept(
        change.table,
        change.operations,
        reads_tables=bool(change.tables or tables_of(change.source)),
    )


def _tables_read(job: JobContext, changes: Sequence[CheckedStatement]) -> list[TableInfo]:
    return [
        table
        for change in changes
        for tables in (job.source_tables(change.source), job.tables(change.tables))
        for table in tables.values()
    ]
