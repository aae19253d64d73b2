"""What the tail of an ORC file says: stripes, types, statistics, metadata; how to write one.

Takes a file system and a path; gives an `OrcTail`. A tail is checked before it is believed: lengths
against the file, stripes against the lengths. Must not decode rows.

Example:
    >>> from pyarrow import BufferOutputStream, orc, table
    >>> file = BufferOutputStream()
    >>> orc.write_table(table({"id": [7, 8]}), file)
    >>> data = file.getvalue().to_pybytes()
    >>> parse_tail("t.orc", data, len(data)).integer_range(1)
    (7, 8)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError, Message

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL
from airflow_hiveacid.storage.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc_compression import Compression, compress, decompress

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

MAGIC: Final = b"ORC"
KEY_INDEX: Final = "hive.acid.key.index"
ACID_STATS: Final = "hive.acid.stats"
ACID_VERSION: Final = "hive.acid.version"

_FIRST_READ_BYTES: Final = 64 * 1024
_DEFAULT_BLOCK_BYTES: Final = 256 * 1024


class Calendar(enum.IntEnum):
    """Which calendar dates and timestamps before 1582-10-15 are in; numbers as in the file."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


class TypeKind(enum.IntEnum):
    """The kinds of ORC types; numbers as in the file."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


PRIMITIVE_KINDS: Final[Mapping[str, TypeKind]] = {
    "boolean": TypeKind.BOOLEAN,
    "tinyint": TypeKind.BYTE,
    "smallint": TypeKind.SHORT,
    "int": TypeKind.INT,
    "bigint": TypeKind.LONG,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "string": TypeKind.STRING,
    "binary": TypeKind.BINARY,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
    TIMESTAMP_LOCAL: TypeKind.TIMESTAMP_INSTANT,
}
"""The kind of each primitive type that Hive has a name for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeInfo:
    """Where one stripe lies and how many rows it has; lengths in bytes."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        """All bytes of the stripe; it ends before `offset + length`."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """One type of the file; its place in `OrcTail.types` is its column ID.

    `kind` is a `TypeKind` where this release knows it, else the bare number. `children` are column
    IDs; `field_names` go with them when it is a struct. `maximum_length` is that of char and
    varchar, 0 otherwise.
    """

    kind: int
    children: tuple[int, ...]
    field_names: tuple[str, ...]
    maximum_length: int
    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """A parsed tail. The protobuf messages are shared, not copied: do not change them.

    `file_length` is where the reader's file ends: less than its size when a streaming writer has
    committed only so much.
    """

    path: str
    file_length: int
    postscript: pb.PostScript
    footer: pb.Footer
    metadata: pb.Metadata

    @property
    def rows(self) -> int:
        """Rows in all stripes."""
        return self.footer.rows

    @property
    def stripes(self) -> tuple[StripeInfo, ...]:
        """The stripes in file order."""
        return tuple(
            StripeInfo(
                offset=stripe.offset,
                index_length=stripe.index_length,
                data_length=stripe.data_length,
                footer_length=stripe.footer_length,
                rows=stripe.rows,
            )
            for stripe in self.footer.stripes
        )

    @property
    def user_metadata(self) -> dict[str, str]:
        """Key and value of every user metadata item; bytes that are no UTF-8 are replaced."""
        return {item.name: item.value.decode(errors="replace") for item in self.footer.metadata}

    @property
    def compression(self) -> Compression:
        """How streams and tail are compressed."""
        return Compression(self.postscript.compression)

    @property
    def compression_block_bytes(self) -> int:
        """The largest uncompressed chunk."""
        return self.postscript.compression_block_size or _DEFAULT_BLOCK_BYTES

    @property
    def row_index_stride(self) -> int:
        """Rows per entry of the row index; with 0 there is none, and statistics do not count."""
        return self.footer.row_index_stride

    @property
    def types(self) -> tuple[OrcType, ...]:
        """The types by column ID, depth first."""
        return tuple(
            OrcType(
                kind=type_.kind,
                children=tuple(type_.children),
                field_names=tuple(type_.field_names),
                maximum_length=type_.maximum_length,
                precision=type_.precision,
                scale=type_.scale,
            )
            for type_ in self.footer.types
        )

    @property
    def calendar(self) -> Calendar:
        """The writer's calendar; a number of a later release counts as unknown."""
        try:
            return Calendar(self.footer.calendar)
        except ValueError:
            return Calendar.UNKNOWN

    def column_id(self, *names: str) -> int | None:
        """The column ID below these field names, compared exactly; None when one is not there."""
        column_id = 0
        for name in names:
            type_ = self.footer.types[column_id]
            if name not in type_.field_names:
                return None
            column_id = type_.children[list(type_.field_names).index(name)]
        return column_id

    def statistics(self, column_id: int, stripe: int | None = None) -> pb.ColumnStatistics | None:
        """Statistics of a column in the whole file or in one stripe (0-based); None when absent."""
        if stripe is None:
            entries = self.footer.statistics
        elif stripe < len(self.metadata.stripes):
            entries = self.metadata.stripes[stripe].columns
        else:
            return None
        return entries[column_id] if column_id < len(entries) else None

    def integer_range(self, column_id: int, stripe: int | None = None) -> tuple[int, int] | None:
        """Least and greatest value of an integer column, both inclusive.

        None when the file does not say, which includes files without a row index: their writers are
        free to leave the statistics wrong.
        """
        found = self.statistics(column_id, stripe)
        if not self.row_index_stride or found is None:
            return None
        integers = found.integers
        if not (integers.HasField("minimum") and integers.HasField("maximum")):
            return None
        return integers.minimum, integers.maximum


