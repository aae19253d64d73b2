"""What a command's error says besides its text: the exit status, and names that do exist.

The exit status shows whether a retry can help. `jobs.job.ExitCode` is that of a Spark job.

Example:
    >>> did_you_mean("helth", ["health", "history"])
    '; did you mean health?'
    >>> from airflow_hiveacid.format.errors import TableNotFoundError
    >>> exit_code(TableNotFoundError(table="demo.t"))
    <ExitCode.NOT_FOUND: 3>
"""

from __future__ import annotations

import argparse
import enum
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format import errors

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.port import MetastorePort


class DatabaseNotFoundError(errors.InputError):
    """The metastore has no such database."""

    def __init__(self, *, database: str, databases: Sequence[str]) -> None:
        self.table = database
        super().__init__(
            f"database {database} does not exist in the metastore; it has {', '.join(databases)}"
        )


class NoTableMatchesError(errors.InputError):
    """No transactional table's name matches a pattern."""

    def __init__(self, *, pattern: str) -> None:
        self.table = pattern
        super().__init__(
            f"no transactional table matches {pattern}; `tables` lists the transactional tables"
        )


class CheckFailedError(errors.HiveAcidError):
    """Steps of `check` failed; the first failure determines the exit status."""

    def __init__(self, *, failed: Sequence[errors.HiveAcidError], of: int) -> None:
        self.first = failed[0]
        self.retryable = failed[0].retryable
        super().__init__(f"{len(failed)} of {of} steps failed")


class ExitCode(enum.IntEnum):
    """The exit status for each error class of this provider; 1 means an unexpected error.

    DUE and BLOCKED are no errors: tables of a pattern need maintenance, or need a person.
    """

    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    REFUSED = 5
    DUE = 6
    BLOCKED = 7


_USAGE: Final = (errors.ConfigurationError, errors.InvalidNameError)
_NOT_FOUND: Final = (
    DatabaseNotFoundError,
    NoTableMatchesError,
    errors.LocationNotFoundError,
    errors.PartitionNotFoundError,
    errors.SourceNotFoundError,
    errors.TableNotFoundError,
    errors.VersionUnknownError,
)


def exit_code(error: errors.HiveAcidError) -> ExitCode:
    """Return the exit status for an error."""
    if isinstance(error, CheckFailedError):
        return exit_code(error.first)
    if isinstance(error, _USAGE):
        return ExitCode.USAGE
    if isinstance(error, _NOT_FOUND):
        return ExitCode.NOT_FOUND
    return ExitCode.UNAVAILABLE if error.retryable else ExitCode.REFUSED


_MOST_NAMES: Final = 10_000


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return a question that names at most three names like `name`, or an empty text."""
    return _question(get_close_matches(name, names[:_MOST_NAMES]))


def suggestion(error: errors.HiveAcidError, options: argparse.Namespace) -> str:
    """Return a question that names existing tables, if a table or database does not exist.

    Only then, ask the metastore for the names of databases, and of at most three databases' tables.
    """
    known = (errors.TableNotFoundError, DatabaseNotFoundError, NoTableMatchesError)
    if not isinstance(error, known):
        return ""
    from airflow_hiveacid.cli import metastore as cli_metastore  # noqa: PLC0415 - slow to import

    try:
        with cli_metastore.connected(options) as client:
            return _question([*_names_like(client, error.table.lower())])
    except Exception:  # noqa: BLE001 - the error itself is more important than a suggestion
        return ""


def _names_like(client: MetastorePort, name: str) -> Iterator[str]:
    """Yield similar names of databases or tables; for a pattern, the same in similar databases."""
    db, dot, pattern = name.partition(".")
    for database in get_close_matches(db, client.list_databases()[:_MOST_NAMES]):
        if not pattern.isidentifier():  # a database, or a pattern of its tables
            yield from () if database == db else [f"{database}{dot}{pattern}"]
        else:
            tables = client.list_tables(database)[:_MOST_NAMES]
            yield from (f"{database}.{table}" for table in get_close_matches(pattern, tables))


def _question(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(names[:3])}?" if names else ""
