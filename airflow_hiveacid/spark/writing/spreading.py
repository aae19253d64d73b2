"""Hashes of rows, and the choice of the bucket file for each new row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, functions as F, types as T

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import HiveType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.spark.engine.tasks import task_of
from airflow_hiveacid.storage.hashing import bucket_ids

_SUM: Final = "decimal(38,0)"
_BOOLEAN: Final = T.BooleanType()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigest:
    """The digest of a frame: its number of rows, and the sum of the rows' hashes."""

    rows: int
    hashes: int


def hash_of(values: Sequence[tuple[T.DataType, Column]]) -> Column:
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


def _holds_map(data_type: T.DataType) -> bool:
    match data_type:
        case T.MapType():
            return True
        case T.ArrayType():
            return _holds_map(data_type.elementType)
        case T.StructType():
            return any(_holds_map(f.dataType) for f in data_type.fields)
        case _:
            return False


_ROWS_PER_WRITER: Final = 500_000
"""The number of new rows per bucket file in an unbucketed table."""

_MAX_WRITERS: Final = 64


def writers_for(rows: int) -> int:
    """Return the number of bucket files for a number of new rows in an unbucketed partition."""
    return max(1, min(_MAX_WRITERS, -(-rows // _ROWS_PER_WRITER)))


def spread(table: TableInfo, rows: DataFrame, writers: int, seed: Column) -> DataFrame:
    """Assign a bucket to each new row.

    In a bucketed table Hive's hash selects the bucket. In other tables `seed` selects one of
    `writers` buckets (see `writers_for`).

    The caller ensures that a task that runs again gets the same rows, and that `seed` depends only
    on the row. So no row is lost or written twice, even if part of the shuffle is lost.
    """
    if table.num_buckets:
        schema = T.StructType(
            [
                T.StructField("_bucket", T.IntegerType()) if f.name == "_bucket" else f
                for f in rows.schema
            ]
        )
        fill = partial(
            _fill_buckets,
            names=table.bucket_columns,
            types=tuple(
                parse_type(c.type)
                for name in table.bucket_columns
                for c in table.columns
                if c.name == name
            ),
            num_buckets=table.num_buckets,
            version=table.bucketing_version,
        )
        return rows.mapInArrow(task_of(fill), schema)
    return rows.withColumn("_bucket", F.pmod(seed, F.lit(writers)).cast("int"))


def _fill_buckets(
    batches: Iterator[pa.RecordBatch],
    *,
    names: tuple[str, ...],
    types: tuple[HiveType, ...],
    num_buckets: int,
    version: int,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        row = batch.column("row")
        hashed = bucket_ids(
            [pc.struct_field(row, name) for name in names], types, num_buckets, version
        )
        index = batch.schema.get_field_index("_bucket")
        yield batch.set_column(index, batch.schema.field(index), hashed)