def read_tail(fs: pa.fs.FileSystem, path: str, size: int | None = None) -> OrcTail:
    """Read and check the tail of one ORC file.

    Args:
        fs: Where the file is.
        path: The file, as this file system names it.
        size: Where the file ends for this reader, in bytes; by default where it really ends.

    Raises:
        CorruptFileError: it is no ORC file, or its tail contradicts itself or the file's length.
        UnsupportedFileError: it is compressed with LZO or something newer, or encrypted.
        OSError: it cannot be read.
    """
    with fs.open_input_file(path) as source:
        end = source.size() if size is None else size
        if not 0 < end <= source.size():
            raise CorruptFileError(path=path, reason=f"it ends before byte {end}, or is empty")
        start = max(0, end - _FIRST_READ_BYTES)
        data = source.read_at(end - start, start)
        wanted = _tail_length(path, data)
        if len(MAGIC) + wanted > end:
            raise CorruptFileError(path=path, reason="its tail is longer than the file")
        if wanted > len(data):
            data = source.read_at(wanted, end - wanted)
    return parse_tail(path, data, end)


def parse_tail(path: str, data: bytes, file_length: int) -> OrcTail:
    """Parse a tail from the last bytes of a file; `data` may begin before it.

    Raises:
        CorruptFileError: the bytes are no tail, or contradict themselves or the file's length.
        UnsupportedFileError: it is compressed with LZO or something newer, or encrypted.
    """
    postscript, end = _postscript(path, data)
    if _tail_length(path, data) > len(data):
        raise CorruptFileError(path=path, reason="its tail is cut off")
    footer_start = end - postscript.footer_length
    footer = pb.Footer()
    metadata = pb.Metadata()
    metadata_start = footer_start - postscript.metadata_length
    kind = postscript.compression
    _parse(path, footer, decompress(data[footer_start:end], kind, path=path))
    _parse(path, metadata, decompress(data[metadata_start:footer_start], kind, path=path))
    tail = OrcTail(
        path=path,
        file_length=file_length,
        postscript=postscript,
        footer=footer,
        metadata=metadata,
    )
    _check(tail)
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
    start = len(data) - 1 - data[-1]
    if start < 0:
        raise CorruptFileError(path=path, reason="it is too short for an ORC file")
    postscript = pb.PostScript()
    _parse(path, postscript, data[start:-1])
    if postscript.magic != MAGIC:
        raise CorruptFileError(path=path, reason="it does not end as an ORC file does")
    return postscript, start


def _tail_length(path: str, data: bytes) -> int:
    postscript, start = _postscript(path, data)
    if postscript.stripe_statistics_length:  # only written beside encrypted columns
        raise UnsupportedFileError(path=path, reason="it holds encrypted columns")
    return postscript.footer_length + postscript.metadata_length + len(data) - start


def _parse(path: str, message: Message, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        name = type(message).__name__.lower()
        raise CorruptFileError(path=path, reason=f"its {name} cannot be parsed") from error


def _check(tail: OrcTail) -> None:
    footer = tail.footer
    if not footer.types:
        raise CorruptFileError(path=tail.path, reason="its footer names no types")
    for type_ in footer.types:
        if any(child >= len(footer.types) for child in type_.children):
            raise CorruptFileError(path=tail.path, reason="a type refers to one that is not there")
        if type_.field_names and len(type_.field_names) != len(type_.children):
            raise CorruptFileError(path=tail.path, reason="a struct has fields without a name")
    stripes = tail.stripes
    if sum(stripe.rows for stripe in stripes) != footer.rows:
        raise CorruptFileError(path=tail.path, reason="its stripes do not add up to its rows")
    if any(stripe.offset + stripe.length > tail.file_length for stripe in stripes):
        raise CorruptFileError(path=tail.path, reason="a stripe lies beyond the end of the file")
    if tail.metadata.stripes and len(tail.metadata.stripes) != len(stripes):
        raise CorruptFileError(
            path=tail.path, reason="stripes and their statistics differ in number"
        )
