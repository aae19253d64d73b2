"""Write one data file of an insert-only table, in a form that Hive can read.

Values are stored as in Hive, or refused.

Example:
    >>> import tempfile
    >>> from pyarrow.fs import LocalFileSystem
    >>> from airflow_hiveacid.storage.orc.encoders import WriterOptions
    >>> columns, local = [Column(name="id", type="bigint")], LocalFileSystem()
    >>> rows = pa.array([{"id": 7}, {"id": 8}], pa.struct([("id", pa.int64())]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/000000_0"
    ...     with rows_writer(FileFormat.PARQUET, local, path, columns, WriterOptions()) as writer:
    ...         writer.write(rows)
    ...         written = writer.close()
    >>> written.rows
    2
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL, PrimitiveType, parse_type
from airflow_hiveacid.storage.acid import check_row_type
from airflow_hiveacid.storage.acid.write.orc_file import OrcFile, stripe_row_limit
from airflow_hiveacid.storage.acid.write.row_encoder import undecodable
from airflow_hiveacid.storage.acid.write.tail import plain_types, whole_tail
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.plain.avro_rows import AvroWriter
from airflow_hiveacid.storage.plain.parquet_footer import PROLEPTIC_DAYS, WRITER_ZONE
from airflow_hiveacid.storage.plain.stream_writer import RowsWriter, StreamWriter, WrittenRows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.plain.text_rows import TextWriter
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.values.column_types import TypeNode, holds, row_type, types_from
from airflow_hiveacid.storage.values.limits import fit_rows, fit_texts
from airflow_hiveacid.storage.values.nested import leaves, with_time_unit
from airflow_hiveacid.storage.values.timestamps import (
    OLD_TIMES_REMEDY,
    OTHER_FORMAT_REMEDY,
    SWITCHOVER_SECOND,
    TimestampForm,
    seconds_and_nanos,
)

# One row group is held in memory. While the row group is written, a second copy exists.
_ROW_GROUP_BYTES: Final = 64 << 20
_LOCAL: Final = PrimitiveType(TIMESTAMP_LOCAL)
# Compressions that Hive 3.1 and every version of Java's Parquet library can read.
_COMPRESSIONS: Final = {"none": "none", "zlib": "gzip", "snappy": "snappy"}


def rows_writer(  # noqa: PLR0913, PLR0917 - a path, a layout and a name for messages
    format_: FileFormat,
    fs: pafs.FileSystem,
    path: str,
    columns: Sequence[Column],
    options: WriterOptions,
    table: object = None,
    *,
    timestamps: TimestampForm = TimestampForm.MICROSECONDS,
    text: TextForm = DEFAULT_TEXT,
) -> RowsWriter:
    """Open a file for writing in this format; create its directory if it is missing.

    `format_` is any format but OTHER. `table` is for messages; by default, it is the path.
    `timestamps` is the unit of a Parquet file; other formats accept any unit. Raises
    UnsupportedTableError if a column has a type that the format cannot store, or the format is
    OTHER.
    """
    label = path if table is None else table
    match format_:
        case FileFormat.ORC:
            return PlainOrcWriter(fs, path, columns, options, label)
        case FileFormat.PARQUET:
            return ParquetWriter(fs, path, columns, options, label, timestamps)
        case FileFormat.AVRO:
            return AvroWriter(fs, path, columns, label)
        case FileFormat.TEXT:
            return TextWriter(fs, path, columns, text, label)
        case _:
            raise UnsupportedTableError(
                table=label,
                detail=f"is stored as {format_.value}, a format that this provider cannot write",
            )


def check_values(
    format_: FileFormat, rows: pa.StructArray, nodes: Sequence[TypeNode], *, table: object
) -> None:
    """Raise TypeMismatchError if a file of this format cannot store a value; see `fit_rows`."""
    match format_:
        case FileFormat.ORC:
            fit_rows(rows, nodes, table=table)
        case FileFormat.PARQUET:
            _fit_parquet(rows, nodes, table)
        case _:
            fit_texts(rows, nodes, table=table)


class PlainOrcWriter(OrcFile[int], RowsWriter):
    """A writer of ORC files with the encoders, types and statistics of full-ACID files."""

    def __init__(
        self,
        fs: pafs.FileSystem,
        path: str,
        columns: Sequence[Column],
        options: WriterOptions,
        table: object,
    ) -> None:
        self._columns = tuple(columns)
        self._type = row_type(columns)  # refuses unions
        nodes = types_from(columns, 1)
        self._rows = 0
        super().__init__(
            fs,
            path,
            nodes,
            options,
            has_root=False,
            stripe_rows=stripe_row_limit(nodes),
            table=table,
        )

    def write(self, rows: pa.StructArray) -> None:
        """Append rows; see `RowsWriter`."""
        if not len(rows):
            return
        check_row_type(self._table, self._columns, rows.type)
        fitted = fit_rows(rows, self._nodes, table=self._table)
        self._nul_column_ids |= fitted.nul_column_ids
        # An encoder of rows must know when it starts which columns have text that is not UTF-8.
        if fitted.needs_rows or self._goes_by_rows:
            self._byte_ids |= undecodable(fitted.rows, self._nodes)
        batch = pa.RecordBatch.from_struct_array(fitted.rows)
        self._append(batch, needs_rows=fitted.needs_rows)
        self._rows += len(rows)

    def close(self) -> WrittenRows:
        """Finish the file; see `RowsWriter`."""
        self._finish(pa.schema(list(self._type)))
        return WrittenRows(rows=self._rows, size_bytes=self._position)

    def _key_at(self, batch: pa.RecordBatch, index: int) -> int:  # noqa: ARG002 - these rows have no keys
        return 0

    def _tail(self) -> OrcTail:
        types = plain_types(self._columns)
        return whole_tail(self._parts, types, self._nul_column_ids, path=self._path)


class ParquetWriter(StreamWriter):
    """A writer of Parquet files like Hive's.

    Timestamps are instants in UTC, as the footer states. Those before 1582-10-15 are refused,
    because Hive 3.1 and Hive 4 would differ.
    """

    BATCH_ROWS = 1 << 31

    def __init__(  # noqa: PLR0913, PLR0917 - a path, a layout and a name for messages
        self,
        fs: pafs.FileSystem,
        path: str,
        columns: Sequence[Column],
        options: WriterOptions,
        table: object,
        timestamps: TimestampForm,
    ) -> None:
        for column in columns:
            if holds(parse_type(column.type), _LOCAL):
                raise UnsupportedTableError(
                    table=table, detail=f"column {column.name!r} is a {_LOCAL} in Parquet"
                )
        # Microseconds cover the years 1 to 9999.
        self._schema = pa.schema(list(with_time_unit(row_type(columns), timestamps.value)))
        ordered = [name for field in self._schema for name in _ordered(field)]
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        super().__init__(fs, path, columns, table)
        with storage_errors("write", path):
            self._writer = pq.ParquetWriter(
                self._stream,
                self._schema,
                version="1.0",
                data_page_version="1.0",
                compression=_COMPRESSIONS.get(options.compression, "gzip"),
                use_deprecated_int96_timestamps=True,
                store_schema=False,
                write_statistics=ordered,
                use_dictionary=ordered,
            )
        self._is_open = True

    def _write(self, rows: pa.StructArray) -> None:
        fitted = _fit_parquet(rows, self._nodes, self._table)
        self._pending.append(self._stored(fitted))
        self._pending_bytes += self._pending[-1].nbytes
        if self._pending_bytes >= _ROW_GROUP_BYTES:
            self._end_row_group()

    def _finish(self) -> None:
        self._end_row_group()
        self._writer.add_key_value_metadata({WRITER_ZONE: "UTC", PROLEPTIC_DAYS: "true"})
        self._writer.close()

    def abort(self) -> None:
        """Close and delete the file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        super().abort()

    def _end_row_group(self) -> None:
        rows = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._pending_bytes = [], 0
        if rows.num_rows:
            with storage_errors("write", self._path):
                self._writer.write_table(rows, row_group_size=rows.num_rows)

    def _stored(self, rows: pa.StructArray) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_struct_array(rows).cast(self._schema)
        except pa.ArrowInvalid as error:
            raise TypeMismatchError(
                table=self._table,
                column="(a timestamp)",
                column_type="timestamp, in microseconds",
                value_type=f"a timestamp that this unit cannot store: {error}",
                remedy=OTHER_FORMAT_REMEDY,
            ) from error


