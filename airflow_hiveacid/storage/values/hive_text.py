"""Format dates, timestamps, decimals and floating-point numbers as Hive does.

The formats are those of Java (Date, Timestamp, HiveDecimal, Double.toString).

Example:
    >>> decimal_text(Decimal("1.50")), double_text(1e10), double_text(100.0)
    ('1.5', '1.0E10', '100.0')
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.storage.values.calendars import SECONDS_A_DAY
from airflow_hiveacid.storage.values.timestamps import NANOS, SECONDS

Texts = list[str | None]

# The days 0001-01-01 and 9999-12-31, between which NumPy and Java format days alike.
_PLAIN_DAYS: Final = (-719162, 2932896)
# Double.toString writes an exponent only for magnitudes outside this range (end excluded).
_PLAIN_MAGNITUDES: Final = (1e-3, 1e7)
_YEAR_DIGITS: Final = 4


def date_texts(array: pa.Array) -> Texts:
    """Format dates as `yyyy-MM-dd`; years outside 0 to 9999 have a sign, as in Java."""
    days = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    return _unless_null(array, _day_texts(days))


def timestamp_texts(pairs: pa.Array) -> Texts:
    """Format timestamps as `yyyy-MM-dd HH:mm:ss[.fraction]`, without trailing zeros."""
    seconds = pairs.field(SECONDS).fill_null(0).to_numpy()
    nanos = pairs.field(NANOS).fill_null(0).to_numpy()
    days = np.floor_divide(seconds, SECONDS_A_DAY)
    clock = (seconds - days * SECONDS_A_DAY).astype("datetime64[s]").astype(str)
    texts = [
        f"{day} {time[11:]}" for day, time in zip(_day_texts(days), clock.tolist(), strict=True)
    ]
    for row in np.flatnonzero(nanos).tolist():
        texts[row] = f"{texts[row]}.{nanos[row]:09d}".rstrip("0")
    return _unless_null(pairs, texts)


def local_timestamp_texts(pairs: pa.Array) -> Texts:
    """Format instants as Hive prints them in a UTC session (TimestampTZ.toString)."""
    return [
        None if text is None else f"{text if '.' in text else text + '.0'} UTC"
        for text in timestamp_texts(pairs)
    ]


def decimal_texts(array: pa.Array) -> Texts:
    """Format decimals without an exponent or trailing zeros (HiveDecimal.toString)."""
    return [None if value is None else decimal_text(value) for value in array.to_pylist()]


def decimal_text(value: Decimal) -> str:
    """Format one decimal without an exponent or trailing zeros."""
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def double_texts(array: pa.Array) -> Texts:
    """Format floats and doubles as in Java, with the fewest digits that identify the value."""
    if pa.types.is_float32(array.type):
        narrow = array.fill_null(0).to_numpy().astype(str).tolist()
        return _unless_null(array, [_java(text) for text in narrow])
    return [None if value is None else double_text(value) for value in array.to_pylist()]


def double_text(value: float) -> str:
    """Format one double as Java prints it."""
    return _java(repr(value))


def _java(shortest: str) -> str:
    """Format a number as in Java; `shortest` is its shortest form in Python or NumPy."""
    value = float(shortest)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    if _PLAIN_MAGNITUDES[0] <= abs(value) < _PLAIN_MAGNITUDES[1]:
        plain = f"{Decimal(shortest):f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, _ = Decimal(shortest).normalize().as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{Decimal(shortest).adjusted()}"


def _day_texts(days: npt.NDArray[np.int64]) -> list[str]:
    texts: list[str] = days.astype("datetime64[D]").astype(str).tolist()
    for row in np.flatnonzero((days < _PLAIN_DAYS[0]) | (days > _PLAIN_DAYS[1])).tolist():
        year, month, day = texts[row].rsplit("-", 2)
        sign = "-" if int(year) < 0 else "+" if int(year) >= 10**_YEAR_DIGITS else ""
        texts[row] = f"{sign}{abs(int(year)):04d}-{month}-{day}"
    return texts


def _unless_null(array: pa.Array, texts: list[str]) -> Texts:
    if not array.null_count:
        return list(texts)
    valid = array.is_valid().to_pylist()
    return [text if ok else None for text, ok in zip(texts, valid, strict=True)]
