"""The table of every question: a column of each kind, with edge values.

Hive's own engine writes its rows, so that both engines read the same files. The values are in
rows.json; a kind without a value in a row is NULL there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

_FILE: Final[dict[str, dict[str, list[str]]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text()
)
COLUMNS: Final = dict(title.split(" ", 1) for title in _FILE["columns"])
PARTITIONS: Final = dict(title.split(" ", 1) for title in _FILE["partitions"])
# The values of each column row by row; a shorter list starts again.
_VALUES: Final = {
    title.split(" ", 1)[0]: values for part in _FILE.values() for title, values in part.items()
}
COUNT: Final = 14


def select_rows() -> str:
    """Return the rows as one query in Hive's SQL."""
    kinds = {**COLUMNS, **PARTITIONS}
    lines = []
    for number in range(COUNT):
        values = [
            str(number + 1)
            if name == "id"
            else _cast(_VALUES[name][number % len(_VALUES[name])], kind)
            for name, kind in kinds.items()
        ]
        lines.append("SELECT " + ", ".join(values))
    return " UNION ALL ".join(lines)


def _cast(value: str, kind: str) -> str:
    if not kind.startswith(("array", "map", "struct")):
        return f"cast({value} AS {kind})"
    if value != "NULL":
        return value
    return f"if(1 = 0, {_VALUES[_of_kind(kind)][0]}, NULL)"


def _of_kind(kind: str) -> str:
    return next(name for name, one in COLUMNS.items() if one == kind)


def create_table(name: str) -> str:
    """Return the definition of such a table in Hive's SQL."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    partitions = ", ".join(f"{column} {kind}" for column, kind in PARTITIONS.items())
    return (
        f"CREATE TABLE {name} ({columns}) PARTITIONED BY ({partitions}) STORED AS ORC"
        " TBLPROPERTIES ('transactional'='true')"
    )
