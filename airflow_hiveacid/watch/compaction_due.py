"""The trigger of an asset that gets an event when its table needs compaction.

All triggers with equal connection, database and interval share one poll. The poll asks the
metastore for the newest writes of all their tables. A trigger lists its table's directories only in
these cases: after a write; while the table needs compaction; while automatic compaction is off; or
if the last listing is older than `refire_after`. After a write it lists only the partitions that
may have changed (`plan.looks`). `plan.thresholds` decides whether an event is sent. The last event
is stored in the asset's state store, so that a new triggerer does not repeat it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.plan.looks import LastLook
from airflow_hiveacid.plan.thresholds import Firing, can_fire, fires
from airflow_hiveacid.watch.compactions import queue_state
from airflow_hiveacid.watch.conditions import CompactionNeeded
from airflow_hiveacid.watch.poll_threads import poll_metastore

if TYPE_CHECKING:
    from airflow_hiveacid.watch.health import CompactionNeed

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
    """Send an event whenever a table needs compaction; `compaction_asset` describes the arguments.

    `condition` are the plain values of a `CompactionNeeded`. They contain the table, because
    Airflow merges triggers with equal arguments, and a merged trigger has no state store.
    """

    def __init__(
        self,
        *,
        condition: dict[str, Any],
        hive_acid_conn_id: str,
        poll_interval_s: float,
        refire_after_s: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.condition = condition
        self.hive_acid_conn_id = hive_acid_conn_id
        self.poll_interval_s = poll_interval_s
        self.refire_after_s = refire_after_s
        self.ref = TableRef.parse(condition["table"])
        self._healthy: ValidWriteIdList | None = None
        self._look: LastLook | None = None
        self._measured_s = float("-inf")
        self._last: Firing | None = None
        self._is_loaded = False
        self._is_queue_denied = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and constructor arguments from which Airflow recreates this trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "condition": self.condition,
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
        """Poll the tables of all triggers that share this stream."""
        key = _key(kwargs)
        async for poll in _polls(kwargs, lambda: tuple(_watched[key])):
            yield poll

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Poll]
    ) -> AsyncIterator[TriggerEvent]:
        """Send an event whenever a poll shows that the table needs compaction."""
        with self._watching():
            async for poll in shared_stream:
                try:
                    event = await self._event(poll)
                except Exception as error:  # noqa: BLE001 - the edge of the triggerer, as above
                    _log.warning("%s: poll failed; polling goes on: %s", self.ref, error)
                    continue
                if event is not None:
                    yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll this table alone; since 3.3, Airflow calls `filter_shared_stream` instead."""
        polls = _polls(self.serialize()[1], lambda: (self.ref,))
        async for event in self.filter_shared_stream(polls):
            yield event

    @contextmanager
    def _watching(self) -> Iterator[None]:
        tables = _watched[_key(self.serialize()[1])]
        tables[self.ref] += 1
        try:
            yield
        finally:
            tables[self.ref] -= 1
            if not tables[self.ref]:
                del tables[self.ref]

    # ---- one table -------------------------------------------------------------------------------

    async def _event(self, poll: Poll) -> dict[str, Any] | None:
        writes = poll.writes.get(self.ref)
        if writes is None:
            return None  # this trigger joined after the poll began
        measured_ago_s = poll.began_s - self._measured_s
        if measured_ago_s < 0:
            return None  # this poll waited while the table was measured; a newer poll follows
        # Without a write, a table may still become due: a compaction makes the base smaller, or a
        # new table of the same name has the same write IDs.
        if writes == self._healthy and measured_ago_s < self.refire_after_s:
            return None
        self._healthy = None
        try:
            if self._look and time.time() - self._look.full_s >= self.refire_after_s:
                self._look = None
            condition = replace(CompactionNeeded.from_json(self.condition), last=self._look)
            need = await poll_metastore(poll.endpoint, condition.need)
            self._look = need.look
        finally:
            self._measured_s = time.monotonic()
        _log.info("%s", need)
        if not need.due:
            await self._store(None)
            # If automatic compaction is off, measure again, because it can be switched on without a
            # write.
            self._healthy = writes if need.why_not is None else None
            return None
        firing = await self._firing(poll.endpoint, need.table_id, writes)
        if firing is None:
            return None
        # First store the event, then send it. If the triggerer is killed between these steps, the
        # event is sent after `refire_after_s`. In the reverse order, a new triggerer would send the
        # event twice.
        await self._store(firing)
        return _payload(need, writes.high_watermark)

    async def _firing(
        self, endpoint: MetastoreEndpoint, table_id: str, writes: ValidWriteIdList
    ) -> Firing | None:
        last = await self._load()
        firing = Firing(
            table_id=table_id,
            write_id=CompactorWriteIdList.of(writes).high_watermark,
            at_s=time.time(),
            ended_entry=None,
        )
        if not can_fire(last, firing, refire_after_s=self.refire_after_s):
            return None
        firing = await self._with_queue(endpoint, firing)
        return firing if fires(last, firing, refire_after_s=self.refire_after_s) else None

    async def _with_queue(self, endpoint: MetastoreEndpoint, firing: Firing) -> Firing:
        """Add the queue's state, unless the metastore denies the queue."""
        try:
            queue = await poll_metastore(endpoint, partial(queue_state, ref=self.ref))
        except MetastoreCallError as error:
            if not self._is_queue_denied:
                _log.warning(
                    "%s: cannot read the compaction queue; if the table still needs compaction"
                    " after a compaction, the next event follows only after refire_after: %s",
                    self.ref,
                    error,
                )
            self._is_queue_denied = True
            return firing
        return replace(firing, **queue._asdict())

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
            _log.warning("%s: ignoring the note of the last event: %s", self.ref, error)
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
    db = TableRef.parse(kwargs["condition"]["table"]).db
    return ("hiveacid", kwargs["hive_acid_conn_id"], db, kwargs["poll_interval_s"])


