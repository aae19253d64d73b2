"""The document with the collected numbers of all tables, which always fits into 64 KB.

Input is one `TableNumbers` per table, and lists of the metastore. Output is JSON. If the document
is too long, `document_of` first leaves out details of tables. If this is not enough, it leaves out
whole tables. The least urgent tables are the first to lose details, or to be left out. `left_out`
in the document says what was left out.

Example:
    >>> numbers = [TableNumbers(row=TableRow(table="db.t", state="fine"), details={"plan": []})]
    >>> made = document(numbers, measured_s=0.0)
    >>> made["rows"][0][0], made["left_out"]
    ('db.t', {})
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, field, fields
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.records.commits import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from airflow_hiveacid.jobs.codec import JsonValue

MOST_BYTES: Final = 64 * 1024
"""The maximum bytes of the document as JSON, because an XCom in the database should be small."""

FORMAT: Final = 1
"""The version of the document's form; the pages ignore a document with a different version."""

_URGENCIES: Final = ("blocked", "failed", "due", "unknown", "waiting", "fine")
_MOST_DETAIL_BYTES: Final = 8 * 1024
_MOST_QUEUED: Final = 60
_MOST_TEXT: Final = 120
# Bytes reserved for `left_out`, whose values are known only at the end.
_RESERVE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The numbers of one table in the list of tables. Times are seconds since 1970.

    `state` is the state of the most urgent finding, or `unknown` if the table could not be
    measured. `why` is the text of the most urgent finding. `due` is the number of partitions that
    are due.
    """

    table: str
    state: str
    why: str = ""
    partitions: int = 0
    due: int = 0
    deltas: int = 0
    ratio: float | None = None
    size_bytes: int = 0
    obsolete: int = 0
    last_compaction_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNumbers:
    """The numbers of one table, with lists of details by name."""

    row: TableRow
    details: Mapping[str, Sequence[JsonValue]] = field(default_factory=dict)


_QUEUE: Final = (
    *("entry_id", "table", "partition", "kind", "state"),
    *("enqueued_s", "started_s", "ended_s", "is_ours"),
)

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "rows": tuple(one.name for one in fields(TableRow)),
    "queue": _QUEUE,
    "compactions": _QUEUE,
    "findings": ("about", "state", "what", "remedy"),
    "plan": ("partition", "kind", "why"),
    "directories": ("partition", "name", "kind", "low", "high", "state", "rows", "size_bytes"),
    "transactions": ("txn_id", "started_s", "heartbeat_s", "job"),
    "locks": ("lock_id", "partition", "kind", "state", "txn_id", "blocked_by", "job"),
    "versions": (
        *("number", "committed_s", "operation", "by", "inserted", "updated", "deleted"),
        *("is_readable", "tags"),
    ),
    "tags": ("name", "version", "expires_s"),
}
"""The names of the values in each list; the document leaves them out to halve its size."""


def document(
    numbers: Sequence[TableNumbers],
    *,
    measured_s: float,
    settings: Mapping[str, JsonValue] | None = None,
    queue: Sequence[JsonValue] = (),
) -> dict[str, JsonValue]:
    """Return the document of one collection.

    Args:
        numbers: the tables, in any order.
        measured_s: when the collection began, in seconds since 1970.
        settings: the connection and thresholds of the collection.
        queue: the metastore's compaction queue, the most important entry first.
    """
    urgent = sorted(numbers, key=lambda one: (_URGENCIES.index(one.row.state), one.row.table))
    made: dict[str, JsonValue] = {
        "format": FORMAT,
        "measured": time_text(measured_s),
        **(settings or {}),
        "queue": list(queue[:_MOST_QUEUED]),
    }
    left = MOST_BYTES - _RESERVE - len(json.dumps(made))
    rows, left = _fitting([_row(one.row) for one in urgent], left)
    shown = urgent[: len(rows)]
    details: dict[str, JsonValue] = {}
    for one in shown:
        found = _details(one.details)
        cost = len(json.dumps({one.row.table: found}))
        if one.details and cost <= left:
            details[one.row.table] = found
            left -= cost
    without = sum(1 for one in shown if one.details and one.row.table not in details)
    missing = {
        "tables": len(urgent) - len(rows),
        "details": without,
        "queue": max(0, len(queue) - _MOST_QUEUED),
    }
    rows.sort(key=lambda row: str(row[0]))
    return {
        **made,
        "rows": [*rows],
        "details": details,
        "left_out": {name: number for name, number in missing.items() if number},
    }


def named(name: str, holder: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one list of a document, or of a table's details, with the names of its values.

    Example:
        >>> named("tags", {"tags": [["closing", 12, None]]})
        [{'name': 'closing', 'version': 12, 'expires_s': None}]
    """
    return [dict(zip(COLUMNS[name], values, strict=True)) for values in holder[name]]


def _row(row: TableRow) -> list[JsonValue]:
    return [_short(value) if isinstance(value, str) else value for value in astuple(row)]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."


def _fitting(rows: list[list[JsonValue]], left: int) -> tuple[list[list[JsonValue]], int]:
    """Return the first rows that fit into a number of bytes, and the bytes that remain."""
    for number, row in enumerate(rows):
        cost = len(json.dumps(row)) + len(", ")
        if cost > left:
            return rows[:number], left
        left -= cost
    return rows, left


def _details(details: Mapping[str, Sequence[JsonValue]]) -> dict[str, JsonValue]:
    """Return the details of one table, with the longest lists shortened until they fit."""
    kept = {name: list(entries) for name, entries in details.items()}
    while len(json.dumps(kept)) > _MOST_DETAIL_BYTES:
        longest = max(kept, key=lambda name: len(json.dumps(kept[name])))
        kept[longest] = kept[longest][: len(kept[longest]) // 2]
    cut = {
        name: len(entries) - len(kept[name])
        for name, entries in details.items()
        if len(entries) > len(kept[name])
    }
    return {**kept, "left_out": {**cut}}
