"""The owner of a directory: the table whose maintenance may remove files there."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.table import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The table that a directory belongs to.

    `metastore` is the ID of the metastore's database. `table_id` distinguishes the table from an
    earlier table of the same name. `is_checked` is False until a maintenance job has found that no
    other table of the metastore shares the directory.
    """

    metastore: str
    table: TableRef
    table_id: str
    is_checked: bool = False

    def __str__(self) -> str:
        return f"table {self.table} of the metastore {self.metastore}"
