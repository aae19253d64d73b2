"""The base class of this provider's sensors: polling, outages and deferral.

A sensor's arguments describe a condition of a table (`watch.conditions`). The modes `poke` and
`reschedule` work as in Airflow's own sensors. With `deferrable=True`, the triggerer waits and the
sensor occupies no worker slot.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, NoReturn

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue

from airflow_hiveacid import airflow_names
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, DeclaredArguments, declaration
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting import task_view
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.watch import DEFAULT_MAX_OUTAGE_S, Observation, Outage
from airflow_hiveacid.watch.conditions import Condition
from airflow_hiveacid.watch.trigger import ConditionTrigger, findings_in

OUTAGE_KEY: Final = "hiveacid_outage"
"""The state store's key for the start of an outage, because each reschedule is a new process."""


class HiveAcidWatchSensor(
    DeclaredArguments, ValueRendering, task_view.TaskView, PolicyRetries, BaseSensorOperator
):
    """Wait until a condition of a table is met.

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

    condition_type: ClassVar[type[Condition]]
    """The type of the condition whose fields the job's arguments are."""
    hive_acid_conn_id: str

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: Annotated[str, Argument(arguments.table_name)],
        partition: kinds.PartitionName = None,
        hive_acid_conn_id: kinds.ConnectionId = HiveAcidHook.default_conn_name,
        deferrable: bool = airflow_names.conf.getboolean(
            "operators", "default_deferrable", fallback=False
        ),
        max_outage_s: float | None = DEFAULT_MAX_OUTAGE_S,
        retry_policy: airflow_names.RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = task_view.MAP_INDEX_TEMPLATE,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, map_index_template=map_index_template, **kwargs)
        self.take_arguments(locals())
        self.deferrable = deferrable
        self.max_outage_s = None if self.silent_fail else max_outage_s
        # Do not pass `silent_fail` to Airflow: Airflow would also hide errors about invalid
        # settings.
        self.silent_fail = False
        self._outage = Outage(max_s=self.max_outage_s)
        self._next: Condition | None = None

    def condition(self) -> Condition:
        """Return the condition that the rendered arguments describe."""
        return self.condition_type(**self.job_arguments())

    def observe(self) -> Observation:
        """Poll once with the rendered arguments."""
        condition = self._next or self.condition()
        with HiveAcidHook(self.hive_acid_conn_id).metastore() as client:
            observation = condition.observe(client)
        self._next = condition.after(observation)
        return observation

    def trigger(self) -> ConditionTrigger:
        """Return the trigger that polls for the condition in the triggerer."""
        return ConditionTrigger(
            condition=self.condition().to_json(),
            hive_acid_conn_id=self.hive_acid_conn_id,
            poke_interval_s=self.poke_interval,
            exponential_backoff=self.exponential_backoff,
            max_wait_s=self.max_wait.total_seconds() if self.max_wait else None,
            max_outage_s=self.max_outage_s,
        )

    def result_of(
        self,
        findings: list[dict[str, Any]],
        context: Context,  # noqa: ARG002 - for other sensors
        *,
        omitted: int = 0,  # noqa: ARG002 - there is only one finding
    ) -> Any:  # noqa: ANN401 - to XCom
        """Return the task's result, in its short form, from the findings of the last poll.

        `findings` may be empty. `omitted` is the number of findings that the trigger's event left
        out.
        """
        return short_form(findings[0]) if findings else None

    @task_view.with_short_traceback
    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once; if it fails for a reason that may be temporary, log the error and continue."""
        try:
            observation = self.observe()
        except HiveAcidError as error:
            self._note_failure(error, context)
            return PokeReturnValue(is_done=False)
        self._note_success(context)
        self.log.info("%s", printable(observation.summary))
        findings = [*observation.findings]
        result = self.result_of(findings, context)
        return PokeReturnValue(is_done=bool(findings), xcom_value=result)

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - Airflow's signature
        """Poll once; if the condition is not met, continue in Airflow's mode, or defer."""
        if not self.deferrable:
            return super().execute(context)
        began_s = time.monotonic()
        try:
            outcome = self.poke(context)
        except HiveAcidError as error:
            self._fail(error)
        if not outcome.is_done:
            self._wait_in_triggerer(self.timeout - (time.monotonic() - began_s))
        return outcome.xcom_value

    def _wait_in_triggerer(self, remaining_s: float) -> NoReturn:
        if remaining_s <= 0:
            # The first poll took longer than the sensor's timeout, so do not defer.
            message = f"Sensor has timed out; nothing was found within {self.timeout} seconds."
            raise (
                airflow_names.AirflowSkipException
                if self.soft_fail
                else airflow_names.AirflowSensorTimeout
            )(message)
        self.defer(
            trigger=self.trigger(),
            method_name=self.execute_complete.__name__,
            timeout=timedelta(seconds=remaining_s),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401 - Airflow's signature
        """Return the task's result from the findings in the trigger's event."""
        try:
            findings, omitted = findings_in(event)
            return self.result_of(findings, context, omitted=omitted)
        except HiveAcidError as error:
            self._fail(error)

    def _fail(self, error: HiveAcidError) -> NoReturn:
        if self.never_fail:
            raise airflow_names.AirflowSkipException("never_fail is set to True") from error
        raise error

    # ---- outages ---------------------------------------------------------------------------------

    def _note_failure(self, error: HiveAcidError, context: Context) -> None:
        """Log and store a failed poll, or raise its error if the sensor must not continue."""
        self._outage = self._stored_outage(context).after(error, now_s=time.time())
        self.log.warning("poll failed; the sensor continues: %s: %s", type(error).__name__, error)
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            store.set(OUTAGE_KEY, [context["ti"].try_number, self._outage.since_s])

    def _note_success(self, context: Context) -> None:
        if self._stored_outage(context).since_s is not None:
            self.log.info("polls succeed again")
            if self.reschedule and (store := context.get("task_state_store")) is not None:
                store.delete(OUTAGE_KEY)
        self._outage = replace(self._outage, since_s=None)

    def _stored_outage(self, context: Context) -> Outage:
        if self.reschedule and (store := context.get("task_state_store")) is not None:
            match store.get(OUTAGE_KEY):
                # Ignore an outage that an earlier try has stored in the state store.
                case [int(number), float(since_s)] if number == context["ti"].try_number:
                    return replace(self._outage, since_s=since_s)
        return self._outage
