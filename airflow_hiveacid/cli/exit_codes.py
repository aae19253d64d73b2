"""The exit status of a failed command; it shows whether a retry can help.

Example:
    >>> from airflow_hiveacid.format.errors import TableNotFoundError
    >>> exit_code(TableNotFoundError(table="demo.t"))
    <ExitCode.NOT_FOUND: 3>
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from airflow_hiveacid.format import errors


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
