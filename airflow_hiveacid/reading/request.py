"""A request to read the data files of a table: columns, and ranges of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.row_schema import ROW

RANGED: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
"""Types for which all engines agree on the least and the greatest value of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and the greatest value of a range, both inclusive; None means no bound.

    `is_empty` is True if no value is wanted. NULL is in no range.
    """

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
