"""The times of commits, read over Thrift from the server's event log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.client.connection import Connection, Repeat
from airflow_hiveacid.metastore.client.event_log import READ_KINDS, Event, commits_of
from airflow_hiveacid.metastore.gen.notifications import ttypes
from airflow_hiveacid.metastore.wire import Struct

_PAGE: Final = 2000
_MOST_EVENTS: Final = 200_000
"""The number of newest events to read; on 3.1 they take a few hundred MB."""

# Frequent event types that are not needed here; a 4.x server omits them on request.
_SKIPPED: Final = [
    "OPEN_TXN",
    "ABORT_TXN",
    "ACID_WRITE_EVENT",
    "BATCH_ACID_WRITE_EVENT",
    "INSERT",
    "ADD_PARTITION",
    "ALTER_PARTITION",
    "ALTER_PARTITIONS",
    "DROP_PARTITION",
    "UPDATE_TBL_COL_STAT_EVENT",
    "DELETE_TBL_COL_STAT_EVENT",
    "UPDATE_PART_COL_STAT_EVENT",
    "UPDATE_PART_COL_STAT_EVENT_BATCH",
    "DELETE_PART_COL_STAT_EVENT",
    "COMMIT_COMPACTION_EVENT",
]

_log = logging.getLogger(__name__)


class EventCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def logged_commits(self, ref: TableRef) -> Mapping[WriteId, int]:
        try:
            return commits_of(self._events(), ref)
        except (errors.MetastoreCallError, errors.MetastoreUnavailableError) as error:
            # The usual cause is `hive.metastore.event.db.notification.api.auth`: only proxy users
            # may read the log.
            _log.info("the event log is unreadable, so commit times are unknown: %s", error)
            return {}

    def _events(self) -> Iterator[Event]:
        """Yield the newest events in ascending order; yield nothing if the server has no log."""
        newest: int = self._connection.call(
            "get_current_notificationEventId", repeat=Repeat.NEVER
        ).eventId
        last = max(0, newest - _MOST_EVENTS)
        while last < newest:
            try:
                events = self._page(last, _PAGE)
            except errors.MetastoreAnswerError as error:
                _log.info("an event is too long, reading the others one by one: %s", error)
                events = self._around_long_messages(last)
            if not events:
                return
            yield from map(_event, events)
            last = events[-1].eventId

    def _page(self, last: int, limit: int) -> list[Struct]:
        answer = self._connection.call(
            "get_next_notification", _request(last, limit), repeat=Repeat.NEVER
        )
        return list(answer.events)

    def _around_long_messages(self, last: int) -> list[Struct]:
        """Read the events of a page one at a time, because one message is too long to read."""
        heads = self._connection.brief_call(
            "get_next_notification", _request(last, _PAGE), repeat=Repeat.NEVER
        ).events
        return [self._whole(head) if head.eventType in READ_KINDS else head for head in heads]

    def _whole(self, head: Struct) -> Struct:
        try:
            # The log may have gaps. If the event was deleted, the response is a later event.
            events = self._page(head.eventId - 1, 1)
        except errors.MetastoreAnswerError:
            return head
        return events[0] if events and events[0].eventId == head.eventId else head


def _request(last: int, limit: int) -> ttypes.NotificationEventRequest:
    return ttypes.NotificationEventRequest(
        lastEvent=last, maxEvents=limit, eventTypeSkipList=_SKIPPED
    )


def _event(struct: Struct) -> Event:
    # Transaction events, and in 3.1 also write ID events, have blanks instead of a table name.
    name = (struct.tableName or "").strip()
    table = f"{struct.dbName}.{name}".lower() if name else None
    return Event(
        kind=struct.eventType,
        time_s=struct.eventTime,
        table=table,
        message=getattr(struct, "message", "") if struct.eventType in READ_KINDS else "",
    )
