"""How table columns, Arrow types and the column IDs of an ORC file with ACID columns go together.

Takes columns with Hive's type texts; gives Arrow types and schemas, the ORC column ID of every
nested type, and the identity of a row. Must not know files.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> row_type([Column(name="id", type="bigint"), Column(name="code", type="char(3)")])
    StructType(struct<id: int64, code: string>)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    ArrayType,
    CharType,
    DecimalType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    VarcharType,
    parse_type,
)
from airflow_hiveacid.storage.orc_timestamps import PAIR_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.ids import BucketProperty, RowId, WriteId
    from airflow_hiveacid.format.table import Column

OPERATION: Final = "operation"
ORIGINAL_WRITE_ID: Final = "originalTransaction"
BUCKET_PROPERTY: Final = "bucket"
ROW_ID: Final = "rowId"
CURRENT_WRITE_ID: Final = "currentTransaction"
ROW: Final = "row"

IDENTITY_COLUMNS: Final = (ORIGINAL_WRITE_ID, BUCKET_PROPERTY, ROW_ID)
"""Root columns that identify a row; also the sort order of every file."""

ROW_COLUMN_ID: Final = 6
"""ORC column ID of `row`; those of the root columns before it are 1..5, in order."""

IDENTITY_COLUMN_IDS: Final = (2, 3, 4)
"""ORC column IDs of `IDENTITY_COLUMNS`."""


class RecordIdentifier(NamedTuple):
    """The identity of a row; ordered as in every ACID file (RecordIdentifier.compareTo of Hive)."""

    original_write_id: WriteId
    bucket_property: BucketProperty
    row_id: RowId


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNode:
    """One type in an ORC file: its column ID, its dotted name for messages, and the types below it.

    A list has the child `[]`, a map the children `[key]` and `[value]`, in ORC's order.
    """

    column_id: int
    name: str
    type: HiveType
    children: tuple[TypeNode, ...]

    def walk(self) -> Iterator[TypeNode]:
        """This node, then everything below it, in order of column ID."""
        yield self
        for child in self.children:
            yield from child.walk()


_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
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
    TIMESTAMP_LOCAL: pa.timestamp("ns", tz="UTC"),
}


def arrow_type(hive_type: HiveType) -> pa.DataType:
    """The Arrow type of a Hive type; char and varchar are strings, whose lengths Arrow cannot say.

    Timestamps have nanoseconds and therefore reach from 1677 to 2262; see `check_row_type`.

    Raises:
        UnsupportedTableError: it is or holds a union.
    """
    match hive_type:
        case PrimitiveType(name=name):
            return _PRIMITIVES[name]
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case CharType() | VarcharType():
            return pa.string()
        case ArrayType(element=element):
            return pa.list_(arrow_type(element))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields=fields):
            return pa.struct([(name, arrow_type(field)) for name, field in fields])
        case _:
            raise UnsupportedTableError(
                table="of these columns",
                detail=f"type {hive_type} cannot be read or written; split it, a column a type",
            )


def row_type(columns: Sequence[Column]) -> pa.StructType:
    """The Arrow type of the `row` column, fields in table order; partition columns are not in it.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column is or holds a union.
    """
    return pa.struct([(column.name, arrow_type(parse_type(column.type))) for column in columns])


def acid_schema(columns: Sequence[Column]) -> pa.Schema:
    """The six root columns of every ACID file, names and types as Hive writes them.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column is or holds a union.
    """
    return root_schema(row_type(columns))


def root_schema(row: pa.StructType) -> pa.Schema:
    """The six root columns around this row type."""
    return pa.schema(
        [
            (OPERATION, pa.int32()),
            (ORIGINAL_WRITE_ID, pa.int64()),
            (BUCKET_PROPERTY, pa.int32()),
            (ROW_ID, pa.int64()),
            (CURRENT_WRITE_ID, pa.int64()),
            (ROW, row),
        ]
    )


def type_tree(columns: Sequence[Column]) -> tuple[TypeNode, ...]:
    """The types of all columns with their ORC column IDs, which count depth first from 7.

    Raises:
        InvalidNameError: a type text is no Hive type.
    """
    nodes: list[TypeNode] = []
    next_id = ROW_COLUMN_ID + 1
    for column in columns:
        node = _node(column.name, parse_type(column.type), next_id)
        nodes.append(node)
        next_id += sum(1 for _ in node.walk())
    return tuple(nodes)


def _node(name: str, hive_type: HiveType, column_id: int) -> TypeNode:
    children: list[TypeNode] = []
    next_id = column_id + 1
    for child_name, child_type in _child_types(hive_type):
        child = _node(f"{name}.{child_name}", child_type, next_id)
        children.append(child)
        next_id += sum(1 for _ in child.walk())
    return TypeNode(column_id=column_id, name=name, type=hive_type, children=tuple(children))


def _child_types(hive_type: HiveType) -> tuple[tuple[str, HiveType], ...]:
    match hive_type:
        case ArrayType(element=element):
            return (("[]", element),)
        case MapType(key=key, value=value):
            return (("[key]", key), ("[value]", value))
        case StructType(fields=fields):
            return fields
        case _:
            return ()


def is_text(hive_type: HiveType) -> bool:
    """Whether values of this type are text: string, char, varchar."""
    return isinstance(hive_type, CharType | VarcharType) or hive_type == PrimitiveType("string")


def check_row_type(table: object, columns: Sequence[Column], actual: pa.DataType) -> None:
    """See that rows of this Arrow type can go into these columns without a conversion.

    Names and types must be those of `row_type`, with two liberties: nullability flags do not
    matter, and a timestamp may have any unit or be a `PAIR_TYPE`. Microseconds reach further than
    nanoseconds (9999-12-31 is a usual "never"), and ORC itself holds seconds and nanoseconds apart.

    Raises:
        TypeMismatchError: they cannot.
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column is or holds a union.
    """
    names = tuple(column.name for column in columns)
    if not pa.types.is_struct(actual) or tuple(field.name for field in actual) != names:
        raise TypeMismatchError(
            table=table,
            column=ROW,
            column_type=f"struct<{','.join(names)}>",
            value_type=str(actual),
        )
    for column, field in zip(columns, actual, strict=True):
        if not _fits(arrow_type(parse_type(column.type)), field.type):
            raise TypeMismatchError(
                table=table,
                column=column.name,
                column_type=column.type,
                value_type=str(field.type),
            )


def _fits(wanted: pa.DataType, actual: pa.DataType) -> bool:
    if pa.types.is_timestamp(wanted):
        is_timestamp = pa.types.is_timestamp(actual) and bool(wanted.tz) == bool(actual.tz)
        return is_timestamp or bool(actual.equals(PAIR_TYPE))
    if wanted.id != actual.id or wanted.num_fields != actual.num_fields:
        return False
    if wanted.num_fields == 0:
        return bool(wanted == actual)
    if pa.types.is_struct(wanted) and [f.name for f in wanted] != [f.name for f in actual]:
        return False
    return all(_fits(w, a) for w, a in zip(_children(wanted), _children(actual), strict=True))


def _children(nested: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(nested):
        return [nested.key_type, nested.item_type]
    return [nested.field(index).type for index in range(nested.num_fields)]
