r"""The end of a container's log, read over HTTP with limits of time and size.

Input is a server's answer. Output is the log's last bytes, without a line that is cut, because a
cut line may contain a part of a secret, which no filter recognizes.

Example:
    >>> contents_of(b"LogType:a\nLogContents:\nhello\nEnd of LogType:a.\n***\n", "a")
    b'hello\n'
"""

from __future__ import annotations

import re
from typing import Final

import requests

LAST_LINES: Final = 20
"""The number of a driver's last lines that a task's log shows."""

LOG_S: Final = 5.0
"""The longest time, in seconds, for which a failed task waits for its driver's log."""

LOG_BYTES: Final = 64 * 1024
"""The most bytes of an answer that are read."""

YARN_BYTES: Final = 16 * 1024
"""The bytes that YARN is asked for; one answer may contain two parts of this size."""

LOGIN_IN_URL: Final = re.compile(r"//[^/\s]*@")

_CONTENTS: Final = b"LogContents:\n"
_CHUNK: Final = 8 * 1024


def body_of(answer: requests.Response) -> bytes:
    """Return the first `LOG_BYTES` of a text answer, which must not have been read yet.

    Raises:
        OSError: the answer is an error or not plain text, or the connection broke.
    """
    if answer.status_code != requests.codes.ok:
        raise OSError(f"HTTP {answer.status_code}")
    kind = answer.headers.get("Content-Type", "")
    if not kind.startswith("text/plain"):
        raise OSError(f"the answer is not plain text but {kind[:40]!r}")
    found = b""
    for chunk in answer.iter_content(_CHUNK):
        found += chunk
        if len(found) >= LOG_BYTES:
            break
    return found[:LOG_BYTES]


def contents_of(answer: bytes, name: str) -> bytes:
    """Return the end of the log file `name` from YARN's answer, without YARN's header and footer.

    If a node aggregates logs while a container runs, the answer has two parts with a header each.
    The first part is the newer one.

    Raises:
        OSError: the answer has an unknown form, or its end is missing.
    """
    _, header, rest = answer.partition(_CONTENTS)
    contents, footer, _ = (rest if header else answer).partition(f"End of LogType:{name}".encode())
    if not footer:
        raise OSError("the answer has an unknown form")
    if not header:
        return b""  # YARN writes no header for an empty file
    return contents if len(contents) < YARN_BYTES else contents.partition(b"\n")[2]


def whole_lines(text: bytes) -> bytes:
    """Return a text without its last line if the text was cut there."""
    return text if len(text) < LOG_BYTES else text[: text.rfind(b"\n") + 1]
