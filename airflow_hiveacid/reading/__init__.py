"""Reads of tables by any engine: locks, snapshots, live files, and scans of them as Arrow data.

This module has the request to read the data files of a table, and helper columns of the rows. A
file's number combines the position of its partition with its own: 64 bits, unlike paths and
partition values, cost almost nothing in joins and shuffles.

Example:
    >>> number = file_number(3, 7)
    >>> number, partition_at(number)
    (805306375, 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import ROW

NUMBER: Final = "__number"
"""The column of a row that holds the number."""

FILE_BITS: Final = 28
# Both positions fit into the modification time (ms) of Spark's file status.
_PARTITION_BITS: Final = 24


def file_number(partition: int, file: int) -> int:
    """Combine the positions of a file and its partition; OverflowError if one has too many bits."""
    if file >> FILE_BITS or partition >> _PARTITION_BITS:
        raise OverflowError(f"partition {partition}, file {file}")
    return partition << FILE_BITS | file


def partition_at(number: int) -> int:
    """Return the partition position from a file number."""
    return number >> FILE_BITS


def free_name(name: str, *taken: Iterable[str]) -> str:
    """Return a name for a helper column that differs from all these names, ignoring case.

    Example:
        >>> free_name("clause", ["id", "__CLAUSE"], ["_clause"])
        '___clause'
    """
    names = {column.lower() for columns in taken for column in columns}
    candidate = f"__{name}"
    while candidate in names:
        candidate = f"_{candidate}"
    return candidate


RANGED: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
"""Types for which all engines agree on the least and the greatest value of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and greatest value, inclusive; None: no bound; `is_empty`: no value. Never NULL."""

    low: object = None
    high: object = None
    is_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request to read the data files of a table.

    `table_columns` are all data columns; `columns` are the columns to read. `ranges` contains
    ranges of some of the columns to read. `in_utc` is True if Spark's JVMs run in UTC.
    """

    table_columns: tuple[Column, ...]
    columns: tuple[Column, ...]
    ranges: Mapping[str, KeyRange]
    in_utc: bool

    @property
    def why_none_fits(self) -> str | None:
        """The reason why Spark's reader would misread every file of the table, or None."""
        # ORC would apply a filter on `row.x` to a field of the column `row`.
        if any(c.name.lower() == ROW for c in self.table_columns):
            return "a column is called row"
        # Spark passes names to ORC between backquotes, so a backquote in a name would end the name.
        if any("`" in f"{c.name} {c.type}" for c in self.table_columns):
            return "a column's name has a backquote"
        return None
