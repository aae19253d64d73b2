"""Sensors that wait until a table needs compaction, by delta count, delta ratio or either.

They hold no rule: `hooks.health.look` decides here as it does in the trigger, `hooks.failures` how
long polls may fail. Three modes: `poke` and `reschedule` are Airflow's; with `deferrable=True` the
triggerer waits and no worker slot is held.

Example:
    wait = HiveAcidCompactionNeededSensor(task_id="wait", table="demo.flights", deferrable=True)
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.hooks.failures import DEFAULT_MAX_OUTAGE_S, Outage
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.triggers.hive_acid import CompactionNeededTrigger, findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, RetryPolicy

    from airflow_hiveacid.hooks.health import Look

OUTAGE_KEY: Final = "hiveacid_outage"
"""Since when polls have failed, in the task's state store: each reschedule is a new process."""

_DELTA_COUNT = 10
_DELTA_RATIO = 0.1
_MOST_MAPPED = 1024  # Airflow's default of the setting


class HiveAcidThresholdSensor(BaseSensorOperator):
    """Wait until at least one partition reaches a threshold; the base of the sensors below.

    What it returns is a list to map over: one entry for each partition that is due, with its
    numbers (`delta_count`, `delta_ratio`, bytes, ...), `partition` and `why`. If a task is mapped
    over it, it has at most `[core] max_map_length` entries, those with the most deltas.

    Everything that `BaseSensorOperator` takes may be given too, in every mode. `soft_fail` makes a
    skip of a time-out and of nothing else: a wrong table, connection or argument fails the task. A
    poll that fails for another reason is logged and the sensor polls on, for `max_outage_s`;
    `silent_fail` means however long. With `deferrable`, `exponential_backoff` doubles the interval
    up to `max_wait`, without Airflow's jitter.

    Args:
        table: `db.table`.
        partition: `month=1`, or None to watch every partition.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        deferrable: wait in the triggerer; default is `[operators] default_deferrable`.
        max_outage_s: how long polls may fail in a row, a metastore's restart for one, before the
            task fails with the last error; None means however long. A first failure never ends it.
        retry_policy: by default, input errors fail at once and all else is retried as `retries` and
            `retry_delay` say.
    """

    template_fields: Sequence[str] = ("table", "partition", "hive_acid_conn_id")

    def __init__(  # noqa: PLR0913 - every one is a choice of its own
        self,
        *,
        table: str,
        partition: str | None = None,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        max_outage_s: float | None = DEFAULT_MAX_OUTAGE_S,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.table = table
        self.partition = partition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.deferrable = deferrable
        self.max_outage_s = None if self.silent_fail else max_outage_s
        # Airflow's own would swallow wrong settings, too.
        self.silent_fail = False
        self._outage = Outage(max_s=self.max_outage_s)
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.partition_name, partition=partition)

    @abstractmethod
    def policy(self) -> CompactionPolicy:
        """The thresholds that the rendered arguments describe.

        Raises:
            ConfigurationError: an argument is wrong.
        """

    def poke(self, context: Context) -> PokeReturnValue:
        """Measure once; a failure that may pass is logged, and means "not yet".

        Raises:
            HiveAcidError: the table does not exist, an argument is wrong; or polls have failed for
                longer than `max_outage_s`.
        """
        try:
            seen = self._look()
        except HiveAcidError as error:
            self._note_failure(error, context)
            return PokeReturnValue(is_done=False)
        self._note_answer(context)
        self.log.info("%s", seen)
        found = self._mappable([finding.record() for finding in seen.due])
        return PokeReturnValue(is_done=bool(seen.due), xcom_value=found)

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - Airflow's signature
        """Poke, reschedule or defer. A table that is due already is answered without deferring."""
        if not self.deferrable:
            return super().execute(context)
        began_s = time.monotonic()
        try:
            now = self.poke(context)
        except HiveAcidError as error:
            self._fail(error)
        if not now.is_done:
            self._wait_in_triggerer(self.timeout - (time.monotonic() - began_s))
        return now.xcom_value

    def _wait_in_triggerer(self, left_s: float) -> NoReturn:
        if left_s <= 0:
            # One look was asked for; the triggerer would be a long way to the same answer.
            message = f"Sensor has timed out; it was due within {self.timeout} seconds."
            raise (AirflowSkipException if self.soft_fail else AirflowSensorTimeout)(message)
        policy = self.policy()
        self.defer(
            trigger=CompactionNeededTrigger(
                table=self.table,
                partition=self.partition,
                hive_acid_conn_id=self.hive_acid_conn_id,
                delta_count=policy.delta_count,
                delta_ratio=policy.delta_ratio,
                poke_interval_s=self.poke_interval,
                exponential_backoff=self.exponential_backoff,
                max_wait_s=self.max_wait.total_seconds() if self.max_wait else None,
                max_outage_s=self.max_outage_s,
            ),
            method_name=self.execute_complete.__name__,
            timeout=timedelta(seconds=left_s),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ARG002 - Airflow's signature
        """Answer what the trigger found.

        Raises:
            HiveAcidError: what ended the trigger's wait: the table does not exist (any more), or
                polls have failed for longer than `max_outage_s`.
        """
        try:
            return self._mappable(findings(event))
        except HiveAcidError as error:
            self._fail(error)

    def _mappable(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
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

    def _look(self) -> Look:
        from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - brings Thrift and Arrow

        table = arguments.table_name(self.table)
        partition = arguments.partition_name(self.partition)
        policy = self.policy()
        return look(HiveAcidHook(self.hive_acid_conn_id).endpoint(), table, partition, policy)

    def _fail(self, error: HiveAcidError) -> NoReturn:
        if self.never_fail:
            raise AirflowSkipException("never_fail is set to True") from error
        raise error

    def _check_thresholds(self, **given: object) -> None:
        if arguments.is_settled(given):
            arguments.EarlyChecks(self.task_id).check(lambda *_: self.policy(), **given)

    # ---- outages ---------------------------------------------------------------------------------

    def _note_failure(self, error: HiveAcidError, context: Context) -> None:
        self._outage = self._known_outage(context).after(error, now_s=time.time())
        self.log.warning("this poll failed, the sensor polls on: %s: %s", _name(error), error)
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            store.set(OUTAGE_KEY, [context["ti"].try_number, self._outage.since_s])

    def _note_answer(self, context: Context) -> None:
        if self._known_outage(context).since_s is not None:
            self.log.info("polls are answered again")
            if self.reschedule and (store := context.get("task_state_store")) is not None:
                store.delete(OUTAGE_KEY)
        self._outage = replace(self._outage, since_s=None)

    def _known_outage(self, context: Context) -> Outage:
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            match store.get(OUTAGE_KEY):
                # What an earlier try has left says nothing about this one.
                case [int(number), float(since_s)] if number == context["ti"].try_number:
                    return replace(self._outage, since_s=since_s)
        return self._outage


def _name(error: HiveAcidError) -> str:
    return type(error).__name__


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
