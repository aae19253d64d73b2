"""Hive ACID tables in PySpark programs of your own: read and change them in one transaction.

`HiveAcidPySparkOperator` submits such a program and sends along which tables it may touch. What the
program does in its `with` block is committed together when the block ends, or not at all; a retry
of the task does not do it twice. Each statement sees what the earlier ones have done. Frames that
`read` gives are lazy, and good inside the block only.

Example:
    from airflow_hiveacid.spark import acid

    def settle(spark, metastore):
        with acid.transaction(spark, metastore) as txn:
            late = txn.read("demo.orders", where="day < '2026-01-01'")
            txn.merge("demo.customers", late, keys=["id"], clauses=[
                {"when": "matched", "action": "update", "set": {"is_late": "true"}},
            ])
            txn.insert("demo.audit", late.selectExpr("id", "'late' AS what"))

    if __name__ == "__main__":
        acid.run(settle)
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import ConfigurationError, MetastoreError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.specs import (
    ColumnMatch,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeSpec,
    ProgramSpec,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.metastore.fencing import Seal
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan import arguments, statement_arguments
from airflow_hiveacid.plan.transactions import Step, check_order
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.session import check_session
from airflow_hiveacid.spark.statements.planned import planned_one, step_of
from airflow_hiveacid.spark.writing.job import (
    Rank,
    already_done,
    begun,
    check_sources,
    until_not_overtaken,
)
from airflow_hiveacid.spark.writing.work import Work, naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.results import JobResult, StatementResult
    from airflow_hiveacid.jobs.specs import StatementSpec
    from airflow_hiveacid.spark.writing.context import JobContext

    Program = Callable[[SparkSession, "Metastore"], object]

log = logging.getLogger("hiveacid")

_FRAME: Final = SourceSpec()  # the rows come from a frame of the program's

_UNDECLARED: Final = (
    "the program {does} {table}, which its task does not name for that: add it to {where} of"
    " HiveAcidPySparkOperator. All tables are locked before the first one is read"
)
_OVER: Final = (
    "the transaction's block has ended, and what it has done is committed or undone; nothing can be"
    " read or changed through it any more. Indent this below `with acid.transaction(...)`"
)


class AlreadyDoneError(Exception):
    """An earlier try of the task has committed it. This is no failure: let it pass to `run`."""


class Metastore:
    """The metastore, and which job of which task this is. Mutable: it knows its transaction's end.

    What `run` gives to a program.
    """

    def __init__(self, job: JobContext, rank: Rank) -> None:
        self.job = job
        self.rank = rank
        self.has_begun = False
        self.result: JobResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A table that the task names, and the most that may be done to it."""

    table: TableInfo
    operation: DataOperation


_INSERT: Final = frozenset({DataOperation.INSERT})
_CHANGE: Final = _INSERT | {DataOperation.UPDATE, DataOperation.DELETE}
_ALLOWED: Final[Mapping[DataOperation, frozenset[DataOperation]]] = {
    DataOperation.SELECT: frozenset(),
    DataOperation.INSERT: _INSERT,
    DataOperation.UPDATE: _CHANGE,
    DataOperation.OVERWRITE: _CHANGE | {DataOperation.OVERWRITE},
}


