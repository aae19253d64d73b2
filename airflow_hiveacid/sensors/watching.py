"""The base class of this provider's sensors: polling, outages and deferral.

Each sensor class and each trigger class has its own poll. `hooks.failures` defines how long polls
may fail. The modes `poke` and `reschedule` work as in Airflow's own sensors. With
`deferrable=True`, the triggerer waits and the sensor occupies no worker slot.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_hiveacid.airflow_names import AirflowSensorTimeout, AirflowSkipException, conf
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.printable import printable
from airflow_hiveacid.hooks.failures import DEFAULT_MAX_OUTAGE_S, Outage
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting.short_traceback import with_short_traceback
from airflow_hiveacid.operators.reporting.task_view import (
    MAP_INDEX_TEMPLATE,
    TaskView,
    given_fields,
)
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.triggers.watching import findings, omitted_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.airflow_names import RetryPolicy
    from airflow_hiveacid.triggers.watching import Seen, WatchTrigger

OUTAGE_KEY: Final = "hiveacid_outage"
"""The state store's key for the start of an outage, because each reschedule is a new process."""


class HiveAcidWatchSensor(ValueRendering, TaskView, PolicyRetries, BaseSensorOperator):
    """Wait until a poll of a table finds something.

    All arguments of `BaseSensorOperator` are also allowed, in every mode. With `soft_fail`, a
    time-out skips the task, but a wrong table, connection or argument fails the task. If a poll
    fails for a different reason, the sensor logs the error and continues for `max_outage_s`, or
    without limit if `silent_fail` is true. With `deferrable`, `exponential_backoff` doubles the
    interval up to `max_wait`, without Airflow's jitter.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for all partitions.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        deferrable: wait in the triggerer; the default is `[operators] default_deferrable`.
        max_outage_s: the longest series of failed polls, in seconds, for example during a
            metastore's restart. If all polls fail for longer, the task fails with the last error.
            None means no limit. A single temporary failure never fails the task.
        retry_policy: which errors to retry. By default, an input error fails the task at once.
            After any other error, `retries` and `retry_delay` apply.
        map_index_template: the label of a mapped sensor's instances; by default the table and the
            partition.
    """

    template_fields: Sequence[str] = given_fields("table", "partition", "hive_acid_conn_id")

    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: str,
        partition: str | None = None,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        max_outage_s: float | None = DEFAULT_MAX_OUTAGE_S,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = MAP_INDEX_TEMPLATE,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, map_index_template=map_index_template, **kwargs)
        self.table = table
        self.partition = partition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.deferrable = deferrable
        self.max_outage_s = None if self.silent_fail else max_outage_s
        # Do not pass `silent_fail` to Airflow: Airflow would also hide errors about invalid
        # settings.
        self.silent_fail = False
        self._outage = Outage(max_s=self.max_outage_s)
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.partition_name, partition=partition)

    @abstractmethod
    def look(self) -> Seen:
        """Poll once with the rendered arguments.

        Raises:
            HiveAcidError: the poll failed, or an argument is invalid.
        """

    @abstractmethod
    def trigger(self, **watch: Any) -> WatchTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that polls this table in the triggerer.

        Args:
            watch: the arguments that all triggers have.

        Raises:
            ConfigurationError: an argument is invalid.
        """

    @abstractmethod
    def answer(self, found: list[dict[str, Any]], context: Context, *, omitted: int = 0) -> Any:  # noqa: ANN401 - to XCom
        """Return the task's result, in its short form, from the findings of the last poll.

        `found` may be empty. `omitted` is the number of findings that the trigger's event left out.
        """

    @with_short_traceback
    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once; if it fails for a reason that may be temporary, log the error and continue.

        Raises:
            HiveAcidError: the table does not exist, an argument is invalid, or polls have failed
                for longer than `max_outage_s`.
        """
        try:
            seen = self.look()
        except HiveAcidError as error:
            self._note_failure(error, context)
            return PokeReturnValue(is_done=False)
        self._note_answer(context)
        self.log.info("%s", printable(str(seen)))
        found = self.answer([finding.record() for finding in seen.due], context)
        return PokeReturnValue(is_done=bool(seen.due), xcom_value=found)

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - Airflow's signature
        """Poll once; if the poll finds nothing, continue in Airflow's mode, or defer."""
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
            # The first poll took longer than the sensor's timeout, so do not defer.
            message = f"Sensor has timed out; nothing was found within {self.timeout} seconds."
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

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401 - Airflow's signature
        """Return the task's result from the findings in the trigger's event.

        Raises:
            HiveAcidError: the trigger has stopped, because the table does not exist, or because
                polls have failed for longer than `max_outage_s`.
        """
        try:
            return self.answer(findings(event), context, omitted=omitted_findings(event))
        except HiveAcidError as error:
            self._fail(error)

    def _fail(self, error: HiveAcidError) -> NoReturn:
        if self.never_fail:
            raise AirflowSkipException("never_fail is set to True") from error
        raise error

    # ---- outages ---------------------------------------------------------------------------------

    def _note_failure(self, error: HiveAcidError, context: Context) -> None:
        self._outage = self._known_outage(context).after(error, now_s=time.time())
        self.log.warning("poll failed; the sensor continues: %s: %s", _name(error), error)
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            store.set(OUTAGE_KEY, [context["ti"].try_number, self._outage.since_s])

    def _note_answer(self, context: Context) -> None:
        if self._known_outage(context).since_s is not None:
            self.log.info("polls succeed again")
            if self.reschedule and (store := context.get("task_state_store")) is not None:
                store.delete(OUTAGE_KEY)
        self._outage = replace(self._outage, since_s=None)

    def _known_outage(self, context: Context) -> Outage:
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            match store.get(OUTAGE_KEY):
                # Ignore an outage that an earlier try has stored in the state store.
                case [int(number), float(since_s)] if number == context["ti"].try_number:
                    return replace(self._outage, since_s=since_s)
        return self._outage


def _name(error: HiveAcidError) -> str:
    return type(error).__name__
