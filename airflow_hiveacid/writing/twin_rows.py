"""Naming of the files that hold two rows with one row ID.

After the error of a writer that got two changes of one row ID: either two rows of a MERGE's source
match one row, or two rows of the table have this row ID, as after a delta was copied. Then every
change of one row would change both. The files tell the two cases apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from airflow_hiveacid.format.errors import MergeCardinalityError, TwinRowIdsError
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, has_acid_columns
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMN_IDS

_ROW: Final = re.compile(r"row (\d+) of write ID (\d+), bucket property (-?\d+)")


@contextmanager
def named_twins(target: TableView) -> Iterator[None]:
    """Write changes of rows; an error about two changes of one row tells twins of the table.

    Two rows of the table with the same row ID raise TwinRowIdsError. Two source rows that match one
    target row raise MergeCardinalityError, as before.
    """
    try:
        yield
    except MergeCardinalityError as error:
        row = _ROW.search(str(error))  # a worker passes only the message
        if row is None:
            raise
        files = _holders(target, (int(row[2]), int(row[3]), int(row[1])))
        if len(files) <= 1:
            raise
        raise TwinRowIdsError(table=target.table.ref, row=row[0], files=files) from error


def row_text(key: Key) -> str:
    """Return the text for a row ID in a message."""
    write_id, bucket, row = key
    return f"row {row} of write ID {write_id}, bucket property {bucket}"


def _holders(target: TableView, row: Key) -> tuple[str, ...]:
    """Return the URIs of files with this row, once for each, in the partition with the most."""
    holders: dict[int, list[str]] = {}
    for file in target.files:
        path = f"{target.partitions[file.partition].location.rstrip('/')}/{file.data.key}"
        holders.setdefault(file.partition, []).extend([path] * _count(file.data, row))
    most: list[str] = max(holders.values(), key=len, default=[])
    return tuple(most)


def _count(file: AcidFile, row: Key) -> int:
    tail = file.tail()
    ranges = [tail.integer_range(column_id) for column_id in IDENTITY_COLUMN_IDS]
    if has_acid_columns(tail) and any(
        bounds is not None and not bounds[0] <= value <= bounds[1]
        for bounds, value in zip(ranges, row, strict=True)
    ):
        return 0
    count = 0
    for batch in read_identity(file):
        keys = Keys.of(batch)
        is_row = (keys.original == row[0]) & (keys.bucket == row[1]) & (keys.row == row[2])
        count += int(np.count_nonzero(is_row))
    return count
