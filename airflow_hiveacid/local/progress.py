"""Knows how a server that takes minutes to fetch and seconds to start says what it is doing.

A `Progress` takes one finished line without a line end. The room never prints: the command line
passes a function that writes to standard error, tests pass a list's `append`, and who passes
nothing gets the lines in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

Progress = Callable[[str], None]

_LOG: Final = logging.getLogger(__name__)


def log_progress(line: str) -> None:
    """Hands a line to the log at info."""
    _LOG.info("%s", line)


def tail(log: Path, *, lines: int = 25, max_bytes: int = 16_384) -> str:
    """Returns the last lines of a log, fewer where the file is short or missing."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - max_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(text.splitlines()[-lines:]) or "(no output)"
