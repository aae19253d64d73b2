"""Rows of one file of an insert-only table, as batches of the table's columns.

Takes a `PlainFile` and the table's columns; gives batches in file order, only with the columns
asked for, in the table's types. Must not know which files count (`files`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, WriteId
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind, SyntheticIdentity
from airflow_hiveacid.storage.acid.read.inspect import orc_rows
from airflow_hiveacid.storage.acid.read.reader import chosen_columns, read_events, read_schema
from airflow_hiveacid.storage.acid.row_schema import ROW
from airflow_hiveacid.storage.orc.view import DEFAULT_BATCH_ROWS
from airflow_hiveacid.storage.plain.avro_rows import avro_rows, avro_rows_in
from airflow_hiveacid.storage.plain.parquet_footer import parquet_rows_in
from airflow_hiveacid.storage.plain.parquet_rows import parquet_rows
from airflow_hiveacid.storage.plain.text_rows import text_rows
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.plain.files import PlainFile

# Rows of these files have no identity; the reader of files without ACID columns gives them one.
_NOBODYS = SyntheticIdentity(write_id=WriteId(0), bucket_property=BucketProperty(0))


def read_rows(  # noqa: PLR0913 - which rows, which columns, in which form: each has its default
    file: PlainFile,
    columns: Sequence[Column],
    *,
    data_columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.UNAMBIGUOUS,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one file, in file order.

    Args:
        file: what to read.
        columns: the table's data columns, in the table's order.
        data_columns: the ones to give, in this order; None for all.
        batch_rows: the most rows of a batch.
        timestamps: the form of timestamp columns.
        matching: how columns are found in an ORC file; in Parquet, everybody goes by name.

    Returns:
        Batches of `rows_schema(...)`, of at least one row.

    Raises:
        UnknownColumnError: `data_columns` names a column that the table does not have.
        UnsupportedTableError: a column has a type that cannot be read.
        UnsupportedFileError: the file holds a column in a type or with a value that does not fit,
            or is of a format that cannot be read here.
        CorruptFileError: it is damaged.
        LocationPermissionError: it may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    wanted = chosen_columns(columns, data_columns)
    rows: Iterator[pa.RecordBatch]
    match file.format:
        case FileFormat.ORC:
            events = read_events(
                _as_original(file),
                columns,
                data_columns=[c.name for c in wanted],
                batch_rows=batch_rows,
                timestamps=timestamps,
                matching=matching,
            )
            rows = (pa.RecordBatch.from_struct_array(batch.column(ROW)) for batch in events)
        case FileFormat.PARQUET:
            rows = parquet_rows(file, wanted, batch_rows=batch_rows, timestamps=timestamps)
        case FileFormat.AVRO:
            rows = avro_rows(file, wanted, batch_rows=batch_rows, timestamps=timestamps)
        case FileFormat.TEXT:
            rows = text_rows(file, columns, wanted, file.text, timestamps=timestamps)
        case _:
            raise UnsupportedFileError(
                path=file.path,
                reason=f"files of the format {file.format.value} cannot be read here; Hive can",
            )
    yield from (batch for batch in rows if batch.num_rows)


def rows_of(format_: FileFormat) -> Callable[[pafs.FileSystem, str, int], int]:
    """What tells how many rows are in a file of this format, by its footer; see `inspect`."""
    match format_:
        case FileFormat.ORC:
            return orc_rows
        case FileFormat.PARQUET:
            return parquet_rows_in
        case FileFormat.AVRO:
            return avro_rows_in
        case _:
            return partial(_unknown, format_)


def _unknown(format_: FileFormat, _fs: pafs.FileSystem, path: str, _length: int) -> int:
    raise UnsupportedFileError(
        path=path, reason=f"no {format_.value} file says how many rows it has"
    )


def rows_schema(
    columns: Sequence[Column], timestamps: TimestampForm = TimestampForm.NANOSECONDS
) -> pa.Schema:
    """The schema of what `read_rows` gives for these columns.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column has a type that cannot be read.
    """
    return pa.schema(list(read_schema(columns, timestamps).field(ROW).type))


def _as_original(file: PlainFile) -> AcidFile:
    return AcidFile(
        store=file.store,
        path=file.path,
        key=file.key,
        length=file.length,
        kind=FileKind.ORIGINAL,
        bucket_id=BucketId(0),
        synthetic=_NOBODYS,
    )
