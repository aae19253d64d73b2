"""The sensor that waits for new data in a table.

Example:
    wait = HiveAcidNewVersionSensor(task_id="wait", table="demo.flights", since=12)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.sensors.watch import HiveAcidWatchSensor
from airflow_hiveacid.watch.new_version import NewVersionTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.watch.new_data import News


class HiveAcidNewVersionSensor(HiveAcidWatchSensor):
    """Wait until a table has data that is newer than a version; compactions are not new data.

    The sensor ignores versions that an open write can still change. The result has `since`,
    `version` (the newest version that the sensor has checked), `partitions` (the partitions with
    new data) and `partitions_omitted`.

    Args:
        since: the last version whose data you already have; with 0, the sensor waits for the first
            data.
        kwargs: see `HiveAcidWatchSensor`.
    """

    does = "Waits until {table} has new data; compactions are not new data."
    returns = "the newest version and the partitions with new data"
    template_fields: Sequence[str] = given_fields(
        "table",
        "partition",
        "since",
        *HiveAcidWatchSensor.template_fields,
    )

    def __init__(self, *, since: int | str, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.since = since
        self._before: News | None = None
        arguments.EarlyChecks(self.task_id).check(arguments.version, since=since)

    def look(self) -> News:
        """Poll the table once."""
        from airflow_hiveacid.watch.new_data import look_for_news  # noqa: PLC0415 - brings Thrift

        self._before = look_for_news(
            HiveAcidHook(self.hive_acid_conn_id).endpoint(),
            arguments.table_name(self.table),
            arguments.partition_name(self.partition),
            arguments.version(self.since, "since"),
            before=self._before,
        )
        return self._before

    def trigger(self, **watch: Any) -> NewVersionTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that polls this table in the triggerer."""
        return NewVersionTrigger(since=arguments.version(self.since, "since"), **watch)

    def answer(
        self,
        found: list[dict[str, Any]],
        context: Context,  # noqa: ARG002 - for other sensors
        *,
        omitted: int = 0,  # noqa: ARG002 - there is only one finding
    ) -> dict[str, Any] | None:
        """Return the finding about the new data, or None if there is no new data."""
        return short_form(found[0]) if found else None
