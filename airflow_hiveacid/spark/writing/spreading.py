"""Which bucket file a new row goes to, and how many of them a statement deserves.

Takes a frame of rows that are to be inserted; gives it with a column `_bucket`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from airflow_hiveacid.format.types import HiveType, parse_type
from airflow_hiveacid.storage.hashing.bucketing import bucket_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.table import TableInfo

_ROWS_PER_WRITER: Final = 500_000
"""New rows of a statement that one bucket file of an unbucketed table takes before a second
starts."""

_MAX_WRITERS: Final = 64


def writers_for(rows: int) -> int:
    """How many bucket files that many new rows of an unbucketed partition deserve."""
    return max(1, min(_MAX_WRITERS, -(-rows // _ROWS_PER_WRITER)))


def spread(table: TableInfo, rows: DataFrame, writers: int, seed: Column) -> DataFrame:
    """Give each row that is to be inserted its bucket.

    Bucketed tables: Hive's hash decides. Others: one of `writers` (see `writers_for`). `seed` tells
    the rows apart.

    Whoever calls this promises that a task which runs again has the same rows, and that `seed`
    depends on nothing but the row: then it sends each to the same writer, and none is lost or
    written twice when a part of the shuffle is lost after some writers are done with theirs.
    """
    if table.num_buckets:
        schema = StructType(
            [
                StructField("_bucket", IntegerType()) if f.name == "_bucket" else f
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
        return rows.mapInArrow(fill, schema)
    return rows.withColumn("_bucket", F.pmod(seed, F.lit(writers)).cast("int"))


def _fill_buckets(
    batches: Iterator[pa.RecordBatch],
    *,
    names: tuple[str, ...],
    types: tuple[HiveType, ...],
    num_buckets: int,
    version: int,
) -> Iterator[pa.RecordBatch]:
    """Hash the bucket columns of new rows."""
    for batch in batches:
        row = batch.column("row")
        hashed = bucket_ids(
            [pc.struct_field(row, name) for name in names], types, num_buckets, version
        )
        at = batch.schema.get_field_index("_bucket")
        yield batch.set_column(at, batch.schema.field(at), hashed)
