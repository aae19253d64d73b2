"""The approximate size of rows in bytes, as an expression over the rows.

The input is column types by column name; the output is a column expression. The size only decides
what to broadcast or collect, so an estimate is sufficient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, StringType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_ROW_BYTES: Final = 16
_VALUE_BYTES: Final = 8


def least_bytes(columns: int) -> int:
    """Return the minimum size in bytes of a row with this number of columns."""
    return _ROW_BYTES + _VALUE_BYTES * columns


def bytes_of(columns: Mapping[str, DataType]) -> Column:
    """Return the approximate number of bytes of a row with these columns.

    The expression is flat, because a sum of hundreds of terms would be nested too deeply for Spark.
    """
    fixed_bytes = F.lit(least_bytes(len(columns))).cast("long")
    texts = [
        F.col(name).cast("string")
        for name, data_type in columns.items()
        if isinstance(data_type, StringType | BinaryType) or not isinstance(data_type, AtomicType)
    ]
    return fixed_bytes + F.octet_length(F.concat_ws("", *texts)) if texts else fixed_bytes
