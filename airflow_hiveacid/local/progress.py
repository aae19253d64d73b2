"""Progress messages: fetching a server takes minutes, and starting it takes seconds.

A `Progress` is a function that receives one line without a line break. This package does not print.
The command line passes a function that writes to standard error, and tests pass a list's `append`.
The default function writes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

Progress = Callable[[str], None]

_LOG: Final = logging.getLogger(__name__)


def log_progress(line: str) -> None:
    """Log a line at level info."""
    _LOG.info("%s", line)


def tail(log: Path, *, lines: int = 25, max_bytes: int = 16_384) -> str:
    """Return the last lines of a log; fewer if the file is short or missing."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - max_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(text.splitlines()[-lines:]) or "(no output)"
