"""The writers of one file of rows: their interface, and the base class of all but ORC's."""

from __future__ import annotations

import abc
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import check_row_type
from airflow_hiveacid.storage.acid.write.orc_file import AbortsUnlessClosed
from airflow_hiveacid.storage.stores.filesystem import make_directory, storage_errors
from airflow_hiveacid.storage.values.column_types import types_from


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """One finished file."""

    rows: int
    size_bytes: int


class RowsWriter(AbortsUnlessClosed):
    """A writer of one file, for one thread; a `with` block aborts it unless `close` was called."""

    @abc.abstractmethod
    def write(self, rows: pa.StructArray) -> None:
        """Append rows with the table's columns as fields; no row may be NULL."""

    @abc.abstractmethod
    def close(self) -> WrittenRows:
        """Finish the file."""


class StreamWriter(RowsWriter):
    """A `RowsWriter` to a stream; subclasses check the columns, and implement `_write`."""

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

    def _write(self, rows: pa.StructArray) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Write buffered bytes. Formats without a buffer need not override this method."""
