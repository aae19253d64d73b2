"""Spark columns for the file numbers of `reading.helper_columns`, and for values by position."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from airflow_hiveacid.format.bucket_codec import (
    BUCKET_SHIFT,
    MAX_BUCKET_ID,
    VERSION_SHIFT,
    BucketCodec,
)
from airflow_hiveacid.reading.helper_columns import FILE_BITS


def partition_of(number: Column) -> Column:
    """Return the partition positions from a column of file numbers."""
    return F.shiftright(number, FILE_BITS).cast("int")


def file_of(number: Column) -> Column:
    """Return the positions of the files from a column of file numbers."""
    return number.bitwiseAND(F.lit((1 << FILE_BITS) - 1)).cast("int")


def bucket_of(bucket_property: Column) -> Column:
    """Return the bucket in a row's bucket property, as `format.bucket_codec.decode` does."""
    version = F.shiftright(bucket_property, VERSION_SHIFT)
    bucket = F.shiftright(bucket_property, BUCKET_SHIFT).bitwiseAND(F.lit(MAX_BUCKET_ID))
    return F.when(version == F.lit(int(BucketCodec.V1)), bucket).otherwise(bucket_property)


def looked_up(values: Sequence[str | None], data_type: DataType, position: Column) -> Column:
    """Look up each row's string by position in a list from the driver, and cast it.

    The list becomes one literal, so the query needs no join. Spark evaluates a filter on these
    values for each file before it opens the file. Positions are 0-based.
    """
    if len(set(values)) == 1:
        return F.lit(values[0]).cast(data_type)
    texts = F.from_json(F.lit(json.dumps(values)), "array<string>")
    array = (
        texts
        if isinstance(data_type, StringType)
        else texts.cast(f"array<{data_type.simpleString()}>")
    )
    return array[position]
