"""The tables of a database; an unreadable table does not hide the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import (
    InvalidNameError,
    MetastoreCallError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import TableRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort


def listed_tables(
    client: MetastorePort, db: str, *, is_wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, TableInfo | InvalidNameError | MetastoreCallError]]:
    """Yield each table's name with its definition, or with the error if it is unreadable.

    A name is `db.table`. The function reads only tables whose names `is_wanted` selects. The
    function omits a table that was dropped after the listing.

    Raises:
        MetastoreError: the metastore does not answer, or does not list the tables.
    """
    for name in client.list_tables(db):
        full_name = f"{db}.{name}"
        if not is_wanted(full_name):
            continue
        try:
            yield full_name, client.get_table(TableRef(db, name))
        except TableNotFoundError:
            continue
        except (InvalidNameError, MetastoreCallError) as error:
            yield full_name, error
