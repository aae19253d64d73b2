"""Changes of tables with Arrow rows: one by one, or several in one transaction."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import pyarrow as pa

from airflow_hiveacid.arrow.job import run_statements
from airflow_hiveacid.arrow.rows import ArrowStream, rows_of
from airflow_hiveacid.arrow.statements import ArrowStatement, planned
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import CommitStateUnknownError, ConfigurationError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.statements import StatementSpec, TransactionSpec
from airflow_hiveacid.lake import statements
from airflow_hiveacid.lake.session import Session, without_spark
from airflow_hiveacid.plan.transactions import check_order, numbered
from airflow_hiveacid.writing.job import WritingJob

_R = TypeVar("_R")
Describe = Callable[[WritingJob], statements.Statement]

_REPEATS: Final = (
    "It had no key, so repeating it may apply it twice: first see with refresh() and a scan whether"
    " the table has the change. With lake.transaction(key=...), it can be repeated safely"
)


class TableChanges(ABC, Generic[_R]):
    """The changes of one table. Rows are Arrow data, or a frame of pandas, Polars or DuckDB.

    Columns are found by name, in any case. A value is converted only if the column's type holds
    exactly this value; otherwise TypeMismatchError names the column and both types. A column that
    the rows lack is NULL. Limits of memory and rows are those of `acid.connect`.
    """

    def __init__(self, ref: TableRef) -> None:
        self._ref = ref

    def append(self, rows: ArrowStream) -> _R:
        """Add rows, as INSERT INTO.

        Raises:
            CommitStateUnknownError: the answer to the commit was lost. Before you repeat the
                change, see with `refresh` and a scan whether the table has it.
            UnknownColumnError, TypeMismatchError, ConstraintViolationError: a column or value does
                not fit the table. Nothing was written; the same applies to the next errors.
            SparkNeededError: the rows exceed a limit, or only Spark can write them.
            HiveAcidError: the change failed; see `acid.connect`.

        Example:
            lake.table("demo.orders").append(pa.table({"id": [1], "name": ["Ada"]}))
        """
        return self._insert(rows, overwrites=False)

    def overwrite(self, rows: ArrowStream, *, partition: Mapping[str, object] | None = None) -> _R:
        """Replace rows, as INSERT OVERWRITE in Hive: of the whole table, if it has no partitions.

        In a partitioned table, only the partitions that get rows are replaced. `partition` names
        values of partition columns that the rows lack; if it names all of them, this partition is
        replaced even without rows. The snapshots of this connection on the table are closed,
        because an overwrite waits for all readers. For errors, see `append`.
        """
        return self._insert(rows, overwrites=True, partition=partition)

    def upsert(self, rows: ArrowStream, keys: Sequence[str] | str) -> _R:
        """Update the rows that have the keys of `rows`, and insert the other rows.

        An update sets only the columns that `rows` has. A partition or bucket column that is no key
        must stay the same.

        Raises:
            SourceKeyError: a key occurs twice in `rows`, or is NULL.
            ColumnUpdateError: a row would move to another partition or bucket.
            InsertOnlyTableError: the table is not full ACID.
            HiveAcidError: as for `append`.

        Example:
            lake.table("demo.orders").upsert(rows, keys=["id"])
        """
        table = rows_of(rows)

        def describe(job: WritingJob) -> statements.Statement:
            target = job.with_constraints(job.changeable_table(str(self._ref), "MERGE"))
            return statements.upsertion(target, table, keys)

        return self._run(describe)

    def delete(
        self,
        where: str | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
        keys: ArrowStream | None = None,
    ) -> _R:
        """Delete the rows that meet a condition, or the rows with some keys.

        Args:
            where: a condition in SQL: comparisons of columns with constants or parameters, IN,
                BETWEEN and IS NULL, joined with AND and OR; `true` for every row.
            parameters: the values of the markers in the condition, such as `:day`, by name.
            keys: rows whose columns are the key, instead of a condition.

        Raises:
            ExpressionError: only Spark can evaluate the condition.
            TypeMismatchError: no cast turns a string in the condition into its column's type.
            HiveAcidError: as for `upsert`.

        Example:
            lake.table("demo.orders").delete("id IN (:ids)", parameters={"ids": [7, 12]})
        """
        statements.check_given(where, keys)
        table = None if keys is None else rows_of(keys)

        def describe(job: WritingJob) -> statements.Statement:
            if table is not None:
                target = job.changeable_table(str(self._ref), "MERGE")
                return statements.deletion_by_keys(target, table)
            target = job.changeable_table(str(self._ref), "DELETE")
            return statements.deletion(target, where or "", parameters)

        return self._run(describe)

    def _insert(
        self,
        rows: ArrowStream,
        *,
        overwrites: bool,
        partition: Mapping[str, object] | None = None,
    ) -> _R:
        table: pa.Table = rows_of(rows)

        def describe(job: WritingJob) -> statements.Statement:
            target = job.with_constraints(job.insertable_table(str(self._ref)))
            return statements.insertion(target, table, overwrites=overwrites, partition=partition)

        return self._run(describe)

    @abstractmethod
    def _run(self, describe: Describe) -> _R:
        """Run a statement, or add it to a transaction."""


class LakeTransaction:
    """Statements that are committed together at the end of the block, or not at all.

    Each statement is checked when it is called, and sees the changes of earlier ones when it runs.
    The metastore's transaction begins only at the end of the block, so it holds no lock while the
    program computes. `result` is None until then. Mutable: it collects the statements.
    """

    def __init__(self, session: Session, job: WritingJob, key: str | None) -> None:
        self._session, self._job, self._key = session, job, key
        self._specs: list[StatementSpec] = []
        self._changes: list[ArrowStatement] = []
        self._is_over = False
        self.result: JobResult | None = None

    def table(self, name: str) -> TransactionTable:
        """Return a table to change in this transaction; `name` is `db.table`."""
        return TransactionTable(self, TableRef.parse(name))

    def _add(self, ref: TableRef, describe: Describe) -> None:
        if self._is_over:
            raise ConfigurationError(
                "the transaction's block has ended; move this change into the block of `with"
                " lake.transaction()`"
            )
        number = len(self._changes) + 1
        with numbered(number, number), without_spark(ref):
            spec, work = describe(self._job)
            change = planned(spec, work, self._job.client)
            check_order([*(one.step for one in self._changes), change.step])
        self._specs.append(spec)
        self._changes.append(change)

    def _end(self, *, failed: bool) -> None:
        """Run all statements as one transaction, or none after an error in the block."""
        self._is_over = True
        if failed:
            return
        if not self._changes:
            self.result = self._job.result(JobStatus.NOTHING_TO_DO, "")
            return
        job = TransactionSpec(statements=tuple(self._specs))
        self.result = run_changes(self._session, self._job, job, self._changes, key=self._key)


class TransactionTable(TableChanges[None]):
    """A table in a transaction: a change is made when the transaction's block ends."""

    def __init__(self, transaction: LakeTransaction, ref: TableRef) -> None:
        super().__init__(ref)
        self._transaction = transaction

    def _run(self, describe: Describe) -> None:
        self._transaction._add(self._ref, describe)  # noqa: SLF001 - programs must not call it


def run_changes(
    session: Session,
    job: WritingJob,
    spec: StatementSpec | TransactionSpec,
    changes: Sequence[ArrowStatement],
    *,
    key: str | None = None,
) -> JobResult:
    """Run statements as one transaction, and return its result.

    Without a `key`, the error for an unknown outcome tells the caller not to repeat them blindly.
    """
    for change in changes:
        if DataOperation.OVERWRITE in change.operations:
            session.release(change.table.ref, "an overwrite of this connection waits for its lock")
    job = dataclasses.replace(job, spec=dataclasses.replace(job.spec, job=spec))
    try:
        with without_spark(changes[0].table.ref):
            return run_statements(job, changes, session.limits)
    except CommitStateUnknownError as error:
        if key is not None:
            raise
        raise CommitStateUnknownError(
            txn_id=error.txn_id, reason=error.reason, remedy=_REPEATS
        ) from error
