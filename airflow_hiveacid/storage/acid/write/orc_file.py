"""How an ORC file is written by the encoders that share it: stripes as they fill up, then a tail.

Takes batches that fit; gives one file. Nothing is read back, and memory holds one stripe. What the
rows are, and what the tail says of them, is told by whoever stands on this (`writer`, and
`storage.plain.write` for rows without identity). Must not know directories.
"""

from __future__ import annotations

import abc
import contextlib
import posixpath
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.acid.write.row_encoder import RowEncoder
from airflow_hiveacid.storage.acid.write.tail import Segment
from airflow_hiveacid.storage.orc.encoders import ArrowEncoder, StripeSink, WriterOptions
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcTail
from airflow_hiveacid.storage.orc.tail import serialize_tail
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.values.column_types import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pyarrow as pa
    from pyarrow import fs as pafs

    from airflow_hiveacid.storage.orc.encoders import Encoder
    from airflow_hiveacid.storage.values.column_types import TypeNode

_Key = TypeVar("_Key")

_MOST_STRIPE_ROWS: Final = 1 << 23
_FEWEST_STRIPE_ROWS: Final = 1 << 17


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


class AbortsUnlessClosed(abc.ABC):
    """A file being written, which as a context manager is given up unless it was closed."""

    _is_open: bool

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

    @abc.abstractmethod
    def abort(self) -> None:
        """Give up: close and delete the file, as far as the file system lets us."""


class OrcFile(AbortsUnlessClosed, Generic[_Key]):
    """One ORC file being written. Mutable, for one thread; one that was not closed is no file.

    `_Key` is what tells the place of a row, of which the last of each stripe is kept.
    """

    def __init__(  # noqa: PLR0913 - a place, a layout and a name for messages
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
        """Open the file, making its directory when that is missing.

        Args:
            fs: Where to write.
            path: The file, as this file system names it.
            nodes: The columns' types.
            options: Compression and sizes.
            has_root: Whether the ACID columns stand around the rows.
            stripe_rows: The most rows of a stripe.
            table: For messages.

        Raises:
            LocationPermissionError: the file may not be written.
            StorageError: it cannot be made otherwise.
        """
        self._fs, self._path, self._options = fs, path, options
        self._nodes, self._has_root, self._table = tuple(nodes), has_root, table
        self._segments: list[Segment] = []
        self._stripe_keys: list[_Key] = []
        self._stripe_rows: list[int] = []
        self._nul_column_ids: set[int] = set()
        self._byte_ids: frozenset[int] = frozenset()
        self._first_key: _Key | None = None
        self._last_key: _Key | None = None
        self._rows_in_stripe = 0
        self._stripe_row_limit = stripe_rows
        self._position = 0
        self._encoder: Encoder | None = None
        self._stream = self._open()
        self._is_open = True
        self._emit(MAGIC)

    @abc.abstractmethod
    def _key_at(self, batch: pa.RecordBatch, index: int) -> _Key:
        """What tells the place of a row; a negative index counts from the end."""

    @abc.abstractmethod
    def _tail(self) -> OrcTail:
        """The tail of the whole file, once all segments are there."""

    def abort(self) -> None:
        """Give up: close and delete the file, as far as the file system lets us."""
        self._is_open = False
        self._encoder = None
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._fs.delete_file(self._path)

    def _finish(self, empty: pa.Schema) -> OrcTail:
        """Write the last stripe and the tail; `empty` is the schema if there was no row.

        Raises:
            CorruptFileError: the encoder cut its stripes where it was not seen to; the file is not
                to be used.
        """
        if self._first_key is None:
            self._start(empty)
        self._finish_segment()
        tail = self._tail()
        self._emit(serialize_tail(tail))
        with storage_errors("write", self._path):
            self._stream.close()
        self._is_open = False
        return tail

    def _append(self, batch: pa.RecordBatch, *, needs_rows: bool) -> None:
        """Encode rows that fit; with `needs_rows`, by the encoder that takes them one by one."""
        if self._ought_to_change(needs_rows=needs_rows):
            self._finish_segment()
        self._encode(batch, needs_rows=needs_rows)

    @property
    def _goes_by_rows(self) -> bool:
        return isinstance(self._encoder, RowEncoder)

    def _open(self) -> pa.NativeFile:
        with storage_errors("write", self._path):
            self._fs.create_dir(posixpath.dirname(self._path), recursive=True)
            return self._fs.open_output_stream(self._path)

    def _emit(self, data: bytes) -> None:
        with storage_errors("write", self._path):
            self._stream.write(data)
        self._position += len(data)

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
            if ended:
                self._end_stripe(self._last_key)
            elif self._rows_in_stripe >= self._stripe_row_limit:
                self._finish_segment()

    def _end_stripe(self, key: _Key) -> None:
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
