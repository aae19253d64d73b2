"""The operator that converts a table between flat and transactional.

Example:
    HiveAcidConvertOperator(task_id="convert", table="demo.t", to="full_acid")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.maintenance import ConversionTarget, ConvertSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import declaration, one_of
from airflow_hiveacid.operators.reporting.plan_text import conversion_lines
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator


class HiveAcidConvertOperator(HiveAcidSparkOperator):
    """Convert a flat table to a transactional table, or the reverse, without changing its rows.

    During the conversion, the table is locked exclusively. The rows are counted and hashed before
    and after the conversion. If the counts or the hashes differ, the task changes nothing. A table
    that is already of the requested kind is not changed. A full-ACID table is replaced with a flat
    copy, and the original is renamed to `<name>__acid`. A later conversion to `full_acid` renames
    the original table back to `<name>` if both tables have equal rows.

    Args:
        table: `db.table`.
        to: `full_acid` (from a flat ORC table), `insert_only` (from a flat table) or `flat`.
        plan_only: report the steps, or why the conversion is impossible, and change nothing.
    """

    does = "Converts {table} between flat and transactional, without changing its rows."
    returns = "the status and the steps of the conversion"
    shows_statement = True

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        to: Annotated[str, one_of(ConversionTarget)],
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    def build_job(self) -> ConvertSpec:
        """Return the spec of the conversion that the rendered arguments describe."""
        return ConvertSpec(**self.job_arguments())

    def describe(self, result: JobResult) -> Sequence[str]:
        """Return the steps that the conversion has done, or would do without `plan_only`."""
        return conversion_lines(result.details)
