"""Compute how many rows a batch may have without exceeding a size limit.

Rows differ in size: 16,000 rows can be 100 KB or 10 GB. The number of rows per batch follows from
statistics of text and list lengths. This module must not read rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_hiveacid.storage.orc.footer import OrcTail, TypeKind
from airflow_hiveacid.storage.orc.statistics import length_sum

BATCH_BYTES: Final = 32 * 1024 * 1024
"""The target limit of a batch's size, as estimated from the statistics."""

_FEWEST_ROWS: Final = 16
# The size of the largest fixed-length value in Arrow, including its validity bit.
_VALUE_BYTES: Final = 17
# If statistics are missing, data is assumed to be this many times larger in memory than in the
# file.
_EXPANSION: Final = 8
_OF_ANY_LENGTH: Final = frozenset(
    {TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY}
)


def fitting_rows(tail: OrcTail, column_ids: Sequence[int], most: int) -> int:
    """Return the number of rows for a batch of about `BATCH_BYTES`, at most `most`.

    A few stripes may contain most of the long values. So the stripe with the most bytes per row is
    also measured.
    """
    columns = list(tail.below(column_ids))
    heaviest = max(
        (number for number, stripe in enumerate(tail.stripes) if stripe.rows),
        key=lambda number: tail.stripes[number].data_length / tail.stripes[number].rows,
        default=None,
    )
    if heaviest is None:
        return most
    return min(
        most,
        _fitting(tail, columns, None, range(len(tail.stripes))),
        _fitting(tail, columns, heaviest, [heaviest]),
    )


def _fitting(
    tail: OrcTail, columns: Sequence[int], stripe: int | None, stripes: Sequence[int]
) -> int:
    """Return the number of rows per batch, measured over one stripe or the whole file."""
    rows = sum(tail.stripes[number].rows for number in stripes)
    sizes = [_bytes_of(tail, column_id, stripe, rows) for column_id in columns]
    size = sum(column_bytes for column_bytes in sizes if column_bytes is not None)
    if None in sizes:
        size = max(size, _EXPANSION * sum(tail.stripes[number].data_length for number in stripes))
    return max(_FEWEST_ROWS, BATCH_BYTES * rows // max(size, 1))


def _bytes_of(tail: OrcTail, column_id: int, stripe: int | None, count: int) -> int | None:
    """Return a column's size in memory, for one stripe or the file; None if it is not recorded.

    Statistics with a wrong row count are ignored: Hive 3.1's minor compaction writes zeros.
    """
    rows, statistics = tail.statistics(0, stripe), tail.statistics(column_id, stripe)
    if rows is None or rows.values != count or statistics is None:
        return None
    fixed = int(statistics.values) * _VALUE_BYTES
    if tail.types[column_id].kind not in _OF_ANY_LENGTH:
        return fixed
    lengths = length_sum(statistics)
    return None if lengths is None else lengths + fixed
