"""The server's log of events over Thrift, as far as it tells when writes were committed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import MetastoreCallError, MetastoreUnavailableError
from airflow_hiveacid.metastore.connection import Connection, Repeat
from airflow_hiveacid.metastore.event_log import Event, commits_of
from airflow_hiveacid.metastore.gen.notifications import ttypes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.wire import Struct

_PAGE: Final = 2000
_MOST_EVENTS: Final = 200_000
"""How far back the log is read, in events of the whole server: some hundred megabytes on 3.1."""

# What a 4.x server need not send: all that is frequent and says nothing here.
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
    """Mixed into the client, which gives the connection."""

    _connection: Connection

    def logged_commits(self, ref: TableRef) -> Mapping[WriteId, int]:
        """See EventPort."""
        try:
            return commits_of(self._events(), ref)
        except (MetastoreCallError, MetastoreUnavailableError) as error:
            # Mostly `hive.metastore.event.db.notification.api.auth`: only a proxy user may read it.
            _log.info("the log of events cannot be read, and tells no times: %s", error)
            return {}

    def _events(self) -> Iterator[Event]:
        """The newest events, ascending; none where the server keeps no log."""
        newest: int = self._connection.call(
            "get_current_notificationEventId", repeat=Repeat.NEVER
        ).eventId
        last = max(0, newest - _MOST_EVENTS)
        while last < newest:
            request = ttypes.NotificationEventRequest(
                lastEvent=last, maxEvents=_PAGE, eventTypeSkipList=_SKIPPED
            )
            answer = self._connection.call("get_next_notification", request, repeat=Repeat.NEVER)
            if not answer.events:
                return
            yield from map(_event, answer.events)
            last = answer.events[-1].eventId


def _event(struct: Struct) -> Event:
    # Events of transactions have blanks for names that they do not know, 3.1's of write IDs, too.
    name = (struct.tableName or "").strip()
    table = f"{struct.dbName}.{name}".lower() if name else None
    return Event(
        kind=struct.eventType, time_s=struct.eventTime, table=table, message=struct.message
    )
