r"""Numbers, ages, and the text of other clients, as people read them.

Names of files, tables, partitions and clients may contain any character. Printed as they are, such
characters could control a terminal, forge lines of a log, or turn the direction of a text.

Example:
    >>> print(printable("delta\x1b[2J\u202e\n"))
    delta\x1b[2J\u202e\n
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

_MOST_SHOWN: Final = 100
_OUR_LOGGERS: Final = ("hiveacid", "airflow_hiveacid")
_UNITS_S: Final = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_SPAN: Final = r"\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?"
"""The form of `age_text`."""
# Not the end of a span that follows "less than".
_AGE: Final = re.compile(
    rf"(?<=for ){_SPAN}|(?<!less than )(?<!\d)(?<!\d [dh] )(?<!\d min ){_SPAN}(?= ago| old\b)"
)
_END: Final = re.compile(f"(?:(?<=ends in )|(?<=removed in )){_SPAN}(?: to {_SPAN})?")


def several(number: int, noun: str) -> str:
    """Return a number of things.

    Example:
        >>> several(1, "lock"), several(2, "lock")
        ('1 lock', '2 locks')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def digits(number: object) -> str:
    """Return a number's text; raise ValueError for `1_0` and others that only Python reads."""
    text = str(number)
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


def shown(value: object) -> str:
    """Format a user's value for a message, and shorten it if it is too long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number with more digits than Python prints"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


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
    """Return a time span in its two largest units; an empty string for None.

    Example:
        >>> age_text(5), age_text(200), age_text(90000)
        ('5 s', '3 min 20 s', '1 d 1 h')
    """
    if seconds is None:
        return ""
    remainder = round(seconds)
    parts = []
    for unit, size in _UNITS_S.items():
        number, remainder = divmod(remainder, size)
        parts.append((number, unit))
    first = next((index for index, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return " ".join(f"{n} {unit}" for n, unit in parts[first : first + 2] if n) or "0 s"


def without_ages(text: str) -> str:
    """Return a text without ages and the time until something ends, to compare it with others.

    Example:
        >>> without_ages("open for 1 d 2 h, job etl"), without_ages("a period of 7 d ends in 1 d")
        ('open for , job etl', 'a period of 7 d ends in ')
        >>> without_ages("a delta is 3 d 2 h old"), without_ages("found less than 12 d 2 h ago")
        ('a delta is  old', 'found less than 12 d 2 h ago')
    """
    return _END.sub("", _AGE.sub("", text))


def joined(texts: Sequence[str]) -> str:
    """Return the first of texts that are equal `without_ages`; its end becomes the range of ends.

    Example:
        >>> joined(["a period of 7 d ends in 1 d 2 h", "a period of 7 d ends in 9 h"])
        'a period of 7 d ends in 9 h to 1 d 2 h'
    """
    ends = {end for text in texts for found in _END.findall(text) for end in found.split(" to ")}
    if len(ends) > 1:
        return _END.sub(f"{min(ends, key=_seconds)} to {max(ends, key=_seconds)}", texts[0])
    return texts[0]


def _seconds(span: str) -> int:
    parts = span.split()
    return sum(int(n) * _UNITS_S[unit] for n, unit in zip(parts[::2], parts[1::2], strict=True))


def counted(texts: Iterable[str]) -> Counter[str]:
    """Return the number of each text; texts that are equal `without_ages` count as one (`joined`).

    Example:
        >>> counted(["open for 2 s", "open for 3 s", "a tag needs it"])
        Counter({'open for 2 s': 2, 'a tag needs it': 1})
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts:
        groups[without_ages(text)].append(text)
    return Counter({joined(group): len(group) for group in groups.values()})


def printable(text: str, keep: str = "") -> str:
    """Return a text whose unprintable characters are escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


class _PrintableRecords(logging.Handler):
    """Escapes our records before the handlers of other loggers, such as Airflow's, see them.

    A logger's filters do not apply to the loggers below it, but its handlers do, and they run
    before those of the loggers above.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(printable(a) if isinstance(a, str) else a for a in record.args)
        record.msg, record.args = printable(record.getMessage(), keep="\n\t"), None
        # Because of this handler, logging does not use its last resort itself.
        last = None if _has_handler(logging.getLogger(record.name)) else logging.lastResort
        return last is None or record.levelno < last.level or bool(last.handle(record))


def _has_handler(logger: logging.Logger) -> bool:
    """Return whether the user has a handler for this logger's records."""
    if any(handler is not _PRINTABLE_RECORDS for handler in logger.handlers):
        return True
    return logger.propagate and logger.parent is not None and _has_handler(logger.parent)


_PRINTABLE_RECORDS: Final = _PrintableRecords()


def escape_our_log() -> None:
    """Escape the texts of other clients in what we log in a process that formats logs itself."""
    for name in _OUR_LOGGERS:
        handlers = logging.getLogger(name).handlers
        if _PRINTABLE_RECORDS not in handlers:
            handlers.insert(0, _PRINTABLE_RECORDS)
