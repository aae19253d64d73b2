"""Convert values to a different primitive type, as after ALTER TABLE ... CHANGE COLUMN.

Values that do not fit become NULL, as in ORC's ConvertTreeReaderFactory. Varchar and char values
are cut to their length, as in Hive.

Example:
    >>> promote(pa.array([1, 300], pa.int16()), hive.PrimitiveType("tinyint")).to_pylist()
    [1, None]
"""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.storage.values import hive_text
from airflow_hiveacid.storage.values.column_types import PRIMITIVES
from airflow_hiveacid.storage.values.limits import cut, padded, texts
from airflow_hiveacid.storage.values.nested import null_mask
from airflow_hiveacid.storage.values.timestamps import (
    NANOS,
    NANOS_A_SECOND,
    PAIR_TYPE,
    SECONDS,
    SECONDS_A_DAY,
    SWITCHOVER_SECOND,
    Instants,
    TimestampForm,
    in_form,
)

_R = TypeVar("_R")


class OutOfRangeError(ValueError):
    """A value that Hive converts, but to a date or number that this module cannot convert to."""


_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS: Final = frozenset({"float", "double"})
_HOURS: Final = 24
_MONTHS: Final = 12
_MOST_DAYS: Final = 31
_EXACT: Final = decimal.Context(prec=400)
# A long has at most 19 digits; Python refuses to convert thousands of them.
_JAVA_LONG: Final = re.compile(r"([+-]?)0*([0-9]{1,19})\Z", re.ASCII)
# String.trim removes these characters, and no other blanks of Unicode.
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
_JAVA_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)\Z", re.ASCII
)
_JAVA_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z", re.ASCII
)

_YEAR: Final = r"([0-9]{4}|\+[0-9]{5,10}|-[0-9]{4,10})"
_JAVA_DATE: Final = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}})\Z")
_JAVA_TIMESTAMP: Final = re.compile(
    rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}}) ([0-9]{{2}}):([0-5][0-9])"
    r"(?::([0-5][0-9])(?:\.([0-9]{0,9}))?)?\Z"
)
# The last second of 9999. Before SWITCHOVER_SECOND, results depend on calendars.
_LAST_SECOND: Final = 253_402_300_799
_LONGEST_INSTANT: Final = 31_556_889_864_403_199  # java.time.Instant.MAX, in seconds


def promote(array: pa.Array, wanted: hive.HiveType) -> pa.Array | None:
    """Convert values to a different type; return None if there is no such conversion.

    In `array` and the result, timestamps are pairs (`timestamps.PAIR_TYPE`). A char in `array` must
    not be padded. Raises OutOfRangeError if Hive would return a date or time that this module
    cannot represent.
    """
    match wanted:
        case hive.PrimitiveType(name=name) if name in _INTEGERS:
            return _to_integer(array, PRIMITIVES[name])
        case hive.PrimitiveType(name=name) if name in _FLOATS:
            return _to_float(array, PRIMITIVES[name])
        case hive.PrimitiveType(name=name):
            return _OTHERS[name](array) if name in _OTHERS else None
        case hive.DecimalType():
            return _to_decimal(array, wanted)
        case hive.CharType() | hive.VarcharType():
            texts = _to_string(array)
            return None if texts is None else fit_length(texts, wanted)
        case _:
            return None


def fit_length(array: pa.Array, wanted: hive.CharType | hive.VarcharType) -> pa.Array:
    """Cut strings to the type's length in characters; also pad char values to this length."""
    array = cut(array, wanted.length)
    return padded(array, wanted.length) if isinstance(wanted, hive.CharType) else array


def _each(array: pa.Array, function: Callable[[Any], _R | None]) -> list[_R | None]:
    return [None if value is None else function(value) for value in array.to_pylist()]


