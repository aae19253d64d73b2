"""Errors of files and of the stores that hold them."""

from __future__ import annotations

from airflow_hiveacid.format.errors.tree import RetryableError, StorageError


class LocationNotFoundError(StorageError, RetryableError):
    """The directory of a table or partition does not exist; it may have been dropped or moved."""

    def __init__(self, *, location: str) -> None:
        self.location = location
        super().__init__(
            f"location {location} does not exist. Retry if its table or partition was dropped or"
            " moved a moment ago; otherwise check the path"
        )


class SourceNotFoundError(StorageError, RetryableError):
    """The source of an INSERT or MERGE does not exist, or has no files yet."""

    def __init__(self, *, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"source {source}: {reason}")


class StoreUnavailableError(StorageError, RetryableError):
    """A store is unreachable, or temporarily rejects our login or our changes."""

    def __init__(self, *, location: str, action: str, reason: str) -> None:
        self.location, self.action, self.reason = location, action, reason
        super().__init__(f"cannot {action} {location} for now: {reason}")


class StoreFullError(StorageError):
    """A store has no space left, or a quota is exceeded; the message says how to free space."""

    retryable = False

    def __init__(self, *, location: str, action: str, reason: str) -> None:
        self.location, self.action, self.reason = location, action, reason
        super().__init__(f"cannot {action} {location}: {reason}")


class LocationPermissionError(StorageError):
    """The store denies us permission to read or write the location."""

    retryable = False

    def __init__(self, *, location: str, action: str, reason: str) -> None:
        self.location, self.action, self.reason = location, action, reason
        super().__init__(f"no permission to {action} {location}: {reason}")


class DirectoryExistsError(StorageError):
    """A job cannot publish a directory, because a directory of that name already exists."""

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} already exists and was not changed. Another compactor may have written it. If"
            " the path contains the failed transaction's write ID, that ID was used before: the"
            " metastore was restored from a backup, or the table was recreated at an old location."
            " In that case, move the old files away"
        )


class CorruptFileError(StorageError):
    """The content of a file is damaged, or does not match the file's name."""

    retryable = False

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged: {reason}. Nothing was written")


class LedgerRollError(CorruptFileError):
    """A ledger file with the entries of many jobs is damaged."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(path=path, reason=reason)
        message = (
            f"{path} is damaged: {reason}. It lists the jobs that have changed the table. No job"
            " may change the table now, because a retry could apply its change twice. Nothing"
            " was written. Restore the file from a snapshot, a backup or the trash. If there is no"
            " copy, move the file out of its directory. The provider then no longer knows the jobs"
            " that the file listed, so their tasks count as not done. Before such a task runs"
            " again, check with `python -m airflow_hiveacid history` whether its change is in the"
            " table"
        )
        self.args = (message,)


class DanglingDeleteError(StorageError):
    """A delete event refers to a row that no visible file can contain."""

    retryable = False

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} contains delete events for rows that do not exist: {reason}")


class UnsupportedFileError(StorageError):
    """A file has a form that this release does not support."""

    retryable = False

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is not supported: {reason}")


class ResultUnwritableError(StorageError):
    """A driver cannot write its result, so it did not start the job."""

    retryable = False

    def __init__(self, *, location: str, user: str, reason: str) -> None:
        self.location, self.user, self.reason = location, user, reason
        super().__init__(
            f"the driver (user {user}) cannot write its result to {location}: {reason}."
            " The job was not started. In cluster mode, this location is below result_dir"
            " (operator argument, or field of the metastore's connection): let this user create"
            " directories there, or set a directory that both workers and drivers can access"
        )


class ErasureNotProvedError(StorageError, RetryableError):
    """Files still store rows that are to be erased, or could not be read; cleaning may help."""

    def __init__(self, *, table: object, found: str) -> None:
        self.table, self.found = str(table), found
        super().__init__(
            f"table {table}: it is not proved that the rows are erased: {found}. Remove what keeps"
            " the files, clean the table, and run the proof again"
        )
