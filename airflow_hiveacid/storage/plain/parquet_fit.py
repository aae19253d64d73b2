"""Check which types in a Parquet file can be read as a Hive type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.plain.parquet_footer import OLD_RULES, ParquetFacts, TimestampStorage
from airflow_hiveacid.storage.values.column_types import arrow_type, hive_name, holds, types_in

_TIMESTAMP: Final = hive.PrimitiveType("timestamp")
_WIDER: Final = {
    "smallint": (pa.int8(),),
    "int": (pa.int8(), pa.int16()),
    "bigint": (pa.int8(), pa.int16(), pa.int32()),
    "double": (pa.float32(),),
}
"""Other stored types whose values can be read unchanged, by Hive type."""

# Impala and old versions of Spark mark no texts as UTF8; Hive reads bytes (ESTRING_CONVERTER).
_TEXTS: Final = (pa.string(), pa.binary())


class FieldPositions:
    """The positions of many columns or fields by name, in any case."""

    def __init__(self, fields: Iterable[pa.Field], path: str) -> None:
        self._path = path
        self._positions: dict[str, list[int]] = {}
        for position, field in enumerate(fields):
            self._positions.setdefault(field.name.lower(), []).append(position)

    def of(self, name: str) -> int | None:
        """Return the position of a name, or None if the name is missing."""
        positions = self._positions.get(name.lower(), [])
        if len(positions) > 1:
            raise UnsupportedFileError(path=self._path, reason=f"it has several columns {name!r}")
        return positions[0] if positions else None


def why_not(facts: ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> str | None:
    """Return why a stored type cannot be read as a Hive type, as a phrase; None if it can."""
    if _fits(facts, found, wanted):
        if (
            not holds(wanted, _TIMESTAMP)
            or facts.clock is not TimestampStorage.INSTANT
            or facts.knows_zone
        ):
            return None
        return (
            "has timestamps that Hive's versions show as different times, because the file does"
            f" not state the writer's time zone, or states {OLD_RULES}=true"
        )
    return f"is stored as {hive_name(found)}, which cannot be read as {wanted}"


def is_exactly(facts: ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> bool:
    """Return whether a column is stored exactly as its Hive type, but for texts' lengths."""
    is_cut = any(isinstance(type_, hive.CharType | hive.VarcharType) for type_ in types_in(wanted))
    if is_cut and not isinstance(wanted, hive.CharType | hive.VarcharType):
        return False
    match wanted:
        case hive.StructType(fields=fields):
            return (
                pa.types.is_struct(found)
                and [f.name for f in found] == [name for name, _ in fields]
                and all(
                    is_exactly(facts, found.field(i).type, t) for i, (_, t) in enumerate(fields)
                )
            )
        case hive.ArrayType(element=element):
            return pa.types.is_list(found) and is_exactly(facts, found.value_type, element)
        case hive.MapType(key=key, value=value):
            return (
                pa.types.is_map(found)
                and is_exactly(facts, found.key_type, key)
                and is_exactly(facts, found.item_type, value)
            )
        case hive.PrimitiveType(name="timestamp"):
            # Spark cannot read timestamps that are stored as nanoseconds in 64 bits.
            is_too_fine = facts.clock is TimestampStorage.WALL and found == pa.timestamp("ns")
            # Spark would show instants of 64 bits in the session's time zone.
            is_moved = facts.clock is TimestampStorage.UTC
            return _fits(facts, found, wanted) and not is_too_fine and not is_moved
        case _:
            return bool(found == arrow_type(wanted))


def _fits(facts: ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> bool:  # noqa: PLR0911
    match wanted:
        case hive.StructType(fields=fields):
            return pa.types.is_struct(found) and _fit_all(facts, found, fields)
        case hive.ArrayType(element=element):
            return pa.types.is_list(found) and _fits(facts, found.value_type, element)
        case hive.MapType(key=key, value=value):
            return (
                pa.types.is_map(found)
                and _fits(facts, found.key_type, key)
                and _fits(facts, found.item_type, value)
            )
        case hive.DecimalType(precision=precision, scale=scale):
            is_decimal = pa.types.is_decimal(found)
            return bool(is_decimal and found.scale == scale and found.precision <= precision)
        case hive.CharType() | hive.VarcharType() | hive.PrimitiveType(name="string"):
            return found in _TEXTS
        case hive.PrimitiveType(name="timestamp"):
            return facts.clock is not TimestampStorage.MIXED and pa.types.is_timestamp(found)
        case hive.PrimitiveType(name=name) if "timestamp" not in name:
            return found == arrow_type(wanted) or found in _WIDER.get(name, ())
        case _:
            return False


def _fit_all(
    facts: ParquetFacts, found: pa.StructType, fields: Sequence[tuple[str, hive.HiveType]]
) -> bool:
    positions = FieldPositions(found, "a struct")
    return all(
        position is None or _fits(facts, found.field(position).type, type_)
        for name, type_ in fields
        for position in (positions.of(name),)
    )
