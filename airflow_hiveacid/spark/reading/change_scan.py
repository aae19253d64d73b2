"""Changes of rows through our own reader; runs on executors.

Takes pieces of work: plain values, made by `changed_files` on the driver. Gives Arrow batches in
Spark's terms: the place of each row, as `arrow_scan` has it, the wanted columns, what became of the
row and by which write ID.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.spark.pieces import work_of
from airflow_hiveacid.spark.reading.arrow_scan import BATCH_ROWS, numbered, scanned
from airflow_hiveacid.storage.acid.read.changes import Manner, changed_in, deaths_of
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.read.stripe_bounds import bounds_of
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.changes import ChangeRange
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.changes import Changed
    from airflow_hiveacid.storage.acid.read.stripe_bounds import Bounds

IS_BORN: Final = "__is_born"
"""Whether a row has come; else it has gone."""

VERSION: Final = "__version"
"""The write ID by which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePiece:
    """Some data files of one bucket, or some stripes of one, with delete files; plain values.

    `numbers` are those of the files, `place` what the column of places is called. If not `is_whole`
    the files hold no row that was born in the range. `size_bytes` are those of its stripes.
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
    place: str
    size_bytes: int | None = None


def work_of_changes(piece: ChangePiece) -> int:
    """What a piece costs, in bytes that are read: of a file often some stripes and columns only."""
    part = (1 + len(piece.wanted)) / (1 + len(piece.columns))
    return round((work_of(piece) if piece.size_bytes is None else piece.size_bytes) * part)


def scan_changes(piece: ChangePiece) -> Iterator[pa.RecordBatch]:
    """Read the changes of a piece on an executor."""
    deaths = deaths_of(piece.deletes, piece.part, _near(piece))
    manner = Manner(part=piece.part, ends_with=piece.ends_with, is_net=piece.is_net)
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

        for found in changed_in(file, piece.stripes, deaths, manner, read, is_whole=piece.is_whole):
            yield _told(found, piece)


def _near(piece: ChangePiece) -> list[Bounds] | None:
    """The identities of the rows of a piece, where it is a part of a file."""
    if piece.stripes is None:
        return None
    (file,) = piece.data
    bounds = bounds_of(file, file.tail())
    return [bounds[stripe] for stripe in piece.stripes]


def _told(found: Changed, piece: ChangePiece) -> pa.RecordBatch:
    batch = scanned(found.rows, piece)
    is_born = pa.repeat(pa.scalar(found.is_born), batch.num_rows)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, is_born, found.write_ids],
        names=[*batch.schema.names, IS_BORN, VERSION],
    )
