"""The base class of operators whose job has many tables, given by names and patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL, given_fields
from airflow_hiveacid.operators.worker_first import WorkerFirstOperator
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence


class ManyTablesOperator(WorkerFirstOperator):
    """Run a job on all transactional tables with matching names.

    Args:
        tables: names or patterns, such as `sales.*` or `demo.orders`.
        plan_only: report what the job would do, and change nothing.
    """

    template_fields: Sequence[str] = given_fields(
        "tables", "plan_only", *WorkerFirstOperator.template_fields
    )

    def __init__(
        self,
        *,
        tables: Sequence[str] | str,
        plan_only: bool | str = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.plan_only = plan_only
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_patterns, tables=tables)
        early.check(arguments.truth, plan_only=plan_only)

    @property
    def linked_table(self) -> str:
        """Empty, because the task has several tables."""
        return ""

    @property
    def map_label(self) -> str:
        """The names and patterns of a mapped task."""
        return ", ".join(arguments.table_patterns(self.tables, "tables"))[:LONGEST_LABEL]

    def statement_text(self) -> str:
        """Return an empty string, because no SQL statement has several tables of a pattern."""
        return ""
