"""Convert rows to JSON: one array per row, with values as Hive prints them.

Integers, floats and booleans keep their JSON type, but NaN and infinities become strings. Decimals,
dates, timestamps and chars are strings in Hive's format. Binary is hexadecimal. A map is a list of
[key, value] pairs, sorted by their JSON strings. A struct is an object, and a union is {tag,
value}.

Example:
    >>> batch = pa.record_batch({"id": [1, 2], "name": ["x", None]})
    >>> list(json_lines(batch, [hive.PrimitiveType("bigint"), hive.PrimitiveType("string")]))
    ['[1, "x"]', '[2, null]']
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.storage.values import hive_text
from airflow_hiveacid.storage.values.char_text import texts

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
            return list(hive_text.decimal_texts(array))
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
    "date": hive_text.date_texts,
    "timestamp": hive_text.timestamp_texts,
    hive.TIMESTAMP_LOCAL: hive_text.local_timestamp_texts,
}
