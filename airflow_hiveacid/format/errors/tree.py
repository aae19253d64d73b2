"""The base classes of all errors. A driver reports an error as its class name and message."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_hiveacid.format.known_secrets import without_secrets
from airflow_hiveacid.format.words import printable


class HiveAcidError(Exception):
    """Base class of every error that this provider raises deliberately."""

    retryable: bool = False
    """True if a retry of the unchanged task or command may help: the cause is temporary or unknown.

    This is the only rule for it: the retry policy, sensors, exit codes and docs/reference/errors.md
    read it. A subclass inherits it, or sets its own.
    """

    def __str__(self) -> str:
        # A server's text in the message may contain a password or a token.
        return printable(without_secrets(super().__str__()), keep="\n\t")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        # By default, unpickling calls the class with the message alone, which keyword-only
        # arguments refuse. Then the errors could not be sent to another process.
        return rebuild, (type(self).__name__, str(self)), self.__dict__


class RetryableError(HiveAcidError):
    """Mixin for errors with a temporary cause, after which the same request can be repeated."""

    retryable = True


class InputError(HiveAcidError):
    """The request cannot be executed; nothing has been written."""


class MetastoreError(HiveAcidError):
    """The metastore could not be reached, or refused the call."""


class TransactionError(HiveAcidError):
    """A transaction cannot continue."""


class StorageError(HiveAcidError):
    """Files or directories are missing, damaged, unexpectedly present or inaccessible."""

    retryable = True  # a store's unknown failures are often temporary


class ClusterError(HiveAcidError):
    """The cluster manager could not be reached, or did not start the application."""


class ConfigurationError(InputError):
    """A connection, option or file system setting is wrong; the message says how to correct it."""


class TableError(InputError):
    """Base class of errors about one table."""

    def __init__(self, *, table: object, detail: str) -> None:
        self.table = str(table)
        # The detail may contain values of rows, which must not begin a line.
        super().__init__(printable(f"table {table}: {detail}"))


class JobFailedError(HiveAcidError):
    """The Spark application ended without a typed error."""

    retryable = True


class TaskKilledError(JobFailedError):
    """Airflow has killed the task, so the task has stopped."""

    def __init__(self, text: str = "the task was killed") -> None:
        super().__init__(text)


def subclasses(cls: type[HiveAcidError]) -> Iterator[type[HiveAcidError]]:
    """Yield an error class and all its subclasses, those above before those below."""
    yield cls
    for below in cls.__subclasses__():
        yield from subclasses(below)


def typed(error: Exception) -> HiveAcidError:
    """Return an error of ours unchanged, or one that describes an error of another library."""
    if isinstance(error, HiveAcidError):
        return error
    found = JobFailedError(f"unexpected {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def error_class(name: str) -> type[HiveAcidError]:
    """Return the error class with this name, or `JobFailedError` if there is no such class."""
    found = (cls for cls in subclasses(HiveAcidError) if cls.__name__ == name)
    return next(found, JobFailedError)


def rebuild(name: str, message: str) -> HiveAcidError:
    """Return an error of the given class with this message and without other data."""
    cls = error_class(name)
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    return error
