"""Hashes of rows' values: one hash for each row, and an order-independent hash for a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StructType

from airflow_hiveacid.plan.statements.dml import quoted

_SUM: Final = "decimal(38,0)"
_BOOLEAN: Final = BooleanType()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigest:
    """The digest of a frame: its number of rows, and the sum of the rows' hashes."""

    rows: int
    hashes: int


def hash_of(values: Sequence[tuple[DataType, Column]]) -> Column:
    """Return a 64-bit hash of a row's values."""
    # Spark does not hash maps, because equal maps may have their entries in different orders.
    return F.xxhash64(*[v.cast("string") if _holds_map(t) else v for t, v in values])


def row_digest(rows: DataFrame) -> RowDigest:
    """Return the digest of a frame's rows."""
    fields = [(field.dataType, F.col(quoted(field.name))) for field in rows.schema.fields]
    # Spark's hash skips NULLs, so (1, NULL) and (NULL, 1) have the same hash.
    lacks = [(_BOOLEAN, F.col(quoted(field.name)).isNull()) for field in rows.schema.fields]
    hashes = F.sum(hash_of([*fields, *lacks]).cast(_SUM))
    count, total = rows.select(F.count(F.lit(1)), hashes).collect()[0]
    return RowDigest(rows=count, hashes=int(total or 0))


def _holds_map(data_type: DataType) -> bool:
    match data_type:
        case MapType():
            return True
        case ArrayType():
            return _holds_map(data_type.elementType)
        case StructType():
            return any(_holds_map(f.dataType) for f in data_type.fields)
        case _:
            return False
