"""The trigger of this provider's deferrable sensors, which polls for a condition and fires once.

The connection is fetched with Airflow's asynchronous call. Polls run in `poll_threads`, so the
event loop never waits for them. A trigger's arguments contain no secret. The trigger's event is a
plain mapping, which `findings_in` parses. Its findings have at most 16 KB.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.format.errors import HiveAcidError, JobFailedError
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.hooks.connection import MetastoreSettings
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import JobError
from airflow_hiveacid.jobs.short_form import OMITTED, short_form
from airflow_hiveacid.watch import Outage
from airflow_hiveacid.watch.conditions import Condition
from airflow_hiveacid.watch.poll_threads import poll_metastore

# This limit keeps the interval from overflowing in a long wait with `exponential_backoff`.
_MOST_DOUBLINGS: Final = 20
_OMITTED: Final = f"due{OMITTED}"


class ConditionTrigger(BaseTrigger):
    """Fire when a condition, given by its plain values, is met, or when waiting is useless.

    The interval between polls is `poke_interval_s`; `exponential_backoff` doubles it after each
    poll, up to `max_wait_s` if that is not None. All polls may fail for `max_outage_s` (None sets
    no limit), including those that cannot fetch the connection from Airflow.
    """

    def __init__(  # noqa: PLR0913 - a trigger's whole state must be in its arguments
        self,
        *,
        condition: dict[str, Any],
        hive_acid_conn_id: str,
        poke_interval_s: float,
        exponential_backoff: bool,
        max_wait_s: float | None,
        max_outage_s: float | None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.condition = condition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.poke_interval_s = poke_interval_s
        self.exponential_backoff = exponential_backoff
        self.max_wait_s = max_wait_s
        self.max_outage_s = max_outage_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and constructor arguments from which Airflow recreates this trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "condition": self.condition,
                "hive_acid_conn_id": self.hive_acid_conn_id,
                "poke_interval_s": self.poke_interval_s,
                "exponential_backoff": self.exponential_backoff,
                "max_wait_s": self.max_wait_s,
                "max_outage_s": self.max_outage_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the condition is met, then fire once."""
        event: dict[str, Any]
        try:
            condition = Condition.from_json(self.condition)
            findings = await self._wait(condition)
            event = short_form({"due": [*findings]})
            if event[_OMITTED]:  # too many: omit the least important ones
                event = short_form({"due": [*condition.most_important_first(findings)]})
        except Exception as error:  # noqa: BLE001 - the edge of the triggerer
            # Send the error as an event, so that the sensor raises it with its original type. If
            # this method raised the error, the sensor would receive only the text, and `soft_fail`
            # would skip the task.
            described = JobError.of(error)
            event = {"error": {"type": described.type, "message": described.message}}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    async def _wait(self, condition: Condition) -> list[dict[str, Any]]:
        settings: MetastoreSettings | None = None
        outage, polls = Outage(max_s=self.max_outage_s), 0
        while True:
            try:
                if settings is None:
                    settings = await HiveAcidHook(self.hive_acid_conn_id).fetch_settings()
                observation = await poll_metastore(settings.endpoint, condition.observe)
            except HiveAcidError as error:
                outage = outage.after(error, now_s=time.time())
                self.log.warning("poll failed; the sensor continues: %s", error)
            else:
                outage = replace(outage, since_s=None)
                self.log.info("%s", printable(observation.summary))
                if observation.findings:
                    return [*observation.findings]
                condition = condition.after(observation)
            await asyncio.sleep(self.interval_s(polls))
            polls += 1

    def interval_s(self, polls: int) -> float:
        """Return how many seconds to wait after `polls` polls."""
        doublings = min(polls, _MOST_DOUBLINGS) if self.exponential_backoff else 0
        interval_s = self.poke_interval_s * 2.0**doublings
        return interval_s if self.max_wait_s is None else min(interval_s, self.max_wait_s)


def findings_in(event: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the findings in a trigger's event, and how many findings of the poll it leaves out.

    Raises the error because of which the trigger stopped polling.
    """
    match event:
        case {"due": list(findings)}:
            return findings, event.get(_OMITTED, 0)
        case {"error": {"type": str(kind), "message": str(message)}}:
            raise JobError(type=kind, message=message).rebuild()
        case _:
            raise JobFailedError(f"the trigger sent an unknown event: {event!r}")
