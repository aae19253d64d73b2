"""Decides which partitions a rebalance rewrites, and how many files each of them gets.

Must not read files or rows.

Example:
    >>> from airflow_hiveacid.format.acid_state import AcidState
    >>> new = AcidState(location="/t")
    >>> found = RebalancedPartition.of(new, (DataFile(size_bytes=900 << 20, rows=9),), buckets=None)
    >>> found.is_due, found.new_files, found.why
    (True, 4, 'it has no base')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.ids import MAX_BUCKET_ID
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import ArrayType, MapType, StructType, UnionType, parse_type
from airflow_hiveacid.plan.statements.dml import check_changeable

FILE_BYTES: Final = 256 << 20
"""The bytes for each new file, if the user does not give the number of files."""

MOST_FILES: Final = MAX_BUCKET_ID + 1
"""The maximum number of files of a directory, because a row ID has 12 bits for the bucket."""

_UNEVENNESS: Final = 0.1
_NESTED: Final = (ArrayType, MapType, StructType, UnionType)


def check_rebalanceable(table: TableInfo, order_by: Sequence[str]) -> None:
    """Raise an error if a table cannot be rebalanced in this order.

    Raises:
        UnsupportedTableError: the table is bucketed, or not stored as ORC.
        UnknownColumnError: the table has no such column, or it is a partition column.
        ConfigurationError: values of a column have no order.
    """
    check_changeable(table, "a rebalance")
    if table.num_buckets:
        raise errors.UnsupportedTableError(
            table=table.ref,
            detail=f"cannot be rebalanced: it is CLUSTERED BY {', '.join(table.bucket_columns)}, so"
            " a hash of these columns determines the bucket of each row. Compact the table instead,"
            " or copy it to a table without CLUSTERED BY",
        )
    types = {column.name: column.type for column in table.columns}
    for name in order_by:
        if name not in types:
            raise errors.UnknownColumnError(table=table.ref, column=name, known=tuple(types))
        if isinstance(parse_type(types[name]), _NESTED):
            raise errors.ConfigurationError(
                f"cannot rebalance {table.ref} in the order of {name}: values of type"
                f" {types[name]} have no order. Choose columns of simple types for order_by"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file with rows. `rows` includes rows that a delete event has deleted."""

    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancedPartition:
    """The effect of a rebalance on one partition.

    `is_due` is true if the partition is rewritten, and `why` is the reason for this decision.
    `files` and `new_files` are the numbers of files with rows before and after; `size_bytes` is the
    size before. `rows` is None if the rows were not counted.
    """

    is_due: bool
    why: str
    files: int
    new_files: int
    size_bytes: int
    rows: int | None = None
    partition: str = ""

    @classmethod
    def of(
        cls,
        state: AcidState,
        files: Sequence[DataFile],
        *,
        buckets: int | None,
        order_by: Sequence[str] = (),
        partition: str = "",
    ) -> Self:
        """Decide whether to rewrite a partition with these visible files, without delete files.

        It stays as it is if it is a base with the right number of files, over which its rows are
        spread evenly: at most 10 % or one row from the mean. With `order_by`, it is always
        rewritten, because files do not show their order. Without `buckets`, a file has 256 MiB.
        """
        filled = [file for file in files if file.rows]
        size = sum(file.size_bytes for file in filled)
        rows = sum(file.rows for file in filled)
        file_count = buckets or min(MOST_FILES, max(1, -(-size // FILE_BYTES)))
        new = min(file_count, rows)
        why = _why_due(state, [file.rows for file in filled], new, order_by)
        return cls(
            is_due=rows > 0 and why is not None,
            why="it has no rows" if not rows else why or "its rows are spread evenly",
            files=len(filled),
            new_files=new,
            size_bytes=size,
            partition=partition,
        )


def _why_due(
    state: AcidState, rows: Sequence[int], files: int, order_by: Sequence[str]
) -> str | None:
    if state.base is None:
        return "it has no base"
    if state.delta_count:
        return f"the number of deltas is {state.delta_count}"
    if len(rows) != files:
        return f"the number of files is {len(rows)} instead of {files}"
    mean = sum(rows) / max(1, len(rows))
    if any(abs(count - mean) > max(1.0, _UNEVENNESS * mean) for count in rows):
        return f"its files have from {min(rows):,} to {max(rows):,} rows"
    return f"an order by {', '.join(order_by)} is requested" if order_by else None
