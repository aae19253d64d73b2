"""How many rows of a file make a batch of bounded size.

Rows differ: sixteen thousand of them are 100 KB or 10 GB. Takes a tail and the columns that are
read; gives a number of rows, from what the statistics say of the lengths of texts and lists. Must
not read rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.orc.footer import TypeKind
from airflow_hiveacid.storage.orc.statistics import length_sum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.storage.orc.footer import OrcTail

BATCH_BYTES: Final = 32 * 1024 * 1024
"""How large a batch shall be at most, as far as the statistics tell."""

_FEWEST_ROWS: Final = 16
# What a value without a length takes in Arrow, with its part of the validity bits.
_VALUE_BYTES: Final = 17
# How much larger data is in memory than in the file, where statistics tell nothing.
_EXPANSION: Final = 8
_OF_ANY_LENGTH: Final = frozenset(
    {TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY}
)


def fitting_rows(tail: OrcTail, column_ids: Sequence[int], most: int) -> int:
    """At most `most` rows, and so few that a batch of these columns takes about `BATCH_BYTES`.

    Long values may lie close together, so the stripe counts, too, that has the most bytes a row.
    """
    columns = list(_below(tail, column_ids))
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
    """How many rows of one stripe, or of the whole file, make a batch."""
    rows = sum(tail.stripes[number].rows for number in stripes)
    sizes = [_bytes_of(tail, column_id, stripe, rows) for column_id in columns]
    size = sum(found for found in sizes if found is not None)
    if None in sizes:
        size = max(size, _EXPANSION * sum(tail.stripes[number].data_length for number in stripes))
    return max(_FEWEST_ROWS, BATCH_BYTES * rows // max(size, 1))


def _below(tail: OrcTail, column_ids: Sequence[int]) -> Iterator[int]:
    for column_id in column_ids:
        yield column_id
        yield from _below(tail, tail.types[column_id].children)


def _bytes_of(tail: OrcTail, column_id: int, stripe: int | None, count: int) -> int | None:
    """Bytes of a column in memory, in a stripe or the file; None if the statistics do not tell.

    They do not where they miscount the rows themselves: a minor compaction of Hive 3.1 writes
    zeros.
    """
    rows, statistics = tail.statistics(0, stripe), tail.statistics(column_id, stripe)
    if rows is None or rows.values != count or statistics is None:
        return None
    fixed = int(statistics.values) * _VALUE_BYTES
    if tail.types[column_id].kind not in _OF_ANY_LENGTH:
        return fixed
    lengths = length_sum(statistics)
    return None if lengths is None else lengths + fixed
