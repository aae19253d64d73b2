"""Base class of the operators that change rows, with the arguments for repeated runs."""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.jobs.specs.job import OnRerun
from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence


class HiveAcidRowChangeOperator(HiveAcidSparkOperator):
    """Change the rows of a table with `spark-submit`.

    Args:
        on_rerun: what the task does if a user clears it after a success: `apply` the change again
            (the default), `skip` the change with a warning, or `fail`. A retry never applies a
            change twice.
        ledger_retention_s: how many seconds the table's ledger keeps the note of this task's
            change. The time must be longer than the longest delay before a retry. By default 30
            days.
    """

    template_fields: Sequence[str] = given_fields(
        "on_rerun",
        "ledger_retention_s",
        *HiveAcidSparkOperator.template_fields,
    )

    def __init__(
        self,
        *,
        on_rerun: str = OnRerun.APPLY.value,
        ledger_retention_s: float | str = 30 * 86400.0,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.on_rerun = on_rerun
        self.ledger_retention_s = ledger_retention_s
        early = arguments.EarlyChecks(self.task_id)
        early.check(bind(arguments.choice, OnRerun), on_rerun=on_rerun)
        early.check(arguments.retention, ledger_retention_s=ledger_retention_s)

    def rerun_terms(self) -> dict[str, Any]:
        """Return the JobSpec fields that say what to do if the job has been done before."""
        return {
            "on_rerun": arguments.choice(OnRerun, self.on_rerun, "on_rerun"),
            "ledger_retention_s": arguments.retention(
                self.ledger_retention_s, "ledger_retention_s"
            ),
        }
