"""An ORC file shown to Arrow under another footer: flattened, renamed, cut to some stripes.

Arrow's batch reader streams with bounded memory, but it can leave out only whole top-level columns
and knows no part of a file. Both are matters of the footer, which is ours to give: `row` becomes
an empty struct in its place and its fields move up beside it, so that every column ID, and with it
every stream in the file, stays what it was. Columns are then called `c<column ID>`, whatever a
table calls them. Takes a tail and what to show; gives batches. Must not know what the columns
mean.

Timestamps need one trick more. Arrow holds nanoseconds in 64 bits, which reach from 1677 to 2262
and wrap silently beyond. ORC stores seconds and nanoseconds apart, the seconds exactly like a
long: shown as a long they come out whole, and the wrapped value then tells the rest
(`orc_timestamps`).
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.filesystem import file_errors
from airflow_hiveacid.storage.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc_footer import OrcTail, TypeKind, serialize_tail

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

DEFAULT_BATCH_ROWS: Final = 16 * 1024
# A file this small is read in one go; a call back into Python for each stream would cost more.
_WHOLE_BYTES: Final = 256 * 1024
_TIMESTAMPS: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of a file is shown.

    `columns` are column IDs, each of which becomes a column `c<ID>` in this order. `flatten` is
    the ID of the struct below the root whose fields move up (None: the root's children are shown).
    `stripes` are 0-based; None shows all. `as_longs` shows every timestamp as a long: raw seconds.
    """

    columns: tuple[int, ...]
    flatten: int | None = None
    stripes: tuple[int, ...] | None = None
    as_longs: bool = False


def read_view(
    fs: pafs.FileSystem, tail: OrcTail, view: View, batch_rows: int = DEFAULT_BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Read what a view shows, in file order, at most `batch_rows` rows at a time.

    Raises:
        CorruptFileError: the file cannot be decoded.
        LocationPermissionError: it may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    shown = _shown(tail, view)
    if not shown.footer.rows:
        return
    names = [f"c{column_id}" for column_id in view.columns]
    with file_errors("read", tail.path), fs.open_input_file(tail.path) as source:
        fragment = pads.OrcFileFormat().make_fragment(_spliced(source, shown))
        # One thread for one file: whoever reads many files decides how many at a time.
        scanner = fragment.scanner(
            columns=names, batch_size=batch_rows, batch_readahead=1, use_threads=False
        )
        try:
            yield from scanner.to_batches()
        except (OSError, ValueError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise CorruptFileError(path=tail.path, reason=_reason(error)) from error


def _reason(error: Exception) -> str:
    return f"its rows cannot be decoded ({str(error).partition(chr(10))[0]})"


def _shown(tail: OrcTail, view: View) -> OrcTail:
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    # Arrow asks for none of these while it reads rows, and they may be many.
    del footer.statistics[:]
    del footer.metadata[:]
    if view.stripes is not None:
        _keep_stripes(footer, view.stripes)
    if view.flatten is not None:
        _lift(footer.types, view.flatten)
    root = footer.types[0]
    del root.field_names[:]
    root.field_names.extend(f"c{column_id}" for column_id in root.children)
    if view.as_longs:
        for type_ in footer.types:
            if type_.kind in _TIMESTAMPS:
                type_.kind = TypeKind.LONG
    return replace(tail, footer=footer, metadata=pb.Metadata())


def _keep_stripes(footer: pb.Footer, stripes: Collection[int]) -> None:
    kept = [pb.Stripe.FromString(footer.stripes[i].SerializeToString()) for i in sorted(stripes)]
    del footer.stripes[:]
    footer.stripes.extend(kept)
    footer.rows = sum(stripe.rows for stripe in kept)


def _lift(types: Any, struct_id: int) -> None:  # noqa: ANN401 - protobuf's container of types
    """Move the fields of a struct up to the root, right behind it; column IDs stay in order."""
    root, struct = types[0], types[struct_id]
    children = list(root.children)
    at = children.index(struct_id) + 1
    children[at:at] = struct.children
    del root.children[:]
    root.children.extend(children)
    del struct.children[:]
    del struct.field_names[:]


# ---- a file with another end ---------------------------------------------------------------------


def _spliced(source: pa.NativeFile, shown: OrcTail) -> pa.NativeFile:
    """The bytes of a file up to the end of its stripes, then another tail."""
    end = max(stripe.offset + stripe.length for stripe in shown.stripes)
    tail = serialize_tail(shown)
    if end <= _WHOLE_BYTES:
        return pa.BufferReader(source.read_at(end, 0) + tail)
    return pa.PythonFile(_SplicedFile(source, end, tail), mode="r")


class _SplicedFile(io.RawIOBase):
    """A file below `end`, and other bytes from there on. Mutable: it has a position."""

    def __init__(self, source: pa.NativeFile, end: int, tail: bytes) -> None:
        super().__init__()
        self._source = source
        self._end = end
        self._tail = tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    @property
    def _size(self) -> int:
        return self._end + len(self._tail)

    def read(self, size: int = -1, /) -> bytes:
        stop = self._size if size < 0 else min(self._at + size, self._size)
        parts = []
        if self._at < self._end:
            parts.append(self._source.read_at(min(stop, self._end) - self._at, self._at))
        if stop > self._end:
            parts.append(self._tail[max(self._at - self._end, 0) : stop - self._end])
        content: bytes = b"".join(parts)
        self._at += len(content)
        return content
