"""The parsed content of an ORC file's tail: stripes, types, statistics, metadata.

`tail` parses and serialises these values.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from airflow_hiveacid.format.types import MAX_PRECISION, TIMESTAMP_LOCAL
from airflow_hiveacid.storage.orc.compression import DEFAULT_BLOCK_BYTES, Compression
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

MAGIC: Final = b"ORC"
DEFAULT_SCALE: Final = 10
KEY_INDEX: Final = "hive.acid.key.index"
ACID_STATS: Final = "hive.acid.stats"
ACID_VERSION: Final = "hive.acid.version"

# A table's files have few layouts: one for each past or current set of columns. A parsed layout
# takes forty times as much memory as its serialised bytes.
_KEPT_LAYOUTS: Final = 8
_LARGEST_KEPT_BYTES: Final = 256 << 10
# The footer fields that differ from file to file.
_NO_LAYOUT: Final = ("header_length", "content_length", "stripes", "metadata", "rows", "statistics")

_R = TypeVar("_R")


class OrcCalendar(enum.IntEnum):
    """The calendars of dates and timestamps before 1582-10-15, by their number in a file."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


class Writer(enum.IntEnum):
    """The programs that write ORC files, by their number in a file; others are not listed."""

    JAVA = 0
    CPP = 1


class TypeKind(enum.IntEnum):
    """The kinds of ORC types, by their number in a file."""

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
"""The ORC kind of each primitive Hive type, by the type's name in Hive."""


