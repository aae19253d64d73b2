"""The short form of results, for XComs and asset events: at most 16 KB of JSON.

Next to each list, and to each mapping by table, `<name>_omitted` is the number of omitted entries,
usually 0. So `len(result[name]) + result[name + "_omitted"]` is always the exact number, also in
the short form of a short form. The short form keeps an entry whole or omits it; it never cuts a
name.

Example:
    >>> short_form({"table": "db.t", "partitions": ["day=1", "day=2"]})
    {'table': 'db.t', 'partitions': ['day=1', 'day=2'], 'partitions_omitted': 0}
    >>> short_form({"partitions": ["day=1", "day=2"]}, most_bytes=50)
    {'partitions': ['day=1'], 'partitions_omitted': 1}
    >>> short_form({"partitions": ["day=1", "day=2"], "partitions_omitted": 7}, most_bytes=50)
    {'partitions': ['day=1'], 'partitions_omitted': 8}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from airflow_hiveacid.format.codec import JsonValue

MOST_BYTES: Final = 16 * 1024
"""The most bytes of a result in an XCom or an asset event, as JSON."""

OMITTED: Final = "_omitted"
_LENGTHS: Final = (1, 2, 3, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000)
"""The lengths to which lists are shortened. A longer list of names never fits."""
_BY_TABLE: Final = frozenset({"write_ids", "conflict_policy"})
_MOST_TABLES_LENGTH: Final = 1000


def short_form(
    whole: Mapping[str, JsonValue], *, most_bytes: int = MOST_BYTES
) -> dict[str, JsonValue]:
    """Return a result with lists so short that it fits; lists inside entries are cut first."""
    length, inner = 0, 0
    for longer in _LENGTHS:
        if _size(_cut(whole, longer, inner=0)) > most_bytes:
            break
        length = longer
    for longer in _LENGTHS:
        if longer > length or _size(_cut(whole, length, inner=longer)) > most_bytes:
            break
        inner = longer
    return _cut(whole, length, inner=inner)


def short_list(
    whole: Sequence[dict[str, JsonValue]], *, most_bytes: int = MOST_BYTES
) -> list[dict[str, JsonValue]]:
    """Return the first entries of a list, as many as fit into the limit."""
    free_bytes = most_bytes - len("[]")
    for number, entry in enumerate(whole):
        free_bytes -= _size(entry) + len(", ")
        if free_bytes < 0:
            return list(whole[:number])
    return list(whole)


def is_short(result: JsonValue) -> bool:
    """Return true if a short form contains the whole result.

    Example:
        >>> is_short({"partitions": [], "partitions_omitted": 1})
        False
    """
    if isinstance(result, dict):
        return all(
            is_short(value) and not (name.endswith(OMITTED) and value)
            for name, value in result.items()
        )
    return not isinstance(result, list) or all(map(is_short, result))


def short_tables(tables: str) -> str:
    """Return the tables of a job, as text, with at most the first 1,000 characters of names.

    Example:
        >>> short_tables(", ".join(f"db.table_{n:04}" for n in range(1000)))[-28:]
        ', db.table_0065 and 934 more'
    """
    if len(tables) <= _MOST_TABLES_LENGTH:
        return tables
    names = tables.split(", ")
    # Each separator ends a whole name.
    count = tables[: _MOST_TABLES_LENGTH + 1].count(", ")
    return f"{', '.join(names[:count])} and {len(names) - count} more"


def _cut(
    whole: Mapping[str, JsonValue], length: int, *, inner: int, is_inner: bool = False
) -> dict[str, JsonValue]:
    """Shorten lists to `length` entries; inside the entry of a list (`is_inner`), to `inner`."""
    limit = inner if is_inner else length
    short: dict[str, JsonValue] = {}
    for name, value in whole.items():
        match value:
            case list():
                short[name] = [
                    _cut(entry, length, inner=inner, is_inner=True)
                    if isinstance(entry, dict)
                    else entry
                    for entry in value[:limit]
                ]
                short[f"{name}{OMITTED}"] = _omitted(whole, name) + max(0, len(value) - limit)
            case dict() if name in _BY_TABLE:
                short[name] = dict(islice(value.items(), limit))
                short[f"{name}{OMITTED}"] = _omitted(whole, name) + max(0, len(value) - limit)
            case dict():
                short[name] = _cut(value, length, inner=inner, is_inner=is_inner)
            case str() if name == "table":
                short[name] = short_tables(value)
            case _ if name not in short:
                short[name] = value
            case _:
                pass  # the number of entries that were left out before, which is counted above
    return short


def _omitted(whole: Mapping[str, JsonValue], name: str) -> int:
    count = whole.get(f"{name}{OMITTED}")
    return count if isinstance(count, int) else 0


def _size(value: JsonValue) -> int:
    return len(json.dumps(value))
