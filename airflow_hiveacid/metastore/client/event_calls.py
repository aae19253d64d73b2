"""Commit times, of transactions and of a table's writes, read over Thrift from the event log.

A metastore with Hive's `DbNotificationListener` logs each write ID allocation and each commit, with
the time and the transaction ID.

Example:
    >>> from airflow_hiveacid.format.table import TableRef
    >>> given = '{"dbName": "db", "tableName": "t", "txnIdList": [7], "writeIdList": [1]}'
    >>> commits_of(
    ...     [
    ...         Event(kind=GIVEN, time_s=1, table=None, message=given),
    ...         Event(kind=COMMITTED, time_s=4, table=None, message='{"txnid": 7}'),
    ...     ],
    ...     TableRef.parse("db.t"),
    ... )
    {1: 4}
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.client.connection import Connection, Repeat
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


GIVEN: Final = "ALLOC_WRITE_ID_EVENT"
COMMITTED: Final = "COMMIT_TXN"
MADE: Final = "CREATE_TABLE"
DROPPED: Final = "DROP_TABLE"
ALTERED: Final = "ALTER_TABLE"
READ_KINDS: Final = frozenset({GIVEN, COMMITTED, MADE, DROPPED, ALTERED})
"""The kinds of events that matter here; the messages of other events are ignored."""

# The keys of fields 1 and 2 of the Table struct in Thrift's JSON protocol.
_NAME, _DB, _TEXT = "1", "2", "str"

_MOST_BACKWARDS_S: Final = 120
"""Twice the tolerated difference between the clocks of a server and its database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of the log, at `time_s` (whole seconds since 1970).

    `table` is "db.name" if the event concerns a table's definition. `message` is JSON, maybe in
    gzip and base64, and empty if it was too long to read.
    """

    kind: str
    time_s: int
    table: str | None
    message: str


def commits_of(events: Iterable[Event], ref: TableRef) -> Mapping[WriteId, int]:
    """Derive the commit times of a table's writes from these events, in seconds since 1970.

    The events ascend; only events at the beginning may be missing. `ref` is the name that the table
    has after them. Each new table starts at write ID 1 again. So if this name is created, dropped
    or renamed, all earlier IDs are discarded. IDs that were allocated under an older name are not
    found. The result is empty if the log's times go backwards: a clock was set back, or the clocks
    of several servers differ.
    """
    write_ids: dict[TxnId, WriteId] = {}
    commit_times: dict[WriteId, int] = {}
    latest_s = 0
    for event in events:
        latest_s = max(latest_s, event.time_s)
        if event.time_s < latest_s - _MOST_BACKWARDS_S:
            return {}
        match event.kind:
            case "ALLOC_WRITE_ID_EVENT":
                write_ids |= _given(event.message, ref)
            case "COMMIT_TXN" if write_ids:
                write_id = write_ids.pop(_committed(event.message), None)
                if write_id is not None:
                    commit_times[write_id] = event.time_s
            case "CREATE_TABLE" | "DROP_TABLE" if event.table == str(ref):
                write_ids, commit_times = {}, {}
            case "ALTER_TABLE" if _may_rename(event.message, ref):
                write_ids, commit_times = {}, {}
    return commit_times


def _given(message: str, ref: TableRef) -> dict[TxnId, WriteId]:
    body = _json(message)
    if not _is_of(body.get("dbName"), body.get("tableName"), ref):
        return {}
    pairs = zip(body.get("txnIdList", ()), body.get("writeIdList", ()), strict=False)
    return {TxnId(int(txn_id)): WriteId(int(write_id)) for txn_id, write_id in pairs}


def _committed(message: str) -> TxnId:
    return TxnId(int(_json(message).get("txnid", 0)))


def _may_rename(message: str, ref: TableRef) -> bool:
    """Return True if an ALTER added or removed this table name, or if its message is unreadable."""
    body = _json(message)
    try:
        old_table, new_table = (
            json.loads(body[key]) for key in ("tableObjBeforeJson", "tableObjAfterJson")
        )
        was, became = (
            _is_of(table[_DB][_TEXT], table[_NAME][_TEXT], ref) for table in (old_table, new_table)
        )
    except (KeyError, TypeError, ValueError):
        return True
    return was is not became


def _is_of(db: object, name: object, ref: TableRef) -> bool:
    return f"{db}.{name}".lower() == str(ref)


def _json(message: str) -> dict[str, Any]:
    """Parse a message; return an empty mapping if it is unreadable."""
    try:
        text = message if message.startswith("{") else gzip.decompress(base64.b64decode(message))
        body = json.loads(text)
    except (OSError, EOFError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}