class Transaction:
    """An open transaction. Statements are done when they are called, and seen by the later ones.

    Threads may share it; then one statement or read waits for the other.
    """

    def __init__(self, job: JobContext, work: Work, tables: Mapping[TableRef, _Declared]) -> None:
        self._job, self._work, self._tables = job, work, tables
        self._steps: list[Step] = []
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def read(  # noqa: PLR0913 - what is read, how much of it, and as of when
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> DataFrame:
        """A frame of a table's rows, as the transaction sees them now, or as of a version.

        Args:
            table: `db.table`, one of those that the task names.
            columns: which to read, in this order; all by default.
            where: a condition in Spark SQL; files in which it cannot hold are not read.
            version: read the table as of this number; see `read_table`.
            timestamp: or as of this moment.
            tag: or the version of this name.

        Raises:
            InputError: the task does not name the table, or a column or the condition is wrong; or
                the program has changed the session (`check_session`).
            HiveAcidError: the version is not known or not there any more; see `read_table`.
        """
        with self._turn():
            check_session(self._job.spark)
            target = self._work.target(
                self._declared(table, "reads", "reads").table,
                version=VersionSpec.of(version, timestamp, tag),
            )
            if where is None:
                return target.rows(columns)
            return target.rows_where(where, Moment.now(self._job.spark), columns)

    def insert(  # noqa: PLR0913 - an INSERT says that much
        self,
        table: str,
        rows: DataFrame,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, str | int | None] | None = None,
        match: str = ColumnMatch.NAME.value,
        overwrite: bool = False,
    ) -> StatementResult:
        """INSERT INTO, or INSERT OVERWRITE; arguments as those of `HiveAcidInsertOperator`.

        Raises:
            HiveAcidError: the transaction cannot be committed any more.
        """
        given = {} if partition is None else partition
        return self._run(
            lambda: InsertSpec(
                target=arguments.table_name(table),
                source=_FRAME,
                mode=InsertMode.OVERWRITE if overwrite else InsertMode.APPEND,
                columns=arguments.names(columns, "columns"),
                partition=statement_arguments.partition_values(
                    given, nulls=statement_arguments.null_columns(given)
                ),
                match=arguments.choice(ColumnMatch, match, "match"),
            ),
            rows,
        )

    def update(self, table: str, assignments: Mapping[str, str], *, where: str) -> StatementResult:
        """UPDATE; columns and the Spark SQL expressions they get. `where="true"` is every row.

        Raises:
            HiveAcidError: the transaction cannot be committed any more.
        """
        return self._run(
            lambda: UpdateSpec(
                target=arguments.table_name(table),
                set=arguments.assignments(assignments, "assignments"),
                where=arguments.condition(where, "where"),
            )
        )

    def delete(self, table: str, *, where: str) -> StatementResult:
        """DELETE; `where="true"` is every row.

        Raises:
            HiveAcidError: the transaction cannot be committed any more.
        """
        return self._run(
            lambda: DeleteSpec(
                target=arguments.table_name(table), where=arguments.condition(where, "where")
            )
        )

    def merge(
        self,
        table: str,
        rows: DataFrame,
        *,
        keys: Sequence[str],
        clauses: Sequence[Mapping[str, object]],
        condition: str | None = None,
    ) -> StatementResult:
        """MERGE rows into a table; arguments as those of `HiveAcidMergeOperator`.

        Raises:
            HiveAcidError: the transaction cannot be committed any more.
        """
        return self._run(
            lambda: MergeSpec(
                target=arguments.table_name(table),
                source=_FRAME,
                keys=statement_arguments.key_names(keys),
                clauses=statement_arguments.merge_clauses(clauses),
                condition=None
                if condition is None
                else arguments.condition(condition, "condition"),
            ),
            rows,
        )

    def close(self) -> None:
        """Let nothing more be done, once what another thread is doing is done."""
        with self._lock:
            self._is_over = True

    def look_back(self) -> None:
        """See that no statement is missing.

        Raises:
            ConfigurationError: one has failed, and the program went on.
        """
        if self._failure is not None:
            raise ConfigurationError(
                f"a statement of the transaction has failed ({self._failure}), and the program went"
                " on; nothing is committed. Let the error end the block"
            ) from self._failure

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread at a time work: the metastore's client knows only one.

        Raises:
            ConfigurationError: the block has ended.
        """
        with self._lock:
            if self._is_over:
                raise ConfigurationError(_OVER)
            yield

    def _run(
        self, describe: Callable[[], StatementSpec], rows: DataFrame | None = None
    ) -> StatementResult:
        with self._turn():
            self.look_back()
            try:
                check_session(self._job.spark)
                if rows is not None:
                    check_session(rows.sparkSession)  # which may be another one
                return self._done(describe(), rows)
            except BaseException as error:
                self._failure = error
                raise

    def _done(self, spec: StatementSpec, rows: DataFrame | None) -> StatementResult:
        number = len(self._steps) + 1
        with naming(number, number):
            change = planned_one(self._job, spec, rows)
            self._check_declared(spec.target, change.operations)
            check_order([*self._steps, step_of(change)])
            self._steps.append(step_of(change))
            return self._work.run(change, Touched(names=change.fixed))

    def _check_declared(self, table: str, operations: frozenset[DataOperation]) -> None:
        declared = self._declared(table, "writes", "inserts, changes or overwrites")
        allowed = _ALLOWED[declared.operation]
        if not operations <= allowed:
            where = "overwrites" if DataOperation.OVERWRITE in operations else "changes"
            raise ConfigurationError(_UNDECLARED.format(does="changes", table=table, where=where))

    def _declared(self, table: str, does: str, where: str) -> _Declared:
        found = self._tables.get(TableRef.parse(table))
        if found is None:
            raise ConfigurationError(_UNDECLARED.format(does=does, table=table, where=where))
        return found


@contextmanager
def transaction(spark: SparkSession, metastore: Metastore) -> Iterator[Transaction]:
    """Run a block as the program's one transaction: committed when it ends, undone when it raises.

    Args:
        spark: the session that `run` gives.
        metastore: what it gives beside it.

    Raises:
        AlreadyDoneError: an earlier try of the task has committed it.
        InputError: a table cannot be written as the task says; or this is a second transaction.
        HiveAcidError: nothing was changed, except after `CommitStateUnknownError`.
    """
    del spark  # the job has it; in the signature it says what the block works with
    job = metastore.job
    if metastore.has_begun:
        raise ConfigurationError(
            "a program has one transaction, since a retry does what it does once or not at all;"
            " give the other one a task of its own"
        )
    metastore.has_begun = True
    tables = _declared_tables(job)
    accesses = [
        TableAccess(table=d.table, operations=frozenset({d.operation}))
        for d in tables.values()
        if d.operation is not DataOperation.SELECT
    ]
    # Those that are changed may be read as well: they are locked as a whole, for that too.
    sources = [d.table for d in tables.values() if d.operation is DataOperation.SELECT]
    with begun(job, accesses, sources, metastore.rank) as write:
        earlier = write.earlier_run()
        if earlier is not None:
            metastore.result = already_done(job, write, earlier)
            raise AlreadyDoneError(str(job.spec.job_key))
        check_sources(job, write)
        write.look_ahead()
        work = Work(job, write)
        txn = Transaction(job, work, tables)
        try:
            yield txn
        finally:
            txn.close()
        txn.look_back()
        result = work.finish()
    metastore.result = result


def _keep_place(job: JobContext, rank: Rank) -> None:
    """Let a program that is run again read what it has locked, up to its transaction.

    Raises:
        TransactionAbortedError: somebody has ended it meanwhile; it may have been killed.
    """
    if rank.succession is None or rank.first_txn_id is None:
        return
    spec = job.spec
    attempt, first = AttemptId.parse(spec.attempt), rank.first_txn_id
    seal = Seal(job_key=spec.job_key, attempt=attempt, first_txn_id=first)
    try:
        rank.succession.keep_place(seal, map(TableRef.parse, spec.targets))
    except MetastoreError as error:
        log.warning("what it has locked stays locked up to its next transaction: %s", error)


def _declared_tables(job: JobContext) -> dict[TableRef, _Declared]:
    spec = job.job_of(ProgramSpec)
    named = [
        (DataOperation.SELECT, spec.reads),
        (DataOperation.INSERT, spec.inserts),
        (DataOperation.UPDATE, spec.changes),
        (DataOperation.OVERWRITE, spec.overwrites),
    ]
    found: dict[TableRef, _Declared] = {}
    for operation, names in named:  # the most that is named counts
        for name in names:
            if operation is DataOperation.SELECT:
                (table,) = job.tables({name: name}).values()
            elif operation is DataOperation.UPDATE:
                table = job.changeable_table(name, "a change of rows")
            else:
                table = job.insertable_table(name)
            found[table.ref] = _Declared(table=table, operation=operation)
    return found


def run(program: Program) -> None:
    """Run a program as its task wants it, and leave the process with its exit code.

    The program is called with a session and the metastore. Its own arguments are in `sys.argv`.
    When somebody overtakes its transaction before anything is published it is called again, as it
    is when the task is tried again.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--spec")
    given, own = parser.parse_known_args()
    if given.spec is None:
        parser.error(
            "--spec is missing: a program that calls acid.run cannot be started by hand;"
            " HiveAcidPySparkOperator submits it, and says by --spec what its task is"
        )
    sys.argv[1:] = own
    main("program", lambda job: story(job, program), ["--spec", given.spec])


def story(job: JobContext, program: Program) -> JobResult:
    """A program as an application's story: what it has committed.

    Raises:
        ConfigurationError: it has not begun its transaction.
    """
    rank = Rank()

    def once() -> JobResult:
        _keep_place(job, rank)
        metastore = Metastore(job, rank)
        try:
            program(job.spark, metastore)
        except AlreadyDoneError:
            if metastore.result is None:
                raise
        except SystemExit as end:  # many a program ends with sys.exit(0)
            if end.code:
                raise
        if metastore.result is None:
            raise ConfigurationError(
                "the program has ended without a transaction; write"
                " `with acid.transaction(spark, metastore) as txn:`"
            )
        return metastore.result

    return until_not_overtaken(once, rank)
