"""Choice of the bucket file for each new row, and of the number of bucket files.

The input is a frame of new rows; the output adds the column `_bucket`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import HiveType, parse_type
from airflow_hiveacid.spark.engine.tasks import task_of
from airflow_hiveacid.storage.hashing import bucket_ids

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

    The caller must ensure two things: a task that runs again gets the same rows, and `seed` depends
    only on the row. Then a repeated task sends each row to the same writer. So no row is lost or
    written twice, even if part of the shuffle is lost after some writers have finished.
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
    """Fill `_bucket` with Hive's hash of the bucket columns."""
    for batch in batches:
        row = batch.column("row")
        hashed = bucket_ids(
            [pc.struct_field(row, name) for name in names], types, num_buckets, version
        )
        index = batch.schema.get_field_index("_bucket")
        yield batch.set_column(index, batch.schema.field(index), hashed)
