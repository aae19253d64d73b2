"""One line of a driver's log, in the log of its task: its level counts, its time is dropped.

Airflow's log adds time and level to each line, and filters lines by their level.

Example:
    >>> leveled("19:05:41 ERROR merge failed: see the error")
    ('error', 'merge failed: see the error')
    >>> leveled("26/11/27 19:05:41 WARN NativeCodeLoader: no library")
    ('warning', 'NativeCodeLoader: no library')
    >>> leveled("a line of a user's program")
    ('info', "a line of a user's program")
"""

from __future__ import annotations

import re
from typing import Any, Final

_LINE: Final = re.compile(
    r"(?:\d\d/\d\d/\d\d |\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r" (TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) (.+)",
    re.DOTALL,
)
_METHODS: Final = {"WARN": "warning", "WARNING": "warning"} | dict.fromkeys(
    ("ERROR", "FATAL", "CRITICAL"), "error"
)


def leveled(line: str) -> tuple[str, str]:
    """Return the name of a logger's method for a line's level, and the line without time and level.

    A line without them has the level INFO. Lines below INFO have it, too: whoever asked Spark for
    them wants to see them.
    """
    match = _LINE.fullmatch(line)
    return ("info", line) if match is None else (_METHODS.get(match[1], "info"), match[2])


def log_line(log: Any, line: str) -> None:  # noqa: ANN401 - of `logging` or of Airflow
    """Log a line of a driver at its level."""
    method, text = leveled(line)
    getattr(log, method)("%s", text)
