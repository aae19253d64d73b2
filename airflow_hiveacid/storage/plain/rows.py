"""Read the rows of one file of an insert-only table, as batches of the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketProperty, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat, TransactionalKind
from airflow_hiveacid.storage.acid import ROW
from airflow_hiveacid.storage.acid.read import FileKind, SyntheticIdentity
from airflow_hiveacid.storage.acid.read.inspect import orc_rows
from airflow_hiveacid.storage.acid.read.reader import chosen_columns, read_events
from airflow_hiveacid.storage.orc.view import DEFAULT_BATCH_ROWS
from airflow_hiveacid.storage.plain.avro_rows import avro_rows, avro_rows_in
from airflow_hiveacid.storage.plain.files import PlainFile, plain_files
from airflow_hiveacid.storage.plain.parquet_footer import parquet_rows_in
from airflow_hiveacid.storage.plain.parquet_rows import parquet_rows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.plain.text_rows import text_rows
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

# Arbitrary IDs: the reader of files without ACID columns must assign some.
_NOBODYS = SyntheticIdentity(write_id=WriteId(0), bucket_property=BucketProperty(0))


def read_rows(  # noqa: PLR0913 - rows, columns and form: each has its default
    file: PlainFile,
    columns: Sequence[Column],
    *,
    data_columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.UNAMBIGUOUS,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one file, in file order.

    `columns` are in the table's order. `data_columns` are those to return, in this order; None
    means all. `matching` finds columns in an ORC file; in Parquet files, all readers find columns
    by name. Batches are not empty, and have the column types of `read_schema`.
    """
    selection = chosen_columns(columns, data_columns)
    rows: Iterator[pa.RecordBatch]
    match file.format:
        case FileFormat.ORC:
            events = read_events(
                file.as_acid(FileKind.ORIGINAL, _NOBODYS),
                columns,
                data_columns=[c.name for c in selection],
                batch_rows=batch_rows,
                timestamps=timestamps,
                matching=matching,
                is_hives=file.is_in_directory,
            )
            rows = (pa.RecordBatch.from_struct_array(batch.column(ROW)) for batch in events)
        case FileFormat.PARQUET:
            rows = parquet_rows(file, selection, batch_rows=batch_rows, timestamps=timestamps)
        case FileFormat.AVRO:
            rows = avro_rows(file, selection, batch_rows=batch_rows, timestamps=timestamps)
        case FileFormat.TEXT:
            rows = text_rows(file, columns, selection, file.text, timestamps=timestamps)
        case _:
            raise UnsupportedFileError(
                path=file.path,
                reason=f"its format is {file.format.value}; Hive can read the file",
            )
    yield from (batch for batch in rows if batch.num_rows)


def rows_of(format_: FileFormat) -> Callable[[pafs.FileSystem, str, int], int]:
    """Return the function that counts the rows of a file in this format, for `inspect`."""
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
        path=path, reason=f"a {format_.value} file does not state its number of rows"
    )


def scan_plain(  # noqa: PLR0913 - a snapshot is two lists, and all later arguments have defaults
    location: str,
    columns: Sequence[Column],
    format_: FileFormat,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    with_originals: bool = False,
    text: TextForm = DEFAULT_TEXT,
    own: tuple[Column, ...] | None = None,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.UNAMBIGUOUS,
    state: AcidState | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the visible rows of one root; see `scan`, `plain_files` and `PlainFile` (for `own`)."""
    if state is None:
        state = resolve(list_table(location), write_ids, txns, TransactionalKind.INSERT_ONLY)
    files = plain_files(state, format_, with_originals=with_originals, text=text, columns=own)
    for file in files:
        yield from read_rows(file, columns, timestamps=timestamps, matching=matching)
