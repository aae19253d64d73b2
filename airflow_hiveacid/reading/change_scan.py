"""Scan of row changes with our own reader, on executors.

The input is pieces of work: plain values that `ChangedFiles` makes on the driver. The output is
Arrow batches with Spark's types. A row contains its file number and row ID (as in `arrow_scan`),
the wanted columns, whether it was inserted or removed, and the write ID of that change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.state.change_range import ChangeRange
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.reading.arrow_scan import BATCH_ROWS, numbered, scanned
from airflow_hiveacid.reading.pieces import work_of
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, KeyBounds, bounds_of
from airflow_hiveacid.storage.acid.read.changed_rows import (
    Changed,
    FeedManner,
    changed_in,
    deaths_of,
)
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

IS_BORN: Final = "__is_born"
"""The column that is true for an inserted row, false for a removed row."""

VERSION: Final = "__version"
"""The column with the write ID that inserted or removed the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePiece:
    """Data files of one bucket, or stripes of one file, with their delete files, as plain values.

    `numbers` are the numbers of the files; `position` is the name of the column with file number
    and row ID. If `is_whole` is False, no row of the files was inserted in the range. `size_bytes`
    is the size of the stripes.
    """

    numbers: tuple[int, ...]
    data: tuple[AcidFile, ...]
    stripes: tuple[int, ...] | None
    deletes: tuple[AcidFile, ...]
    part: ChangeRange
    ends_with: WriteId | None
    is_net: bool
    is_whole: bool
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    position: str
    size_bytes: int | None = None


def work_of_changes(piece: ChangePiece) -> int:
    """Return a piece's cost in bytes, estimated from the stripes and columns that are read."""
    part = (1 + len(piece.wanted)) / (1 + len(piece.columns))
    return round((work_of(piece) if piece.size_bytes is None else piece.size_bytes) * part)


def scan_changes(piece: ChangePiece) -> Iterator[pa.RecordBatch]:
    """Read the changes of a piece on an executor."""
    deaths = deaths_of(piece.deletes, piece.part, _near(piece))
    manner = FeedManner(part=piece.part, ends_with=piece.ends_with, is_net=piece.is_net)
    for number, file in zip(piece.numbers, piece.data, strict=True):

        def read(
            file: AcidFile, stripes: Sequence[int] | None, number: int = number
        ) -> Iterator[pa.RecordBatch]:
            for events in read_events(
                file,
                piece.columns,
                data_columns=piece.wanted,
                stripes=stripes,
                batch_rows=BATCH_ROWS,
                timestamps=TimestampForm.PAIR,
                matching=Matching.UNAMBIGUOUS,
            ):
                yield numbered(events, number)

        for batch in changed_in(file, piece.stripes, deaths, manner, read, is_whole=piece.is_whole):
            yield _batch_of(batch, piece)


def _near(piece: ChangePiece) -> list[KeyBounds] | None:
    """Return the bounds of the row IDs in a piece's stripes; None for whole files."""
    if piece.stripes is None:
        return None
    (file,) = piece.data
    bounds = bounds_of(file, file.tail())
    return [bounds[stripe] for stripe in piece.stripes]


def _batch_of(changes: Changed, piece: ChangePiece) -> pa.RecordBatch:
    batch = scanned(changes.rows, piece)
    is_born = pa.repeat(pa.scalar(changes.is_born), batch.num_rows)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, is_born, changes.write_ids],
        names=[*batch.schema.names, IS_BORN, VERSION],
    )
