"""Parse, check and serialise the tail of an ORC file.

Arrow crashes on some invalid tails, so lengths are checked against the file, stripes against each
other, and types against their kinds.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
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
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.hdfs.handler import OPEN_FILE
from airflow_hiveacid.storage.stores.locations import traits_of

# ---- the number of objects in a section ----------------------------------------------------------
# An empty message takes two bytes in a section and two hundred bytes in memory. A section of empty
# messages shrinks a thousandfold if it is compressed. Counting creates none of the objects.

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_CONTINUED: Final = 0x80
_LONGEST_VARINT: Final = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a message's fields that become objects: messages, strings, value lists."""

    below: Mapping[int, Shape] = field(default_factory=dict)
    texts: frozenset[int] = frozenset()
    values: frozenset[int] = frozenset()


_LEAF: Final = Shape()
_STATISTICS: Final = Shape(dict.fromkeys((2, 3, 4, 5, 6, 7, 8, 9, 12), _LEAF))
# In a type, field 2 contains the children, packed or not, field 3 a name for each child.
_TYPE: Final = Shape(texts=frozenset({3}), values=frozenset({2}))

FOOTER: Final = Shape({3: _LEAF, 4: _TYPE, 5: _LEAF, 7: _STATISTICS})
"""The footer: stripes, types, user metadata, statistics of columns."""

METADATA: Final = Shape({1: Shape({1: _STATISTICS})})
"""The metadata: statistics of the columns of each stripe."""


def count_objects(section: bytes, shape: Shape, most: int) -> int:
    """Return the number of objects that a parser would create; stop counting above `most`.

    Example:
        >>> two_stripes = pb.Footer(stripes=[pb.Stripe(), pb.Stripe()]).SerializeToString()
        >>> count_objects(two_stripes, FOOTER, 9)
        2

    Raises DecodeError if the bytes are not a protobuf message.
    """
    count = 0
    stack = [(0, len(section), shape)]
    while stack and count <= most:
        offset, end, shape = stack.pop()
        while offset < end and count <= most:
            key, offset = _varint(section, offset, end)
            number, kind = key >> 3, key & 7
            if kind == _VARINT:
                _, offset = _varint(section, offset, end)
                count += number in shape.values
                continue
            length = _FIXED.get(kind)
            if kind == _BYTES:
                length, offset = _varint(section, offset, end)
            if length is None or offset + length > end:
                raise DecodeError("a field is cut off")
            if kind == _BYTES and number in shape.below:
                count += 1
                stack.append((offset, offset + length, shape.below[number]))
            elif number in shape.values:  # packed values have at least one byte each
                count += length
            else:
                count += number in shape.texts
            offset += length
    return count


def _varint(section: bytes, offset: int, end: int) -> tuple[int, int]:
    value = 0
    for number in range(_LONGEST_VARINT):
        if offset >= end:
            break
        byte = section[offset]
        offset += 1
        value |= (byte & ~_CONTINUED) << (7 * number)
        if not byte & _CONTINUED:
            return value, offset
    raise DecodeError("a number is cut off")


# ---- the tail ------------------------------------------------------------------------------------

_FIRST_READ_BYTES: Final = 64 * 1024
_ACID_STATS: Final = re.compile(r"[0-9]{1,19},[0-9]{1,19},[0-9]{1,19}")
# Hive's own types nest a few levels deep. Both this module and Arrow recurse into nested types.
_DEEPEST: Final = 100
# A table may have thousands of columns; a type of two bytes takes half a kilobyte in memory.
_MOST_TYPES: Final = 1 << 17
# The length of a file limits the expanded size of its tail, and the number of objects in it:
# compression shrinks a tail of zeros a thousandfold, and parsing expands it a hundredfold. So a
# file of 8 KB takes at most 64 MB.
_SMALL_SECTION_BYTES: Final = 4 << 20
_FREE_OBJECTS: Final = 1 << 16
_OBJECTS_A_BYTE: Final = 16
_FEWEST_BYTES_OF_OBJECT: Final = 2
_FREE_COUNT: Final = 4096
_CHILDREN: Final[Mapping[int, int]] = {
    **dict.fromkeys(TypeKind, 0),
    TypeKind.LIST: 1,
    TypeKind.MAP: 2,
}
_OF_ANY_WIDTH: Final = frozenset({TypeKind.STRUCT, TypeKind.UNION})


def read_tail(fs: pa.fs.FileSystem, path: str, size: int | None = None) -> OrcTail:
    """Read the tail of one ORC file, up to `size` bytes or its end, and check it.

    Raises UnsupportedFileError if the file is encrypted, compressed with LZO or an unknown method,
    or open, and the store's client cannot read flushed bytes.
    """
    with file_errors("read", path), fs.open_input_file(path) as source:
        end = source.size() if size is None else size
        data = _last_bytes(fs, source, path, end, min(end, _FIRST_READ_BYTES))

        def beginning() -> bytes:
            return bytes(source.read_at(len(MAGIC), 0))

        tail_length = _tail_length(path, *_postscript(path, data, beginning), len(data))
        if len(MAGIC) + tail_length > end:
            raise CorruptFileError(path=path, reason="its tail is longer than the file")
        if tail_length > len(data):
            data = _last_bytes(fs, source, path, end, tail_length)
        return parse_tail(path, data, end, beginning)