def _fit_parquet(rows: pa.StructArray, nodes: Sequence[TypeNode], table: object) -> pa.StructArray:
    fitted = fit_texts(rows, nodes, table=table)
    for node, values in zip(nodes, fitted.flatten(), strict=True):
        for array in filter(lambda leaf: pa.types.is_timestamp(leaf.type), leaves(values)):
            seconds, _ = seconds_and_nanos(array)
            if seconds.min(initial=0) < SWITCHOVER_SECOND:
                raise TypeMismatchError(
                    table=table,
                    column=node.name,
                    column_type=str(node.type),
                    value_type="a timestamp before 1582-10-15, which Hive 3.1 and Hive 4 read"
                    " differently in Parquet",
                    remedy=OLD_TIMES_REMEDY,
                )
    return fitted


def _ordered(field: pa.Field, below: str = "") -> Iterator[str]:
    # Floating-point columns get no statistics and dictionaries, by which readers skip rows: some
    # sort NaN, which Arrow ignores, as the greatest number, and do not find -0.0 in a dictionary.
    type_, name = field.type, f"{below}{field.name}"
    if pa.types.is_struct(type_):
        for child in type_:
            yield from _ordered(child, f"{name}.")
    elif pa.types.is_map(type_):
        for child in (type_.key_field, type_.item_field):
            yield from _ordered(child, f"{name}.key_value.")
    elif pa.types.is_list(type_):
        yield from _ordered(pa.field("element", type_.value_type), f"{name}.list.")
    elif not pa.types.is_floating(type_):
        yield name
