"""Sensors that wait until a table needs compaction, by delta count, delta ratio or either.

They hold no rule: `plan.thresholds.due` decides here as it does in the trigger. Three modes:
`poke` and `reschedule` are Airflow's; with `deferrable=True` the triggerer waits and no worker slot
is held.

Example:
    wait = HiveAcidCompactionNeededSensor(task_id="wait", table="demo.flights", deferrable=True)
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.hooks.failures import raise_for_airflow
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators import arguments
from airflow_hiveacid.plan.thresholds import CompactionPolicy, due
from airflow_hiveacid.triggers.hive_acid import CompactionNeededTrigger, findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.plan.thresholds import Finding

_DELTA_COUNT = 10
_DELTA_RATIO = 0.1


class HiveAcidThresholdSensor(BaseSensorOperator):
    """Wait until at least one partition reaches a threshold; the base of the sensors below.

    What it returns is a list to map over: one entry for each partition that is due, with its
    numbers (`delta_count`, `delta_ratio`, bytes, ...), `partition` and `why`.

    Args:
        table: `db.table`.
        partition: `month=1`, or None to watch every partition.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        deferrable: wait in the triggerer; default is `[operators] default_deferrable`.
    """

    template_fields: Sequence[str] = ("table", "partition", "hive_acid_conn_id")

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.deferrable = deferrable

    @abstractmethod
    def policy(self) -> CompactionPolicy:
        """The thresholds that the rendered arguments describe.

        Raises:
            ConfigurationError: an argument is wrong.
        """

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002 - Airflow's signature
        """Measure once.

        Raises:
            AirflowFailException: the table does not exist, or an argument is wrong.
            HiveAcidError: the metastore or the file system did not answer.
        """
        try:
            found = self._measure()
        except HiveAcidError as error:
            raise_for_airflow(error)
        return PokeReturnValue(is_done=bool(found), xcom_value=[f.record() for f in found])

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - Airflow's signature
        """Poke, reschedule or defer. A table that is due already is answered without deferring."""
        if not self.deferrable:
            return super().execute(context)
        now = self.poke(context)
        if not now.is_done:
            self._wait_in_triggerer()
        return now.xcom_value

    def _wait_in_triggerer(self) -> NoReturn:
        policy = self.policy()
        self.defer(
            trigger=CompactionNeededTrigger(
                table=self.table,
                partition=self.partition,
                hive_acid_conn_id=self.hive_acid_conn_id,
                delta_count=policy.delta_count,
                delta_ratio=policy.delta_ratio,
                poke_interval_s=self.poke_interval,
            ),
            method_name=self.execute_complete.__name__,
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ARG002 - Airflow's signature
        """Answer what the trigger found.

        Raises:
            AirflowFailException: the table does not exist (any more).
            HiveAcidError: the metastore or the file system did not answer.
        """
        try:
            return findings(event)
        except HiveAcidError as error:
            raise_for_airflow(error)

    def _measure(self) -> tuple[Finding, ...]:
        policy = self.policy()
        table = arguments.table_name(self.table)
        partition = arguments.partition_name(self.partition)
        healths = HiveAcidHook(self.hive_acid_conn_id).table_health(table, partition)
        for health in healths:
            self.log.info(
                "%s %s: %d delta directories, ratio %s",
                health.table,
                health.partition,
                health.delta_count,
                health.delta_ratio,
            )
        return due(healths, policy)


class HiveAcidDeltaCountSensor(HiveAcidThresholdSensor):
    """Wait until there are `delta_count` delta directories (deltas and delete deltas together).

    At 10 it fires at the tenth, not at the ninth.
    """

    template_fields: Sequence[str] = (*HiveAcidThresholdSensor.template_fields, "delta_count")

    def __init__(self, *, delta_count: int | str = _DELTA_COUNT, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.delta_count = delta_count

    def policy(self) -> CompactionPolicy:
        """The count alone."""
        count = arguments.whole_number(self.delta_count, "delta_count")
        return CompactionPolicy(delta_count=count, delta_ratio=None)


class HiveAcidDeltaRatioSensor(HiveAcidThresholdSensor):
    """Wait until deltas hold `delta_ratio` of the base's bytes; at 0.1 it fires at exactly 10 %.

    A table or partition without a base never fires here: there is nothing to compare with.
    """

    template_fields: Sequence[str] = (*HiveAcidThresholdSensor.template_fields, "delta_ratio")

    def __init__(self, *, delta_ratio: float | str = _DELTA_RATIO, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.delta_ratio = delta_ratio

    def policy(self) -> CompactionPolicy:
        """The ratio alone."""
        ratio = arguments.number(self.delta_ratio, "delta_ratio")
        return CompactionPolicy(delta_count=None, delta_ratio=ratio)


class HiveAcidCompactionNeededSensor(HiveAcidThresholdSensor):
    """Wait until either threshold is reached: what `HiveAcidCompactOperator` in `auto` acts on."""

    template_fields: Sequence[str] = (
        *HiveAcidThresholdSensor.template_fields,
        "delta_count",
        "delta_ratio",
    )

    def __init__(
        self,
        *,
        delta_count: int | str = _DELTA_COUNT,
        delta_ratio: float | str = _DELTA_RATIO,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio

    def policy(self) -> CompactionPolicy:
        """Count or ratio."""
        return CompactionPolicy(
            delta_count=arguments.whole_number(self.delta_count, "delta_count"),
            delta_ratio=arguments.number(self.delta_ratio, "delta_ratio"),
        )
