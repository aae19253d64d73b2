"""How one bucket file of a base, delta or delete delta is written so that Hive and Trino take it.

Takes batches of ACID events in the order of their identity; gives one file: stripes as they fill
up, then a tail with everything that readers rely on (key index, ACID statistics and version, exact
column statistics, types with lengths, calendar). Nothing is read back, and memory holds one stripe.
Must not know directories, write IDs of a snapshot or where the file is published.

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

import contextlib
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    InvalidNameError,
    LocationPermissionError,
    TypeMismatchError,
)
from airflow_hiveacid.format.names import BucketFileName, parse_file_name
from airflow_hiveacid.storage.acid.events import (
    EventCheck,
    delete_events,
    identity_at,
    insert_events,
)
from airflow_hiveacid.storage.acid.row_schema import (
    ROW,
    RecordIdentifier,
    acid_schema,
    check_row_type,
    root_schema,
    type_tree,
)
from airflow_hiveacid.storage.acid.write.python_values import undecodable
from airflow_hiveacid.storage.acid.write.row_encoder import RowEncoder
from airflow_hiveacid.storage.acid.write.tail import (
    AcidFacts,
    Segment,
    compose_tail,
    copied_segment,
)
from airflow_hiveacid.storage.orc.encoders import (
    ArrowEncoder,
    Encoder,
    StripeSink,
    WriterOptions,
)
from airflow_hiveacid.storage.orc.footer import MAGIC
from airflow_hiveacid.storage.orc.stripe_copy import StripeWriter
from airflow_hiveacid.storage.orc.tail import serialize_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.column_types import is_text
from airflow_hiveacid.storage.values.limits import fit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pyarrow as pa
    from pyarrow import fs as pafs

    from airflow_hiveacid.format.ids import BucketId
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.acid.write.whole_stripes import WholeStripe
    from airflow_hiveacid.storage.values.column_types import TypeNode

__all__ = [
    "AcidFileWriter",
    "WriterOptions",
    "WrittenFile",
    "delete_events",
    "insert_events",
]


_MOST_STRIPE_ROWS: Final = 1 << 23
_FEWEST_STRIPE_ROWS: Final = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One finished file; the keys are those of its first and last event, None without any."""

    path: str
    bucket_id: BucketId
    rows: int
    size_bytes: int
    stripes: int
    first_key: RecordIdentifier | None
    last_key: RecordIdentifier | None


