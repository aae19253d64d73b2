"""Convert Arrow values to Python values in the form that ORC stores.

Dates become day numbers, decimals become unscaled integers, and timestamps become pairs of seconds
and nanoseconds. Structs become tuples, and maps become dictionaries.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.storage.values.char_text import is_utf8
from airflow_hiveacid.storage.values.column_types import TypeNode
from airflow_hiveacid.storage.values.limits import used_items
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, seconds_and_nanos

_DECIMAL_BYTES: Final = 16


def undecodable(rows: pa.StructArray, nodes: Sequence[TypeNode]) -> frozenset[int]:
    """Return the ORC column IDs of the text columns with values that are not UTF-8."""
    ids = (_undecodable(values, node) for values, node in zip(rows.flatten(), nodes, strict=True))
    return frozenset(itertools.chain.from_iterable(ids))


def _undecodable(values: pa.Array, node: TypeNode) -> Iterator[int]:
    if pa.types.is_string(values.type) and not is_utf8(values):
        yield node.column_id
    for child, child_node in zip(_items(values), node.children, strict=False):
        yield from _undecodable(child, child_node)


def _items(values: pa.Array) -> list[pa.Array]:
    """Return the child arrays of maps, lists or structs, or an empty list for other types."""
    if pa.types.is_map(values.type):
        return [used_items(values, part) for part in (values.keys, values.items)]
    if pa.types.is_list(values.type):
        return [used_items(values, values.values)]
    return values.flatten() if pa.types.is_struct(values.type) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonValues:
    """A converter to Python values; text in the columns `byte_ids` becomes bytes.

    `table` is used only in error messages.
    """

    byte_ids: frozenset[int]
    table: object

    def of_struct(self, values: pa.StructArray, nodes: Sequence[TypeNode]) -> list[Any]:
        """Return structs as tuples.

        Raises:
            TypeMismatchError: a map has two keys that Python cannot distinguish.
        """
        fields = [self.of(v, node) for v, node in zip(values.flatten(), nodes, strict=True)]
        return _masked(values, list(zip(*fields, strict=True)))

    def of(self, values: pa.Array, node: TypeNode) -> list[Any]:
        """Return the values of a column of any type."""
        arrow = values.type
        if pa.types.is_timestamp(arrow) or arrow.equals(PAIR_TYPE):
            seconds, nanos = seconds_and_nanos(values)
            return _masked(values, list(zip(seconds.tolist(), nanos.tolist(), strict=True)))
        if pa.types.is_struct(arrow):
            return self.of_struct(values, node.children)
        if pa.types.is_nested(arrow):
            children = [self.of(v, n) for v, n in zip(_items(values), node.children, strict=True)]
            if pa.types.is_list(arrow):
                return _cut(values, children[0], list)
            pairs = list(zip(*children, strict=True))
            return _cut(values, pairs, functools.partial(self._mapping, node))
        if pa.types.is_decimal128(arrow):
            return _masked(values, _unscaled(values))
        if pa.types.is_date32(arrow):
            values = values.cast(pa.int32())
        if node.column_id in self.byte_ids:
            values = values.view(pa.binary())
        python: list[Any] = values.to_pylist()
        return python

    def _mapping(self, node: TypeNode, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return the entries of a map as a dictionary, because pyorc expects a dictionary.

        All keys are kept, even if Python treats them as equal (such as 0.0 and -0.0) or cannot hash
        them (such as lists).
        """
        try:
            mapping = dict(pairs)
        except TypeError:
            mapping = {}
        if len(mapping) == len(pairs):
            return mapping
        kinds = {type(key) for key, _ in pairs}
        if not kinds <= _DISTINCT.keys():
            raise TypeMismatchError(
                table=self.table,
                column=node.name,
                column_type=str(node.type),
                value_type="a map with one key twice",
            )
        return {_DISTINCT[type(key)](key): value for key, value in pairs}


def _distinct(kind: type) -> type:
    """Return a subclass whose objects are never equal to each other."""
    own = {"__eq__": object.__eq__, "__hash__": object.__hash__}
    return type(f"_Distinct{kind.__name__}", (kind,), own)


_DISTINCT: Final = {kind: _distinct(kind) for kind in (int, float, str, bytes, tuple, list, dict)}


def _masked(values: pa.Array, python: Sequence[Any]) -> list[Any]:
    if not values.null_count:
        return list(python)
    valid = values.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(python, valid, strict=True)]


def _cut(lists: pa.Array, items: Sequence[Any], build: Callable[[Sequence[Any]], Any]) -> list[Any]:
    offsets = pc.subtract(lists.offsets, lists.offsets[0]).to_pylist()
    return _masked(lists, [build(items[start:end]) for start, end in itertools.pairwise(offsets)])


def _unscaled(values: pa.Array) -> list[int]:
    data = memoryview(values.buffers()[1])[values.offset * _DECIMAL_BYTES :]
    starts = range(0, len(values) * _DECIMAL_BYTES, _DECIMAL_BYTES)
    return [
        int.from_bytes(data[start : start + _DECIMAL_BYTES], "little", signed=True)
        for start in starts
    ]
