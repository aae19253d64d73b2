"""Write one bucket file of a base, delta or delete delta that Hive and Trino can read.

The tail contains everything that readers rely on: the key index, ACID statistics and version, exact
column statistics, types with lengths, and the calendar.

Example:
    >>> import tempfile
    >>> from pyarrow import record_batch
    >>> from pyarrow.fs import LocalFileSystem
    >>> from airflow_hiveacid.format.table import Column
    >>> columns, local = [Column(name="id", type="bigint")], LocalFileSystem()
    >>> events = insert_events(record_batch({"id": [7, 8]}), 1, 536870912, 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/delta_0000001_0000001_0000/bucket_00000"
    ...     with AcidFileWriter(local, path, columns, WriterOptions(), is_delete=False) as writer:
    ...         writer.write(events)
    ...         writer.close().rows
    2
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import InvalidNameError, TypeMismatchError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import BucketFileName, parse_file_name
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.events import (
    EventCheck,
    delete_events,
    identity_at,
    insert_events,
)
from airflow_hiveacid.storage.acid.write.orc_file import OrcFile, stripe_row_limit
from airflow_hiveacid.storage.acid.write.row_encoder import undecodable
from airflow_hiveacid.storage.acid.write.tail import AcidFacts, compose_tail, copied_part
from airflow_hiveacid.storage.acid.write.whole_stripes import WholeStripe
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.stripe_copy import StripeWriter
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.limits import fit_rows

__all__ = [
    "AcidFileWriter",
    "WriterOptions",
    "WrittenFile",
    "delete_events",
    "insert_events",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One finished file; if it is empty, its `first_key` and `last_key` are None."""

    path: str
    bucket_id: BucketId
    rows: int
    size_bytes: int
    stripes: int
    first_key: acid.RecordIdentifier | None
    last_key: acid.RecordIdentifier | None


class AcidFileWriter(OrcFile[acid.RecordIdentifier]):
    """A writer of one bucket file, for one thread; a `with` block aborts it unless it is closed."""

    def __init__(  # noqa: PLR0913 - a path, a layout and a name for messages
        self,
        fs: pafs.FileSystem,
        path: str,
        columns: Sequence[Column],
        options: WriterOptions,
        *,
        is_delete: bool,
        table: object = None,
    ) -> None:
        """Open the file; create its directory if it is missing.

        The last component of `path` is `bucket_NNNNN`. `table` is for messages; by default, it is
        the path. Raises InvalidNameError if the path does not end with the name of a bucket file.
        """
        name = parse_file_name(posixpath.basename(path))
        if not isinstance(name, BucketFileName):
            raise InvalidNameError(name=path, what="path of a bucket file")
        self._columns, self._bucket_id, self._is_delete = tuple(columns), name.bucket_id, is_delete
        self._default_schema = acid.acid_schema(columns)
        self._schema: pa.Schema | None = None
        self._check = EventCheck(path, name.bucket_id, is_delete=is_delete)
        nodes = acid.type_tree(columns)
        super().__init__(
            fs,
            path,
            nodes,
            options,
            has_root=True,
            stripe_rows=stripe_row_limit(() if is_delete else nodes),
            table=path if table is None else table,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Append events; each identity must be greater than all earlier identities.

        `batch` has the schema `acid_schema(columns)`. Timestamps may have any unit, but all batches
        must use the same unit. Values of `char` columns may be padded or unpadded. Raises
        CorruptFileError, before any event is written, if identities do not ascend, or have another
        bucket or operation; TypeMismatchError for another schema, or a value that cannot be stored;
        ConfigurationError if pyorc is needed and missing.
        """
        if not batch.num_rows:
            return
        self._check_schema(batch.schema)
        self._check.check(batch)
        needs_rows = False
        if not self._is_delete:
            fitted = fit_rows(batch.column(acid.ROW), self._nodes, table=self._table)
            self._nul_column_ids |= fitted.nul_column_ids
            needs_rows = fitted.needs_rows
            batch = batch.set_column(batch.num_columns - 1, acid.ROW, fitted.rows)
            # Only a `RowEncoder` must know which columns have text that is not UTF-8.
            if needs_rows or self._goes_by_rows:
                self._byte_ids |= undecodable(fitted.rows, self._nodes)
        self._append(batch, needs_rows=needs_rows)

    def end_stripe(self) -> None:
        """End the current stripe, so that the next row begins a new stripe."""
        self._finish_part()

    def copy(self, stripe: WholeStripe) -> None:
        """End the stripe, then append a stripe of another file, with greater identities."""
        self._finish_part()
        self._check.pass_over(stripe.first, stripe.last)
        tail = stripe.tail
        stripes = StripeWriter(self._emit, tail.compression, self._position)
        with file_errors("read", tail.path), stripe.file.fs.open_input_file(tail.path) as source:
            copied = stripes.add(source, tail, stripe.content)
        self._parts.append(copied_part(tail, stripe.number, copied))
        self._first_key = self._first_key or stripe.first
        self._last_key = stripe.last
        self._stripe_keys.append(stripe.last)

    def close(self) -> WrittenFile:
        """Write the last stripe and the tail, and close the file. After an error, do not use it."""
        tail = self._finish(self._default_schema)
        return WrittenFile(
            path=self._path,
            bucket_id=self._bucket_id,
            rows=tail.rows,
            size_bytes=self._position,
            stripes=len(self._stripe_keys),
            first_key=self._first_key,
            last_key=self._last_key,
        )

    def _key_at(self, batch: pa.RecordBatch, index: int) -> acid.RecordIdentifier:
        return identity_at(batch, index)

    def _tail(self) -> OrcTail:
        facts = AcidFacts(
            stripe_keys=self._stripe_keys,
            is_delete=self._is_delete,
            nul_column_ids=self._nul_column_ids,
        )
        return compose_tail(self._parts, self._columns, facts, path=self._path)

    def _check_schema(self, schema: pa.Schema) -> None:
        if self._schema is not None:
            if schema.equals(self._schema):
                return
            raise self._mismatch("(all)", self._schema, schema)
        expected_schema = self._default_schema
        if schema.names != expected_schema.names:
            raise self._mismatch("(all)", expected_schema, schema)
        acid.check_row_type(self._table, self._columns, schema.field(acid.ROW).type)
        expected_schema = acid.root_schema(schema.field(acid.ROW).type)
        if schema.types != expected_schema.types:
            raise self._mismatch("(ACID columns)", expected_schema, schema)
        self._schema = schema.remove_metadata()

    def _mismatch(self, column: str, wanted: pa.Schema, found: pa.Schema) -> TypeMismatchError:
        return TypeMismatchError(
            table=self._table, column=column, column_type=str(wanted), value_type=str(found)
        )
