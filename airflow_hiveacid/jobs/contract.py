"""The contract's version and its two sides, on top of the JSON form of its values.

An unknown or missing field is an error that names the older side.

A driver on a worker finds out that its worker is gone by a file that the worker locks. The worker
holds the lock while it waits for the driver. The kernel releases the lock when the worker's process
ends, even after SIGKILL. Both sides need only the standard library.

Example:
    >>> read_object('{"version": 1, "kind": "clean"}', reader=Side.APPLICATION)
    {'kind': 'clean'}
"""

from __future__ import annotations

import enum
import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from airflow_hiveacid.format.codec import Codec, MisfitError, MissingFieldError, UnknownFieldError
from airflow_hiveacid.format.errors import ContractVersionError

CONTRACT_VERSION: Final = 1
"""The version of the contract, incremented when a field is removed or redefined.

A new field needs no new version: an older reader refuses it by its name. Its default never changes
later, because the digests of a statement leave out fields that have their default (`JobSpec`).
"""

_CODECS: Final = {needs_all: Codec(needs_all=needs_all) for needs_all in (False, True)}

_T = TypeVar("_T")


class Side(enum.Enum):
    """The two sides of the contract; error messages use the values as names."""

    OPERATOR = "operator"
    APPLICATION = "application"

    @property
    def other(self) -> Side:
        """The side of the contract whose JSON this side reads."""
        return Side.APPLICATION if self is Side.OPERATOR else Side.OPERATOR


def read_object(text: str, *, reader: Side) -> dict[str, Any]:
    """Parse a JSON object from the opposite side; return it without its version.

    Raises ContractVersionError if the text is not a JSON object (the error names no side), or has a
    different version. Then the error names the older side: without a version, the writer.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error("", f"the {reader.other.value}'s document is no JSON ({error})") from error
    if not isinstance(data, dict):
        raise _error("", f"the {reader.other.value}'s document is no JSON object")
    version = data.pop("version", None)
    if version != CONTRACT_VERSION:
        is_older = isinstance(version, int) and version < CONTRACT_VERSION
        raise ContractVersionError(
            found=version,
            supported=CONTRACT_VERSION,
            side=(reader.other if is_older or version is None else reader).value,
        )
    return data


def from_json(
    cls: type[_T], data: object, *, reader: Side, path: str = "", needs_all: bool = False
) -> _T:
    """Return a dataclass built from JSON values; `path` is the path of `data` in error messages.

    With `needs_all`, a field may not be missing even if it has a default. Raises
    ContractVersionError if a field is missing, unknown or of the wrong type. A field is unknown if
    the reader is older, and missing if the writer is older.
    """
    try:
        return _CODECS[needs_all].read(cls, data, path)
    except UnknownFieldError as error:
        raise _error(reader.value, f"the field {error.path} is unknown") from error
    except MissingFieldError as error:
        raise _error(reader.other.value, f"the field {error.path} is missing") from error
    except MisfitError as error:
        raise misfit(reader, error.path, error.expected) from error


def misfit(reader: Side, where: str, expected: str) -> ContractVersionError:
    """Return the error for an unexpected value; either side may be too old."""
    return _error(f"{reader.other.value} or the {reader.value}", f"at {where}: expected {expected}")


def _error(side: str, detail: str) -> ContractVersionError:
    return ContractVersionError(
        found=CONTRACT_VERSION, supported=CONTRACT_VERSION, side=side, detail=detail
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock an existing file for the `with` block; a child process does not inherit the lock."""
    with path.open("rb") as file:
        # Without the lock, the driver gets the same error, and continues.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def worker_lives(path: str) -> bool:
    """Return false if no process holds the lock, or if the file is gone."""
    try:
        with Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # the lock is held, or this file system has no locks
        return True
    return False
