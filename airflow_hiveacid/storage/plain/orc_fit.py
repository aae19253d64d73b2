"""Which ORC files without ACID columns every reader takes for the same rows of a table.

Takes what a tail says of types; says whether a column holds values of a Hive type, each as it is.
Must not know values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.types import (
    ArrayType,
    CharType,
    DecimalType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    VarcharType,
)
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, TypeKind
from airflow_hiveacid.storage.values.calendars import SWITCHOVER_DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType
    from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

_POSITIONAL: Final = re.compile(r"_col[0-9]+\Z")
_JAVA: Final = 0
_WIDER: Final = {
    "smallint": (TypeKind.BYTE,),
    "int": (TypeKind.BYTE, TypeKind.SHORT),
    "bigint": (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT),
    "double": (TypeKind.FLOAT,),
}
"""What else than its own kind is read as a type, each value as it is."""


def is_positional(root: OrcType) -> bool:
    """Whether columns have the names of no table, so that all readers go by their places."""
    return bool(root.field_names) and all(map(_POSITIONAL.match, root.field_names))


def is_held(types: Sequence[OrcType], column_id: int, wanted: HiveType) -> bool:  # noqa: PLR0911
    """Whether a column, at every depth, holds values that are of a type as they are."""
    found = types[column_id]
    match wanted:
        case PrimitiveType(name=name):
            is_own = found.kind == PRIMITIVE_KINDS.get(name)
            return is_own or found.kind in _WIDER.get(name, ())
        case DecimalType(precision=precision, scale=scale):
            is_decimal = found.kind == TypeKind.DECIMAL and found.scale == scale
            return is_decimal and found.precision <= precision
        case CharType(length=length):
            return (found.kind, found.maximum_length) == (TypeKind.CHAR, length)
        case VarcharType(length=length):
            return found.kind == TypeKind.VARCHAR and found.maximum_length <= length
        case ArrayType(element=element):
            return _are_held(types, found, TypeKind.LIST, (element,))
        case MapType(key=key, value=value):
            return _are_held(types, found, TypeKind.MAP, (key, value))
        case StructType(fields=fields):
            has_names = found.field_names == tuple(name for name, _ in fields)
            return has_names and _are_held(
                types, found, TypeKind.STRUCT, [field for _, field in fields]
            )
        case _:
            return False


def _are_held(
    types: Sequence[OrcType], found: OrcType, kind: TypeKind, below: Sequence[HiveType]
) -> bool:
    if found.kind != kind or len(found.children) != len(below):
        return False
    return all(
        is_held(types, child, wanted) for child, wanted in zip(found.children, below, strict=True)
    )


def are_old_values_known(tail: OrcTail) -> bool:
    """Whether no date or timestamp is so old that readers would show different ones.

    Java's writer says in which calendar it counts. Others do not, and Arrow writes negative
    nanoseconds before 1970, at which Hive fails.
    """
    return tail.footer.writer == _JAVA or all(
        _is_young(tail, column_id, type_.kind) for column_id, type_ in enumerate(tail.types)
    )


def _is_young(tail: OrcTail, column_id: int, kind: int) -> bool:
    if kind not in (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return True
    statistics = tail.statistics(column_id) if tail.row_index_stride else None
    if statistics is None or not statistics.HasField("values"):
        return not tail.rows
    return not statistics.values or _is_least_young(statistics, kind)


def _is_least_young(statistics: pb.ColumnStatistics, kind: int) -> bool:
    if kind == TypeKind.DATE:
        dates = statistics.dates
        return dates.HasField("minimum") and dates.minimum >= SWITCHOVER_DAY
    times = statistics.timestamps
    return times.HasField("minimum_utc") and times.minimum_utc >= 0
