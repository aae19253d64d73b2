"""The trigger behind the deferrable sensors: measures every few seconds, fires once.

Holds no rule: `plan.thresholds.due` decides. The connection is fetched with Airflow's asynchronous
call, Thrift and listings run in a thread; the event loop never waits for them. Its arguments hold
no secret. What it fires is a plain mapping, read by `findings`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.format.errors import HiveAcidError, JobFailedError
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.results import JobError
from airflow_hiveacid.plan.thresholds import CompactionPolicy, due

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.plan.thresholds import Finding


class CompactionNeededTrigger(BaseTrigger):
    """Fire as soon as a partition of a table reaches a threshold, or when measuring fails.

    Args:
        table: `db.table`.
        partition: one partition, or None for every one.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        delta_count: threshold, None if it does not count.
        delta_ratio: threshold, None if it does not count.
        poke_interval_s: seconds between measurements.
    """

    def __init__(  # noqa: PLR0913 - what a trigger knows must be its arguments
        self,
        *,
        table: str,
        partition: str | None = None,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        delta_count: int | None = None,
        delta_ratio: float | None = None,
        poke_interval_s: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.table = table
        self.partition = partition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio
        self.poke_interval_s = poke_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and the arguments that make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "partition": self.partition,
                "hive_acid_conn_id": self.hive_acid_conn_id,
                "delta_count": self.delta_count,
                "delta_ratio": self.delta_ratio,
                "poke_interval_s": self.poke_interval_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Measure until something is found, then fire once."""
        hook = HiveAcidHook(self.hive_acid_conn_id)
        event: dict[str, Any]
        try:
            settings = await hook.fetch_settings()
            while True:
                found = await asyncio.to_thread(self._measure, settings)
                if found:
                    break
                await asyncio.sleep(self.poke_interval_s)
        except HiveAcidError as error:
            # An exception would reach the sensor as text; like this it is raised there as itself.
            described = JobError.of(error)
            event = {"error": {"type": described.type, "message": described.message}}
        else:
            event = {"due": [finding.record() for finding in found]}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    def _measure(self, settings: MetastoreSettings) -> tuple[Finding, ...]:
        from airflow_hiveacid.hooks.health import measure  # noqa: PLC0415 - brings Thrift and Arrow

        policy = CompactionPolicy(delta_count=self.delta_count, delta_ratio=self.delta_ratio)
        return due(measure(settings.endpoint, self.table, self.partition or None), policy)


def findings(event: dict[str, Any]) -> list[dict[str, Any]]:
    """What the trigger found, from its event.

    Raises:
        HiveAcidError: measuring failed; the error that the trigger met.
        JobFailedError: the event is none of this trigger's.
    """
    match event:
        case {"due": list(found)}:
            return found
        case {"error": {"type": str(kind), "message": str(message)}}:
            raise JobError(type=kind, message=message).rebuild()
        case _:
            raise JobFailedError(f"the trigger sent an unknown event: {event!r}")
