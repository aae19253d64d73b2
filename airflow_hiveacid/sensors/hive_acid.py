"""Sensors that wait until a table needs compaction, by delta count, delta ratio or either.

They hold no rule: `hooks.health.look` decides here as it does in the trigger. How they wait is
`sensors.watching`'s affair.

Example:
    wait = HiveAcidCompactionNeededSensor(task_id="wait", table="demo.flights", deferrable=True)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import conf

from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.sensors.watching import HiveAcidWatchSensor
from airflow_hiveacid.triggers.hive_acid import CompactionNeededTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.hooks.health import Look

_DELTA_COUNT: Final = 10
_DELTA_RATIO: Final = 0.1
_MOST_MAPPED: Final = 1024  # Airflow's default of the setting


class HiveAcidThresholdSensor(HiveAcidWatchSensor):
    """Wait until at least one partition reaches a threshold; the base of the sensors below.

    What it returns is a list to map over: one entry for each partition that is due, with its
    numbers (`delta_count`, `delta_ratio`, bytes, ...), `partition` and `why`. If a task is mapped
    over it, it has at most `[core] max_map_length` entries, those with the most deltas.

    Arguments are those of `HiveAcidWatchSensor`.
    """

    @abstractmethod
    def policy(self) -> CompactionPolicy:
        """The thresholds that the rendered arguments describe.

        Raises:
            ConfigurationError: an argument is wrong.
        """

    def look(self) -> Look:
        """Measure once."""
        from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - brings Thrift and Arrow

        table = arguments.table_name(self.table)
        partition = arguments.partition_name(self.partition)
        policy = self.policy()
        return look(HiveAcidHook(self.hive_acid_conn_id).endpoint(), table, partition, policy)

    def trigger(self, **watch: Any) -> CompactionNeededTrigger:  # noqa: ANN401 - passed on
        """What measures the same in the triggerer."""
        policy = self.policy()
        return CompactionNeededTrigger(
            delta_count=policy.delta_count, delta_ratio=policy.delta_ratio, **watch
        )

    def answer(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All that is due; where it is mapped over, as much of it as Airflow takes.

        More would fail this task each time, and nothing would ever be compacted.
        """
        most = conf.getint("core", "max_map_length", fallback=_MOST_MAPPED)
        if len(found) <= most or next(self.iter_mapped_dependants(), None) is None:
            return found
        self.log.warning(
            "%d partitions are due, and [core] max_map_length lets %d be mapped over: those with"
            " the most deltas come first, the others are due at the next run",
            len(found),
            most,
        )
        return sorted(found, key=lambda one: -one["delta_count"])[:most]

    def _check_thresholds(self, **given: object) -> None:
        if arguments.is_settled(given):
            arguments.EarlyChecks(self.task_id).check(lambda *_: self.policy(), **given)


class HiveAcidDeltaCountSensor(HiveAcidThresholdSensor):
    """Wait until there are `delta_count` delta directories (deltas and delete deltas together).

    At 10 it fires at the tenth, not at the ninth.
    """

    template_fields: Sequence[str] = (*HiveAcidThresholdSensor.template_fields, "delta_count")

    def __init__(self, *, delta_count: int | str = _DELTA_COUNT, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.delta_count = delta_count
        self._check_thresholds(delta_count=delta_count)

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
        self._check_thresholds(delta_ratio=delta_ratio)

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
        self._check_thresholds(delta_count=delta_count, delta_ratio=delta_ratio)

    def policy(self) -> CompactionPolicy:
        """Count or ratio."""
        return CompactionPolicy(
            delta_count=arguments.whole_number(self.delta_count, "delta_count"),
            delta_ratio=arguments.number(self.delta_ratio, "delta_ratio"),
        )
