"""Commit times of a table's writes, derived from the server's event log.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef

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