def _to_integer(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Convert values to longs, unless they are integers; those outside of `wanted` become NULL."""
    source = array.type
    if pa.types.is_boolean(source):
        return array.cast(wanted)
    if pa.types.is_struct(source):
        array = _known_times(array).field(SECONDS)
    elif pa.types.is_string(source):
        array = pa.array(
            [None if text is None else _parsed_long(text) for text in texts(array)], pa.int64()
        )
    elif pa.types.is_decimal(source):
        array = pa.array(_each(array, lambda value: _within_long(int(value))), pa.int64())
    elif pa.types.is_floating(source):
        array = _truncated(array)
    elif not pa.types.is_integer(source):
        return None
    if array.type.bit_width <= wanted.bit_width:
        return array.cast(wanted)
    limits = np.iinfo(wanted.to_pandas_dtype())
    inside = pc.and_(
        pc.greater_equal(array, int(limits.min)), pc.less_equal(array, int(limits.max))
    )
    return pc.if_else(inside, array, None).cast(wanted)


def _known_times(pairs: pa.Array) -> pa.Array:
    seconds, nanos = pairs.flatten()
    earliest = pc.min(seconds).as_py()
    if earliest is not None and earliest < SWITCHOVER_SECOND:
        raise OutOfRangeError("a time before 1582-10-15 as a number")
    return pa.StructArray.from_arrays([seconds, nanos], fields=list(pairs.type))


def _truncated(array: pa.Array) -> pa.Array:
    """Cut off the fractions of floats; NaN and values that exceed 64 bits become NULL."""
    wide = array.cast(pa.float64())
    inside = pc.and_(pc.greater_equal(wide, -float(1 << 63)), pc.less(wide, float(1 << 63)))
    return pc.trunc(pc.if_else(inside, wide, None)).cast(pa.int64())


def _within_long(value: int) -> int | None:
    return value if -(1 << 63) <= value < 1 << 63 else None


def _parsed_long(text: str) -> int | None:
    match = _JAVA_LONG.match(text)
    return None if match is None else _within_long(int("".join(match.groups())))


def _to_float(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    source = array.type
    if pa.types.is_string(source):
        numbers = [None if text is None else _parsed_double(text) for text in texts(array)]
        return pa.array(numbers, pa.float64()).cast(wanted, safe=False)
    if pa.types.is_boolean(source):
        return array.cast(pa.int8()).cast(wanted)
    if pa.types.is_struct(source):
        pairs = _known_times(array)
        whole, part = (pairs.field(f).cast(pa.float64(), safe=False) for f in (SECONDS, NANOS))
        return pc.add(whole, pc.divide(part, float(NANOS_A_SECOND))).cast(wanted, safe=False)
    if pa.types.is_decimal(source):
        # Arrow's direct cast from decimal to 32-bit float can be wrong in the last digit.
        return array.cast(pa.float64()).cast(wanted, safe=False)
    if pa.types.is_integer(source) or pa.types.is_floating(source):
        return array.cast(wanted, safe=False)
    return None


def _parsed_double(text: str) -> float | None:
    plain = text.strip(_JAVA_BLANKS)
    if not _JAVA_DOUBLE.match(plain):
        return None
    return float(plain if plain.endswith("Infinity") else plain.rstrip("fFdD"))


def _to_decimal(array: pa.Array, wanted: hive.DecimalType) -> pa.Array | None:
    exact = _exact_values(array)
    if exact is None:
        return None
    step = Decimal(1).scaleb(-wanted.scale)
    limit = Decimal(10) ** (wanted.precision - wanted.scale)
    # Loop over rows, as Arrow's casts refuse to round; only changed columns need it.
    return pa.array(
        [None if value is None else _rounded(value, step, limit) for value in exact],
        pa.decimal128(wanted.precision, wanted.scale),
    )


def _exact_values(array: pa.Array) -> list[Decimal | None] | None:
    """Return exact decimals, with NULL for a text that is no number; None without a conversion."""
    source = array.type
    if pa.types.is_decimal(source):
        values: list[Decimal | None] = array.to_pylist()
        return values
    if pa.types.is_boolean(source) or pa.types.is_integer(source):
        return _each(array, lambda value: Decimal(int(value)))
    if pa.types.is_floating(source):
        spelt = _each(array, hive_text.double_text)
    elif pa.types.is_string(source):
        spelt = [None if text is None else text.strip(_JAVA_BLANKS) for text in texts(array)]
    elif pa.types.is_struct(source):
        pairs = _known_times(array)
        return [
            None if whole is None else Decimal(whole * NANOS_A_SECOND + part).scaleb(-9, _EXACT)
            for whole, part in zip(*(f.to_pylist() for f in pairs.flatten()), strict=True)
        ]
    else:
        return None
    return [None if text is None else _parsed_decimal(text) for text in spelt]


def _parsed_decimal(text: str) -> Decimal | None:
    if not _JAVA_DECIMAL.match(text):
        return None
    try:
        return Decimal(text)
    except decimal.InvalidOperation:  # an exponent that no decimal of this machine can have
        return None


def _rounded(value: Decimal, step: Decimal, limit: Decimal) -> Decimal | None:
    # `abs` would round to 28 digits, and `quantize` refuses numbers with too many digits.
    if value.copy_abs() >= limit:
        return None
    rounded = value.quantize(step, rounding=decimal.ROUND_HALF_UP, context=_EXACT)
    return rounded if rounded.copy_abs() < limit else None


def _to_string(array: pa.Array) -> pa.Array | None:
    source = array.type
    if pa.types.is_string(source):
        return array
    if pa.types.is_integer(source):
        return array.cast(pa.string())
    for applies, spell in _TEXTS:
        if applies(source):
            return pa.array(spell(array), pa.string())
    return None


def _number_texts(array: pa.Array) -> hive_text.Texts:
    # Hive 4 prints a float as a double. ORC makes NaN NULL (StringGroupFromDoubleTreeReader).
    return [
        None if text == "NaN" else text for text in hive_text.double_texts(array.cast(pa.float64()))
    ]


_TEXTS: Final[
    tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], hive_text.Texts]], ...]
] = (
    (pa.types.is_boolean, lambda array: _each(array, lambda value: str(value).upper())),
    (pa.types.is_floating, _number_texts),
    (pa.types.is_decimal, hive_text.decimal_texts),
    (pa.types.is_date32, hive_text.date_texts),
    (pa.types.is_struct, hive_text.timestamp_texts),
    (pa.types.is_binary, lambda array: _each(array, lambda value: value.hex(" "))),
)


def _to_boolean(array: pa.Array) -> pa.Array | None:
    if pa.types.is_decimal(array.type):
        return pc.not_equal(array, pa.scalar(0, array.type))
    # Convert to a long first. Then 0.5 is false, and a string that is not a number is NULL.
    numbers = _to_integer(array, pa.int64())
    return None if numbers is None else pc.not_equal(numbers, 0)


def _to_date(array: pa.Array) -> pa.Array | None:
    if pa.types.is_string(array.type):
        return pa.array([None if t is None else _parsed_date(t) for t in texts(array)], pa.date32())
    if not pa.types.is_struct(array.type):
        return None
    seconds = array.field(SECONDS).fill_null(0).to_numpy()
    days = np.floor_divide(seconds, SECONDS_A_DAY).astype(np.int32)
    return pa.array(days, mask=null_mask(array)).cast(pa.date32())


def _parsed_date(text: str) -> dt.date | None:
    """Parse a date like Java's ISO_LOCAL_DATE; return None for a malformed or missing date."""
    match = _JAVA_DATE.match(text)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    if not 1 <= month <= _MONTHS or not 1 <= day <= _days_of(year, month) or match[1] == "-0000":
        return None
    return dt.date(_known_year(year, text), month, day)


def _known_year(year: int, text: str) -> int:
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise OutOfRangeError(f"the text {text!r}, whose year is not 1 to 9999,")
    return year


def _days_of(year: int, month: int) -> int:
    # The Gregorian calendar repeats every 400 years.
    return calendar.monthrange(2000 + year % 400, month)[1]


def _to_timestamp(array: pa.Array) -> pa.Array | None:
    source = array.type
    if pa.types.is_date32(source):
        seconds = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64) * SECONDS_A_DAY
        midnights = Instants(seconds, np.zeros_like(seconds), ~null_mask(array))
        return in_form(midnights, TimestampForm.PAIR, None, path="", column="")
    if pa.types.is_string(source):
        return _pairs([None if text is None else _parsed_timestamp(text) for text in texts(array)])
    if pa.types.is_boolean(source) or pa.types.is_integer(source):
        pairs = _each(array, lambda value: (int(value), 0))
    elif pa.types.is_floating(source):
        pairs = _each(array.cast(pa.float64()), _of_double)
    elif pa.types.is_decimal(source):
        pairs = _each(array, _of_decimal)
    else:
        return None
    # Unlike a date or text, a number names no day, so an old time depends on the calendar.
    for pair in pairs:
        if pair is not None and not SWITCHOVER_SECOND <= pair[0] <= _LAST_SECOND:
            raise OutOfRangeError(f"{pair[0]} seconds as a time before 1582-10-15 or after 9999")
    return _pairs(pairs)


