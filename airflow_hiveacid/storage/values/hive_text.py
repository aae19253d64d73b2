"""Format values as Hive does, and rows as JSON with such values.

The formats are those of Java (Date, Timestamp, HiveDecimal, Double.toString).

Integers, floats and booleans keep their JSON type, but NaN and infinities become strings. Decimals,
dates, timestamps and chars are strings in Hive's format. Binary is hexadecimal. A map is a list of
[key, value] pairs, sorted by their JSON strings. A struct is an object, and a union is {tag,
value}.

Example:
    >>> decimal_text(Decimal("1.50")), double_text(1e10), double_text(100.0)
    ('1.5', '1.0E10', '100.0')
    >>> batch = pa.record_batch({"id": [1, 2], "name": ["x", None]})
    >>> list(json_lines(batch, [hive.PrimitiveType("bigint"), hive.PrimitiveType("string")]))
    ['[1, "x"]', '[2, null]']
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.storage.values.limits import texts
from airflow_hiveacid.storage.values.timestamps import NANOS, SECONDS, SECONDS_A_DAY

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


Json = Any
"""A value that `json.dumps` accepts."""

_encode: Final = json.JSONEncoder().encode


def json_lines(batch: pa.RecordBatch, types: Sequence[hive.HiveType]) -> Iterator[str]:
    """Yield one JSON array per row without a line end; `types` are the columns' types."""
    columns = [_values(column, type_) for column, type_ in zip(batch.columns, types, strict=True)]
    for row in zip(*columns, strict=True):
        yield _encode(row)


def _values(array: pa.Array, hive_type: hive.HiveType) -> list[Json]:  # noqa: PLR0911 - one per type
    match hive_type:
        case hive.PrimitiveType(name=name):
            return _PRIMITIVES.get(name, _plain)(array)
        case hive.DecimalType():
            return list(decimal_texts(array))
        case hive.CharType() | hive.VarcharType():
            return list(texts(array))
        case hive.ArrayType(element=element):
            return _per_row(array, _values(array.values, element))
        case hive.MapType(key=key, value=value):
            pairs = zip(_values(array.keys, key), _values(array.items, value), strict=True)
            rows = _per_row(array, [list(pair) for pair in pairs])
            return [row if row is None else sorted(row, key=_encode) for row in rows]
        case hive.StructType(fields=fields):
            return _objects(array, fields)
        case hive.UnionType(options=options):
            return _tagged(array, options)
        case _:
            raise TypeError(f"{hive_type} has no JSON form")


def _objects(array: pa.Array, fields: Sequence[tuple[str, hive.HiveType]]) -> list[Json]:
    names = [name for name, _ in fields]
    parts = [_values(array.field(index), type_) for index, (_, type_) in enumerate(fields)]
    rows = zip(*parts, strict=True)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _tagged(array: pa.Array, options: Sequence[hive.HiveType]) -> list[Json]:
    values = [_values(array.field(index + 1), option) for index, option in enumerate(options)]
    tags, valid = array.field(0).to_pylist(), array.is_valid().to_pylist()
    return [
        {"tag": tag, "value": values[tag][row]} if ok else None
        for row, (tag, ok) in enumerate(zip(tags, valid, strict=True))
    ]


def _per_row(array: pa.Array, items: list[Json]) -> list[Json]:
    ends = array.offsets.to_pylist()
    return [
        items[start:stop] if valid else None
        for start, stop, valid in zip(
            ends[:-1], ends[1:], array.is_valid().to_pylist(), strict=True
        )
    ]


def _plain(array: pa.Array) -> list[Json]:
    values: list[Json] = array.to_pylist()
    return values


def _doubles(array: pa.Array) -> list[Json]:
    """Return each float as the number with the fewest digits that identify it, such as 1.1."""
    numbers = array.to_pylist()
    if pa.types.is_float32(array.type):
        short = array.fill_null(0).to_numpy().astype(str).tolist()
        numbers = [n if n is None else float(text) for n, text in zip(numbers, short, strict=True)]
    return [v if v is None or math.isfinite(v) else _special(v) for v in numbers]


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_PRIMITIVES: Final[Mapping[str, Callable[[pa.Array], list[Json]]]] = {
    "string": texts,
    "binary": lambda array: [v if v is None else v.hex() for v in array.to_pylist()],
    "float": _doubles,
    "double": _doubles,
    "date": date_texts,
    "timestamp": timestamp_texts,
    hive.TIMESTAMP_LOCAL: local_timestamp_texts,
}
