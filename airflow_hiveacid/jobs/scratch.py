"""Typed errors for a full or read-only local directory."""

from __future__ import annotations

import errno
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import LocationPermissionError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def scratch_errors(directory: str | None = None) -> Iterator[None]:
    """Raise typed errors if the `with` block cannot write to `directory`, by default TMPDIR.

    Raises:
        LocationPermissionError: this process has no permission to write to `directory`.
        StoreUnavailableError: writing failed for a different reason, such as a full disk.
    """
    try:
        yield
    except OSError as error:
        where = directory or _temporary_directory()
        reason = (
            f"{error.strerror or error}. Nothing was written to any table. Temporary files of this"
            " process go to TMPDIR: free space there, or set TMPDIR to another directory"
        )
        if error.errno in _DENIED:
            raise LocationPermissionError(location=where, action="write", reason=reason) from error
        raise StoreUnavailableError(location=where, action="write", reason=reason) from error


def _temporary_directory() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "the temporary directory"