def _pairs(found: Sequence[tuple[int, int] | None]) -> pa.Array:
    return pa.array(
        [None if pair is None else {SECONDS: pair[0], NANOS: pair[1]} for pair in found], PAIR_TYPE
    )


def _parsed_timestamp(text: str) -> tuple[int, int] | None:
    # As ORC's TIMESTAMP_FORMAT: 31 April becomes the month's last day, 24:00 the next day.
    match = _JAVA_TIMESTAMP.match(text)
    if match is None or match[1] == "-0000":
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    nanos = int((match[7] or "").ljust(9, "0"))
    is_midnight = hour == _HOURS and not (minute or second or nanos)
    if not (1 <= month <= _MONTHS and 1 <= day <= _MOST_DAYS):
        return None
    if hour >= _HOURS and not is_midnight:
        return None
    date = dt.date(_known_year(year, text), month, min(day, _days_of(year, month)))
    days = (date - dt.date(1970, 1, 1)).days
    seconds = days * SECONDS_A_DAY + hour * 3600 + minute * 60 + second
    if seconds > _LAST_SECOND:
        raise OutOfRangeError(f"the text {text!r}, whose year is not 1 to 9999,")
    return seconds, nanos


def _of_double(value: float) -> tuple[int, int] | None:
    # Java's Math.round to milliseconds; ORC returns NULL if the sign changes, or beyond 64 bits.
    scaled = value * 1000
    if not math.isfinite(scaled) or abs(scaled) >= 1 << 63:
        return None
    millis = math.floor(scaled)
    millis += scaled - millis >= 0.5  # noqa: PLR2004 - a half is rounded up
    if (millis >= 0) != (value >= 0):
        return None
    seconds, rest = divmod(millis, 1000)
    return seconds, rest * 1_000_000


def _of_decimal(value: Decimal) -> tuple[int, int] | None:
    """Cut a number of seconds to nanoseconds; ORC returns NULL beyond java.time.Instant."""
    nanos = int(value.scaleb(9, _EXACT))
    seconds, rest = divmod(nanos, NANOS_A_SECOND)
    return None if abs(seconds) > _LONGEST_INSTANT else (seconds, rest)


_OTHERS: Final[Mapping[str, Callable[[pa.Array], pa.Array | None]]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "binary": lambda array: array.cast(pa.binary()) if pa.types.is_string(array.type) else None,
    "date": _to_date,
    "timestamp": _to_timestamp,
}
