"""The URIs and the format of the JSON files in a table's hidden directory.

The module computes URIs and digests for file names. The module also writes JSON, and parses JSON
with a caller's function. The callers decide how to treat a damaged file.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HIDDEN_DIRECTORY: Final = "_hiveacid"
"""This provider's directory below a table's location."""

_YEAR_9999_S: Final = 253_402_300_799

MALFORMED: Final = (
    ArithmeticError,
    AttributeError,
    InvalidNameError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The exceptions that damaged content can cause during parsing."""

_T = TypeVar("_T")


def hidden_uri(location: str, name: str = "") -> str:
    """Return the URI of a file in a table's hidden directory, or of the directory itself."""
    root = f"{location.rstrip('/')}/{HIDDEN_DIRECTORY}"
    return f"{root}/{name}" if name else root


def table_digest(table_id: str) -> str:
    """Return a digest of a table's ID for note names; an earlier table had a different digest."""
    return hashlib.sha256(table_id.encode()).hexdigest()[:12]


def name_digest(text: str) -> str:
    """Return 128 bits of a string's SHA-256 in hexadecimal, for use in a file name."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def packed_json(body: Mapping[str, object]) -> bytes:
    """Return the content of a file with this JSON object."""
    return json.dumps(body).encode()


def whole_number(value: object) -> int:
    """Return a number of a note that counts something, or identifies a write or a queue entry.

    Raises:
        ValueError: the value is not a whole number from -1 to the largest of Hive's numbers.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= LONG_MAX:
        raise ValueError(f"{value!r:.40} is not a number from -1 to {LONG_MAX}")
    return value


def seconds(value: object) -> float:
    """Return a time of a note in seconds since 1970, or a length of time.

    Raises:
        ValueError: the value is not a number of seconds up to the year 9999.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.40} is not a number of seconds")  # noqa: TRY004 - see Raises
    if not 0 <= value <= _YEAR_9999_S:  # NaN is not in this range, either
        raise ValueError(f"{value!r:.40} is not a number of seconds up to the year 9999")
    return float(value)


def parsed_json(content: bytes, uri: str, what: str, parse: Callable[[dict[str, Any]], _T]) -> _T:
    """Parse a file's JSON object with a function, and return the function's result.

    Args:
        content: the file's content.
        uri: the file's URI, for the error.
        what: the kind of file, such as "ledger entry", for the error.
        parse: converts the JSON object; an error in `MALFORMED` means that the file is damaged.

    Raises:
        CorruptFileError: the content is not a JSON object, or `parse` fails.
    """
    try:
        body = json.loads(content)
        if isinstance(body, dict):
            return parse(body)
    except MALFORMED as error:
        raise CorruptFileError(path=uri, reason=f"not a {what}: {error!r}") from error
    raise CorruptFileError(path=uri, reason=f"not a {what}: it is not a JSON object")
