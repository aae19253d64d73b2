"""What every operator that changes rows has beside the others: terms for running again."""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.jobs.specs import OnRerun
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence


class HiveAcidChangeOperator(HiveAcidSparkOperator):
    """Change the rows of a table with `spark-submit`.

    Args:
        on_rerun: what a task does that was cleared after a success: `apply` its change again (by
            default), `skip` it with a warning, or `fail`. A retry never applies a change twice.
        ledger_retention_s: how long the table remembers that this task has changed it; longer than
            any retry may wait. By default 30 days.
    """

    template_fields: Sequence[str] = (
        *HiveAcidSparkOperator.template_fields,
        "on_rerun",
        "ledger_retention_s",
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
        """What of the job description says how a run is to be taken that was done before."""
        return {
            "on_rerun": arguments.choice(OnRerun, self.on_rerun, "on_rerun"),
            "ledger_retention_s": arguments.retention(
                self.ledger_retention_s, "ledger_retention_s"
            ),
        }
