r"""Constants as Hive reads them: numbers, strings with their escapes, true, false and NULL.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> [constant(piece) for piece in statements_of(r"-1; 'a\tb' 'c'; 1.50; TRUE; NULL; 1 + 1")]
    [-1, 'a\tbc', 1.5, True, None, <Absent.ABSENT: 'absent'>]
"""

from __future__ import annotations

import enum
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.sql.text import Piece
    from airflow_hiveacid.sql.tokens import Token

# What Hive's lexer and its `unescapeSQLString` make of a backslash.
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<octal>[01][0-7]{2})|(?P<other>.))", re.DOTALL
)
_NAMED: Final = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_",
}  # fmt: skip
_TIMES: Final = {
    "DATE": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z"),
    "TIMESTAMP": re.compile(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,5}[1-9])?\Z"
    ),
}
_INTEGER: Final = re.compile(r"[0-9]+\Z")
_DECIMAL: Final = re.compile(r"[0-9]*\.?[0-9]*\Z")
_MOST_DIGITS: Final = 38  # of a decimal
_WORDS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


class Absent(enum.Enum):
    """What a piece is that is no plain constant."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def constant(piece: Piece) -> str | int | float | bool | Absent | None:
    """The value of a plain constant; ABSENT if it is none.

    Numbers are as Hive writes them: 1.50 is 1.5. One with a point is a float where that says the
    same, else its text, digit by digit. A date or timestamp is the text that it is cast to.

    Raises:
        SqlTextError: a string holds half a character.
    """
    tokens = piece.tokens
    if tokens and all(token.kind is Kind.STRING for token in tokens):
        return "".join(text(piece, index) for index in range(len(tokens)))
    if len(tokens) == 1 and tokens[0].word in _WORDS:
        return _WORDS[tokens[0].word]
    form = _TIMES.get(tokens[0].word) if len(tokens) == 2 else None  # noqa: PLR2004 - what it is, its text
    if form is not None and tokens[1].kind is Kind.STRING:
        time = text(piece, 1)
        return time if form.match(time) else ABSENT
    return _number(tokens)


def _number(tokens: Sequence[Token]) -> str | int | float | Absent:
    sign = ""
    if len(tokens) > 1 and tokens[0].word in {"-", "+"}:
        sign, tokens = tokens[0].word.strip("+"), tokens[1:]
    digits = "".join(token.raw for token in tokens)
    together = all(a.end == b.start for a, b in pairwise(tokens))  # `.5` is two of them
    has_number = any(token.kind is Kind.NUMBER for token in tokens)
    if not together or not has_number or not _DECIMAL.match(digits):
        return ABSENT
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    if digits == "0":
        sign = ""  # a decimal has one zero, as a float has not
    if _INTEGER.match(digits) and len(digits) <= _MOST_DIGITS:
        return int(sign + digits)
    number = float(sign + digits)
    return number if str(number) == sign + digits else sign + digits


def text(piece: Piece, index: int) -> str:
    """The text that a string token stands for.

    Raises:
        SqlTextError: it holds half a character, one of the two codes that some take.
    """
    token = piece.tokens[index]
    found = _ESCAPE.sub(_unescaped, token.raw[1:-1])
    try:
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        piece.fail("this string holds half a character", "write the character itself", token)


def _unescaped(found: re.Match[str]) -> str:
    if found["code"]:
        return chr(int(found["code"], 16))
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return _NAMED.get(found["other"], found["other"])
