"""The operator that compacts many tables with one Spark driver.

Example:
    HiveAcidCompactTablesOperator(task_id="compact", tables=["sales.*", "demo.orders"])
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial as bind
from typing import Annotated, Any

from airflow.sdk import Context

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.job import JobSpec
from airflow_hiveacid.jobs.specs.maintenance import AtEnd, CompactionChoice, CompactSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of, setting
from airflow_hiveacid.operators.worker_first import ManyTablesOperator
from airflow_hiveacid.plan import arguments


class HiveAcidCompactTablesOperator(ManyTablesOperator):
    """Compact all transactional tables with matching names, with one Spark driver.

    Each partition is compacted in its own transaction, several at a time. If a partition fails, the
    others are compacted nevertheless. Then the task fails, and a retry compacts only partitions
    that still need it. Tables that this provider cannot compact are skipped, and the log gives the
    reason. If a table is named without a wildcard, it must exist and be supported. The worker plans
    the compactions, and starts Spark only if a partition is due; see `on_worker`.

    Args:
        tables: names or patterns, such as `sales.*` or `demo.orders`.
        choice: `auto` (by the thresholds below), `minor`, `major` or `queued`, as for
            `HiveAcidCompactOperator`. With `queued`, the task is a worker of Hive's compaction
            queue: it compacts the partitions for which a request of another client waits there, the
            oldest first. Needs a Hive 4 metastore.
        delta_count: `auto` compacts a partition that has at least this many delta directories. By
            default, each table's own threshold applies, as for `HiveAcidCompactOperator`.
        delta_ratio: `auto` compacts a partition if its deltas have at least this fraction of the
            base's bytes. By default, each table's own threshold applies.
        also_when: further thresholds of `auto`, as for `HiveAcidCompactOperator`.
        max_bytes: the most bytes that all compactions of this task may read; by default no limit.
            The partitions for which a later read saves most come first. The others are left for a
            later task. At least one partition is compacted.
        pools: with `queued`, serve only the requests of these pools; by default of all.
        until: the end of the window, as a time of day with its zone (`05:00 Europe/Zurich`) or as a
            moment (`2026-11-27T05:00+01:00`). The time of day is the first one after the DAG run's
            `run_after`. From then on, the task starts no partition. What is committed stays, the
            task succeeds, and `window_ended` in its result is true. A retry within the window
            continues. A retry after it does nothing.
        at_end: `finish` lets the running partitions finish; `stop` aborts their transactions, and
            removes what they have staged.
        plan_only: report what would be compacted, and change nothing.
        on_worker: as for `HiveAcidCompactOperator`.
    """

    does = "Compacts all transactional tables with matching names; their rows do not change."
    returns = (
        "the status, the number of tables and partitions, and for each partition that was due the"
        " kind of compaction and the reason"
    )
    choice: str
    pools: Sequence[str] | str | None

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        tables: kinds.Tables,
        choice: kinds.Choice = CompactionChoice.AUTO.value,
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        also_when: kinds.AlsoWhen = None,
        max_bytes: Annotated[
            int | str | None, Argument(arguments.or_none(arguments.positive_number))
        ] = None,
        pools: kinds.OptionalNames = None,
        until: Annotated[str | None, setting(arguments.window_end)] = None,
        at_end: Annotated[str, one_of(AtEnd)] = AtEnd.FINISH.value,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        self._began: datetime | None = None
        if arguments.is_settled(choice):
            self.early_checks.check(bind(_check_pools, choice), pools=pools)

    def build_job(self) -> CompactSpec:
        """Return the spec of the compactions that the rendered arguments describe."""
        values = self.job_arguments()
        _check_pools(self.choice, self.pools, "pools")
        end = self._window_end()
        return CompactSpec(**values, until_s=None if end is None else end.timestamp())

    def _run_jobs(self, context: Context) -> dict[str, JsonValue]:
        if (end := self.value_of("until")) is not None:
            # The run began the window. So all tries of the run have the same window.
            self._began = context["dag_run"].run_after
            self.log.info("the window ends at %s", end.after(self._began).isoformat())
        return super()._run_jobs(context)

    def _window_end(self) -> datetime | None:
        """Return the end of the window; None if there is no end, or if the task does not run."""
        end = self.value_of("until")
        return None if end is None or self._began is None else end.after(self._began)

    def result_now(self, job: JobSpec) -> JobResult | None:
        """Return the result if the window has ended."""
        if self._began is None:  # no window, so do not load Arrow for it
            return None
        from airflow_hiveacid.maintenance.without_spark import nothing_in_window  # noqa: PLC0415 - needs Arrow

        return nothing_in_window(job, self.build_job())


def _check_pools(choice: str, pools: Sequence[str] | str | None, argument: str) -> None:
    served = arguments.choice(CompactionChoice, choice, "choice") is CompactionChoice.QUEUED
    if pools is not None and not served:
        raise ConfigurationError(
            f"{argument} needs choice='queued', found {choice!r}; change the choice, or leave out"
            f" {argument}"
        )
