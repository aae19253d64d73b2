"""Write an ORC file with several encoders: first the stripes as they fill up, then the tail.

It holds only one stripe in memory. Subclasses interpret the rows and provide the tail: of ACID
files in `writer`, of rows without identities in `storage.plain.write`.
"""

from __future__ import annotations

import abc
import contextlib
import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Generic, Self, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.acid.write.row_encoder import RowEncoder
from airflow_hiveacid.storage.orc.encoders import ArrowEncoder, Encoder, StripeSink, WriterOptions
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.stripe_copy import StripeWriter, stripe_content
from airflow_hiveacid.storage.orc.tail import serialize_tail
from airflow_hiveacid.storage.stores.filesystem import delete_file, storage_errors
from airflow_hiveacid.storage.values.column_types import TypeNode, is_text

_Key = TypeVar("_Key")

_MOST_STRIPE_ROWS: Final = 1 << 23
_FEWEST_STRIPE_ROWS: Final = 1 << 17


def stripe_row_limit(nodes: Sequence[TypeNode]) -> int:
    """Return the maximum number of rows in a stripe, even if the stripe has only a few bytes.

    An encoder ends a stripe at a compressed size, so one of rows that compress to almost nothing
    could grow to tens of millions.

    `nodes` are the columns with values; a file of delete events has none.
    """
    texts = sum(is_text(node.type) for top in nodes for node in top.walk())
    return max(_FEWEST_STRIPE_ROWS, _MOST_STRIPE_ROWS // max(1, texts))


class AbortsUnlessClosed(abc.ABC):
    """A file being written. A `with` block aborts the file, unless it was closed before."""

    _fs: pafs.FileSystem
    _path: str
    _stream: pa.NativeFile
    _is_open: bool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            self.abort()

    def abort(self) -> None:
        """Close and delete the unfinished file, if the file system permits this."""
        self._is_open = False
        with contextlib.suppress(Exception):
            self._stream.close()
        with contextlib.suppress(Exception):
            delete_file(self._fs, self._path)


class OrcFile(AbortsUnlessClosed, Generic[_Key]):
    """One ORC file during writing.

    It is for one thread, and valid only after closing. `_Key` is the type of row keys; that of each
    stripe's last row is stored.
    """

    def __init__(  # noqa: PLR0913 - a path, a layout and a name for messages
        self,
        fs: pafs.FileSystem,
        path: str,
        nodes: Sequence[TypeNode],
        options: WriterOptions,
        *,
        has_root: bool,
        stripe_rows: int,
        table: object,
    ) -> None:
        """Open the file; create its directory if it is missing.

        If `has_root`, the file has ACID columns and `row` contains the table's columns.
        `stripe_rows` is the maximum number of rows in a stripe. `table` is for messages.
        """
        self._fs, self._path, self._options = fs, path, options
        self._nodes, self._has_root, self._table = tuple(nodes), has_root, table
        self._parts: list[OrcTail] = []
        self._stripe_keys: list[_Key] = []
        self._nul_column_ids: set[int] = set()
        self._byte_ids: frozenset[int] = frozenset()
        self._first_key: _Key | None = None
        self._last_key: _Key | None = None
        self._rows_in_stripe = 0
        self._stripe_row_limit = stripe_rows
        self._position = 0
        self._encoder: Encoder | None = None
        with storage_errors("write", path):
            fs.create_dir(posixpath.dirname(path), recursive=True)
            self._stream = fs.open_output_stream(path)
        self._is_open = True
        self._emit(MAGIC)

    @abc.abstractmethod
    def _key_at(self, batch: pa.RecordBatch, index: int) -> _Key:
        """Return the key of a row; a negative index counts from the end."""

    @abc.abstractmethod
    def _tail(self) -> OrcTail:
        """Return the tail of the whole file, after all parts are finished."""

    def abort(self) -> None:
        """Close and delete the unfinished file, if the file system permits this."""
        self._encoder = None
        super().abort()

    def _finish(self, empty: pa.Schema) -> OrcTail:
        """Write the last stripe and the tail; `empty` is the schema of a file without rows."""
        if self._first_key is None:
            self._start(empty)
        self._finish_part()
        tail = self._tail()
        self._emit(serialize_tail(tail))
        with storage_errors("write", self._path):
            self._stream.close()
        self._is_open = False
        return tail

    def _append(self, batch: pa.RecordBatch, *, needs_rows: bool) -> None:
        if self._ought_to_change(needs_rows=needs_rows):
            self._finish_part()
        self._encode(batch, needs_rows=needs_rows)

    @property
    def _goes_by_rows(self) -> bool:
        return isinstance(self._encoder, RowEncoder)

    def _emit(self, data: bytes) -> None:
        with storage_errors("write", self._path):
            self._stream.write(data)
        self._position += len(data)

    def _ought_to_change(self, *, needs_rows: bool) -> bool:
        # A new encoder ends the stripe. The slow `RowEncoder` stays in use for at least one full
        # stripe. So a few scattered early timestamps neither slow down the whole file nor cause
        # many small stripes. Text that is not UTF-8 needs a new encoder at once, because an encoder
        # must know at its start which columns contain such text.
        if isinstance(self._encoder, RowEncoder):
            return self._encoder.byte_ids != self._byte_ids
        return needs_rows and self._encoder is not None

    def _start(self, schema: pa.Schema | None) -> Encoder:
        """Start the next part's encoder, for batches of `schema`; None means a `RowEncoder`."""
        self._sink = StripeSink()
        if schema is None:
            self._encoder = RowEncoder(
                self._sink,
                self._nodes,
                self._options,
                self._byte_ids,
                self._table,
                has_root=self._has_root,
            )
        else:
            self._encoder = ArrowEncoder(self._sink, schema, self._options)
        return self._encoder

    def _encode(self, batch: pa.RecordBatch, *, needs_rows: bool) -> None:
        if self._first_key is None:
            self._first_key = self._key_at(batch, 0)
        start = 0
        while start < batch.num_rows:
            encoder = self._encoder or self._start(None if needs_rows else batch.schema)
            piece = batch.slice(start, encoder.wanted_rows)
            ended = encoder.add(piece)
            start += piece.num_rows
            self._rows_in_stripe += piece.num_rows
            self._last_key = self._key_at(piece, -1)
            if ended or self._rows_in_stripe >= self._stripe_row_limit:
                self._finish_part()

    def _finish_part(self) -> None:
        encoder = self._encoder
        if encoder is None:
            return
        encoder.finish()
        source, tail = self._sink.release(self._path)
        rows = [self._rows_in_stripe] if self._rows_in_stripe else []
        if [stripe.rows for stripe in tail.stripes] != rows:
            raise CorruptFileError(
                path=self._path,
                reason="the encoder ended stripes at unexpected rows, so the stripes' keys are"
                " unknown",
            )
        if self._last_key is not None and rows:
            self._stripe_keys.append(self._last_key)
        stripes = StripeWriter(self._emit, tail.compression, self._position)
        footer = pb.Footer()
        footer.CopyFrom(tail.footer)
        for number, stripe in enumerate(footer.stripes):
            stripe.CopyFrom(stripes.add(source, tail, stripe_content(source, tail, number)))
        self._parts.append(replace(tail, footer=footer, content=None))
        self._rows_in_stripe = 0
        # The encoder's C++ object, the sink and this writer are a cycle that the garbage collector
        # cannot detect, so it would never free the buffers of the file (about 15 MB).
        self._encoder = None