async def _polls(
    kwargs: Mapping[str, Any], tables: Callable[[], tuple[TableRef, ...]]
) -> AsyncIterator[Poll]:
    """Poll at the interval indefinitely; after failed polls, wait longer.

    If this function raised an exception, Airflow would end the watch of every table.
    """
    failures = 0
    while True:
        if not (polled := tables()):  # the first trigger joins only after this call
            await asyncio.sleep(_FIRST_TABLE_S)
            continue
        try:
            yield await _poll(kwargs["hive_acid_conn_id"], polled)
            failures = 0
        except Exception as error:  # noqa: BLE001 - the edge of the triggerer, see above
            failures = min(failures + 1, _MOST_DOUBLINGS)
            db = _key(kwargs)[2]
            _log.warning("poll of database %s failed; polling goes on: %s", db, error)
        await asyncio.sleep(kwargs["poll_interval_s"] * 2**failures)


async def _poll(conn_id: str, tables: tuple[TableRef, ...]) -> Poll:
    began_s = time.monotonic()
    endpoint = (await HiveAcidHook(conn_id).fetch_settings()).endpoint
    snapshot = await poll_metastore(endpoint, partial(snapshot_now, tables=tables))
    return Poll(began_s=began_s, endpoint=endpoint, writes=snapshot.tables)


def _payload(need: CompactionNeed, write_id: WriteId) -> dict[str, Any]:
    by_deltas = sorted(need.due, key=lambda entry: -entry.health.delta_count)
    whole: dict[str, JsonValue] = {
        "table": need.table,
        "write_id": write_id,
        "why": by_deltas[0].record()["why"],
        "due": len(need.due),
        "partitions": [
            {
                "partition": entry.health.partition,
                "delta_count": entry.health.delta_count,
                "delta_ratio": entry.health.delta_ratio,
            }
            for entry in by_deltas
        ],
    }
    return short_form(whole)
