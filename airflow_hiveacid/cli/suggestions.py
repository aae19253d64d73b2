"""Names that resemble a name that does not exist, for the end of an error's message.

Example:
    >>> did_you_mean("helth", ["health", "history"])
    '; did you mean health?'
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.cli.exit_codes import DatabaseNotFoundError, NoTableMatchesError
from airflow_hiveacid.format.errors import HiveAcidError, TableNotFoundError

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.port import MetastorePort

_MOST_NAMES: Final = 10_000


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return a question that names at most three names like `name`, or an empty text."""
    return _question(get_close_matches(name, names[:_MOST_NAMES]))


def suggestion(error: HiveAcidError, options: argparse.Namespace) -> str:
    """Return a question that names existing tables, if a table or database does not exist.

    Only then, ask the metastore for the names of databases, and of at most three databases' tables.
    """
    if not isinstance(error, TableNotFoundError | DatabaseNotFoundError | NoTableMatchesError):
        return ""
    from airflow_hiveacid.cli import metastore as cli_metastore  # noqa: PLC0415 - slow to import

    try:
        with cli_metastore.connected(options) as client:
            return _question([*_names_like(client, error.table.lower())])
    except Exception:  # noqa: BLE001 - the error itself is more important than a suggestion
        return ""


def _names_like(client: MetastorePort, name: str) -> Iterator[str]:
    db, dot, pattern = name.partition(".")
    for database in get_close_matches(db, client.list_databases()[:_MOST_NAMES]):
        if not pattern.isidentifier():  # a database, or a pattern of its tables
            yield from () if database == db else [f"{database}{dot}{pattern}"]
        else:
            tables = client.list_tables(database)[:_MOST_NAMES]
            yield from (f"{database}.{table}" for table in get_close_matches(pattern, tables))


def _question(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(names[:3])}?" if names else ""
