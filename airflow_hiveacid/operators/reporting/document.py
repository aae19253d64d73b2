"""The document with the collected numbers of all tables, which always fits into 64 KB.

The queue takes at most a quarter of the document, and a cause that several tables share is stored
once. If it is too long, the least urgent tables first lose their details, then are left out;
`left_out` says what was. `parsed` checks a stored document, because any task may store one.

Example:
    >>> numbers = [TableNumbers(row=TableRow(table="db.t", state="fine"), details={"plan": []})]
    >>> made = document(numbers, measured_s=0.0)
    >>> made["rows"][0][0], made["left_out"]
    ('db.t', {})
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.records import time_text
from airflow_hiveacid.format.words import printable, without_ages

MOST_BYTES: Final = 64 * 1024
FORMAT: Final = 1
"""The version of the document's form; the pages ignore a document with a different version."""

_URGENCIES: Final = ("blocked", "failed", "due", "unknown", "waiting", "switched off", "fine")
_MOST_DETAIL_BYTES: Final = 8 * 1024
_MOST_QUEUED: Final = 60
_MOST_QUEUE_BYTES: Final = MOST_BYTES // 4
_MOST_TEXT: Final = 120
_MOST_CAUSE_TEXT: Final = 400
_MOST_CAUSES_BYTES: Final = MOST_BYTES // 8
# Bytes reserved for `left_out`, whose values are known only at the end.
_RESERVE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The numbers of one table in the list of tables. Times are seconds since 1970.

    `state` is the state of the most urgent finding, or `unknown` if the table could not be
    measured. `why` is the text of the most urgent finding. `due` is the number of partitions that
    are due. `last_compaction_s` is 0 if the table was never compacted, and None if unknown.
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
    """The numbers of one table, with lists of details by name.

    `cause` is the most urgent finding in words that are the same for all tables with this cause;
    empty if it can have no other table. `remedy` is what to do about it, in such words.
    """

    row: TableRow
    cause: str = ""
    remedy: str = ""
    details: Mapping[str, Sequence[JsonValue]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise TypeError or ValueError if the pages cannot show this table."""
        _list("rows", {"rows": [astuple(self.row)]})
        for name in self.details:
            _list(name, self.details)


_QUEUE: Final = (
    *("entry_id", "table", "partition", "kind", "state"),
    *("enqueued_s", "started_s", "ended_s", "is_ours"),
)

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "rows": tuple(column.name for column in fields(TableRow)),
    "causes": ("state", "what", "remedy"),
    "oldest": ("txn_id", "started_s"),
    "queue": _QUEUE,
    "compactions": _QUEUE,
    "thresholds": ("delta_count", "delta_ratio"),
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
    queue: Sequence[Sequence[JsonValue]] = (),
) -> dict[str, JsonValue]:
    """Return the document of one collection, which began at `measured_s` (seconds since 1970).

    `settings` are the connection, the thresholds, and `oldest`: the oldest open transaction, if
    there is one. `queue` has the most important entry first. In `rows`, `why` is a text, or the
    number of an entry in `causes`.
    """
    urgent = sorted(numbers, key=lambda table: (_URGENCIES.index(table.row.state), table.row.table))
    causes, cause_of = _causes(urgent)
    queued, _ = _fitting([_shortened(entry) for entry in queue[:_MOST_QUEUED]], _MOST_QUEUE_BYTES)
    head: dict[str, JsonValue] = {
        "format": FORMAT,
        "measured": time_text(measured_s),
        **(settings or {}),
        "causes": [*causes],
        "queue": [*queued],
    }
    remainder = MOST_BYTES - _RESERVE - len(json.dumps(head))
    rows, remainder = _fitting([_row(table.row, cause_of) for table in urgent], remainder)
    shown = urgent[: len(rows)]
    details: dict[str, JsonValue] = {}
    cut_tables = 0
    for table, row in zip(shown, rows, strict=True):
        own_details = _details(table.details)
        name = str(row[0])
        cost = len(json.dumps({name: own_details}))
        if table.details and cost <= remainder:
            details[name] = own_details
            remainder -= cost
        elif table.details:
            cut_tables += 1
    missing = {
        "tables": len(urgent) - len(rows),
        "details": cut_tables,
        "queue": len(queue) - len(queued),
    }
    rows.sort(key=lambda row: str(row[0]))  # by urgency until here, to cut the least urgent
    return {
        **head,
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


def parsed(document: object) -> dict[str, Any] | None:
    """Return a stored document in a form that the pages can show; None if it has no such form.

    Its lists are those of `named`. All their values are of the types that the pages expect, and all
    texts are printable. A document of a different release has a different `format`.
    """
    try:
        if not isinstance(document, dict) or document["format"] != FORMAT:
            return None
        if len(json.dumps(document)) > MOST_BYTES:
            return None
        causes = _list("causes", document) if "causes" in document else []
        return {
            "connection": _text(document["connection"]),
            "measured": _moment(document["measured"]),
            "delta_count": _number(document["delta_count"]),
            "delta_ratio": _number(document["delta_ratio"]),
            "left_out": _counts(document["left_out"]),
            "oldest": _list("oldest", document) if "oldest" in document else [],
            "causes": causes,
            "rows": _rows(document, causes),
            "queue": _list("queue", document),
            "details": {
                _text(name): {
                    **{key: _list(key, lists) if key in lists else [] for key in _DETAILS},
                    "left_out": _counts(lists["left_out"]),
                }
                for name, lists in document["details"].items()
            },
        }
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


_DETAILS: Final = tuple(
    name for name in COLUMNS if name not in ("rows", "causes", "oldest", "queue")
)
_TEXTS: Final = frozenset(
    {
        *("table", "state", "why", "partition", "kind", "about", "what", "remedy", "name", "job"),
        *("operation", "by"),
    }
)
_LARGEST: Final = 2.0**63
_LATEST_S: Final = 253_402_300_799.0  # the end of the year 9999


def _list(name: str, holder: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{key: _value(key, entry[key]) for key in entry} for entry in named(name, holder)]


def _rows(document: Mapping[str, Any], causes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the texts of their causes; `cause` is a shared cause's number."""
    rows = []
    for row in named("rows", document):
        number = None if isinstance(row["why"], str) else row["why"]
        own = row if number is None else {**row, "why": causes[_index(number)]["what"]}
        rows.append({**{key: _value(key, own[key]) for key in own}, "cause": number})
    return rows


def _index(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no index")
    return value


def _value(name: str, value: object) -> JsonValue:
    if name in _TEXTS:
        return "" if value is None else _text(value)
    if name.startswith("is_"):
        return bool(value)
    if name == "tags":
        return [_text(text) for text in value] if isinstance(value, list) else []
    return _number(value, least=0.0, most=_LATEST_S) if name.endswith("_s") else _number(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return printable(value)


def _moment(value: object) -> str:
    return time_text(max(0.0, datetime.fromisoformat(_text(value)).timestamp()))


def _number(
    value: object, *, least: float = -_LARGEST, most: float = _LARGEST
) -> int | float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    if not least <= value <= most:  # also NaN, which JSON lacks
        raise ValueError(f"{value!r} is out of range")
    return value


def _counts(value: Mapping[str, object]) -> dict[str, int | float]:
    counts = {_text(name): _number(number) for name, number in value.items()}
    return {name: number for name, number in counts.items() if number is not None}


def _causes(tables: Sequence[TableNumbers]) -> tuple[list[list[JsonValue]], dict[str, int]]:
    """Return the causes that several tables share, and the number of each such table's cause."""
    groups: dict[tuple[str, str, str], list[TableNumbers]] = {}
    for table in tables:
        if table.cause:
            key = (table.row.state, without_ages(table.cause), table.remedy)
            groups.setdefault(key, []).append(table)
    shared = [group for group in groups.values() if len(group) > 1]
    shared.sort(key=lambda group: (_URGENCIES.index(group[0].row.state), -len(group)))
    entries: list[list[JsonValue]] = [
        [state, _short(first.cause, _MOST_CAUSE_TEXT), _short(first.remedy)]
        for first, state in ((group[0], group[0].row.state) for group in shared)
    ]
    causes, _ = _fitting(entries, _MOST_CAUSES_BYTES)
    numbered = enumerate(shared[: len(causes)])
    return causes, {table.row.table: number for number, group in numbered for table in group}


def _row(row: TableRow, cause_of: Mapping[str, int]) -> list[JsonValue]:
    number = cause_of.get(row.table)
    values = asdict(row) if number is None else {**asdict(row), "why": number}
    return _shortened(list(values.values()))


def _shortened(values: Sequence[JsonValue]) -> list[JsonValue]:
    return [_short(value) if isinstance(value, str) else value for value in values]


def _short(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _fitting(rows: list[list[JsonValue]], remainder: int) -> tuple[list[list[JsonValue]], int]:
    """Return the first rows that fit into a number of bytes, and the bytes that remain."""
    for number, row in enumerate(rows):
        cost = len(json.dumps(row)) + len(", ")
        if cost > remainder:
            return rows[:number], remainder
        remainder -= cost
    return rows, remainder


def _details(details: Mapping[str, Sequence[JsonValue]]) -> dict[str, JsonValue]:
    """Return the details of one table, with the longest lists shortened until they fit."""
    lists = {name: list(entries) for name, entries in details.items()}
    while len(json.dumps(lists)) > _MOST_DETAIL_BYTES:
        longest = max(lists, key=lambda name: len(json.dumps(lists[name])))
        lists[longest] = lists[longest][: len(lists[longest]) // 2]
    cut = {
        name: len(entries) - len(lists[name])
        for name, entries in details.items()
        if len(entries) > len(lists[name])
    }
    return {**lists, "left_out": {**cut}}