_HIVE_NAMES: Final[Mapping[int, str]] = {kind: name for name, kind in PRIMITIVE_KINDS.items()}
_NESTED_NAMES: Final[Mapping[int, str]] = {
    TypeKind.LIST: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
    TypeKind.UNION: "uniontype",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeInfo:
    """The position of one stripe and its number of rows; offset and lengths are in bytes."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        """The stripe's length in bytes, with index and footer."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """One type in a file; its position in `OrcTail.types` is its column ID.

    `kind` is a plain number if `TypeKind` lacks it. `children` are column IDs; for a struct,
    `field_names` are their names. `maximum_length` is set for char and varchar, 0 otherwise. A
    decimal of Hive 0.11 or 0.12 lacks its precision in the file; it counts as decimal(38,10), as in
    Java (TypeDescription), but its values may have more digits. `by_name` and `by_lower_name` map
    names to the first child that has them.
    """

    kind: int
    children: tuple[int, ...]
    field_names: tuple[str, ...]
    maximum_length: int
    precision: int
    scale: int
    lacks_precision: bool = False
    by_name: Mapping[str, int] = field(init=False, repr=False, compare=False)
    by_lower_name: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Reversed order: among children with the same name, the first child overwrites the others.
        pairs = list(zip(reversed(self.field_names), reversed(self.children), strict=False))
        object.__setattr__(self, "by_name", dict(pairs))
        lower = {name.lower(): child for name, child in pairs}
        object.__setattr__(self, "by_lower_name", lower)


def hive_text(types: Sequence[OrcType], column_id: int) -> str:
    """Return Hive's spelling of a stored type, for messages."""
    type_ = types[column_id]
    kind = type_.kind
    if kind in _NESTED_NAMES:
        parts = [hive_text(types, child) for child in type_.children]
        if kind == TypeKind.STRUCT:
            parts = [f"{n}:{part}" for n, part in zip(type_.field_names, parts, strict=True)]
        return f"{_NESTED_NAMES[kind]}<{','.join(parts)}>"
    match kind:
        case TypeKind.DECIMAL:
            return f"decimal({type_.precision},{type_.scale})" if type_.precision else "decimal"
        case TypeKind.CHAR | TypeKind.VARCHAR:
            return f"{TypeKind(kind).name.lower()}({type_.maximum_length})"
        case _:
            return _HIVE_NAMES.get(kind, f"a type that Hive does not have (ORC's number {kind})")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """A parsed tail.

    Do not change the protobuf messages of the tail, because they are shared and not copied.

    `file_length` is what a reader may read; less than the size while a streaming writer has the
    file open. `stripes` are in file order; `types` are in order of column ID, depth first. Files
    with the same types have an equal `layout`, and share one `types` object. If a small file was
    read completely to get the tail, `content` is the whole file.
    """

    path: str
    file_length: int
    postscript: pb.PostScript
    footer: pb.Footer
    metadata: pb.Metadata
    content: bytes | None = field(default=None, repr=False, compare=False)
    stripes: tuple[StripeInfo, ...] = field(init=False, repr=False, compare=False)
    layout: bytes = field(init=False, repr=False, compare=False)
    types: tuple[OrcType, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stripes", tuple(map(_stripe, self.footer.stripes)))
        layout = _layout(self.footer)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "types", types_of(layout))

    @property
    def rows(self) -> int:
        """Rows in all stripes."""
        return self.footer.rows

    @property
    def user_metadata(self) -> dict[str, str]:
        """The user metadata by key; bytes that are not UTF-8 are replaced."""
        return {item.name: item.value.decode(errors="replace") for item in self.footer.metadata}

    @property
    def compression(self) -> Compression:
        """The compression of the streams and the tail."""
        return Compression(self.postscript.compression)

    @property
    def compression_block_bytes(self) -> int:
        """The largest uncompressed chunk."""
        return self.postscript.compression_block_size or DEFAULT_BLOCK_BYTES

    @property
    def row_index_stride(self) -> int:
        """Rows per entry of the row index; 0 means no index, so statistics are not trusted."""
        return self.footer.row_index_stride

    @property
    def calendar(self) -> OrcCalendar:
        """The writer's calendar; UNKNOWN if `OrcCalendar` does not define the file's number."""
        try:
            return OrcCalendar(self.footer.calendar)
        except ValueError:
            return OrcCalendar.UNKNOWN

    def column_id(self, *names: str) -> int | None:
        """Return the ID of the column at this path of exact names; None if a name is missing."""
        column_id: int | None = 0
        for name in names:
            if column_id is None:
                return None
            column_id = self.types[column_id].by_name.get(name)
        return column_id

    def below(self, column_ids: Iterable[int]) -> Iterator[int]:
        """Yield the IDs of these columns and of all columns inside them."""
        for column_id in column_ids:
            yield column_id
            yield from self.below(self.types[column_id].children)

    def statistics(self, column_id: int, stripe: int | None = None) -> pb.ColumnStatistics | None:
        """Return a column's statistics for the file or one stripe (0-based); None if absent."""
        if stripe is None:
            entries = self.footer.statistics
        elif stripe < len(self.metadata.stripes):
            entries = self.metadata.stripes[stripe].columns
        else:
            return None
        return entries[column_id] if column_id < len(entries) else None

    def integer_range(self, column_id: int, stripe: int | None = None) -> tuple[int, int] | None:
        """Return an integer column's least and greatest value, inclusive; None if unreliable."""
        statistics = self.statistics(column_id, stripe)
        if not self.row_index_stride or statistics is None:
            return None
        integers = statistics.integers
        if not (integers.HasField("minimum") and integers.HasField("maximum")):
            return None
        return integers.minimum, integers.maximum


def _stripe(stripe: pb.Stripe) -> StripeInfo:
    return StripeInfo(
        offset=stripe.offset,
        index_length=stripe.index_length,
        data_length=stripe.data_length,
        footer_length=stripe.footer_length,
        rows=stripe.rows,
    )


def _layout(footer: pb.Footer) -> bytes:
    """Serialise the footer fields that are the same in all files with the same types."""
    layout = pb.Footer()
    layout.CopyFrom(footer)
    for name in _NO_LAYOUT:
        layout.ClearField(name)
    content: bytes = layout.SerializeToString()
    return content


def per_layout(function: Callable[[bytes], _R]) -> Callable[[bytes], _R]:
    """Cache results by layout, as files share layouts; those of a very large one are not kept."""
    cached_function = functools.lru_cache(_KEPT_LAYOUTS)(function)

    @functools.wraps(function)
    def answer(layout: bytes) -> _R:
        return (cached_function if len(layout) <= _LARGEST_KEPT_BYTES else function)(layout)

    return answer


@per_layout
def types_of(layout: bytes) -> tuple[OrcType, ...]:
    """Return the types of a layout, in order of column ID."""
    return tuple(map(_type, pb.Footer.FromString(layout).types))


def _type(type_: pb.Type) -> OrcType:
    precision, scale = type_.precision, type_.scale
    lacks_precision = type_.kind == TypeKind.DECIMAL and not precision
    if lacks_precision:
        precision = MAX_PRECISION
        scale = type_.scale if type_.HasField("scale") else DEFAULT_SCALE
    return OrcType(
        kind=type_.kind,
        children=tuple(type_.children),
        field_names=tuple(type_.field_names),
        maximum_length=type_.maximum_length,
        precision=precision,
        scale=scale,
        lacks_precision=lacks_precision,
    )
