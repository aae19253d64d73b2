r"""Text from other clients, made safe to print.

Names of files, tables, partitions and clients may contain any character. Printed as they are, such
characters could control a terminal, forge lines of a log, or turn the direction of a text.

Example:
    >>> print(printable("delta\x1b[2J\u202e\n"))
    delta\x1b[2J\u202e\n
"""

from __future__ import annotations

import logging
from typing import Final

_OUR_LOGGERS: Final = ("hiveacid", "airflow_hiveacid")


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
    before those of the loggers above. So no other library's records change.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Escape the record's texts; only errors and the format itself keep their line breaks."""
        if isinstance(record.args, tuple):
            record.args = tuple(printable(a) if isinstance(a, str) else a for a in record.args)
        record.msg, record.args = printable(record.getMessage(), keep="\n\t"), None
        # Because of this handler, logging does not use its last resort itself.
        last = None if logging.getLogger().handlers else logging.lastResort
        return last is None or record.levelno < last.level or bool(last.handle(record))


_PRINTABLE_RECORDS: Final = _PrintableRecords()


def escape_our_log() -> None:
    """Escape the texts of other clients in what we log in a process that formats logs itself."""
    for name in _OUR_LOGGERS:
        logging.getLogger(name).addHandler(_PRINTABLE_RECORDS)