def _last_bytes(
    fs: pa.fs.FileSystem, source: pa.NativeFile, path: str, end: int, count: int
) -> bytes:
    # While a writer has a file open, HDFS reports only the closed blocks as its size.
    data: bytes = source.read_at(count, end - count) if end > 0 else b""
    if len(data) != count and not traits_of(fs).reads_open_files:
        raise UnsupportedFileError(
            path=path,
            reason=f"it cannot be read up to byte {end}: {OPEN_FILE}",
        )
    if not count or len(data) != count:
        raise CorruptFileError(path=path, reason=f"it ends before byte {end}, or is empty")
    return data


def parse_tail(
    path: str, data: bytes, file_length: int, beginning: Callable[[], bytes] | None = None
) -> OrcTail:
    """Parse a tail from the last bytes of a file; `data` may begin before the tail.

    `beginning` returns the first bytes of the file, if `data` lacks them. Raises CorruptFileError
    without a tail, or if it contradicts itself or `file_length`.
    """
    postscript, end = _postscript(path, data, beginning)
    if _tail_length(path, postscript, end, len(data)) > len(data):
        raise CorruptFileError(path=path, reason="its tail is cut off")
    footer_start = end - postscript.footer_length
    footer = pb.Footer()
    metadata = pb.Metadata()
    metadata_start = footer_start - postscript.metadata_length
    object_limit = _FREE_OBJECTS + _OBJECTS_A_BYTE * file_length
    for message, shape, start, stop in (
        (footer, FOOTER, footer_start, end),
        (metadata, METADATA, metadata_start, footer_start),
    ):
        section = decompress(
            data[start:stop],
            postscript.compression,
            postscript.compression_block_size or DEFAULT_BLOCK_BYTES,
            path=path,
            small_bytes=max(_SMALL_SECTION_BYTES, file_length),
        )
        object_limit -= _objects(path, section, shape, object_limit)
        _parse(path, message, section)
    _check_counts(path, footer, metadata, file_length)
    tail = OrcTail(
        path=path,
        file_length=file_length,
        postscript=postscript,
        footer=footer,
        metadata=metadata,
        content=data if len(data) == file_length else None,
    )
    _check_types(tail)
    metadata_in_file = file_length - (len(data) - metadata_start)
    _check_stripes(tail, metadata_in_file)
    _check_rows(tail)
    return tail


def serialize_tail(tail: OrcTail) -> bytes:
    """Return the bytes after the last stripe, with new lengths of metadata and footer."""
    postscript = pb.PostScript()
    postscript.CopyFrom(tail.postscript)
    kind, block_bytes = tail.compression, tail.compression_block_bytes
    metadata = compress(tail.metadata.SerializeToString(), kind, block_bytes, path=tail.path)
    footer = compress(tail.footer.SerializeToString(), kind, block_bytes, path=tail.path)
    postscript.metadata_length = len(metadata)
    postscript.footer_length = len(footer)
    last = postscript.SerializeToString()
    return b"".join((metadata, footer, last, bytes([len(last)])))


def _postscript(
    path: str, data: bytes, beginning: Callable[[], bytes] | None
) -> tuple[pb.PostScript, int]:
    """Return the postscript, with magic bytes from `beginning` if it lacks them, and its start."""
    start = len(data) - 1 - data[-1] if data else -1
    if start < 0:
        raise CorruptFileError(path=path, reason="it is too short for an ORC file")
    postscript = pb.PostScript()
    _parse(path, postscript, data[start:-1])
    if not postscript.HasField("magic") and beginning is not None and beginning() == MAGIC:
        postscript.magic = MAGIC
    if postscript.magic != MAGIC:
        raise CorruptFileError(path=path, reason="it does not end as an ORC file does")
    if postscript.compression_block_size > MOST_BLOCK_BYTES:
        # A chunk's header cannot hold the length of a larger block. Arrow crashes on larger blocks.
        raise CorruptFileError(
            path=path,
            reason=f"its compression blocks have {postscript.compression_block_size} bytes, more"
            f" than {MOST_BLOCK_BYTES}",
        )
    return postscript, start


def _tail_length(path: str, postscript: pb.PostScript, start: int, size: int) -> int:
    """Return the tail's length; `start` is the postscript's position in the last `size` bytes."""
    if postscript.stripe_statistics_length:  # only files with encrypted columns have this length
        raise UnsupportedFileError(path=path, reason="it holds encrypted columns")
    if max(postscript.footer_length, postscript.metadata_length) > MOST_SECTION_BYTES:
        raise CorruptFileError(path=path, reason="a part of its tail is longer than allowed")
    length: int = postscript.footer_length + postscript.metadata_length + size - start
    return length


