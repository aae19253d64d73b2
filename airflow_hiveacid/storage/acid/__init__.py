"""ACID files: rows with identities, and insert and delete events.

This module has the six root columns of an ACID file: names, types, ORC column IDs, row identity.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> acid_schema([Column(name="id", type="bigint")]).field("row").type
    StructType(struct<id: int64>)
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.ids import BucketProperty, RowId, WriteId
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.orc.footer import TypeKind
from airflow_hiveacid.storage.values.column_types import (
    TypeNode,
    arrow_type,
    hive_name,
    row_type,
    types_from,
)
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE

OPERATION: Final = "operation"
ORIGINAL_WRITE_ID: Final = "originalTransaction"
BUCKET_PROPERTY: Final = "bucket"
ROW_ID: Final = "rowId"
CURRENT_WRITE_ID: Final = "currentTransaction"
ROW: Final = "row"

IDENTITY_COLUMNS: Final = (ORIGINAL_WRITE_ID, BUCKET_PROPERTY, ROW_ID)
"""Root columns that identify a row; every file is sorted by these columns."""

ROOT_NAMES: Final = (OPERATION, *IDENTITY_COLUMNS, CURRENT_WRITE_ID, ROW)
"""All root columns, in the order in which every file stores them."""

ROOT_KINDS: Final = (
    TypeKind.INT,
    TypeKind.LONG,
    TypeKind.INT,
    TypeKind.LONG,
    TypeKind.LONG,
    TypeKind.STRUCT,
)
"""The ORC kinds of the root columns."""

ROW_COLUMN_ID: Final = 6
"""ORC column ID of `row`; the root columns before it have the IDs 1 to 5, in order."""

OPERATION_COLUMN_ID: Final = 1
"""ORC column ID of `operation`."""

IDENTITY_COLUMN_IDS: Final = (2, 3, 4)
"""ORC column IDs of `IDENTITY_COLUMNS`."""


_ARROW: Final[Mapping[TypeKind, pa.DataType]] = {
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
}
_ROOT_FIELDS: Final = tuple(
    pa.field(name, _ARROW[kind])
    for name, kind in zip(ROOT_NAMES[:-1], ROOT_KINDS[:-1], strict=True)
)
IDENTITY_SCHEMA: Final = pa.schema(_ROOT_FIELDS)
"""The root columns without `row`."""


class Operation(enum.IntEnum):
    """Values of the `operation` column; since Hive 3, an update is a delete and an insert event."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


class RecordIdentifier(NamedTuple):
    """The identity of a row. Identities sort as in ACID files (RecordIdentifier.compareTo)."""

    original_write_id: WriteId
    bucket_property: BucketProperty
    row_id: RowId


def acid_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the six root columns of every ACID file, with names and types as Hive writes them."""
    return root_schema(row_type(columns))


def root_schema(row: pa.StructType) -> pa.Schema:
    """Return the schema of the six root columns, with the given type of `row`."""
    return pa.schema([*_ROOT_FIELDS, pa.field(ROW, row)])


def type_tree(columns: Sequence[Column]) -> tuple[TypeNode, ...]:
    """Return the types of all columns with their ORC column IDs, counted depth first from 7."""
    return types_from(columns, ROW_COLUMN_ID + 1)


def check_row_type(table: object, columns: Sequence[Column], actual: pa.DataType) -> None:
    """Check that rows of an Arrow type can be written to these columns without conversion.

    Names and types must equal those of `row_type`, but timestamps may be a `PAIR_TYPE`, or have any
    unit: microseconds cover more years than nanoseconds (9999-12-31 often means "never").
    """
    names = tuple(column.name for column in columns)
    if not pa.types.is_struct(actual) or tuple(field.name for field in actual) != names:
        raise TypeMismatchError(
            table=table,
            column=ROW,
            column_type=f"struct<{','.join(names)}>",
            value_type=hive_name(actual),
        )
    for column, field in zip(columns, actual, strict=True):
        if not _fits(arrow_type(parse_type(column.type)), field.type):
            raise TypeMismatchError(
                table=table,
                column=column.name,
                column_type=column.type,
                value_type=hive_name(field.type),
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
