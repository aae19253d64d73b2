"""The tail of an ORC file from its bytes, checked before it is believed; and back to bytes.

Takes a file system and a path, or the last bytes of a file; gives an `OrcTail`. Arrow's reader is
handed what stands in it and trusts it, up to a crash; so what no writer makes is refused here:
lengths against the file, stripes against each other, types against what their kinds allow. Must
not decode rows.

Example:
    >>> from pyarrow import BufferOutputStream, orc, table
    >>> file = BufferOutputStream()
    >>> orc.write_table(table({"id": [7, 8]}), file)
    >>> data = file.getvalue().to_pybytes()
    >>> parse_tail("t.orc", data, len(data)).integer_range(1)
    (7, 8)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError, Message

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.types import MAX_PRECISION
from airflow_hiveacid.storage.orc.compression import (
    DEFAULT_BLOCK_BYTES,
    MOST_BLOCK_BYTES,
    MOST_SECTION_BYTES,
    compress,
    decompress,
)
from airflow_hiveacid.storage.orc.footer import (
    ACID_STATS,
    MAGIC,
    OrcTail,
    OrcType,
    TypeKind,
    per_layout,
    types_of,
)
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.stores.hdfs_streams import OPEN_FILE
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

_FIRST_READ_BYTES: Final = 64 * 1024
# Hive's own types nest a handful of levels; what walks them here and in Arrow does so by recursion.
_ACID_STATS: Final = re.compile(r"[0-9]{1,19},[0-9]{1,19},[0-9]{1,19}")
_DEEPEST: Final = 100
# Some tables have thousands of columns; a type in two bytes of a footer is half a kilobyte here.
_MOST_TYPES: Final = 1 << 17
_CHILDREN: Final[Mapping[int, int]] = {
    **dict.fromkeys(TypeKind, 0),
    TypeKind.LIST: 1,
    TypeKind.MAP: 2,
}
_OF_ANY_WIDTH: Final = frozenset({TypeKind.STRUCT, TypeKind.UNION})


def read_tail(fs: pa.fs.FileSystem, path: str, size: int | None = None) -> OrcTail:
    """Read and check the tail of one ORC file.

    Args:
        fs: Where the file is.
        path: The file, as this file system names it.
        size: Where the file ends for this reader, in bytes; by default where it really ends.

    Raises:
        CorruptFileError: it is no ORC file, or its tail contradicts itself or the file's length.
        UnsupportedFileError: it is compressed with LZO or something newer, or encrypted; or a
            writer is at it, and the store's client does not see what was flushed.
        OSError: it cannot be read.
    """
    with fs.open_input_file(path) as source:
        end = source.size() if size is None else size
        data = _last_bytes(fs, source, path, end, min(end, _FIRST_READ_BYTES))
        wanted = _tail_length(path, *_postscript(path, data), len(data))
        if len(MAGIC) + wanted > end:
            raise CorruptFileError(path=path, reason="its tail is longer than the file")
        if wanted > len(data):
            data = _last_bytes(fs, source, path, end, wanted)
    return parse_tail(path, data, end)


def _last_bytes(
    fs: pa.fs.FileSystem, source: pa.NativeFile, path: str, end: int, count: int
) -> bytes:
    """The bytes before `end`. The size that a file system names is not asked for.

    HDFS names that of the last closed block while a writer is at the file; only reading tells.
    """
    data: bytes = source.read_at(count, end - count) if end > 0 else b""
    if len(data) != count and not traits_of(fs).reads_open_files:
        raise UnsupportedFileError(
            path=path,
            reason=f"it counts up to byte {end}, which cannot be read: {OPEN_FILE}",
        )
    if not count or len(data) != count:
        raise CorruptFileError(path=path, reason=f"it ends before byte {end}, or is empty")
    return data


def parse_tail(path: str, data: bytes, file_length: int) -> OrcTail:
    """Parse a tail from the last bytes of a file; `data` may begin before it.

    Raises:
        CorruptFileError: the bytes are no tail, or contradict themselves or the file's length.
        UnsupportedFileError: it is compressed with LZO or something newer, or encrypted.
    """
    postscript, end = _postscript(path, data)
    if _tail_length(path, postscript, end, len(data)) > len(data):
        raise CorruptFileError(path=path, reason="its tail is cut off")
    footer_start = end - postscript.footer_length
    footer = pb.Footer()
    metadata = pb.Metadata()
    metadata_start = footer_start - postscript.metadata_length
    for message, start, stop in (
        (footer, footer_start, end),
        (metadata, metadata_start, footer_start),
    ):
        section = decompress(
            data[start:stop],
            postscript.compression,
            postscript.compression_block_size or DEFAULT_BLOCK_BYTES,
            path=path,
        )
        _parse(path, message, section)
    if len(footer.types) > _MOST_TYPES:
        raise UnsupportedFileError(path=path, reason=f"it has more than {_MOST_TYPES} types")
    tail = OrcTail(
        path=path,
        file_length=file_length,
        postscript=postscript,
        footer=footer,
        metadata=metadata,
        content=data if len(data) == file_length else None,
    )
    _check_types(tail)
    _check_stripes(tail, file_length - (len(data) - metadata_start))
    _check_rows(tail)
    return tail


def serialize_tail(tail: OrcTail) -> bytes:
    """The bytes that follow the last stripe: metadata, footer, postscript and its length.

    The two lengths in the postscript are set anew; everything else is taken as it stands.

    Raises:
        UnsupportedFileError: the compression is one that cannot be written.
    """
    postscript = pb.PostScript()
    postscript.CopyFrom(tail.postscript)
    kind, block_bytes = tail.compression, tail.compression_block_bytes
    metadata = compress(tail.metadata.SerializeToString(), kind, block_bytes, path=tail.path)
    footer = compress(tail.footer.SerializeToString(), kind, block_bytes, path=tail.path)
    postscript.metadata_length = len(metadata)
    postscript.footer_length = len(footer)
    last = postscript.SerializeToString()
    return b"".join((metadata, footer, last, bytes([len(last)])))


def _postscript(path: str, data: bytes) -> tuple[pb.PostScript, int]:
    """The postscript and where it begins in `data`."""
    start = len(data) - 1 - data[-1] if data else -1
    if start < 0:
        raise CorruptFileError(path=path, reason="it is too short for an ORC file")
    postscript = pb.PostScript()
    _parse(path, postscript, data[start:-1])
    if postscript.magic != MAGIC:
        raise CorruptFileError(path=path, reason="it does not end as an ORC file does")
    if postscript.compression_block_size > MOST_BLOCK_BYTES:
        # The header of a chunk has no room for the length of such a block, and Arrow crashes on it.
        raise CorruptFileError(
            path=path,
            reason=f"its compression blocks have {postscript.compression_block_size} bytes, more"
            f" than {MOST_BLOCK_BYTES}",
        )
    return postscript, start


def _tail_length(path: str, postscript: pb.PostScript, start: int, size: int) -> int:
    """How long the tail is whose postscript begins at `start` of the `size` bytes read."""
    if postscript.stripe_statistics_length:  # only written beside encrypted columns
        raise UnsupportedFileError(path=path, reason="it holds encrypted columns")
    if max(postscript.footer_length, postscript.metadata_length) > MOST_SECTION_BYTES:
        raise CorruptFileError(path=path, reason="a part of its tail is longer than it may be")
    length: int = postscript.footer_length + postscript.metadata_length + size - start
    return length


def _parse(path: str, message: Message, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        name = type(message).__name__.lower()
        raise CorruptFileError(path=path, reason=f"its {name} cannot be parsed") from error


def _check_types(tail: OrcTail) -> None:
    fault = _fault(tail.layout)
    if fault is not None:
        raise CorruptFileError(path=tail.path, reason=fault)
    if _depth(tail.layout) > _DEEPEST:
        raise UnsupportedFileError(
            path=tail.path, reason=f"its types nest deeper than {_DEEPEST} levels"
        )


@per_layout
def _fault(layout: bytes) -> str | None:
    """What cannot be true of the types, or None.

    Types are numbered depth first from a struct, so that each has one parent, before it.
    """
    types = types_of(layout)
    if not types:
        return "its footer names no types"
    if types[0].kind != TypeKind.STRUCT:
        return "its rows are no structs"
    for column_id, type_ in enumerate(types):
        for reason in _contradictions(type_):
            return f"type {column_id} {reason}"
    return _misplaced(types)


def _misplaced(types: Sequence[OrcType]) -> str | None:
    parents = [False] * len(types)
    for column_id, type_ in enumerate(types):
        for child in type_.children:
            if not column_id < child < len(types):
                return f"type {column_id} refers to type {child}, which is not there"
            if parents[child]:
                return f"type {child} belongs to two others"
            parents[child] = True
    return None if all(parents[1:]) else "a type belongs to no other"


@per_layout
def _depth(layout: bytes) -> int:
    """How many levels of types are below the root; they must be without a fault."""
    types = types_of(layout)
    depths = [0] * len(types)
    for column_id, type_ in enumerate(types):
        for child in type_.children:
            depths[child] = depths[column_id] + 1
    return max(depths)


def _contradictions(type_: OrcType) -> Iterator[str]:
    """What cannot be true of one type, whatever the others are."""
    if type_.kind not in _OF_ANY_WIDTH and len(type_.children) != _CHILDREN.get(
        type_.kind, len(type_.children)
    ):
        yield f"has {len(type_.children)} types below it, which its kind {type_.kind} does not"
    if type_.kind == TypeKind.STRUCT and len(type_.field_names) != len(type_.children):
        yield "is a struct that has fields without a name"
    if not all(
        isinstance(name, str) for name in type_.field_names
    ):  # protobuf hands bytes out then
        yield "has fields whose names are no text"
    if type_.kind == TypeKind.UNION and not type_.children:
        yield "is a union of nothing"
    # Hive 0.11 wrote no precision.
    precision = type_.precision or MAX_PRECISION
    if type_.kind == TypeKind.DECIMAL and not type_.scale <= precision <= MAX_PRECISION:
        yield f"is a decimal({type_.precision},{type_.scale})"


def _check_rows(tail: OrcTail) -> None:
    """Whoever counts the rows a second time has to agree: a file is not taken for an empty one."""
    root = tail.statistics(0)
    # Without a row index, writers may count nothing at all.
    counts = [] if root is None or not root.values else [root.values]
    stats = tail.user_metadata.get(ACID_STATS)
    if stats is not None and _ACID_STATS.fullmatch(stats):
        counts.append(sum(map(int, stats.split(","))))
    for count in counts:
        if count != tail.rows:
            raise CorruptFileError(
                path=tail.path, reason=f"its statistics count {count} rows, its stripes {tail.rows}"
            )


def _check_stripes(tail: OrcTail, end: int) -> None:
    """Stripes lie one behind the other between the magic bytes and the tail."""
    path = tail.path
    if sum(stripe.rows for stripe in tail.stripes) != tail.rows:
        raise CorruptFileError(path=path, reason="its stripes do not add up to its rows")
    at = len(MAGIC)
    for stripe in tail.stripes:
        if stripe.offset < at:
            raise CorruptFileError(path=path, reason="a stripe begins before the last one ends")
        if stripe.footer_length > MOST_SECTION_BYTES:
            raise CorruptFileError(path=path, reason="a stripe's footer is longer than it may be")
        at = stripe.offset + stripe.length
    if at > end:
        raise CorruptFileError(path=path, reason="a stripe lies beyond the end of the file")
    if tail.metadata.stripes and len(tail.metadata.stripes) != len(tail.stripes):
        raise CorruptFileError(path=path, reason="stripes and their statistics differ in number")
