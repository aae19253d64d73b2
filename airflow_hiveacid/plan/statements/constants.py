r"""Constants of statements as values of Hive's types, if every engine gives them the same value.

Only types are known whose values Hive, Spark and Arrow compare alike: whole numbers, strings (byte
by byte), booleans, dates, and decimals with the column's digits. A double can be stored, but not
compared. Any other constant is UNFIT.

Example:
    >>> constant_of("12", parse_type("int")), constant_of("1.7", parse_type("int"))
    (12, <Unfit.UNFIT: 'unfit'>)
    >>> constant_of("1.5", parse_type("decimal(4,2)"))
    Decimal('1.50')
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import partial
from typing import Final

from airflow_hiveacid.format.types import (
    MAX_PRECISION,
    DecimalType,
    HiveType,
    PrimitiveType,
    parse_type,
)
from airflow_hiveacid.jobs.statements import Value, ValueType

Constant = int | str | bool | float | dt.date | Decimal | None
"""A value of a column's type; None is NULL."""

COMPARABLE: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "decimal"}
)
"""The types whose values all engines compare alike."""

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DIGITS: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_DOUBLE: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAY_BE_NUMBER: Final = re.compile(r"\d|nan|inf", re.IGNORECASE)
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_GREGORIAN: Final = dt.date(1582, 10, 15)  # before it, calendars differ
_EXACT: Final = Context(prec=3 * MAX_PRECISION)  # many digits of a number, and the scale

VALUE_REMEDY: Final = "give a value of this type, or NULL (None)"
"""What to do about a text that no cast turns into a column's type."""


class Unfit(enum.Enum):
    """The result for a constant that an engine may read differently."""

    UNFIT = "unfit"


UNFIT: Final = Unfit.UNFIT


def type_name(hive_type: HiveType) -> str:
    """Return the name of a type without arguments, such as `decimal`; empty if it is nested."""
    match hive_type:
        case PrimitiveType(name=name):
            return name
        case DecimalType():
            return "decimal"
        case _:
            return ""


def is_comparable(column_type: str) -> bool:
    """Return True if all engines compare the values of a column's type alike."""
    return type_name(parse_type(column_type)) in COMPARABLE


def constant_of(text: str, hive_type: HiveType) -> Constant | Unfit:
    """Return the value of a text in a column of this type, as a cast from string gives it."""
    return reader_of(hive_type)(text)


def reader_of(hive_type: HiveType) -> Callable[[str], Constant | Unfit]:
    """Return the function that reads texts of this type; see `constant_of`."""
    match hive_type:
        case DecimalType():
            return partial(_decimal, hive_type=hive_type)
        case PrimitiveType(name=name) if name in _READS:
            return _READS[name]
        case _:
            return lambda _: UNFIT


def can_be_cast(text: str, hive_type: HiveType) -> bool:
    """Return False if it is certain that no engine casts a text to a type: numbers have digits."""
    name = type_name(hive_type)
    is_counted = name in _BITS or name in {"decimal", "float", "double", "date", "timestamp"}
    return not is_counted or _MAY_BE_NUMBER.search(text) is not None


def literal_of(value: Value, hive_type: HiveType) -> Constant | Unfit:
    """Return a typed literal or parameter that is compared with, or stored in, such a column.

    A literal of a different type than the column is UNFIT, because engines cast it differently. A
    whole number fits a decimal, and a decimal fits a decimal that holds all its digits.
    """
    name = type_name(hive_type)
    if value.type is ValueType.NULL:
        return None
    fits = (
        (value.type is ValueType.STRING and name == "string")
        or (value.type is ValueType.BOOLEAN and name == "boolean")
        or (value.type is ValueType.DATE and name == "date")
        or (value.type is ValueType.INT and (name in _BITS or name == "decimal"))
        or (value.type is ValueType.DECIMAL and name == "decimal")
    )
    if isinstance(hive_type, DecimalType) and len(value.text.partition(".")[2]) > hive_type.scale:
        return UNFIT  # a comparison of more than 38 digits, zeros among them, fails in Spark
    return constant_of(value.text, hive_type) if fits else UNFIT


def _whole(text: str, bits: int) -> int | Unfit:
    if not _WHOLE.fullmatch(text):
        return UNFIT
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else UNFIT


def _text(text: str) -> str | Unfit:
    return UNFIT if _NO_TEXT.search(text) else text


def _truth(text: str) -> bool | Unfit:
    return {"true": True, "false": False}.get(text, UNFIT)


def _day(text: str) -> dt.date | Unfit:
    if not _DATE.fullmatch(text):
        return UNFIT
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return UNFIT
    return day if day >= _GREGORIAN else UNFIT


def _double(text: str) -> float | Unfit:
    number = float(text) if _DOUBLE.fullmatch(text) else math.inf
    return number if math.isfinite(number) else UNFIT


def _decimal(text: str, hive_type: DecimalType) -> Decimal | Unfit:
    """Return a decimal that keeps all its digits in the column's type."""
    if not _DIGITS.fullmatch(text) or len(text) > MAX_PRECISION + 2:  # a sign and a point
        return UNFIT
    number = Decimal(text)
    scaled = number.quantize(Decimal(1).scaleb(-hive_type.scale), context=_EXACT)
    if scaled != number or len(scaled.as_tuple().digits) > hive_type.precision:
        return UNFIT
    return abs(scaled) if scaled == 0 else scaled


_READS: Final[Mapping[str, Callable[[str], Constant | Unfit]]] = {
    **{name: lambda text, bits=bits: _whole(text, bits) for name, bits in _BITS.items()},  # type: ignore[misc]
    "string": _text,
    "boolean": _truth,
    "date": _day,
    "double": _double,
}
