"""Helper columns of rows: the number of a row's file, and names that no column of users has.

A file's number combines the position of its partition with its own position. A number of 64 bits
costs almost nothing in joins and shuffles. Paths and partition values would be copied as strings
with every row. The number is converted to a path or a partition only where these are needed.

Example:
    >>> number = file_number(3, 7)
    >>> number, partition_at(number)
    (805306375, 3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NUMBER: Final = "__number"
"""The column of a row that holds the number."""

FILE_BITS: Final = 28
# Both positions, of the partition and of the file, fit into the modification time (ms) of Spark's
# file status.
_PARTITION_BITS: Final = 24


def file_number(partition: int, file: int) -> int:
    """Return the number of a file.

    `partition` and `file` are positions among the partitions and files that are read.

    Raises:
        OverflowError: a position is too large for its bits.
    """
    if file >> FILE_BITS or partition >> _PARTITION_BITS:
        raise OverflowError(f"partition {partition}, file {file}")
    return partition << FILE_BITS | file


def partition_at(number: int) -> int:
    """Return the partition position from a file number."""
    return number >> FILE_BITS


def free_name(name: str, *taken: Iterable[str]) -> str:
    """Return a name for a helper column that differs from all these names, ignoring case.

    Example:
        >>> free_name("clause", ["id", "__CLAUSE"], ["_clause"])
        '___clause'
    """
    names = {column.lower() for columns in taken for column in columns}
    candidate = f"__{name}"
    while candidate in names:
        candidate = f"_{candidate}"
    return candidate
