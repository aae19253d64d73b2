"""The base class of operators whose job has many tables, given by names and patterns."""

from __future__ import annotations

from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL
from airflow_hiveacid.operators.worker_first import WorkerFirstOperator


class ManyTablesOperator(WorkerFirstOperator):
    """Run a job on all transactional tables that match the names and patterns in `tables`."""

    @property
    def linked_table(self) -> str:
        """Empty, because the task has several tables."""
        return ""

    @property
    def map_label(self) -> str:
        """The names and patterns of a mapped task."""
        return ", ".join(self.value_of("tables"))[:LONGEST_LABEL]

    def statement_text(self) -> str:
        """Return an empty string, because no SQL statement has several tables of a pattern."""
        return ""
