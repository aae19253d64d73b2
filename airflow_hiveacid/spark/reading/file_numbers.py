"""Numbers for the files of a table, beside every row that is read from one.

A number holds two: which of the table's partitions a file is in, and which of its files it is. A
long goes through joins and shuffles for next to nothing, where paths and partition values would
travel as text with every row; what a number stands for is looked up where it is asked for.

Example:
    >>> number = file_number(3, 7)
    >>> number >> FILE_BITS, number
    (3, 805306375)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from airflow_hiveacid.format.bucket_codec import (
    BUCKET_SHIFT,
    MAX_BUCKET_ID,
    VERSION_SHIFT,
    BucketCodec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

NUMBER: Final = "__number"
"""The column of a frame that holds it."""

FILE_BITS: Final = 28
_PARTITION_BITS: Final = 24  # together they fit into the milliseconds that Spark has of a file


def file_number(partition: int, file: int) -> int:
    """The number of a file.

    Args:
        partition: place of the partition among those of the table that are read.
        file: place of the file among all of them.

    Raises:
        OverflowError: a table cannot have so many.
    """
    if file >> FILE_BITS or partition >> _PARTITION_BITS:
        raise OverflowError(f"partition {partition}, file {file}")
    return partition << FILE_BITS | file


def partition_of(number: Column) -> Column:
    """The place of the partition that a number names."""
    return F.shiftright(number, FILE_BITS).cast("int")


def partition_at(number: int) -> int:
    """The same of a number that is known."""
    return number >> FILE_BITS


def bucket_of(bucket_property: Column) -> Column:
    """The bucket that a row's bucket property names, as `format.bucket_codec.decode` finds it."""
    version = F.shiftright(bucket_property, VERSION_SHIFT)
    bucket = F.shiftright(bucket_property, BUCKET_SHIFT).bitwiseAND(F.lit(MAX_BUCKET_ID))
    return F.when(version == F.lit(int(BucketCodec.V1)), bucket).otherwise(bucket_property)


def looked_up(values: Sequence[str | None], data_type: DataType, place: Column) -> Column:
    """The value at a place, of values that the driver knows, cast from text.

    The list becomes one literal. Nothing is joined, and where only files that have certain values
    are wanted Spark asks this of each file before it opens any.

    Args:
        values: by place.
        data_type: what the texts are cast to.
        place: 0-based.
    """
    if len(set(values)) == 1:
        return F.lit(values[0]).cast(data_type)
    known = F.from_json(F.lit(json.dumps(values)), "array<string>")
    found = known if isinstance(data_type, StringType) else known.cast(f"array<{_sql(data_type)}>")
    return found[place]


def _sql(data_type: DataType) -> str:
    return data_type.simpleString()
