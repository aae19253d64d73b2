"""The operator that cleans many tables with one task, without Spark.

Example:
    HiveAcidCleanTablesOperator(task_id="clean", tables=["sales.*", "demo.orders"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import declaration
from airflow_hiveacid.operators.reporting.plan_text import cleaned_table_lines
from airflow_hiveacid.operators.worker_first import ManyTablesOperator


class HiveAcidCleanTablesOperator(ManyTablesOperator):
    """Clean all transactional tables with matching names, with one task.

    Partitions of all tables are cleaned side by side, each as by `HiveAcidCleanOperator`. If a
    table or partition fails, the others are cleaned nevertheless. Then the task fails, and a retry
    cleans only what is left. Tables that this provider cannot clean are skipped, and the log gives
    the reason. If a table is named without a wildcard, it must exist and be supported. The worker
    cleans the tables without Spark; see `on_worker`.

    Args:
        tables: names or patterns, such as `sales.*` or `demo.orders`.
        retention_s: how many seconds a directory is kept after a newer directory has replaced it.
        orphan_age_s: minimum age, in seconds, of a staging directory that is treated as abandoned.
        remove_unknown_after: remove unknown files that have not changed for this time, such as `30
            days`; at least `1 day`. A cleaning must have found them a day before. By default,
            unknown files and directories are only listed.
        plan_only: report what would be removed, and remove nothing.
        on_worker: as for `HiveAcidCleanOperator`.
    """

    does = "Removes directories that no reader needs, of all transactional tables with these names."
    returns = (
        "the status, the number of tables and partitions, and for each table with something to"
        " remove or keep the numbers of its directories, and why they are kept"
    )

    @declaration
    def __init__(
        self,
        *,
        tables: kinds.Tables,
        retention_s: kinds.Seconds = 0.0,
        orphan_age_s: kinds.Seconds = 86400.0,
        remove_unknown_after: kinds.UnknownAge = None,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    def build_job(self) -> CleanSpec:
        """Return the spec of the cleanings that the rendered arguments describe."""
        return CleanSpec(**self.job_arguments())

    def describe(self, result: JobResult) -> Sequence[str]:
        """Return one line for each of the largest tables, and the totals."""
        return cleaned_table_lines(result.details)
