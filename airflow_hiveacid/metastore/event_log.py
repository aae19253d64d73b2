"""When a table's writes were committed, as the server's own log of events has it.

A metastore with Hive's `DbNotificationListener` notes each write ID that it gives out, by its
transaction, and each commit of one, with the time. Takes events in the order of their numbers;
gives the times of those commits whose write IDs are surely those of the table that has its name
now. Must not know how events are got.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.ids import TxnId, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hiveacid.format.table import TableRef

GIVEN: Final = "ALLOC_WRITE_ID_EVENT"
COMMITTED: Final = "COMMIT_TXN"
MADE: Final = "CREATE_TABLE"
DROPPED: Final = "DROP_TABLE"
ALTERED: Final = "ALTER_TABLE"

# Fields 1 and 2 of Thrift's Table, as its JSON protocol writes them.
_NAME, _DB, _TEXT = "1", "2", "str"

_MOST_BACKWARDS_S: Final = 120
"""Twice what a server's clock may differ from the database's, by which the log is in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the log.

    `time_s` is in whole seconds since 1970, `table` is "db.name" where an event is of a table's
    definition, and `message` the JSON of it, or that in gzip and base64.
    """

    kind: str
    time_s: int
    table: str | None
    message: str


def commits_of(events: Iterable[Event], ref: TableRef) -> Mapping[WriteId, int]:
    """When writes of a table were committed, as far as these events tell it.

    Write IDs begin anew with each table, so those that were given out under this name before it
    came to mean this table are left out: before it was made, dropped, or a table was renamed from
    or to it. What was given out under an older name of the table is not found. Nothing is told by
    a log whose times run backwards: servers with other clocks write it, or one was set back.

    Args:
        events: ascending, without a gap but at the beginning.
        ref: the table that has this name after them.
    """
    given: dict[TxnId, WriteId] = {}
    found: dict[WriteId, int] = {}
    latest_s = 0
    for event in events:
        latest_s = max(latest_s, event.time_s)
        if event.time_s < latest_s - _MOST_BACKWARDS_S:
            return {}
        match event.kind:
            case "ALLOC_WRITE_ID_EVENT":
                given |= _given(event.message, ref)
            case "COMMIT_TXN" if given:
                write_id = given.pop(_committed(event.message), None)
                if write_id is not None:
                    found[write_id] = event.time_s
            case "CREATE_TABLE" | "DROP_TABLE" if event.table == str(ref):
                given, found = {}, {}
            case "ALTER_TABLE" if _may_rename(event.message, ref):
                given, found = {}, {}
    return found


def _given(message: str, ref: TableRef) -> dict[TxnId, WriteId]:
    told = _json(message)
    if not _is_of(told.get("dbName"), told.get("tableName"), ref):
        return {}
    pairs = zip(told.get("txnIdList", ()), told.get("writeIdList", ()), strict=False)
    return {TxnId(int(txn_id)): WriteId(int(write_id)) for txn_id, write_id in pairs}


def _committed(message: str) -> TxnId:
    return TxnId(int(_json(message).get("txnid", 0)))


def _may_rename(message: str, ref: TableRef) -> bool:
    """Whether a table got this name, or lost it; also if nobody can tell."""
    told = _json(message)
    try:
        before, after = (
            json.loads(told[key]) for key in ("tableObjBeforeJson", "tableObjAfterJson")
        )
        was, became = (
            _is_of(table[_DB][_TEXT], table[_NAME][_TEXT], ref) for table in (before, after)
        )
    except (KeyError, TypeError, ValueError):
        return True
    return was is not became


def _is_of(db: object, name: object, ref: TableRef) -> bool:
    return f"{db}.{name}".lower() == str(ref)


def _json(message: str) -> dict[str, Any]:
    """What a message says; nothing if it cannot be read."""
    try:
        text = message if message.startswith("{") else gzip.decompress(base64.b64decode(message))
        told = json.loads(text)
    except (OSError, EOFError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
