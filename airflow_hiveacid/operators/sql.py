"""The operator that runs statements in Hive's SQL as jobs or metastore calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial as bind
from typing import Annotated, Any

from airflow.sdk import Context

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import TaskKilledError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.statements import Parameter
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.rendering import names_file
from airflow_hiveacid.operators.reporting.outlets import RerunTerms
from airflow_hiveacid.operators.reporting.plan_text import answer_lines
from airflow_hiveacid.operators.row_change import InProcessOperator
from airflow_hiveacid.operators.statement_notes import Order, StatementNote
from airflow_hiveacid.operators.submission.kill import Attempt
from airflow_hiveacid.operators.submission.run_identity import generation_of, key_of
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.parameters import (
    check_all_used,
    check_values_early,
    stand_ins,
)
from airflow_hiveacid.sql.script import Statement, read_script


class HiveAcidSqlOperator(InProcessOperator):
    """Run statements in Hive's dialect: row changes, DDL and metastore queries.

    INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE TABLE ... AS SELECT and ALTER TABLE ... COMPACT
    are jobs, on the worker or with Spark. All other statements are metastore calls of the task,
    without Spark: the other CREATE, DROP and ALTER TABLE statements, SHOW COMPACTIONS, SHOW
    TRANSACTIONS, SHOW LOCKS, and ABORT TRANSACTIONS.

    Several statements, separated by `;`, run in order. Each statement has its own transaction. If a
    statement fails, the earlier statements remain committed, and a retry skips them. A retry
    recognizes a statement by its position in `sql`. So if you edit `sql` before a retry, do not
    change or move statements that are done. SQL without templates is parsed together with the DAG.
    So an invalid statement is an import error of the DAG, and the error has the line and column.

    Args:
        sql: the SQL text, or the name of a `.sql` file beside the DAG.
        database: the default database of table names; without it, a table name must have a
            database.
        parameters: values for the markers in the SQL text, such as `:day`, as for
            `HiveAcidMergeOperator`. A marker can stand for any constant, also in VALUES and
            PARTITION.
    """

    does = "Runs statements in Hive's SQL, each in its own transaction."
    returns = (
        "the status, rows, files, bytes and write IDs of each statement, or the rows of a query"
    )
    sql: str
    database: str | None
    template_ext: Sequence[str] = (".sql",)
    file_fields = ("sql",)

    @declaration
    def __init__(
        self,
        *,
        sql: Annotated[str, setting(check=kinds.checked_with_sql, shown_as="sql")],
        database: Annotated[str | None, setting()] = None,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        self._statements: Sequence[Statement] = ()
        self._order: Order | None = None
        is_file = names_file(sql, self.template_ext)
        # The markers of a `.sql` file are unknown before the task reads the file.
        is_known = (
            arguments.is_settled(database) and not is_file and isinstance(parameters, Mapping)
        )
        check_values_early(self.early_checks, parameters)
        if is_known:
            self.early_checks.check(bind(self._read, given=stand_ins(parameters)), sql=sql)

    def build_jobs(self) -> Sequence[Job | MetastoreStatement]:
        """Return the jobs and metastore statements of the rendered SQL text."""
        self._statements = self._read(self.sql, "sql", self.value_of("parameters"))
        return [statement.job for statement in self._statements]

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[RerunTerms, JobResult]:
        """Run a job or a metastore statement, unless an earlier try has done it."""
        # If all statements are jobs, none drops a ledger, and the ledgers show which are done.
        if not any(isinstance(s.job, MetastoreStatement) for s in self._statements):
            return super().run_one(context, number, job)
        order = self._order_of(context, number, job)
        store = context.get("task_state_store")
        note = StatementNote(store=store, number=number, job=job, order=order)
        if (earlier := note.already()) is not None:
            return order, earlier
        if isinstance(job, MetastoreStatement):
            result = self._in_metastore(context, job, order, note)
        else:
            _, result = super().run_one(context, number, job)
        if not (isinstance(job, MetastoreStatement) and job.asks_only):  # a retry asks again
            note.end(result)
        return order, result

    @property
    def under_way(self) -> Attempt | None:
        """The running attempt; if the task is killed, its transactions and locks are released."""
        return self._order or super().under_way

    def position_of(self, number: int) -> str:
        """Return the line and column at which statement `number` begins."""
        statement = self._statements[number - 1]
        return f"in statement {number} of sql, line {statement.line}, column {statement.column}"

    def _order_of(self, context: Context, number: int, job: Job | MetastoreStatement) -> Order:
        settings = HiveAcidHook(self.hive_acid_conn_id).settings
        return Order(
            job_key=key_of(context, number),
            generation=generation_of(context),
            attempt=str(AttemptId.new(context["ti"].try_number)),
            on_rerun=self.rerun_terms()["on_rerun"],
            metastore=settings.endpoint,
            lock_timeout_s=self.lock_timeout(settings),
            targets=(job.target,) if "." in job.target else (),  # a database has no dot
        )

    def _in_metastore(
        self, context: Context, statement: MetastoreStatement, order: Order, note: StatementNote
    ) -> JobResult:
        if self._is_killed:
            raise TaskKilledError
        self._spec, self._order = None, order
        try:
            # A query changes nothing, so it may run beside an earlier try's driver. A later
            # statement of the script resumes that driver.
            self.take_over_left_driver(context, order.attempt, ends=not statement.asks_only)
            result = run_in_metastore(HiveAcidHook(self.hive_acid_conn_id), statement, order, note)
        finally:
            self._order = None
        self.log.info("%s", what_came_of(result))
        for line in answer_lines(result.details):
            self.log.info("%s", printable(line, keep="\n\t"))
        return result

    def _read(self, sql: str, argument: str, given: Mapping[str, Parameter]) -> Sequence[Statement]:
        statements = read_script(arguments.text(sql, argument), self.database or None, given)
        names = frozenset[str]().union(*[statement.parameters for statement in statements])
        check_all_used(given, names, "parameters")
        return statements


def run_in_metastore(
    hook: HiveAcidHook, statement: MetastoreStatement, order: Order, note: StatementNote
) -> JobResult:
    """Execute a statement with metastore calls, and return the statement's result."""
    began_s = time.monotonic()
    state = note.before()
    outcome = hook.run(
        statement,
        terms=JobTerms(
            job_key=order.job_key,
            attempt=AttemptId.parse(order.attempt),
            lock_timeout_s=order.lock_timeout_s,
        ),
        before=state,
        on_begin=note.begin,
    )
    if outcome.has_changed:
        status = JobStatus.COMMITTED
    else:
        # With `state`, an earlier try began the change. Nothing is left to do, so it succeeded.
        status = JobStatus.NOTHING_TO_DO if state is None else JobStatus.ALREADY_DONE
    details: dict[str, JsonValue] = {}
    if statement.asks_only:
        rows = [dict(row) for row in outcome.rows]
        details = {"rows": rows, "count": len(outcome.rows)}
    return JobResult(
        kind=statement.kind,
        job_key=order.job_key,
        status=status,
        table=statement.target,
        txn_id=outcome.txn_id,
        partitions=tuple(str(name) for name in outcome.partitions),
        seconds=time.monotonic() - began_s,
        details=details,
    )


def what_came_of(result: JobResult) -> str:
    """Return a one-line summary of a metastore statement's result."""
    target = f" {result.table}" if result.table else ""
    if "count" in result.details:
        return f"{result.kind}{target}: {result.details['count']} rows"
    parts = f", partitions {', '.join(result.partitions)}" if result.partitions else ""
    return f"{result.kind}{target}: {result.status.value}{parts}"
