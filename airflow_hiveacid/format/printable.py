r"""Text from other clients, made safe to print.

Names of files, tables, partitions and clients may contain any character. Printed as they are, such
characters could control a terminal, forge lines of a log, or turn the direction of a text.

Example:
    >>> print(printable("delta\x1b[2J\u202e\n"))
    delta\x1b[2J\u202e\n
"""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """Return a text whose unprintable characters are escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )
