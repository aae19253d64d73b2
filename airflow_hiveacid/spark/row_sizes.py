"""About how many bytes rows take, as an expression over them.

Takes the types of columns by the names that an expression calls them by; gives a column. For
deciding what is small enough to be sent somewhere as a whole; nobody needs it exactly.
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
    """What a row of so many columns takes at least."""
    return _ROW_BYTES + _VALUE_BYTES * columns


def bytes_of(columns: Mapping[str, DataType]) -> Column:
    """About how many bytes a row of these columns takes.

    One flat expression: a sum of hundreds would be as deep as it is long, and Spark gives up on it.
    """
    least = F.lit(least_bytes(len(columns))).cast("long")
    texts = [
        F.col(name).cast("string")
        for name, data_type in columns.items()
        if isinstance(data_type, StringType | BinaryType) or not isinstance(data_type, AtomicType)
    ]
    return least + F.octet_length(F.concat_ws("", *texts)) if texts else least
