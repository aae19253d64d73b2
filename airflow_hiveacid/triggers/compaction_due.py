"""The trigger of an asset that gets an event when its table needs compaction.

All triggers with equal connection, database and interval share one poll. The poll asks the
metastore for the newest writes of all their tables. A trigger lists its table's directories only in
these cases: after a write; while the table needs compaction; while automatic compaction is off; or
if the last listing is older than `refire_after`. `plan.firing` decides whether an event is sent.
The last event is stored in the asset's state store, so that a new triggerer does not repeat it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreCallError
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.firing import Firing, can_fire, fires
from airflow_hiveacid.triggers.poll_threads import poll_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterator, Mapping

    from airflow_hiveacid.format.codec import JsonValue
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.hooks.compaction_watch import QueueState
    from airflow_hiveacid.hooks.health import Look
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

    Key = tuple[str, str, str, float]

_MOST_DOUBLINGS: Final = 5
_FIRST_TABLE_S: Final = 0.1
_STATE: Final = "firing"
"""The key of the last event in an asset's state store; only this trigger uses the store."""

_log = logging.getLogger(__name__)
# The tables of all triggers that share a poll. Airflow passes the arguments of only one of these
# triggers to the poll.
_watched: Final[defaultdict[Key, Counter[TableRef]]] = defaultdict(Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """The result of a shared poll: the metastore, and the visible write IDs of each table.

    `began_s` is the time of the monotonic clock at which the poll began.
    """

    began_s: float
    endpoint: MetastoreEndpoint
    writes: Mapping[TableRef, ValidWriteIdList]


class CompactionDueTrigger(BaseEventTrigger):
    """Send an event when a table needs compaction; `compaction_asset` describes the arguments.

    Raises:
        InvalidNameError: `table` is not the name of a table.
        ConfigurationError: a threshold or a time is invalid.
    """

    def __init__(  # noqa: PLR0913 - a trigger's whole state must be in its arguments
        self,
        *,
        table: str,
        delta_count: int | str | None,
        delta_ratio: float | str | None,
        also_when: Mapping[str, float | str] | str | None = None,
        hive_acid_conn_id: str,
        poll_interval_s: float,
        refire_after_s: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        if poll_interval_s <= 0:
            raise ConfigurationError(f"poll_interval must be above 0 s, found {poll_interval_s} s")
        if refire_after_s < 0:
            raise ConfigurationError(f"refire_after must be 0 s or more, found {refire_after_s} s")
        self.table = table
        self.hive_acid_conn_id = hive_acid_conn_id
        self.poll_interval_s = poll_interval_s
        self.refire_after_s = refire_after_s
        self._ref = TableRef.parse(table)
        self._given = arguments.thresholds(delta_count, delta_ratio, also_when)
        self._healthy: ValidWriteIdList | None = None
        self._looked_s = float("-inf")
        self._last: Firing | None = None
        self._is_loaded = False
        self._is_queue_denied = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and constructor arguments from which Airflow recreates this trigger.

        The arguments contain the table, because Airflow merges triggers with equal arguments, and a
        merged trigger has no state store.
        """
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                **self._given.plain(),
                "hive_acid_conn_id": self.hive_acid_conn_id,
                "poll_interval_s": self.poll_interval_s,
                "refire_after_s": self.refire_after_s,
            },
        )

    # ---- the shared poll -------------------------------------------------------------------------

    def shared_stream_key(self) -> Hashable:
        """Return the key that is equal for all triggers that share one poll."""
        return _key(self.serialize()[1])

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Poll]:
        """Poll at the interval indefinitely; after failed polls, wait longer.

        If this method raised an exception, Airflow would end the watch of every table.
        """
        key, failures = _key(kwargs), 0
        while True:
            if not _watched[key]:  # the first trigger joins only after this call
                await asyncio.sleep(_FIRST_TABLE_S)
                continue
            try:
                yield await _poll(kwargs["hive_acid_conn_id"], tuple(_watched[key]))
                failures = 0
            except Exception as error:  # noqa: BLE001 - the edge of the triggerer, see above
                failures = min(failures + 1, _MOST_DOUBLINGS)
                _log.warning("poll of database %s failed; polling goes on: %s", key[2], error)
            await asyncio.sleep(kwargs["poll_interval_s"] * 2**failures)

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Poll]
    ) -> AsyncIterator[TriggerEvent]:
        """Send an event whenever a poll shows that the table needs compaction."""
        with self._watching():
            async for poll in shared_stream:
                try:
                    event = await self._event(poll)
                except Exception as error:  # noqa: BLE001 - the edge of the triggerer, as above
                    _log.warning("%s: poll failed; polling goes on: %s", self.table, error)
                    continue
                if event is not None:
                    yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll without other triggers; Airflow's triggerer calls `filter_shared_stream` instead."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    @contextmanager
    def _watching(self) -> Iterator[None]:
        tables = _watched[_key(self.serialize()[1])]
        tables[self._ref] += 1
        try:
            yield
        finally:
            tables[self._ref] -= 1
            if not tables[self._ref]:
                del tables[self._ref]

    # ---- one table -------------------------------------------------------------------------------

    async def _event(self, poll: Poll) -> dict[str, Any] | None:
        writes = poll.writes.get(self._ref)
        if writes is None:
            return None  # this trigger joined after the poll began
        looked_ago_s = poll.began_s - self._looked_s
        if looked_ago_s < 0:
            return None  # this poll waited while the table was measured; a newer poll follows
        # Without a write, a table may still become due: a compaction makes the base smaller, or a
        # new table of the same name has the same write IDs.
        if writes == self._healthy and looked_ago_s < self.refire_after_s:
            return None
        self._healthy = None
        try:
            seen = await poll_in_thread(poll.endpoint, partial(self._look, poll.endpoint))
        finally:
            self._looked_s = time.monotonic()
        _log.info("%s", seen)
        if not seen.due:
            await self._store(None)
            # If automatic compaction is off, measure again, because it can be switched on without a
            # write.
            self._healthy = writes if seen.why_not is None else None
            return None
        now = await self._firing(poll.endpoint, seen.table_id, writes)
        if now is None:
            return None
        # First store the event, then send it. If the triggerer is killed between these steps, the
        # event is sent after `refire_after_s`. In the reverse order, a new triggerer would send the
        # event twice.
        await self._store(now)
        return _payload(seen, writes.high_watermark)

    def _look(self, endpoint: MetastoreEndpoint) -> Look:
        from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - see _newest_writes

        return look(endpoint, self.table, None, self._given)

    async def _firing(
        self, endpoint: MetastoreEndpoint, table_id: str, writes: ValidWriteIdList
    ) -> Firing | None:
        """Return the state for an event of a table that needs compaction, or None for no event."""
        last = await self._load()
        now = Firing(
            table_id=table_id,
            write_id=CompactorWriteIdList.of(writes).high_watermark,
            at_s=time.time(),
            ended_entry=None,
        )
        if not can_fire(last, now, refire_after_s=self.refire_after_s):
            return None
        now = await self._with_queue(endpoint, now)
        return now if fires(last, now, refire_after_s=self.refire_after_s) else None

    async def _with_queue(self, endpoint: MetastoreEndpoint, now: Firing) -> Firing:
        """Return `now` with the queue's state, or unchanged if the metastore denies the queue."""
        try:
            queue = await poll_in_thread(endpoint, partial(_queue_state, endpoint, self.table))
        except MetastoreCallError as error:
            if not self._is_queue_denied:
                _log.warning(
                    "%s: cannot read the compaction queue; if the table still needs compaction"
                    " after a compaction, the next event follows only after refire_after: %s",
                    self.table,
                    error,
                )
            self._is_queue_denied = True
            return now
        return replace(now, **queue._asdict())

    @property
    def _state(self) -> Any:  # noqa: ANN401 - a type that Airflow below 3.3 lacks
        """The store of the asset's state; Airflow below 3.3 has none."""
        return getattr(self, "asset_state_store", None)

    async def _load(self) -> Firing | None:
        if not self._is_loaded and self._state is not None:
            stored: Any = await self._state.aget(_STATE)
            self._last = None if stored is None else self._parsed(stored)
        self._is_loaded = True
        return self._last

    def _parsed(self, stored: Any) -> Firing | None:  # noqa: ANN401 - any JSON
        try:
            return Firing(**stored)
        except TypeError as error:
            _log.warning("%s: ignoring the note of the last event: %s", self.table, error)
            return None

    async def _store(self, firing: Firing | None) -> None:
        if firing == await self._load():
            return
        if self._state is not None:
            if firing is None:
                await self._state.adelete(_STATE)
            else:
                await self._state.aset(_STATE, asdict(firing))
        self._last = firing


def _key(kwargs: Mapping[str, Any]) -> Key:
    db = TableRef.parse(kwargs["table"]).db
    return ("hiveacid", kwargs["hive_acid_conn_id"], db, kwargs["poll_interval_s"])


async def _poll(conn_id: str, tables: tuple[TableRef, ...]) -> Poll:
    began_s = time.monotonic()
    endpoint = (await HiveAcidHook(conn_id).fetch_settings()).endpoint
    writes = await poll_in_thread(endpoint, partial(_newest_writes, endpoint, tables))
    return Poll(began_s=began_s, endpoint=endpoint, writes=writes)


# Each of these functions imports in the thread that runs it: importing Thrift and Arrow in the
# event loop would block every trigger for longer than Airflow tolerates.
def _newest_writes(
    endpoint: MetastoreEndpoint, tables: tuple[TableRef, ...]
) -> Mapping[TableRef, ValidWriteIdList]:
    from airflow_hiveacid.hooks.compaction_watch import newest_writes  # noqa: PLC0415 - as above

    return newest_writes(endpoint, tables)


def _queue_state(endpoint: MetastoreEndpoint, table: str) -> QueueState:
    from airflow_hiveacid.hooks.compaction_watch import queue_state  # noqa: PLC0415 - as above

    return queue_state(endpoint, table)


def _payload(seen: Look, write_id: WriteId) -> dict[str, Any]:
    """Return the event's payload; its partitions with the most deltas come first."""
    hottest = sorted(seen.due, key=lambda one: -one.health.delta_count)
    whole: dict[str, JsonValue] = {
        "table": seen.table,
        "write_id": write_id,
        "why": hottest[0].record()["why"],
        "due": len(seen.due),
        "partitions": [
            {
                "partition": one.health.partition,
                "delta_count": one.health.delta_count,
                "delta_ratio": one.health.delta_ratio,
            }
            for one in hottest
        ],
    }
    return short_form(whole)