def stripe_row_limit(nodes: Sequence[TypeNode]) -> int:
    """After how many rows a stripe ends, however small it is.

    The encoder sees a stripe's size as compressed. Where rows compress to next to nothing it would
    collect them by the ten million; and it keeps eight bytes for each text that has a dictionary.
    Readers that take a stripe at once would have to hold all its rows.

    Args:
        nodes: The columns that hold values; none in delete events.
    """
    texts = sum(is_text(below.type) for node in nodes for below in node.walk())
    return max(_FEWEST_STRIPE_ROWS, _MOST_STRIPE_ROWS // max(1, texts))


class AcidFileWriter:
    """Writes one bucket file. Mutable, for one thread; a file that was not closed is not a file.

    As a context manager it aborts, unless `close` was called.
    """

    def __init__(  # noqa: PLR0913 - a place, a layout and a name for messages
        self,
        fs: pafs.FileSystem,
        path: str,
        columns: Sequence[Column],
        options: WriterOptions,
        *,
        is_delete: bool,
        table: object = None,
    ) -> None:
        """Open the file, making its directory when that is missing.

        Args:
            fs: Where to write.
            path: The file, as this file system names it; its last part is `bucket_NNNNN`.
            columns: The table's columns without partition columns.
            options: Compression and sizes.
            is_delete: Whether it takes delete events, rather than insert events.
            table: For messages; by default the path.

        Raises:
            InvalidNameError: the path names no bucket file, or a type text is no Hive type.
            UnsupportedTableError: a column is or holds a union.
            LocationPermissionError: the file may not be written.
        """
        name = parse_file_name(posixpath.basename(path))
        if not isinstance(name, BucketFileName):
            raise InvalidNameError(name=path, what="path of a bucket file")
        self._fs, self._path, self._columns, self._options = fs, path, tuple(columns), options
        self._table = path if table is None else table
        self._bucket_id, self._is_delete = name.bucket_id, is_delete
        self._nodes = type_tree(columns)
        self._default_schema = acid_schema(columns)
        self._schema: pa.Schema | None = None
        self._check = EventCheck(path, name.bucket_id, is_delete=is_delete)
        self._segments: list[Segment] = []
        self._stripe_keys: list[RecordIdentifier] = []
        self._stripe_rows: list[int] = []
        self._nul_column_ids: set[int] = set()
        self._byte_ids: frozenset[int] = frozenset()
        self._first_key: RecordIdentifier | None = None
        self._last_key: RecordIdentifier | None = None
        self._rows_in_stripe = 0
        self._stripe_row_limit = stripe_row_limit(() if is_delete else self._nodes)
        self._position = 0
        self._encoder: Encoder | None = None
        self._stream = self._open()
        self._is_open = True
        self._emit(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_open:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append events, each with a greater identity than all before.

        Args:
            batch: Of the schema `acid_schema(columns)`; timestamps may have any unit, the same in
            all
                batches. Text for `char` columns may be padded or not.

        Raises:
            CorruptFileError: identities do not rise, an event belongs to another bucket or is of
                the other kind: nothing of the batch was written.
            TypeMismatchError: the batch has another schema, or a value cannot be stored.
            ConfigurationError: the batch needs pyorc, which is not installed.
        """
        if not batch.num_rows:
            return
        self._check_schema(batch.schema)
        self._check.check(batch)
        needs_rows = False
        if not self._is_delete:
            fitted = fit_rows(batch.column(ROW), self._nodes, table=self._table)
            self._nul_column_ids |= fitted.nul_column_ids
            needs_rows = fitted.needs_rows
            batch = batch.set_column(batch.num_columns - 1, ROW, fitted.rows)
            if needs_rows or isinstance(self._encoder, RowEncoder):
                self._byte_ids |= undecodable(fitted.rows, self._nodes)
        if self._ought_to_change(needs_rows=needs_rows):
            self._finish_segment()
        self._encode(batch, needs_rows=needs_rows)

    def copy(self, stripe: WholeStripe) -> None:
        """Append a stripe of another file as it is, which ends the one at work.

        Raises:
            CorruptFileError: its identities do not rise above all before, or it is cut off.
            StorageError: reading failed.
        """
        self._finish_segment()
        self._check.pass_over(stripe.first, stripe.last)
        tail = stripe.tail
        stripes = StripeWriter(self._emit, tail.compression, self._position)
        with file_errors("read", tail.path), stripe.file.fs.open_input_file(tail.path) as source:
            copied = stripes.add(source, tail, stripe.content)
        self._segments.append(copied_segment(tail, stripe.number, copied))
        self._first_key = self._first_key or stripe.first
        self._last_key = stripe.last
        self._stripe_keys.append(stripe.last)

    def close(self) -> WrittenFile:
        """Finish the file.

        Raises:
            CorruptFileError: the encoder cut its stripes where it was not seen to; the file is not
                to be used.
        """
        if self._first_key is None:
            self._start(self._default_schema)
        self._finish_segment()
        facts = AcidFacts(
            stripe_keys=self._stripe_keys,
            is_delete=self._is_delete,
            nul_column_ids=self._nul_column_ids,
        )
        tail = compose_tail(self._segments, self._columns, facts, path=self._path)
        self._emit(serialize_tail(tail))
        self._stream.close()
        self._is_open = False
        return WrittenFile(
            path=self._path,
            bucket_id=self._bucket_id,
            rows=tail.rows,
            size_bytes=self._position,
            stripes=len(self._stripe_keys),
            first_key=self._first_key,
            last_key=self._last_key,
        )

    def abort(self) -> None:
        """Give up: close and delete the file, as far as the file system lets us."""
        self._is_open = False
        self._encoder = None
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._fs.delete_file(self._path)

    def _open(self) -> pa.NativeFile:
        try:
            self._fs.create_dir(posixpath.dirname(self._path), recursive=True)
            return self._fs.open_output_stream(self._path)
        except PermissionError as error:
            raise LocationPermissionError(
                location=self._path, action="write", reason=str(error)
            ) from error

    def _emit(self, data: bytes) -> None:
        self._stream.write(data)
        self._position += len(data)

    def _check_schema(self, schema: pa.Schema) -> None:
        if self._schema is not None:
            if schema.equals(self._schema):
                return
            raise self._mismatch("(all)", self._schema, schema)
        wanted = self._default_schema
        if schema.names != wanted.names:
            raise self._mismatch("(all)", wanted, schema)
        check_row_type(self._table, self._columns, schema.field(ROW).type)
        wanted = root_schema(schema.field(ROW).type)
        if schema.types != wanted.types:
            raise self._mismatch("(ACID columns)", wanted, schema)
        self._schema = schema.remove_metadata()

    def _mismatch(self, column: str, wanted: pa.Schema, found: pa.Schema) -> TypeMismatchError:
        return TypeMismatchError(
            table=self._table, column=column, column_type=str(wanted), value_type=str(found)
        )

    def _ought_to_change(self, *, needs_rows: bool) -> bool:
        """Whether the next batch is for the other encoder; changing it ends the stripe.

        The slow one keeps on for at least one full stripe, so that a few early timestamps here and
        there neither slow the whole file down nor leave many small stripes; unless text that is no
        UTF-8 turns up, of which it has to know from its start.
        """
        if isinstance(self._encoder, RowEncoder):
            is_done = not needs_rows and bool(self._stripe_rows)
            return is_done or self._encoder.byte_ids != self._byte_ids
        return needs_rows and self._encoder is not None

    def _start(self, schema: pa.Schema | None) -> Encoder:
        """Start an encoder: that for Arrow batches of this schema, or without one that for rows."""
        self._sink = StripeSink(self._emit)
        self._segment_start = self._position
        self._stripe_rows = []
        if schema is None:
            self._encoder = RowEncoder(
                self._sink, self._nodes, self._options, self._byte_ids, self._table
            )
        else:
            self._encoder = ArrowEncoder(self._sink, schema, self._options)
        return self._encoder

    def _encode(self, batch: pa.RecordBatch, *, needs_rows: bool) -> None:
        if self._first_key is None:
            self._first_key = identity_at(batch, 0)
        start = 0
        while start < batch.num_rows:
            encoder = self._encoder or self._start(None if needs_rows else batch.schema)
            piece = batch.slice(start, encoder.wanted_rows)
            ended = encoder.add(piece)
            start += piece.num_rows
            self._rows_in_stripe += piece.num_rows
            self._last_key = identity_at(piece, -1)
            if ended:
                self._end_stripe(self._last_key)
            elif self._rows_in_stripe >= self._stripe_row_limit:
                self._finish_segment()

    def _end_stripe(self, key: RecordIdentifier) -> None:
        self._stripe_keys.append(key)
        self._stripe_rows.append(self._rows_in_stripe)
        self._rows_in_stripe = 0

    def _finish_segment(self) -> None:
        encoder = self._encoder
        if encoder is None:
            return
        self._sink.hold()
        encoder.finish()
        tail = self._sink.release(self._path)
        if self._rows_in_stripe and self._last_key is not None:
            self._end_stripe(self._last_key)
        if [stripe.rows for stripe in tail.stripes] != self._stripe_rows:
            raise CorruptFileError(
                path=self._path,
                reason="its stripes did not end where they were seen to, so their keys are unknown",
            )
        self._segments.append(Segment(tail=tail, start=self._segment_start))
        # The encoder's C++ half holds the sink, and the sink this writer: a circle that no garbage
        # collector sees. Left closed, every file would keep its buffers, some 15 MB, for ever.
        self._encoder = None
