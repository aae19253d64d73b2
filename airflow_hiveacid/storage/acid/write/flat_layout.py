"""The layout of flat ORC files: they contain a table's columns, and are copied into bucket files.

Some columns have another type that represents the same values exactly (`flat_kind`), such as a date
its day number. A key column may follow, with one string that identifies the rows' target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.row_schema import ROW_COLUMN_ID, type_tree
from airflow_hiveacid.storage.orc.compression import WRITABLE
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, OrcTail, OrcType, TypeKind
from airflow_hiveacid.storage.values.column_types import TypeNode

UTC_ZONES: Final = frozenset(
    {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Etc/Universal"}
)
"""Names of time zones that equal UTC; files with these zones store timestamps unchanged."""

_TIMES: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
SHIFT: Final = ROW_COLUMN_ID
"""The number to add to the column IDs of a flat file when its columns become fields of `row`."""

_KINDS: Final[Mapping[type, TypeKind]] = {
    hive.DecimalType: TypeKind.DECIMAL,
    hive.ArrayType: TypeKind.LIST,
    hive.StructType: TypeKind.STRUCT,
}
_LEAVES: Final = (hive.PrimitiveType, hive.CharType, hive.VarcharType, hive.DecimalType)
_NESTED: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"}
)


def can_be_flat(columns: Sequence[Column]) -> bool:
    """Return whether flat files can store every possible value of these columns.

    Values inside lists and structs keep their type, and their text lengths are not checked. Maps
    cannot be stored.
    """
    types = [hive.parse_type(column.type) for column in columns]
    return all(isinstance(type_, _LEAVES) or _fits_below(type_) for type_ in types)


def _fits_below(hive_type: hive.HiveType) -> bool:
    match hive_type:
        case hive.PrimitiveType(name=name):
            return name in _NESTED
        case hive.DecimalType():
            return True
        case hive.ArrayType(element=element):
            return _fits_below(element)
        case hive.StructType(fields=fields):
            return bool(fields) and all(_fits_below(type_) for _, type_ in fields)
        case _:
            return False


def has_times(columns: Sequence[Column]) -> bool:
    """Return whether flat files of these columns contain timestamps, which need a time zone."""
    return any(flat_kind(hive.parse_type(column.type)) in _TIMES for column in columns)


def flat_kind(hive_type: hive.HiveType) -> TypeKind:
    """Return the ORC type of a column in a flat file."""
    match hive_type:
        case hive.CharType() | hive.VarcharType():
            return TypeKind.STRING
        case hive.PrimitiveType(name="date"):
            return TypeKind.INT
        case hive.PrimitiveType(name=name):
            return TypeKind.TIMESTAMP if name == hive.TIMESTAMP_LOCAL else PRIMITIVE_KINDS[name]
        case _:
            return _KINDS[type(hive_type)]


def check_flat(
    tail: OrcTail, columns: Sequence[Column], *, row_index_stride: int, has_key: bool
) -> None:
    """Check that a flat file with these columns has the expected layout."""
    nodes = type_tree(columns)
    expected = [_described(node) for top in nodes for node in top.walk()]
    types = [(t.kind, t.children, *_decimal(t)) for t in tail.types[1:]]
    if has_key:
        expected.append((TypeKind.STRING, (), 0, 0))
    if types != expected:
        raise UnsupportedFileError(path=tail.path, reason=f"its types are {types}, not {expected}")
    if tail.row_index_stride != row_index_stride:
        raise UnsupportedFileError(
            path=tail.path, reason=f"its row index has a stride of {tail.row_index_stride}"
        )
    if len(tail.metadata.stripes) != len(tail.stripes) or any(
        len(stripe.columns) != len(tail.types) for stripe in tail.metadata.stripes
    ):
        raise UnsupportedFileError(path=tail.path, reason="it has no statistics of its stripes")
    if tail.compression not in WRITABLE:
        raise UnsupportedFileError(path=tail.path, reason="its compression cannot be written")


def _described(node: TypeNode) -> tuple[int, tuple[int, ...], int, int]:
    children = tuple(child.column_id - SHIFT for child in node.children)
    match node.type:
        case hive.DecimalType(precision=precision, scale=scale):
            return TypeKind.DECIMAL, children, precision, scale
        case _:
            return flat_kind(node.type), children, 0, 0


def _decimal(type_: OrcType) -> tuple[int, int]:
    return (type_.precision, type_.scale) if type_.kind == TypeKind.DECIMAL else (0, 0)


def key_of(tail: OrcTail) -> str:
    """Return the value of the key column; every row must have it according to the statistics."""
    column = tail.statistics(len(tail.types) - 1)
    if column is not None and column.values == tail.rows and column.strings.HasField("minimum"):
        strings = column.strings
        if strings.HasField("maximum") and strings.minimum == strings.maximum:
            return bytes(strings.minimum).decode(errors="surrogateescape")
    raise UnsupportedFileError(path=tail.path, reason="its key column is not known to be constant")
