"""How many rows of a file make a batch of bounded size.

Rows differ: sixteen thousand of them are 100 KB or 10 GB. Takes a tail and the columns that are
read; gives a number of rows, from what the statistics say of the lengths of texts and lists. Must
not read rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.storage.orc_footer import OrcTail

BATCH_BYTES: Final = 32 * 1024 * 1024
"""How large a batch shall be at most, as far as the statistics tell."""

_FEWEST_ROWS: Final = 16
# What a value without a length takes in Arrow, with its part of the validity bits.
_VALUE_BYTES: Final = 17
# How much larger data is in memory than in the file, where statistics tell nothing.
_EXPANSION: Final = 8


def fitting_rows(tail: OrcTail, column_ids: Sequence[int], most: int) -> int:
    """At most `most` rows, and so few that a batch of these columns takes about `BATCH_BYTES`."""
    if not tail.rows:
        return most
    columns = list(_below(tail, column_ids))
    size = sum(_bytes_of(tail, column_id) for column_id in columns)
    if any(tail.statistics(column_id) is None for column_id in columns):
        size = max(size, _EXPANSION * sum(stripe.data_length for stripe in tail.stripes))
    return min(most, max(_FEWEST_ROWS, BATCH_BYTES * tail.rows // max(size, 1)))


def _below(tail: OrcTail, column_ids: Sequence[int]) -> Iterator[int]:
    for column_id in column_ids:
        yield column_id
        yield from _below(tail, tail.footer.types[column_id].children)


def _bytes_of(tail: OrcTail, column_id: int) -> int:
    statistics = tail.statistics(column_id)
    if statistics is None:
        return 0
    lengths = max(statistics.strings.sum, statistics.binaries.sum, 0)
    return lengths + statistics.values * _VALUE_BYTES
