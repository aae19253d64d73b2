"""Convert parameter values from a DAG or a program into typed values in canonical spelling."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.words import shown
from airflow_hiveacid.jobs.statements import Parameter, Value, ValueType

_MOST_DIGITS: Final = 38
_WHOLE: Final = re.compile(r"[+-]?[0-9]+\Z")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\Z")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_CLOCK: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?\Z"
)
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_TYPES: Final = {t.value: t for t in ValueType if t is not ValueType.NULL}
_TRUTHS: Final = {"true": True, "false": False}
_ZONED: Final = (
    "has a time zone, but a table's timestamp has none; convert the time to the table's zone and"
    " remove the zone, as in moment.astimezone(zone).replace(tzinfo=None), or give"
    " {'type': 'timestamp with local time zone', 'value': ...} for a column of that type"
)
_NANOSECONDS: Final = (
    "has nanoseconds, but a parameter keeps only microseconds; truncate the value, as in"
    " moment.floor('us')"
)
_NO_ZONE: Final = "has no time zone, such as Z or +01:00"


def parameter_of(given: object, argument: str) -> Parameter:
    """Convert a value or list to a `Parameter`.

    The type is given by a mapping with `type` and `value`, or else by the value's Python type.
    Raises ConfigurationError if the type is unknown, or the value does not fit the given type.

    Example:
        >>> parameter_of([1, Decimal("1.50")], "parameters['ids']").said
        "(int '1', decimal '1.5')"
    """
    read: Callable[[object, str], Value] = _value
    if isinstance(given, Mapping):
        type_, given = _typed(given, argument)

        def read(one: object, where: str) -> Value:
            return _value_of(type_, one, where)

    if not isinstance(given, list | tuple):
        return Parameter(values=(read(given, argument),))
    if not given:
        raise ConfigurationError(
            f"{argument} is an empty list: IN () would match no row, and NOT IN () every row. Skip"
            " the task when there is nothing to do"
        )
    values = tuple(read(entry, f"{argument}[{index}]") for index, entry in enumerate(given))
    return Parameter(values=values, is_list=True)


def _typed(given: Mapping[Any, Any], argument: str) -> tuple[ValueType, object]:
    type_ = given.get("type")
    if set(given) != {"type", "value"} or not isinstance(type_, str) or type_ not in _TYPES:
        raise ConfigurationError(
            f"{argument} must be a value, or {{'type': ..., 'value': ...}} with one of the types"
            f" {', '.join(_TYPES)}; found {shown(dict(given))}"
        )
    return _TYPES[type_], given["value"]


def _value(given: object, argument: str) -> Value:
    if given is None:
        return Value(type=ValueType.NULL)
    # The order of the cases matters: a bool is also an int, and a datetime is also a date.
    for kind, type_ in _PYTHON.items():
        if isinstance(given, kind):
            return _value_of(type_, given, argument)
    raise ConfigurationError(
        f"{argument} is a {type(given).__name__}; a parameter is a string, a whole number, a"
        " Decimal, a float, a date, a datetime, True, False, None, or a list of these"
    )


def _value_of(type_: ValueType, given: object, argument: str) -> Value:
    """Convert a value to a `Value` of the given type; a string is parsed as this type."""
    plain = given.strip() if isinstance(given, str) and type_ is not ValueType.STRING else given
    value_text = _READS[type_](plain, argument)
    if value_text is None:
        raise ConfigurationError(
            f"{argument} is not a valid {type_.value}: found {shown(given)}; give {_FORMS[type_]}"
        )
    return Value(type=type_, text=value_text)


def _text(given: object, argument: str) -> str | None:
    if not isinstance(given, str):
        return None
    given = str.__str__(given)  # the value of an Enum's member
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{argument} contains an unpaired surrogate (half a character), which no table can"
            f" store: found {shown(given)}; give the whole character"
        ) from error
    return given


def _whole(given: object, _: str) -> str | None:
    if isinstance(given, int) and not isinstance(given, bool):
        if abs(given) >= 10**_MOST_DIGITS:
            return None
        given = str(int(given))
    if not isinstance(given, str) or not _WHOLE.match(given):
        return None
    text = given.removeprefix("+")
    digits = text.removeprefix("-").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        return None
    return f"-{digits}" if text.startswith("-") and digits != "0" else digits


def _decimal(given: object, _: str) -> str | None:
    is_number = isinstance(given, int | Decimal) and not isinstance(given, bool)
    if not is_number and not (isinstance(given, str) and _DECIMAL.match(given)):
        return None
    number = Decimal(given)  # type: ignore[arg-type] # a string, int or Decimal, as checked above
    if not number:
        return "0"
    # Refuse large exponents, because the number is written out with all its digits.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return None
    # Remove trailing zeros: Hive determines a constant's type without them.
    whole, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0")
    if len(whole.lstrip("+-0")) + len(fraction) > _MOST_DIGITS:
        return None
    return f"{whole}.{fraction}" if fraction else whole


def _double(given: object, _: str) -> str | None:
    if isinstance(given, bool) or not isinstance(given, str | int | float | Decimal):
        return None
    if isinstance(given, str) and not _DOUBLE.match(given):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return repr(number) if math.isfinite(number) else None


def _date(given: object, _: str) -> str | None:
    if isinstance(given, dt.date) and not isinstance(given, dt.datetime):
        return dt.date(given.year, given.month, given.day).isoformat()
    if not isinstance(given, str) or not _DATE.match(given):
        return None
    try:
        return dt.date.fromisoformat(given).isoformat()
    except ValueError:
        return None


def _truth(given: object, _: str) -> str | None:
    truth = _TRUTHS.get(given.lower()) if isinstance(given, str) else given
    return str(truth).lower() if isinstance(truth, bool) else None


def _timestamp(given: object, argument: str) -> str | None:
    clock = _clock(given, argument)
    if clock is None:
        return None
    if clock.utcoffset() is not None:
        raise ConfigurationError(f"{argument}: {given!s} {_ZONED}")
    return clock.replace(tzinfo=None).isoformat(sep=" ")


def _moment(given: object, argument: str) -> str | None:
    clock = _clock(given, argument)
    if clock is None:
        return None
    if clock.utcoffset() is None:
        raise ConfigurationError(f"{argument}: {given!s} {_NO_ZONE}")
    try:
        return f"{clock.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=' ')}Z"
    except OverflowError:
        return None


def _clock(given: object, argument: str) -> dt.datetime | None:
    if isinstance(given, dt.datetime):
        return _plain(given, argument)
    if not isinstance(given, str) or not _CLOCK.match(given):
        return None
    try:
        return dt.datetime.fromisoformat(given)
    except ValueError:
        return None


def _plain(given: dt.datetime, argument: str) -> dt.datetime | None:
    """Convert a subclass of datetime, such as pandas.Timestamp, to a plain Python datetime."""
    if getattr(given, "nanosecond", 0) not in (0, None) and given == given:  # noqa: PLR0124 - NaT
        raise ConfigurationError(f"{argument}: {given!s} {_NANOSECONDS}")
    try:
        return dt.datetime.combine(
            dt.date(given.year, given.month, given.day),
            dt.time(given.hour, given.minute, given.second, given.microsecond, given.tzinfo),
        ).replace(fold=given.fold)
    except (TypeError, ValueError):
        return None  # such as pandas.NaT


_PYTHON: Final[Mapping[type, ValueType]] = {
    bool: ValueType.BOOLEAN,
    int: ValueType.INT,
    float: ValueType.DOUBLE,
    Decimal: ValueType.DECIMAL,
    dt.datetime: ValueType.TIMESTAMP,
    dt.date: ValueType.DATE,
    str: ValueType.STRING,
}
_READS: Final[Mapping[ValueType, Callable[[object, str], str | None]]] = {
    ValueType.STRING: _text,
    ValueType.INT: _whole,
    ValueType.DECIMAL: _decimal,
    ValueType.DOUBLE: _double,
    ValueType.BOOLEAN: _truth,
    ValueType.DATE: _date,
    ValueType.TIMESTAMP: _timestamp,
    ValueType.MOMENT: _moment,
}
_FORMS: Final[Mapping[ValueType, str]] = {
    ValueType.STRING: "a text",
    ValueType.INT: "a whole number of at most 38 digits",
    ValueType.DECIMAL: "a number such as 1.50, of at most 38 digits",
    ValueType.DOUBLE: "a finite number such as 1.5 or 1e3",
    ValueType.BOOLEAN: "true or false",
    ValueType.DATE: "a date such as 2026-01-31",
    ValueType.TIMESTAMP: "a time such as 2026-01-31 02:00:00, with at most six digits of a second",
    ValueType.MOMENT: "a time and its zone, such as 2026-01-31T02:00:00+01:00",
}
