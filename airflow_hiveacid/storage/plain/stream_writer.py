"""The base class of writers that write one file to a stream."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.row_schema import check_row_type
from airflow_hiveacid.storage.acid.write.orc_file import AbortsUnlessClosed
from airflow_hiveacid.storage.plain.written import WrittenRows
from airflow_hiveacid.storage.stores.filesystem import delete_file, make_directory, storage_errors
from airflow_hiveacid.storage.values.column_types import types_from


class StreamWriter(AbortsUnlessClosed):
    """A `write.RowsWriter` for one file, for use by one thread.

    A subclass must check the columns before it calls this constructor. The subclass writes rows in
    `_write` and buffered bytes in `_finish`.
    """

    BATCH_ROWS: ClassVar[int]

    def __init__(
        self, fs: pafs.FileSystem, path: str, columns: Sequence[Column], table: object
    ) -> None:
        self._fs, self._path, self._columns, self._table = fs, path, tuple(columns), table
        self._nodes = types_from(columns, 1)
        self._rows = 0
        with storage_errors("write", path):
            make_directory(fs, posixpath.dirname(path))
            self._stream = fs.open_output_stream(path, compression=None)

    def write(self, rows: pa.StructArray) -> None:
        """Append rows; see `RowsWriter`."""
        if not len(rows):
            return
        check_row_type(self._table, self._columns, rows.type)
        for start in range(0, len(rows), self.BATCH_ROWS):
            self._write(rows.slice(start, self.BATCH_ROWS))
        self._rows += len(rows)

    def close(self) -> WrittenRows:
        """Finish the file; see `RowsWriter`."""
        with storage_errors("write", self._path):
            self._finish()
            size = self._stream.tell()
            self._stream.close()
        self._is_open = False
        return WrittenRows(rows=self._rows, size_bytes=size)

    def abort(self) -> None:
        """Close and delete the file; see `RowsWriter`."""
        self._is_open = False
        with contextlib.suppress(Exception):
            self._stream.close()
        with contextlib.suppress(Exception):
            delete_file(self._fs, self._path)

    def _write(self, rows: pa.StructArray) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Write buffered bytes. Formats without a buffer need not override this method."""
