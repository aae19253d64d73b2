"""Numbers and ages as people read them, in commands, findings and pages.

Example:
    >>> several(3, "lock"), age_text(200)
    ('3 locks', '3 min 20 s')
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400


def several(number: int, noun: str) -> str:
    """Return a number of things.

    Example:
        >>> several(1, "lock"), several(2, "lock")
        ('1 lock', '2 locks')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_few(texts: Sequence[str], *, most: int = 3) -> str:
    """Return the first few texts, and the number of omitted texts.

    Example:
        >>> first_few(["a", "b", "c"], most=2)
        'a; b; and 1 more'
    """
    suffix = f"and {len(texts) - most:,} more" if len(texts) > most else ""
    return "; ".join(filter(None, (*texts[:most], suffix)))


def age(since_s: float | None) -> float | None:
    """Return the seconds since a time, by this machine's clock; None for an unknown time."""
    return None if since_s is None else max(0.0, round(time.time() - since_s))


def age_text(seconds: float | None) -> str:
    """Return a time span in its two largest units.

    Example:
        >>> age_text(5), age_text(200), age_text(90000)
        ('5 s', '3 min 20 s', '1 d 1 h')
    """
    if seconds is None:
        return ""
    remainder = round(seconds)
    parts = []
    for unit, size in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S), ("s", 1)):
        number, remainder = divmod(remainder, size)
        parts.append((number, unit))
    first = next((index for index, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return " ".join(f"{n} {unit}" for n, unit in parts[first : first + 2] if n) or "0 s"
