"""Numbers for the files of a table; each row that is read carries the number of its file.

A number combines the position of the file's partition with the position of the file. A number of 64
bits costs almost nothing in joins and shuffles. Paths and partition values would be copied as
strings with every row. The number is converted to a path or a partition only where these are
needed.

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
"""The column of a frame that holds the number."""

FILE_BITS: Final = 28
# Both positions, of the partition and of the file, fit into the modification time (ms) of Spark's
# file status.
_PARTITION_BITS: Final = 24


def file_number(partition: int, file: int) -> int:
    """Return the number of a file.

    Args:
        partition: position of the partition among the table's partitions that are read.
        file: position of the file among all files.

    Raises:
        OverflowError: a position is too large for its bits.
    """
    if file >> FILE_BITS or partition >> _PARTITION_BITS:
        raise OverflowError(f"partition {partition}, file {file}")
    return partition << FILE_BITS | file


def partition_of(number: Column) -> Column:
    """Return the partition positions from a column of file numbers."""
    return F.shiftright(number, FILE_BITS).cast("int")


def file_of(number: Column) -> Column:
    """Return the positions of the files from a column of file numbers."""
    return number.bitwiseAND(F.lit((1 << FILE_BITS) - 1)).cast("int")


def partition_at(number: int) -> int:
    """Return the partition position from a file number."""
    return number >> FILE_BITS


def bucket_of(bucket_property: Column) -> Column:
    """Return the bucket in a row's bucket property, as `format.bucket_codec.decode` does."""
    version = F.shiftright(bucket_property, VERSION_SHIFT)
    bucket = F.shiftright(bucket_property, BUCKET_SHIFT).bitwiseAND(F.lit(MAX_BUCKET_ID))
    return F.when(version == F.lit(int(BucketCodec.V1)), bucket).otherwise(bucket_property)


def looked_up(values: Sequence[str | None], data_type: DataType, position: Column) -> Column:
    """Look up each row's string by position in a list from the driver, and cast it.

    The list becomes one literal, so the query needs no join. Spark evaluates a filter on these
    values for each file before it opens the file.

    Args:
        values: the strings, by position.
        data_type: the type of the result; the strings are cast to this type.
        position: the position, 0-based.
    """
    if len(set(values)) == 1:
        return F.lit(values[0]).cast(data_type)
    texts = F.from_json(F.lit(json.dumps(values)), "array<string>")
    array = texts if isinstance(data_type, StringType) else texts.cast(f"array<{_sql(data_type)}>")
    return array[position]


def _sql(data_type: DataType) -> str:
    return data_type.simpleString()
