"""The transaction of a user's PySpark program, from the task's spec to its result.

Users import it from `airflow_hiveacid.acid`; the docstring there explains its use.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import ConfigurationError, MetastoreError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.jobs.job import ExitCode, JobResult, ProgramSpec, StatementResult
from airflow_hiveacid.metastore.listed_tables import check_source
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as statements
from airflow_hiveacid.plan.statements.parameters import job_with, where_parameters
from airflow_hiveacid.plan.transactions import Step, check_order
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.engine.session import check_session
from airflow_hiveacid.spark.runtime import run_application
from airflow_hiveacid.spark.statements.planned import planned_one
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import TransactionWork, naming
from airflow_hiveacid.writing import restarts

ProgramFunction = Callable[[SparkSession, "Task"], object]

log = logging.getLogger("hiveacid")

_FRAME: Final = specs.SourceSpec()  # the program passes the rows as a frame

_UNDECLARED: Final = (
    "the program {does} {table}, but its task does not declare this: add the table to {where} of"
    " HiveAcidPySparkOperator, which locks all tables before the first one is read"
)
_OVER: Final = (
    "the transaction's block has ended, and its changes are committed or rolled back. Move this"
    " read or change into the block of `with acid.transaction(...)`"
)


class AlreadyDoneError(Exception):
    """The signal that an earlier try has committed: no failure, so let it propagate to `run`."""


class Task:
    """The Airflow task of a program; `run` passes it to the program, which opens a transaction.

    Mutable: `result` is set when the transaction ends.
    """

    def __init__(self, job: JobContext, restart_state: restarts.RestartState) -> None:
        self.job = job
        self.restart_state = restart_state
        self.has_begun = False
        self.result: JobResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A table that the task declares, and the strongest operation declared for it."""

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
    """An open transaction. A statement runs immediately; later statements see its changes.

    Threads may share a transaction. Their statements and reads run one at a time. A statement that
    fails raises a HiveAcidError, and the transaction can no longer commit.
    """

    def __init__(
        self, job: JobContext, work: TransactionWork, tables: Mapping[TableRef, _Declared]
    ) -> None:
        self._job, self._work, self._tables = job, work, tables
        self._steps: list[Step] = []
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def read(  # noqa: PLR0913 - a read names a table, its rows and columns, and a version
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        parameters: Mapping[str, object] | None = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> DataFrame:
        """Return a frame of a table's rows, as the transaction sees them now or as of a version.

        Args:
            table: a table that the task declares, as `db.table`.
            columns: the columns to read, in this order; all by default.
            where: a condition in Spark SQL; files that cannot contain matching rows are skipped.
            parameters: the values of the markers in the condition, such as `:day`, by marker name.
                A value has its Python type, or the type in a dict such as `{"type": "date",
                "value": "2026-01-01"}`.
            version: read the table as of this version number; see `read_table`.
            timestamp: read the table as of this moment.
            tag: read the version with this tag.

        Raises:
            InputError: the task does not declare the table, or a column or the condition is
                invalid. The same error is raised if the program has changed the session
                (`check_session`).
            HiveAcidError: the version is unknown or no longer readable; see `read_table`.
        """
        with self._turn():
            check_session(self._job.spark)
            target = self._work.target(
                self._declared(table, "reads", "reads").table,
                version=VersionSpec.of(version, timestamp, tag),
            )
            marker_values = where_parameters(where, parameters)
            if where is None:
                return target.rows(columns)
            moment = Moment.now(self._job.spark, self._job.text_terms(marker_values))
            return target.rows_where(where, moment, columns)

    def insert(  # noqa: PLR0913 - an INSERT has this many parts
        self,
        table: str,
        rows: DataFrame,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, str | int | None] | None = None,
        match: str = specs.ColumnMatch.NAME.value,
        overwrite: bool = False,
    ) -> StatementResult:
        """Run INSERT INTO or INSERT OVERWRITE, with the arguments of `HiveAcidInsertOperator`."""
        partition_values = {} if partition is None else partition
        return self._run(
            lambda: specs.InsertSpec(
                target=arguments.table_name(table),
                source=_FRAME,
                mode=specs.InsertMode.OVERWRITE if overwrite else specs.InsertMode.APPEND,
                columns=arguments.names(columns, "columns"),
                partition=statements.partition_values(
                    partition_values, nulls=statements.null_columns(partition_values)
                ),
                match=arguments.choice(specs.ColumnMatch, match, "match"),
            ),
            rows,
        )

    def update(
        self,
        table: str,
        assignments: Mapping[str, str],
        *,
        where: str,
        parameters: Mapping[str, object] | None = None,
    ) -> StatementResult:
        """Run an UPDATE that assigns Spark SQL expressions to columns.

        `where="true"` updates every row. `parameters` are the values of the markers in the
        expressions and in the condition; see `read`.
        """
        return self._run(
            lambda: job_with(
                specs.UpdateSpec(
                    target=arguments.table_name(table),
                    set=arguments.assignments(assignments, "assignments"),
                    where=arguments.condition(where, "where"),
                ),
                parameters or {},
            )
        )

    def delete(
        self, table: str, *, where: str, parameters: Mapping[str, object] | None = None
    ) -> StatementResult:
        """Run a DELETE; `where="true"` deletes all rows. `parameters` are the markers' values."""
        return self._run(
            lambda: job_with(
                specs.DeleteSpec(
                    target=arguments.table_name(table), where=arguments.condition(where, "where")
                ),
                parameters or {},
            )
        )

    def merge(  # noqa: PLR0913 - a MERGE has this many parts
        self,
        table: str,
        rows: DataFrame,
        *,
        keys: Sequence[str],
        clauses: Sequence[Mapping[str, object]],
        condition: str | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> StatementResult:
        """Merge rows into a table, with the arguments of `HiveAcidMergeOperator`."""
        return self._run(
            lambda: job_with(
                specs.MergeSpec(
                    target=arguments.table_name(table),
                    source=_FRAME,
                    keys=statements.key_names(keys),
                    clauses=statements.merge_clauses(clauses),
                    condition=None
                    if condition is None
                    else arguments.condition(condition, "condition"),
                ),
                parameters or {},
            ),
            rows,
        )

    def _close(self) -> None:
        """Wait until no other thread is in a call, then refuse all further calls."""
        with self._lock:
            self._is_over = True

    def _look_back(self) -> None:
        if self._failure is not None:
            raise ConfigurationError(
                f"a statement of the transaction failed ({self._failure}), but the program caught"
                " the error; nothing is committed. Let the error leave the block"
            ) from self._failure

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Run a block in one thread at a time, since the metastore's client is not thread-safe."""
        with self._lock:
            if self._is_over:
                raise ConfigurationError(_OVER)
            yield

    def _run(
        self, describe: Callable[[], specs.StatementSpec], rows: DataFrame | None = None
    ) -> StatementResult:
        with self._turn():
            self._look_back()
            try:
                check_session(self._job.spark)
                if rows is not None:
                    check_session(rows.sparkSession)  # the frame may belong to a different session
                return self._done(describe(), rows)
            except BaseException as error:
                self._failure = error
                raise

    def _done(self, spec: specs.StatementSpec, rows: DataFrame | None) -> StatementResult:
        number = len(self._steps) + 1
        with naming(number, number):
            change = planned_one(self._job, spec, rows)
            self._check_declared(spec.target, change.operations)
            check_order([*self._steps, change.step])
            self._steps.append(change.step)
            return self._work.run(change, Touched(names=change.fixed))

    def _check_declared(self, table: str, operations: frozenset[DataOperation]) -> None:
        declared = self._declared(table, "writes", "inserts, changes or overwrites")
        allowed = _ALLOWED[declared.operation]
        if not operations <= allowed:
            where = "overwrites" if DataOperation.OVERWRITE in operations else "changes"
            raise ConfigurationError(_UNDECLARED.format(does="changes", table=table, where=where))

    def _declared(self, table: str, does: str, where: str) -> _Declared:
        declared = self._tables.get(TableRef.parse(table))
        if declared is None:
            raise ConfigurationError(_UNDECLARED.format(does=does, table=table, where=where))
        return declared


@contextmanager
def transaction(spark: SparkSession, task: Task) -> Iterator[Transaction]:
    """Run a block as the program's only transaction: commit it, or roll back after an error.

    `spark` and `task` are those that `run` passes to the program.

    Raises:
        AlreadyDoneError: an earlier try of the task has committed.
        InputError: a table does not support the declared operation, or the program has already
            opened a transaction.
        HiveAcidError: the transaction failed. Nothing was changed, with one exception: after
            `CommitStateUnknownError`, it is unknown whether the transaction was committed.
    """
    del spark  # the job already has the session; the parameter only shows that the block uses it
    job = task.job
    if task.has_begun:
        raise ConfigurationError(
            "a program may open only one transaction, since a retry repeats all changes or none;"
            " move the other transaction to a separate task"
        )
    task.has_begun = True
    tables = _declared_tables(job)
    accesses = [
        TableAccess(table=d.table, operations=frozenset({d.operation}))
        for d in tables.values()
        if d.operation is not DataOperation.SELECT
    ]
    # Locks of changed tables allow the program to read them whole.
    sources = [d.table for d in tables.values() if d.operation is DataOperation.SELECT]
    with restarts.begun(job, accesses, sources, task.restart_state) as write:
        earlier = write.earlier_run()
        if earlier is not None:
            task.result = restarts.already_done(job, write, earlier)
            raise AlreadyDoneError(str(job.spec.job_key))
        restarts.check_sources(job, write)
        for table in sources:  # they are read with these definitions
            check_source(job.client, table)
        write.look_ahead()
        work = TransactionWork(job, write)
        txn = Transaction(job, work, tables)
        try:
            yield txn
        finally:
            txn._close()  # noqa: SLF001 - programs must not call it
        txn._look_back()  # noqa: SLF001 - as above
        result = work.finish()
    task.result = result


def _hold_locks(job: JobContext, restart_state: restarts.RestartState) -> None:
    """Hold the earlier transaction's locks until the program runs again and opens a transaction."""
    if restart_state.handover is None:
        return
    refs = map(TableRef.parse, job.spec.targets)
    try:
        restart_state.handover.hold_locks(job.terms, refs)
    except MetastoreError as error:
        log.warning("locks are kept until the program's next transaction: %s", error)


def _declared_tables(job: JobContext) -> dict[TableRef, _Declared]:
    spec = job.job_of(ProgramSpec)
    declarations = [
        (DataOperation.SELECT, spec.reads),
        (DataOperation.INSERT, spec.inserts),
        (DataOperation.UPDATE, spec.changes),
        (DataOperation.OVERWRITE, spec.overwrites),
    ]
    tables: dict[TableRef, _Declared] = {}
    # a table's last entry applies, because it has the strongest operation
    for operation, names in declarations:
        for name in names:
            if operation is DataOperation.SELECT:
                (table,) = job.tables({name: name}).values()
            elif operation is DataOperation.UPDATE:
                table = job.changeable_table(name, "a change of rows")
            else:
                table = job.insertable_table(name)
            tables[table.ref] = _Declared(table=table, operation=operation)
    return tables


def run(program: ProgramFunction) -> None:
    """Run a program for its task; after a failure, exit with the result's exit code.

    Call the program with a session and a `Task`; the program's arguments are in `sys.argv`. If
    another transaction commits a conflicting change before this one publishes anything, the program
    is called again, as by an Airflow retry.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--spec")
    options, own = parser.parse_known_args()
    if options.spec is None:
        parser.error(
            "--spec is missing: do not start a program that calls acid.run by hand;"
            " HiveAcidPySparkOperator submits it, and passes the job's spec with --spec"
        )
    sys.argv[1:] = own
    spec = ["--spec", options.spec]
    code = run_application("program", lambda job: run_program(job, program), spec)
    if code is not ExitCode.OK:
        sys.exit(int(code))


def run_program(job: JobContext, program: ProgramFunction) -> JobResult:
    """Run a program inside an application, and return the result of the program's transaction."""
    restart_state = restarts.RestartState()

    def once() -> JobResult:
        _hold_locks(job, restart_state)
        task = Task(job, restart_state)
        try:
            program(job.spark, task)
        except AlreadyDoneError:
            if task.result is None:
                raise
        except SystemExit as end:  # many programs end with sys.exit(0)
            if end.code:
                raise
        if task.result is None:
            raise ConfigurationError(
                "the program ended without a transaction; write"
                " `with acid.transaction(spark, task) as txn:`, or call acid.stream in a program of"
                " HiveAcidStreamOperator"
            )
        return task.result

    return restarts.until_not_overtaken(once, restart_state)
