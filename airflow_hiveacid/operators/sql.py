"""The operator for statements in Hive's SQL: text in, jobs and calls of the metastore out.

Example:
    HiveAcidSqlOperator(task_id="old", sql="DELETE FROM demo.t WHERE day < '{{ ds }}'")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.operators.metastore_run import run_in_metastore, what_came_of
from airflow_hiveacid.operators.plan_text import answer_lines, compaction_lines
from airflow_hiveacid.operators.run_identity import generation_of, key_of
from airflow_hiveacid.operators.statement_notes import Order, StatementNote
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.metastore_statements import MetastoreStatement
from airflow_hiveacid.sql.script import read_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs import Job
    from airflow_hiveacid.operators.kill import Attempt
    from airflow_hiveacid.operators.outlets import Ordered
    from airflow_hiveacid.sql.script import Statement


class HiveAcidSqlOperator(HiveAcidChangeOperator):
    """Run statements in Hive's dialect: changes of rows, definitions, and questions.

    INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE TABLE ... AS SELECT and ALTER TABLE ... COMPACT
    are jobs of Spark's. Other CREATE, DROP and ALTER TABLE, SHOW COMPACTIONS, TRANSACTIONS and
    LOCKS, and ABORT TRANSACTIONS are done by the metastore, from within the task.

    Several statements, separated by `;`, run in order. Each is a transaction of its own: what the
    first ones have done stays if a later one fails, and a retry passes over it. A statement is
    known by its place in the text: between two tries change only those that are not done, and put
    new ones behind them. Text without templates is read with the DAG, so that a wrong statement is
    an import error that names its line and column.

    Args:
        sql: the text, or the name of a `.sql` file beside the DAG.
        database: where tables are whose names have no database; without it such names are refused.
    """

    template_fields: Sequence[str] = (*HiveAcidChangeOperator.template_fields, "sql", "database")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "sql": "sql"}

    def __init__(
        self,
        *,
        sql: str,
        database: str | None = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.database = database
        self._statements: Sequence[Statement] = ()
        self._order: Order | None = None
        is_file = str(sql).endswith(tuple(self.template_ext))
        if arguments.is_settled(database) and not is_file:
            arguments.EarlyChecks(self.task_id).check(self._read, sql=sql)

    def build_jobs(self) -> Sequence[Job | MetastoreStatement]:
        """What the rendered statements describe."""
        self._statements = self._read(self.sql, "sql")
        return [statement.job for statement in self._statements]

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[Ordered, JobResult]:
        """Submit a job, or have the metastore do a statement, unless an earlier try has."""
        if not any(isinstance(s.job, MetastoreStatement) for s in self._statements):
            return super().run_one(context, number, job)
        order = self._order_of(context, number, job)
        store = context.get("task_state_store")
        note = StatementNote(store=store, number=number, job=job, order=order)
        if (done := note.already()) is not None:
            return order, done
        if isinstance(job, MetastoreStatement):
            result = self._in_metastore(context, job, order, note)
        else:
            _, result = super().run_one(context, number, job)
        if not (isinstance(job, MetastoreStatement) and job.asks_only):
            note.end(result)
        return order, result

    @property
    def under_way(self) -> Attempt | None:
        """Or what holds the locks for a definition."""
        return self._order or super().under_way

    def place_of(self, number: int) -> str:
        """The line and column at which a statement begins."""
        found = self._statements[number - 1]
        return f"in statement {number} of sql, line {found.line}, column {found.column}"

    def describe(self, result: JobResult) -> Sequence[str]:
        """Of a compaction, what is compacted: one line a partition."""
        return compaction_lines(result.details)

    def _order_of(self, context: Context, number: int, job: Job | MetastoreStatement) -> Order:
        settings = HiveAcidHook(self.hive_acid_conn_id).settings
        return Order(
            job_key=key_of(context, number),
            generation=generation_of(context),
            attempt=str(AttemptId.new(context["ti"].try_number)),
            on_rerun=self.rerun_terms()["on_rerun"],
            metastore=settings.endpoint,
            lock_timeout_s=self.lock_timeout(settings),
            targets=(job.target,) if "." in job.target else (),  # and not a database
        )

    def _in_metastore(
        self, context: Context, statement: MetastoreStatement, order: Order, note: StatementNote
    ) -> JobResult:
        if self._is_killed:
            raise JobFailedError("the task was killed")
        self._spec, self._order = None, order
        try:
            # Beside a question a driver of an earlier try may go on: its statement finds it again.
            self.meet_left(context, order.attempt, ends=not statement.asks_only)
            result = run_in_metastore(HiveAcidHook(self.hive_acid_conn_id), statement, order, note)
        finally:
            self._order = None
        self.log.info("%s", what_came_of(result))
        for line in answer_lines(result.details):
            self.log.info("%s", line)
        return result

    def _read(self, sql: str, argument: str) -> Sequence[Statement]:
        return read_script(arguments.text(sql, argument), self.database or None)
