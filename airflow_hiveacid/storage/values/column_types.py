"""Convert Hive types to Arrow types and to the type tree of an ORC file.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> row_type([Column(name="id", type="bigint"), Column(name="code", type="char(3)")])
    StructType(struct<id: int64, code: string>)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNode:
    """One type in an ORC file: column ID, dotted name for messages, children in ORC's order."""

    column_id: int
    name: str
    type: hive.HiveType
    children: tuple[TypeNode, ...]

    def walk(self) -> Iterator[TypeNode]:
        """Yield this node and all nodes below it, in order of column ID."""
        yield self
        for child in self.children:
            yield from child.walk()


PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    hive.TIMESTAMP_LOCAL: pa.timestamp("ns", tz="UTC"),
}
"""The Arrow type of each primitive Hive type, by the type's name in Hive."""

_NAMES: Final[Mapping[pa.DataType, str]] = {
    **{arrow: name for name, arrow in PRIMITIVES.items()},
    **dict.fromkeys((pa.large_string(), pa.string_view()), "string"),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), "binary"),
}


def arrow_type(hive_type: hive.HiveType) -> pa.DataType:
    """Return the Arrow type of a Hive type; timestamps are in nanoseconds, texts of any length."""
    match hive_type:
        case hive.PrimitiveType(name=name):
            return PRIMITIVES[name]
        case hive.DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case hive.CharType() | hive.VarcharType():
            return pa.string()
        case hive.ArrayType(element=element):
            return pa.list_(arrow_type(element))
        case hive.MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case hive.StructType(fields=fields):
            return pa.struct([(name, arrow_type(field)) for name, field in fields])
        case _:
            raise UnsupportedTableError(
                table="of these columns",
                detail=f"type {hive_type} cannot be read or written; split it: one column per type",
            )


def hive_name(found: pa.DataType) -> str:
    """Return the name of an Arrow type in Hive, for messages.

    Example:
        >>> hive_name(pa.list_(pa.decimal128(4, 2))), hive_name(pa.uint64())
        ('array<decimal(4,2)>', 'a type that Hive does not have (uint64)')
    """
    is_ = pa.types
    if is_.is_struct(found):
        return f"struct<{','.join(f'{f.name}:{hive_name(f.type)}' for f in found)}>"
    if is_.is_map(found):
        return f"map<{hive_name(found.key_type)},{hive_name(found.item_type)}>"
    if is_.is_list(found) or is_.is_large_list(found) or is_.is_fixed_size_list(found):
        return f"array<{hive_name(found.value_type)}>"
    if is_.is_decimal(found):
        return f"decimal({found.precision},{found.scale})"
    if is_.is_timestamp(found):
        return "timestamp" if found.tz is None else hive.TIMESTAMP_LOCAL
    return _NAMES.get(found, f"a type that Hive does not have ({found})")


def row_type(columns: Sequence[Column]) -> pa.StructType:
    """Return the Arrow type of the struct `row`, with the fields in the order of `columns`."""
    return pa.struct(
        [(column.name, arrow_type(hive.parse_type(column.type))) for column in columns]
    )


def types_from(columns: Sequence[Column], first_id: int) -> tuple[TypeNode, ...]:
    """Return the types of columns, with ORC column IDs counted depth first from `first_id`."""
    nodes: list[TypeNode] = []
    next_id = first_id
    for column in columns:
        node = _node(column.name, hive.parse_type(column.type), next_id)
        nodes.append(node)
        next_id += sum(1 for _ in node.walk())
    return tuple(nodes)


def _node(name: str, hive_type: hive.HiveType, column_id: int) -> TypeNode:
    children: list[TypeNode] = []
    next_id = column_id + 1
    for child_name, child_type in parts_of(hive_type):
        child = _node(f"{name}.{child_name}", child_type, next_id)
        children.append(child)
        next_id += sum(1 for _ in child.walk())
    return TypeNode(column_id=column_id, name=name, type=hive_type, children=tuple(children))


def parts_of(hive_type: hive.HiveType) -> tuple[tuple[str, hive.HiveType], ...]:
    """Return the types directly inside an array, map or struct, by the name of a `TypeNode`."""
    match hive_type:
        case hive.ArrayType(element=element):
            return (("[]", element),)
        case hive.MapType(key=key, value=value):
            return (("[key]", key), ("[value]", value))
        case hive.StructType(fields=fields):
            return fields
        case _:
            return ()


def types_in(hive_type: hive.HiveType) -> Iterator[hive.HiveType]:
    """Yield a type and the types inside it, at any depth; unions are not looked into."""
    yield hive_type
    for _, part in parts_of(hive_type):
        yield from types_in(part)


def holds(hive_type: hive.HiveType, kind: hive.HiveType) -> bool:
    """Return whether a type is or contains `kind`, at any depth."""
    return kind in types_in(hive_type)


def is_text(hive_type: hive.HiveType) -> bool:
    """Return True if the type is string, char or varchar."""
    return isinstance(
        hive_type, hive.CharType | hive.VarcharType
    ) or hive_type == hive.PrimitiveType("string")
