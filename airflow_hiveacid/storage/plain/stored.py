"""Read every row that a file stores, whether readers of the table see the row or not.

Input is a file of any directory: replaced, aborted, staged, or outside the table. Output is batches
of the table's columns. Deleted rows are included, since their values are still in the file. A file
that cannot be read completely raises an error; it never yields fewer rows. This module must not
depend on snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind, has_acid_columns
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.row_schema import ROW, ROW_COLUMN_ID
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.orc.view import ColumnView, read_view
from airflow_hiveacid.storage.plain.avro.rows import avro_columns
from airflow_hiveacid.storage.plain.parquet.footer import read_facts
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.orc.footer import OrcTail
    from airflow_hiveacid.storage.plain.files import PlainFile

_BEGINNINGS: Final = {
    b"ORC": FileFormat.ORC,
    b"PAR1": FileFormat.PARQUET,
    b"Obj\x01": FileFormat.AVRO,
}


def format_by_content(fs: pafs.FileSystem, path: str) -> FileFormat | None:
    """Return the format that a file's first bytes show; None if they show no known format.

    Raises:
        LocationPermissionError: reading is not permitted.
        StorageError: the file is missing, or reading failed for a different reason.
    """
    with file_errors("read", path), fs.open_input_file(path) as file:
        beginning = bytes(file.read(max(map(len, _BEGINNINGS))))
    return next((f for start, f in _BEGINNINGS.items() if beginning.startswith(start)), None)


def orc_tail(file: PlainFile) -> OrcTail:
    """Read the tail of an ORC file.

    Raises:
        StorageError: see `AcidFile.tail`.
    """
    with file_errors("read", file.path):
        return read_tail(file.fs, file.path, file.length)


def row_path(tail: OrcTail) -> tuple[str, ...]:
    """Return the path of the struct that holds the table's columns; empty for the root."""
    return (ROW,) if has_acid_columns(tail) else ()


def columns_in(file: PlainFile, tail: OrcTail | None) -> tuple[str, ...] | None:
    """Return the names of the columns that a file contains; None if a text file has no names.

    Args:
        file: the file.
        tail: its tail, if it is an ORC file.

    Raises:
        StorageError: the file is damaged, or cannot be read.
    """
    if tail is not None:
        return tail.types[tail.column_id(*row_path(tail)) or 0].field_names
    match file.format:
        case FileFormat.PARQUET:
            return tuple(read_facts(file).schema.names)
        case FileFormat.AVRO:
            return avro_columns(file)
        case _:
            return None


def stored_rows(
    file: PlainFile, columns: Sequence[Column], *, data_columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows that a file stores, in file order.

    Args:
        file: the file; an ORC file may have the ACID columns.
        columns: the table's data columns, in the table's order.
        data_columns: the names of the columns to return, in this order.
        batch_rows: the maximum number of rows in a batch.

    Returns:
        Non-empty batches. A delete event without values is no row.

    Raises:
        HiveAcidError: a row cannot be read; see `read_rows`.
    """
    if file.format is FileFormat.ORC:
        tail = orc_tail(file)
        if has_acid_columns(tail):
            if not _has_rows(file.fs, tail):
                return
            for events in read_events(
                # No write ID is too low or too high for a file of any directory.
                AcidFile(
                    store=file.store,
                    path=file.path,
                    key=file.key,
                    length=file.length,
                    kind=FileKind.DATA,
                    bucket_id=BucketId(0),
                ),
                columns,
                data_columns=data_columns,
                batch_rows=batch_rows,
                timestamps=TimestampForm.PAIR,
                matching=Matching.UNAMBIGUOUS,
                tail=tail,
            ):
                if events.num_rows:
                    yield pa.RecordBatch.from_struct_array(events.column(ROW))
            return
    yield from read_rows(
        file,
        columns,
        data_columns=data_columns,
        batch_rows=batch_rows,
        timestamps=TimestampForm.PAIR,
    )


def _has_rows(fs: pafs.FileSystem, tail: OrcTail) -> bool:
    """Return whether `row` is set in any event; in files of delete events it is not."""
    view = ColumnView(columns=(ROW_COLUMN_ID,), flatten=ROW_COLUMN_ID)
    batches = read_view(fs, tail, view)
    return any(batch.column(0).null_count < batch.num_rows for batch in batches)
