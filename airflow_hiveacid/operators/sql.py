"""The operator for statements in Hive's SQL: text in, the jobs of the other operators out.

Example:
    HiveAcidSqlOperator(task_id="old", sql="DELETE FROM demo.t WHERE day < '{{ ds }}'")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.operators.plan_text import compaction_lines
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.sql.script import read_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs import Job
    from airflow_hiveacid.sql.script import Statement


class HiveAcidSqlOperator(HiveAcidChangeOperator):
    """Run INSERT, UPDATE, DELETE, MERGE and ALTER TABLE ... COMPACT in Hive's dialect.

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
        is_file = str(sql).endswith(tuple(self.template_ext))
        if arguments.is_settled(database) and not is_file:
            arguments.EarlyChecks(self.task_id).check(self._read, sql=sql)

    def build_jobs(self) -> Sequence[Job]:
        """The jobs that the rendered statements describe."""
        self._statements = self._read(self.sql, "sql")
        return [statement.job for statement in self._statements]

    def place_of(self, number: int) -> str:
        """The line and column at which a statement begins."""
        found = self._statements[number - 1]
        return f"in statement {number} of sql, line {found.line}, column {found.column}"

    def describe(self, result: JobResult) -> Sequence[str]:
        """Of a compaction, what is compacted: one line a partition."""
        return compaction_lines(result.details)

    def _read(self, sql: str, argument: str) -> Sequence[Statement]:
        return read_script(arguments.text(sql, argument), self.database or None)
