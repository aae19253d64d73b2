"""Convert rows to JSON: one array per row, with values as Hive prints them.

The module takes batches from `scan` with timestamps as pairs, and returns lines. Integers, floats
and booleans keep their JSON type, but NaN and infinities become strings. Decimals, dates,
timestamps and chars are strings in Hive's format. Binary is hexadecimal. A map is a list of [key,
value] pairs, sorted by their JSON strings. A struct is an object, and a union is {tag, value}.

Example:
    >>> batch = pa.record_batch({"id": [1, 2], "name": ["x", None]})
    >>> list(json_lines(batch, [PrimitiveType("bigint"), PrimitiveType("string")]))
    ['[1, "x"]', '[2, null]']
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    ArrayType,
    CharType,
    DecimalType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from airflow_hiveacid.storage.values.hive_text import (
    date_texts,
    decimal_texts,
    local_timestamp_texts,
    timestamp_texts,
)

Json = Any
"""A value that `json.dumps` accepts."""

_encode: Final = json.JSONEncoder().encode


def json_lines(batch: pa.RecordBatch, types: Sequence[HiveType]) -> Iterator[str]:
    """Yield one JSON array per row without a line end; `types` are the columns' types."""
    columns = [_values(column, type_) for column, type_ in zip(batch.columns, types, strict=True)]
    for row in zip(*columns, strict=True):
        yield _encode(row)


def _values(array: pa.Array, hive_type: HiveType) -> list[Json]:  # noqa: PLR0911 - one per type
    match hive_type:
        case PrimitiveType(name=name):
            return _PRIMITIVES.get(name, _plain)(array)
        case DecimalType():
            return list(decimal_texts(array))
        case CharType() | VarcharType():
            return _texts(array)
        case ArrayType(element=element):
            return _per_row(array, _values(array.values, element))
        case MapType(key=key, value=value):
            pairs = zip(_values(array.keys, key), _values(array.items, value), strict=True)
            rows = _per_row(array, [list(pair) for pair in pairs])
            return [row if row is None else sorted(row, key=_encode) for row in rows]
        case StructType(fields=fields):
            return _objects(array, fields)
        case UnionType(options=options):
            return _tagged(array, options)
        case _:
            raise TypeError(f"{hive_type} has no JSON form")


def _objects(array: pa.Array, fields: Sequence[tuple[str, HiveType]]) -> list[Json]:
    names = [name for name, _ in fields]
    parts = [_values(array.field(index), type_) for index, (_, type_) in enumerate(fields)]
    rows = zip(*parts, strict=True)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _tagged(array: pa.Array, options: Sequence[HiveType]) -> list[Json]:
    values = [_values(array.field(index + 1), option) for index, option in enumerate(options)]
    tags, valid = array.field(0).to_pylist(), array.is_valid().to_pylist()
    return [
        {"tag": tag, "value": values[tag][row]} if ok else None
        for row, (tag, ok) in enumerate(zip(tags, valid, strict=True))
    ]


def _per_row(array: pa.Array, items: list[Json]) -> list[Json]:
    """Return the items of a list or map array, grouped by row."""
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


def _texts(array: pa.Array) -> list[Json]:
    try:
        return _plain(array)
    except UnicodeDecodeError:
        # Hive shows bytes that are not UTF-8 as replacement characters (Text.decode).
        raw = array.cast(pa.binary()).to_pylist()
        return [None if value is None else value.decode(errors="replace") for value in raw]


def _hexadecimal(array: pa.Array) -> list[Json]:
    return [None if value is None else value.hex() for value in array.to_pylist()]


def _doubles(array: pa.Array) -> list[Json]:
    return [v if v is None or math.isfinite(v) else _special(v) for v in array.to_pylist()]


def _floats(array: pa.Array) -> list[Json]:
    """Return each float as the number with the fewest digits that identify it, such as 1.1."""
    texts = array.fill_null(0).to_numpy().astype(str).tolist()
    valid = array.is_valid().to_pylist()
    numbers = [float(text) if ok else None for text, ok in zip(texts, valid, strict=True)]
    return [v if v is None or math.isfinite(v) else _special(v) for v in numbers]


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_PRIMITIVES: Final[Mapping[str, Callable[[pa.Array], list[Json]]]] = {
    "string": _texts,
    "binary": _hexadecimal,
    "float": _floats,
    "double": _doubles,
    "date": date_texts,
    "timestamp": timestamp_texts,
    TIMESTAMP_LOCAL: local_timestamp_texts,
}
