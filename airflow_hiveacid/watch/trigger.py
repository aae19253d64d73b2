"""The base class of this provider's triggers, which poll at an interval and fire once.

A subclass defines the poll; `hooks.failures` defines how long polls may fail. The connection is
fetched with Airflow's asynchronous call. Thrift calls and listings run in `poll_threads`, so the
event loop never waits for them. A trigger's arguments contain no secret. The trigger's event is a
plain mapping, which `findings` parses. Its findings have at most 16 KB.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.format.errors import HiveAcidError, JobFailedError
from airflow_hiveacid.format.printable import printable
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.results import JobError
from airflow_hiveacid.jobs.short_form import OMITTED, short_form
from airflow_hiveacid.watch.outage import DEFAULT_MAX_OUTAGE_S, Outage
from airflow_hiveacid.watch.poll_threads import poll_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from airflow_hiveacid.hooks.connection import MetastoreSettings

# This limit keeps the interval from overflowing in a long wait with `exponential_backoff`.
_MOST_DOUBLINGS = 20
_DUE_OMITTED = f"due{OMITTED}"


class Record(Protocol):
    """One finding of a poll, such as a partition that is due."""

    def record(self) -> dict[str, Any]:
        """Return the finding as plain values."""


class Seen(Protocol):
    """The result of one poll; `due` is empty while the wait continues."""

    @property
    def due(self) -> Sequence[Record]:
        """The findings of the poll."""


class WatchTrigger(BaseTrigger):
    """Fire when a poll of a table finds something, or when an error shows that waiting is useless.

    Args:
        table: `db.table`.
        partition: one partition, or None for all partitions.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        poke_interval_s: seconds between polls.
        exponential_backoff: double the interval after each poll.
        max_wait_s: the longest interval in seconds; None sets no limit.
        max_outage_s: how many seconds all polls may fail, including those that cannot fetch the
            connection from Airflow; None sets no limit.
    """

    def __init__(  # noqa: PLR0913 - a trigger's whole state must be in its arguments
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
        """Poll once; the call may block.

        Raises:
            HiveAcidError: the poll failed.
        """

    def own_arguments(self) -> dict[str, Any]:
        """Return the constructor arguments that the subclass adds, for `serialize`."""
        return {}

    def most_important_first(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the findings of a poll, sorted: an event that is too long keeps only the first."""
        return found

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and constructor arguments from which Airflow recreates this trigger."""
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
        """Poll until something is found, then fire once."""
        event: dict[str, Any]
        try:
            event = self._event(await self._wait())
        except Exception as error:  # noqa: BLE001 - the edge of the triggerer
            # Send the error as an event, so that the sensor raises it with its original type. If
            # this method raised the error, the sensor would receive only the text, and `soft_fail`
            # would skip the task.
            described = JobError.of(error)
            event = {"error": {"type": described.type, "message": described.message}}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    def _event(self, found: list[dict[str, Any]]) -> dict[str, Any]:
        event: dict[str, Any] = short_form({"due": [*found]})
        if event[_DUE_OMITTED]:
            event = short_form({"due": [*self.most_important_first(found)]})
        return event

    async def _wait(self) -> list[dict[str, Any]]:
        settings: MetastoreSettings | None = None
        outage, polls = Outage(max_s=self.max_outage_s), 0
        while True:
            try:
                if settings is None:
                    settings = await HiveAcidHook(self.hive_acid_conn_id).fetch_settings()
                seen = await poll_in_thread(settings.endpoint, partial(self.look, settings))
            except HiveAcidError as error:
                outage = outage.after(error, now_s=time.time())
                self.log.warning("poll failed; the sensor continues: %s", error)
            else:
                outage = replace(outage, since_s=None)
                self.log.info("%s", printable(str(seen)))
                if seen.due:
                    return [finding.record() for finding in seen.due]
            await asyncio.sleep(self.interval_s(polls))
            polls += 1

    def interval_s(self, polls: int) -> float:
        """Return how many seconds to wait after `polls` polls."""
        doublings = min(polls, _MOST_DOUBLINGS) if self.exponential_backoff else 0
        interval_s = self.poke_interval_s * 2.0**doublings
        return interval_s if self.max_wait_s is None else min(interval_s, self.max_wait_s)


def findings(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the trigger's findings from its event.

    Raises:
        HiveAcidError: the trigger stopped polling because of this error.
        JobFailedError: the event has an unknown form.
    """
    match event:
        case {"due": list(found)}:
            return found
        case {"error": {"type": str(kind), "message": str(message)}}:
            raise JobError(type=kind, message=message).rebuild()
        case _:
            raise JobFailedError(f"the trigger sent an unknown event: {event!r}")


def omitted_findings(event: dict[str, Any]) -> int:
    """Return how many findings of the poll the event leaves out."""
    match event:
        case {"due_omitted": int(number)}:
            return number
        case _:
            return 0
