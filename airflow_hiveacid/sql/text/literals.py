r"""The parser of constants, as in Hive: numbers, strings with escapes, true, false and NULL.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> [constant(span) for span in statements_of(r"-1; 'a\tb' 'c'; 1.50; TRUE; NULL; 1 + 1")]
    [-1, 'a\tbc', 1.5, True, None, <Absent.ABSENT: 'absent'>]
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from airflow_hiveacid.jobs.statements import Parameter, ValueType
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.tokens import Kind, Token

# The escapes that Hive's lexer and `unescapeSQLString` decode.
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
_MOST_DIGITS: Final = 38  # the largest precision of a decimal
_WORDS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


class Absent(enum.Enum):
    """The result for a span that is not a plain constant."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def constant(span: Span) -> str | int | float | bool | Absent | None:
    """Return the value of a plain constant; ABSENT if the span is not a plain constant.

    A marker is treated like a literal of its value. Doubles and timestamps with time zone are not
    constants. As in Hive, 1.50 is 1.5: a number with a decimal point becomes a float if that has
    the same digits, otherwise a string with all digits. Half of a surrogate pair, and a parameter
    that is a list, are refused.
    """
    tokens = span.tokens
    if len(tokens) == 1 and tokens[0].parameter is not None:
        return _of_parameter(span, tokens[0].parameter)
    if tokens and all(token.kind is Kind.STRING for token in tokens):
        return "".join(text(span, index) for index in range(len(tokens)))
    if len(tokens) == 1 and tokens[0].word in _WORDS:
        return _WORDS[tokens[0].word]
    form = _TIMES.get(tokens[0].word) if len(tokens) == 2 else None  # noqa: PLR2004 - type, text
    if form is not None and tokens[1].kind is Kind.STRING:
        time = text(span, 1)
        return time if form.match(time) else ABSENT
    return _number(tokens)


def _of_parameter(span: Span, parameter: Parameter) -> str | int | float | bool | Absent | None:
    if parameter.is_list:
        span.fail("a list is not a single value", "write IN (:name), or give one value")
    (value,) = parameter.values
    plain = value.text.lstrip("-")
    result: str | int | float | bool | Absent | None = value.text
    match value.type:
        case ValueType.NULL:
            result = None
        case ValueType.BOOLEAN:
            result = value.text == "true"
        case ValueType.INT | ValueType.DECIMAL:
            result = _of_digits(plain, "-" if plain != value.text else "")
        case ValueType.TIMESTAMP:
            clock, _, fraction = value.text.partition(".")
            result = f"{clock}.{fraction.rstrip('0')}" if fraction else clock
        case ValueType.DOUBLE | ValueType.MOMENT:
            result = ABSENT  # Hive writes `1.5D` differently, and a timestamp would lose its zone
        case _:
            pass
    return result


def _number(tokens: Sequence[Token]) -> str | int | float | Absent:
    sign = ""
    if len(tokens) > 1 and tokens[0].word in {"-", "+"}:
        sign, tokens = tokens[0].word.strip("+"), tokens[1:]
    digits = "".join(token.raw for token in tokens)
    together = all(a.end == b.start for a, b in pairwise(tokens))  # `.5` is two tokens
    has_number = any(token.kind is Kind.NUMBER for token in tokens)
    if not together or not has_number or not _DECIMAL.match(digits):
        return ABSENT
    return _of_digits(digits, sign)


def _of_digits(digits: str, sign: str) -> str | int | float:
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    if digits == "0":
        sign = ""  # a decimal has no negative zero, unlike a float
    if _INTEGER.match(digits) and len(digits) <= _MOST_DIGITS:
        return int(sign + digits)
    number = float(sign + digits)
    return number if str(number) == sign + digits else sign + digits


def text(span: Span, index: int) -> str:
    """Return the decoded value of a string token."""
    token = span.tokens[index]
    content = _ESCAPE.sub(_unescaped, token.raw[1:-1])
    try:
        return content.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        span.fail(
            "this string contains an unpaired surrogate (half a character)",
            "write the character itself",
            token,
        )


def _unescaped(match: re.Match[str]) -> str:
    if match["code"]:
        return chr(int(match["code"], 16))
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return _NAMED.get(match["other"], match["other"])
