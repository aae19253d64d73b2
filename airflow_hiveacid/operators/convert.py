"""The operator that converts a table between flat and transactional.

Example:
    HiveAcidConvertOperator(task_id="convert", table="demo.t", to="full_acid")
"""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.jobs.conversion import ConversionTarget, ConvertSpec
from airflow_hiveacid.operators.plan_text import conversion_lines
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.jobs.results import JobResult


class HiveAcidConvertOperator(HiveAcidSparkOperator):
    """Make a flat table transactional, or the other way round, with the rows that it has.

    Everybody is locked out meanwhile, and the rows are counted and hashed before and after: if they
    are not the same, the table is what it was. A table that is what it is asked to be is left
    alone. Of a full-ACID table a flat copy takes the place; the table stays as `<name>__acid`, and
    gets its name back by `full_acid`, if both have the same rows.

    Args:
        table: `db.table`.
        to: `full_acid` (of a flat ORC table), `insert_only` (of a flat table) or `flat`.
        plan_only: say what would be done, or why it cannot be, and do nothing.
    """

    template_fields: Sequence[str] = (
        *HiveAcidSparkOperator.template_fields,
        "table",
        "to",
        "plan_only",
    )

    def __init__(
        self,
        *,
        table: str,
        to: str,
        plan_only: bool | str = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.to = to
        self.plan_only = plan_only
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(bind(arguments.choice, ConversionTarget), to=to)
        early.check(arguments.truth, plan_only=plan_only)

    def build_job(self) -> ConvertSpec:
        """The conversion that the rendered arguments describe."""
        return ConvertSpec(
            target=arguments.table_name(self.table),
            to=arguments.choice(ConversionTarget, self.to, "to"),
            plan_only=arguments.truth(self.plan_only, "plan_only"),
        )

    def describe(self, result: JobResult) -> Sequence[str]:
        """What is, or with `plan_only` would be, done, step by step."""
        return conversion_lines(result.details)