def _parse(path: str, message: Message, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        name = type(message).__name__.lower()
        raise CorruptFileError(path=path, reason=f"its {name} cannot be parsed") from error


def _objects(path: str, section: bytes, shape: Shape, most: int) -> int:
    # Counting takes a microsecond per object. It is left out if the section cannot exceed the limit
    # with one object a byte; then the estimate of two bytes an object is returned.
    count = len(section) // _FEWEST_BYTES_OF_OBJECT
    if count <= most // 2:
        return count
    try:
        count = count_objects(section, shape, most)
    except DecodeError as error:
        raise CorruptFileError(path=path, reason="its tail cannot be parsed") from error
    if count > most:
        raise CorruptFileError(
            path=path, reason="its tail holds more values than a file of its length can have"
        )
    return count


def _check_counts(path: str, footer: pb.Footer, metadata: pb.Metadata, file_length: int) -> None:
    # Each stripe needs a footer, and each type needs a name or streams.
    if len(footer.types) > _MOST_TYPES:
        raise UnsupportedFileError(path=path, reason=f"it has more than {_MOST_TYPES} types")
    if len(metadata.stripes) > len(footer.stripes):
        raise CorruptFileError(
            path=path, reason="the numbers of stripes and of stripe statistics differ"
        )
    free = max(_FREE_COUNT, file_length)
    for items, count, limit in (
        ("stripes", len(footer.stripes), file_length),
        ("types", len(footer.types), free),
        ("keys of user metadata", len(footer.metadata), free),
    ):
        if count > limit:
            raise CorruptFileError(
                path=path, reason=f"it has {count} {items}, but at most {limit} are possible"
            )


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
    # Types are numbered depth first from a struct. So each type has one parent with a lower number.
    types = types_of(layout)
    if not types:
        return "its footer names no types"
    if types[0].kind != TypeKind.STRUCT:
        return "its root type is not a struct"
    for column_id, type_ in enumerate(types):
        for reason in _contradictions(type_):
            return f"type {column_id} {reason}"
    return _misplaced(types)


def _misplaced(types: Sequence[OrcType]) -> str | None:
    parents = [False] * len(types)
    for column_id, type_ in enumerate(types):
        for child in type_.children:
            if not column_id < child < len(types):
                return f"type {column_id} refers to type {child}, which does not exist"
            if parents[child]:
                return f"type {child} has two parents"
            parents[child] = True
    return None if all(parents[1:]) else "a type has no parent"


@per_layout
def _depth(layout: bytes) -> int:
    """Return the number of levels below the root type; the types must be consistent."""
    types = types_of(layout)
    depths = [0] * len(types)
    for column_id, type_ in enumerate(types):
        for child in type_.children:
            depths[child] = depths[column_id] + 1
    return max(depths)


def _contradictions(type_: OrcType) -> Iterator[str]:
    if type_.kind not in _OF_ANY_WIDTH and len(type_.children) != _CHILDREN.get(
        type_.kind, len(type_.children)
    ):
        kind = TypeKind(type_.kind).name.lower()
        yield f"has {len(type_.children)} child types, which a {kind} cannot have"
    if type_.kind == TypeKind.STRUCT and len(type_.field_names) != len(type_.children):
        yield "is a struct that has fields without a name"
    if not all(
        isinstance(name, str) for name in type_.field_names
    ):  # protobuf returns bytes for names that are not UTF-8
        yield "has field names that are not text"
    if type_.kind == TypeKind.UNION and not type_.children:
        yield "is a union without types"
    if type_.kind == TypeKind.DECIMAL and not type_.scale <= type_.precision <= MAX_PRECISION:
        yield f"is a decimal({type_.precision},{type_.scale})"


def _check_rows(tail: OrcTail) -> None:
    """Check that all row counts agree, so that a file with rows is never read as empty."""
    root = tail.statistics(0)
    # Without a row index, writers may omit the row count from the statistics.
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
    """Check the rows and positions of the stripes; the tail begins at `end`."""
    path = tail.path
    if sum(stripe.rows for stripe in tail.stripes) != tail.rows:
        raise CorruptFileError(
            path=path, reason="the row counts of its stripes do not add up to its row count"
        )
    previous_end = len(MAGIC)
    for stripe in tail.stripes:
        if stripe.offset < previous_end:
            raise CorruptFileError(path=path, reason="a stripe begins before the previous one ends")
        if stripe.footer_length > MOST_SECTION_BYTES:
            raise CorruptFileError(path=path, reason="a stripe's footer is longer than allowed")
        previous_end = stripe.offset + stripe.length
    if previous_end > end:
        raise CorruptFileError(path=path, reason="a stripe lies beyond the end of the file")
    if tail.metadata.stripes and len(tail.metadata.stripes) != len(tail.stripes):
        raise CorruptFileError(
            path=path, reason="the numbers of stripes and of stripe statistics differ"
        )
