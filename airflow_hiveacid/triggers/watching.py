"""What all triggers of this package have in common: they look every few seconds, and fire once.

A subclass says what is looked at; `hooks.failures` says how long polls may fail. The connection is
fetched with Airflow's asynchronous call, Thrift and listings run in a thread; the event loop never
waits for them. Its arguments hold no secret. What it fires is a plain mapping, read by `findings`.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.format.errors import HiveAcidError, JobFailedError
from airflow_hiveacid.hooks.failures import DEFAULT_MAX_OUTAGE_S, Outage
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.results import JobError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from airflow_hiveacid.hooks.connection import MetastoreSettings

# Doubling stops here, some days before a float has enough of it.
_MOST_DOUBLINGS = 20


class Finding(Protocol):
    """One of the things that were found."""

    def record(self) -> dict[str, Any]:
        """It as plain values."""


class Seen(Protocol):
    """What one look has found; `due` is empty while there is something to wait for."""

    @property
    def due(self) -> Sequence[Finding]:
        """What was found."""


class WatchTrigger(BaseTrigger):
    """Fire as soon as a look at a table finds something, or when waiting cannot help.

    Args:
        table: `db.table`.
        partition: one partition, or None for every one.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        poke_interval_s: seconds between looks.
        exponential_backoff: double them each time.
        max_wait_s: at most that many; None sets no bound.
        max_outage_s: how long looking may fail in a row; None sets no bound.
    """

    def __init__(  # noqa: PLR0913 - what a trigger knows must be its arguments
        self,
        *,
        table: str,
        partition: str | None = None,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        poke_interval_s: float = 60.0,
        exponential_backoff: bool = False,
        max_wait_s: float | None = None,
        max_outage_s: float | None = DEFAULT_MAX_OUTAGE_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.table = table
        self.partition = partition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.poke_interval_s = poke_interval_s
        self.exponential_backoff = exponential_backoff
        self.max_wait_s = max_wait_s
        self.max_outage_s = max_outage_s

    @abstractmethod
    def look(self, settings: MetastoreSettings) -> Seen:
        """Look once; it may take its time.

        Raises:
            HiveAcidError: it failed.
        """

    def own_arguments(self) -> dict[str, Any]:
        """What a subclass takes beside the others, for `serialize`."""
        return {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and the arguments that make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "partition": self.partition,
                "hive_acid_conn_id": self.hive_acid_conn_id,
                "poke_interval_s": self.poke_interval_s,
                "exponential_backoff": self.exponential_backoff,
                "max_wait_s": self.max_wait_s,
                "max_outage_s": self.max_outage_s,
                **self.own_arguments(),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until something is found, then fire once."""
        event: dict[str, Any]
        try:
            event = {"due": await self._wait()}
        except Exception as error:  # noqa: BLE001 - the edge of the triggerer
            # An exception would reach the sensor as a text, and `soft_fail` would make a skip of
            # it; like this it is raised there as itself.
            described = JobError.of(error)
            event = {"error": {"type": described.type, "message": described.message}}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    async def _wait(self) -> list[dict[str, Any]]:
        settings = await HiveAcidHook(self.hive_acid_conn_id).fetch_settings()
        outage, polls = Outage(max_s=self.max_outage_s), 0
        while True:
            try:
                seen = await asyncio.to_thread(self.look, settings)
            except HiveAcidError as error:
                outage = outage.after(error, now_s=time.time())
                self.log.warning("this poll failed, the sensor polls on: %s", error)
            else:
                outage = replace(outage, since_s=None)
                self.log.info("%s", seen)
                if seen.due:
                    return [finding.record() for finding in seen.due]
            await asyncio.sleep(self.interval_s(polls))
            polls += 1

    def interval_s(self, polls: int) -> float:
        """Seconds to wait after so many earlier polls."""
        doublings = min(polls, _MOST_DOUBLINGS) if self.exponential_backoff else 0
        interval_s = self.poke_interval_s * 2.0**doublings
        return interval_s if self.max_wait_s is None else min(interval_s, self.max_wait_s)


def findings(event: dict[str, Any]) -> list[dict[str, Any]]:
    """What the trigger found, from its event.

    Raises:
        HiveAcidError: looking failed; the error that the trigger met.
        JobFailedError: the event is none of this trigger's.
    """
    match event:
        case {"due": list(found)}:
            return found
        case {"error": {"type": str(kind), "message": str(message)}}:
            raise JobError(type=kind, message=message).rebuild()
        case _:
            raise JobFailedError(f"the trigger sent an unknown event: {event!r}")
