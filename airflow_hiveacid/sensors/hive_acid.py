"""Sensors that wait until a table needs compaction, by delta count, delta ratio or both.

The sensors and their trigger call `hooks.health.look`, which measures the table and compares the
values with the thresholds. `sensors.watching` polls and defers.

Example:
    wait = HiveAcidCompactionNeededSensor(task_id="wait", table="demo.flights", deferrable=True)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.airflow_names import conf
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.short_form import OMITTED, short_list
from airflow_hiveacid.jobs.specs.maintenance import Off
from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.thresholds import Threshold
from airflow_hiveacid.sensors.watching import HiveAcidWatchSensor
from airflow_hiveacid.triggers.hive_acid import CompactionNeededTrigger, hottest_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.hooks.health import Look
    from airflow_hiveacid.plan.compaction_policy import GivenThresholds

_MOST_MAPPED: Final = 1024  # Airflow's default of `max_map_length`
_OMITTED_KEY: Final = f"return_value{OMITTED}"
_NOTHING_ELSE: Final = {Threshold.ABORTED_TRANSACTIONS.value: Off.OFF}


class HiveAcidThresholdSensor(HiveAcidWatchSensor):
    """Wait until a partition reaches a threshold; the base class of this module's sensors.

    The return value is a list with one entry for each partition that is due, so that the next task
    can be mapped over it. An entry has `partition`, the reason (`why`) and the measured values
    (`delta_count`, `delta_ratio`, bytes, ...). As JSON, the list has at most 16 KB. If a task is
    mapped over the list, the list has at most `[core] max_map_length` entries. If not all
    partitions fit, the list has the partitions with the most deltas, and the XCom
    `return_value_omitted` is the number of left-out partitions.

    The arguments are those of `HiveAcidWatchSensor`.
    """

    does = "Waits until {table}, or one of its partitions, needs compaction."
    returns = "the partitions that are due, with the measured values and the reason"

    @abstractmethod
    def thresholds(self) -> GivenThresholds:
        """Return the thresholds that the rendered arguments describe.

        Raises:
            ConfigurationError: an argument is invalid.
        """

    def look(self) -> Look:
        """Measure the table once."""
        from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - brings Thrift and Arrow

        table = arguments.table_name(self.table)
        partition = arguments.partition_name(self.partition)
        given = self.thresholds()
        return look(HiveAcidHook(self.hive_acid_conn_id).endpoint(), table, partition, given)

    def trigger(self, **watch: Any) -> CompactionNeededTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that measures this table in the triggerer."""
        return CompactionNeededTrigger(**self.thresholds().plain(), **watch)

    def answer(
        self, found: list[dict[str, Any]], context: Context, *, omitted: int = 0
    ) -> list[dict[str, Any]]:
        """Return the due partitions; if there are too many, return those with the most deltas.

        If a task is mapped over the list, return at most as many entries as Airflow can map. With
        more entries, this task would fail in every run, and no partition would be compacted.
        """
        answer, due = short_list(hottest_first(found)), len(found) + omitted
        most = conf.getint("core", "max_map_length", fallback=_MOST_MAPPED)
        if len(answer) > most and next(self.iter_mapped_dependants(), None) is not None:
            answer = answer[:most]
        if left_out := due - len(answer):
            self.log.warning(
                "%d partitions are due, but the result has only the %d with the most deltas:"
                " the result can have 16 KB, and mapping can have [core] max_map_length tasks. The"
                " remaining partitions are due at the next run",
                due,
                len(answer),
            )
            context["ti"].xcom_push(_OMITTED_KEY, left_out)
            return answer
        return found

    def _check_thresholds(self, **given: object) -> None:
        if arguments.is_settled(given):
            arguments.EarlyChecks(self.task_id).check(lambda *_: self.thresholds(), **given)


class HiveAcidDeltaCountSensor(HiveAcidThresholdSensor):
    """Wait until a table or partition has `delta_count` delta directories, including delete deltas.

    With `delta_count=10`, the wait ends when there are ten directories. By default, the table's own
    threshold applies, as for `HiveAcidCompactOperator`.
    """

    template_fields: Sequence[str] = given_fields(
        "table",
        "partition",
        "delta_count",
        *HiveAcidThresholdSensor.template_fields,
    )

    def __init__(self, *, delta_count: int | str | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.delta_count = delta_count
        self._check_thresholds(delta_count=delta_count)

    def thresholds(self) -> GivenThresholds:
        """Return the threshold of the count; all others are off."""
        return arguments.thresholds(self.delta_count, Off.OFF, _NOTHING_ELSE)


class HiveAcidDeltaRatioSensor(HiveAcidThresholdSensor):
    """Wait until the deltas have at least the fraction `delta_ratio` of the base's bytes.

    A table or partition without a base has no ratio, so the sensor never reports it. By default,
    the table's own threshold applies, as for `HiveAcidCompactOperator`.
    """

    template_fields: Sequence[str] = given_fields(
        "table",
        "partition",
        "delta_ratio",
        *HiveAcidThresholdSensor.template_fields,
    )

    def __init__(self, *, delta_ratio: float | str | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.delta_ratio = delta_ratio
        self._check_thresholds(delta_ratio=delta_ratio)

    def thresholds(self) -> GivenThresholds:
        """Return the threshold of the ratio; all others are off."""
        return arguments.thresholds(Off.OFF, self.delta_ratio, _NOTHING_ELSE)


class HiveAcidCompactionNeededSensor(HiveAcidThresholdSensor):
    """Wait until a partition reaches `delta_count`, `delta_ratio` or a threshold in `also_when`.

    `HiveAcidCompactOperator` with `choice="auto"` compacts by the same thresholds, and has the same
    defaults. `off` switches a threshold off. If there is a threshold for `deleted_rows`, each poll
    reads the footers of all delete deltas.
    """

    template_fields: Sequence[str] = given_fields(
        "table",
        "partition",
        "delta_count",
        "delta_ratio",
        "also_when",
        *HiveAcidThresholdSensor.template_fields,
    )

    def __init__(
        self,
        *,
        delta_count: int | str | None = None,
        delta_ratio: float | str | None = None,
        also_when: Mapping[str, float | str] | str | None = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio
        self.also_when = also_when
        self._check_thresholds(
            delta_count=delta_count, delta_ratio=delta_ratio, also_when=also_when
        )

    def thresholds(self) -> GivenThresholds:
        """Return all thresholds."""
        return arguments.thresholds(self.delta_count, self.delta_ratio, self.also_when)
