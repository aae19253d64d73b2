"""Conditions on the arguments of functions, many of which must be constants.

Hive evaluates an expression without columns at compile time. Some of Hive's functions return other
results for a constant than for an equal value in a column.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> [may_be_negative(span) for span in statements_of("(2); 1 - 2; int('-1'); x - 9")]
    [False, True, True, False]
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs.statements import Parameter, ValueType
from airflow_hiveacid.plan.statements.parameters import Later
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.tokens import Kind

_MOST_DIGITS: Final = 38
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "DIV"})
_WITHOUT_BLANKS: Final = frozenset(
    {"COUNT", "SUM", "AVG", "FLOOR", "CEIL", "CEILING", "ROUND", "LENGTH", "ABS", "SIZE"}
    | {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DATEDIFF", "MONTHS_BETWEEN", "POWER"}
    | {"UNIX_TIMESTAMP", "ROW_NUMBER", "PMOD", "CRC32", "INSTR", "LOCATE"}
)
_OPERATIONS: Final[Mapping[type[exp.Expr], Callable[[int, int], int]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def may_be_negative(span: Span) -> bool:
    """Return True if an argument is a constant that may be negative; NULL is not negative."""
    parameters = {token.raw[1:]: token.parameter for token in span.tokens if token.parameter}
    if any(isinstance(parameter, Later) for parameter in parameters.values()):
        return False
    tree = span.parsed(exp.Condition)
    if tree.find(exp.Column) is not None or isinstance(tree.unnest(), exp.Null):
        return False
    number = _whole(tree, parameters)
    return number is None or number < 0


def _whole(node: exp.Expr, parameters: Mapping[str, Parameter]) -> int | None:
    number: int | None = None
    match node:
        case exp.Literal():
            number = int(node.name) if node.name.isdecimal() and not node.is_string else None
        case exp.Placeholder():
            number = _of_parameter(parameters.get(node.name))
        case exp.Paren():
            number = _whole(node.this, parameters)
        case exp.Neg():
            inner = _whole(node.this, parameters)
            number = None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul():
            first, second = _whole(node.this, parameters), _whole(node.expression, parameters)
            if first is not None and second is not None:
                number = _OPERATIONS[type(node)](first, second)
        case _:
            pass
    return number


def _of_parameter(parameter: Parameter | None) -> int | None:
    if parameter is None or parameter.is_list:
        return None
    (value,) = parameter.values
    if value.type is ValueType.NULL:
        return 0  # not negative: both engines return NULL for NULL
    return int(value.text) if value.type is ValueType.INT else None


@dataclass(frozen=True, slots=True)
class Argument:
    """A condition on the argument at `position`; positions start at 0."""

    position: int
    is_right: Callable[[Span], bool]
    problem: str = ""
    remedy: str = ""


def is_natural(span: Span) -> bool:
    """Return True for a number of digits only, at most as long as a decimal."""
    is_number = len(span) == 1 and span.tokens[0].kind is Kind.NUMBER
    return is_number and span.text.isdigit() and len(span.text) <= _MOST_DIGITS


def _is_among(numbers: Collection[int]) -> Callable[[Span], bool]:

    def is_right(span: Span) -> bool:
        parameter = span.tokens[0].parameter if len(span) == 1 else None
        if parameter is None:
            sign = -1 if span.word(0) == "-" else 1
            digits = span[1:] if sign < 0 else span
            return is_natural(digits) and sign * int(digits.text) in numbers
        value = parameter.values[0]
        is_number = value.type is ValueType.INT and not parameter.is_list
        return isinstance(parameter, Later) or (is_number and int(value.text) in numbers)

    return is_right


def _is_length(span: Span) -> bool:
    return not may_be_negative(span)


def is_positive(span: Span) -> bool:
    """Return True for a number above 0 that `is_natural`."""
    return is_natural(span) and int(span.text) > 0


def is_string(span: Span) -> bool:
    """Return True for one string."""
    return len(span) == 1 and span.tokens[0].kind is Kind.STRING


def is_some_text(span: Span) -> bool:
    """Return True for a string that is not empty, or an expression that is never empty."""
    if is_string(span):
        return len(span.text) > 2  # noqa: PLR2004 - its quotes
    return is_never_empty(span)


def is_never_empty(span: Span) -> bool:
    """Return True for `nullif(..., '')`, which returns NULL instead of an empty string."""
    if span.word(0) != "NULLIF" or span.word(1) != "(" or span.closing(1) != len(span) - 1:
        return False
    last = span[2:-1].split(",")[-1]
    return is_string(last) and len(last.text) == 2  # noqa: PLR2004 - its quotes


def _is_base(span: Span) -> bool:
    number = span.text
    return re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) is not None and float(number) > 1


def _matches(pattern: str) -> Callable[[Span], bool]:
    compiled = re.compile(pattern)
    return lambda span: is_string(span) and compiled.fullmatch(span.text[1:-1]) is not None


def is_without_choice(pattern: Span) -> bool:
    """Return True if every group of a regular expression takes part in every match."""
    return is_string(pattern) and not re.search(r"\)[?*|]|\)\{0|\|", pattern.text)


_ZONE: Final = (
    (
        "Spark applies an offset such as +01:00 in a zone, but Hive ignores it; a zone from a"
        " column may have such an offset"
    ),
    "the name of a time zone as a string, such as 'Europe/Vienna'",
)
_LENGTH: Final = (
    (
        "for a constant length below 0, Hive 4.0.1 returns the whole string, but Spark returns an"
        " empty string"
    ),
    "a number of 0 or more, a length that is not a constant, or '' for an empty string",
)
_IS_ZONE: Final = _matches(r"[A-Za-z]+(/[A-Za-z_]+)*(/[A-Za-z_]+)?|GMT[+-][0-9]{1,2}")
_BASES: Final = frozenset(range(2, 37))
_RADIX: Final = (
    "only numeric bases from 2 to 36 were compared with Hive; the second may be negative",
    "such a number, or run this statement in Hive",
)
NEEDED: Final[Mapping[tuple[str, int], tuple[Argument, ...]]] = {
    ("conv", 3): (
        Argument(1, _is_among(_BASES), *_RADIX),
        Argument(2, _is_among(_BASES | {-base for base in _BASES}), *_RADIX),
    ),
    ("from_utc_timestamp", 2): (Argument(1, _IS_ZONE, *_ZONE),),
    ("to_utc_timestamp", 2): (Argument(1, _IS_ZONE, *_ZONE),),
    ("trunc", 2): (
        Argument(
            1,
            _matches("MM|MON|MONTH|YY|YYYY|YEAR|QUARTER"),
            "Hive accepts only these units, as upper-case strings; Spark accepts more",
            "'MM', 'QUARTER' or 'YEAR'",
        ),
    ),
    ("rand", 1): (
        Argument(0, lambda _: False, "a seed gives different numbers in Hive and Spark", "rand()"),
    ),
    ("sha2", 2): (
        Argument(
            1,
            _is_among({0, 224, 256, 384, 512}),
            "for a length other than 0, 224, 256, 384 or 512, Hive returns SHA-1 or fails, and"
            " Spark returns NULL",
            "one of these numbers, or sha1(x)",
        ),
    ),
    ("substr", 3): (Argument(2, _is_length, *_LENGTH),),
    ("substring", 3): (Argument(2, _is_length, *_LENGTH),),
    ("log", 2): (
        Argument(
            0,
            _is_base,
            "for a base of 1 or less, Hive returns NULL or a number, depending on how it runs",
            "ln(x) / ln(base)",
        ),
    ),
}
"""Conditions on arguments, by the function's name and number of arguments."""


def has_no_blanks(span: Span) -> bool:
    """Return True if a value is certainly not a string with leading or trailing blanks."""
    if len(span) == 1:
        token = span.tokens[0]
        return token.kind in {Kind.NUMBER, Kind.STRING} or token.word in {"NULL", "TRUE", "FALSE"}
    if any(token.word in _OPERATORS for _, token in span.outside()):
        return True
    is_call = len(span) > 1 and span.word(1) == "(" and span.closing(1) == len(span) - 1
    return is_call and span.word(0) in _WITHOUT_BLANKS
