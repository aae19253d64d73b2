"""What all sensors of this package have in common: polls, outages, and the three ways to wait.

A subclass says what is looked at, here as in its trigger; `hooks.failures` says how long polls may
fail. Three modes: `poke` and `reschedule` are Airflow's; with `deferrable=True` the triggerer waits
and no worker slot is held.
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
from airflow_hiveacid.triggers.watching import findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, RetryPolicy

    from airflow_hiveacid.triggers.watching import Seen, WatchTrigger

OUTAGE_KEY: Final = "hiveacid_outage"
"""Since when polls have failed, in the task's state store: each reschedule is a new process."""


class HiveAcidWatchSensor(BaseSensorOperator):
    """Wait until a look at a table finds something.

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
    def look(self) -> Seen:
        """Look once, as the rendered arguments say.

        Raises:
            HiveAcidError: it failed, or an argument is wrong.
        """

    @abstractmethod
    def trigger(self, **watch: Any) -> WatchTrigger:  # noqa: ANN401 - passed on
        """What looks for the same in the triggerer.

        Args:
            watch: what all triggers take.

        Raises:
            ConfigurationError: an argument is wrong.
        """

    def answer(self, found: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - to XCom
        """What the task returns of all that was found; nothing if there is nothing."""
        return found

    def poke(self, context: Context) -> PokeReturnValue:
        """Measure once; a failure that may pass is logged, and means "not yet".

        Raises:
            HiveAcidError: the table does not exist, an argument is wrong; or polls have failed for
                longer than `max_outage_s`.
        """
        try:
            seen = self.look()
        except HiveAcidError as error:
            self._note_failure(error, context)
            return PokeReturnValue(is_done=False)
        self._note_answer(context)
        self.log.info("%s", seen)
        found = self.answer([finding.record() for finding in seen.due])
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
        self.defer(
            trigger=self.trigger(
                table=self.table,
                partition=self.partition,
                hive_acid_conn_id=self.hive_acid_conn_id,
                poke_interval_s=self.poke_interval,
                exponential_backoff=self.exponential_backoff,
                max_wait_s=self.max_wait.total_seconds() if self.max_wait else None,
                max_outage_s=self.max_outage_s,
            ),
            method_name=self.execute_complete.__name__,
            timeout=timedelta(seconds=left_s),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401, ARG002 - Airflow's signature
        """Answer what the trigger found.

        Raises:
            HiveAcidError: what ended the trigger's wait: the table does not exist (any more), or
                polls have failed for longer than `max_outage_s`.
        """
        try:
            return self.answer(findings(event))
        except HiveAcidError as error:
            self._fail(error)

    def _fail(self, error: HiveAcidError) -> NoReturn:
        if self.never_fail:
            raise AirflowSkipException("never_fail is set to True") from error
        raise error

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
