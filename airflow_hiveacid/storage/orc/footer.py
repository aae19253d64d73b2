"""What the tail of an ORC file says: stripes, types, statistics, metadata.

Values only; `tail` makes them of bytes, and bytes of them. Must not know where a file is.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_hiveacid.format.types import TIMESTAMP_LOCAL
from airflow_hiveacid.storage.orc.compression import DEFAULT_BLOCK_BYTES, Compression
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAGIC: Final = b"ORC"
KEY_INDEX: Final = "hive.acid.key.index"
ACID_STATS: Final = "hive.acid.stats"
ACID_VERSION: Final = "hive.acid.version"

# A table has as many layouts as it had sets of columns; as values one takes forty times its bytes.
_KEPT_LAYOUTS: Final = 8
_LARGEST_KEPT_BYTES: Final = 256 << 10
# What differs from file to file.
_NO_LAYOUT: Final = ("header_length", "content_length", "stripes", "metadata", "rows", "statistics")

_R = TypeVar("_R")


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
    varchar, 0 otherwise. `by_name` finds a child by its exact name, `by_lower_name` by its name in
    lower case; of several with one name, either finds the first.
    """

    kind: int
    children: tuple[int, ...]
    field_names: tuple[str, ...]
    maximum_length: int
    precision: int
    scale: int
    by_name: Mapping[str, int] = field(init=False, repr=False, compare=False)
    by_lower_name: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Backwards, so that the first of a name is the last to be put in.
        pairs = list(zip(reversed(self.field_names), reversed(self.children), strict=False))
        object.__setattr__(self, "by_name", dict(pairs))
        lower = {name.lower(): child for name, child in pairs}
        object.__setattr__(self, "by_lower_name", lower)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """A parsed tail. The protobuf messages are shared, not copied: do not change them.

    `file_length` is where the reader's file ends: less than its size when a streaming writer has
    committed only so much. `stripes` are in file order; `types` are by column ID, depth first. Both
    are made once, since a plan asks for them by the thousand. `layout` is the same, and then
    `types` is the very same object, in every file with these types. `content` is the whole file
    where that came along when its end was read, as it does of a small one.
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
        """Key and value of every user metadata item; bytes that are no UTF-8 are replaced."""
        return {item.name: item.value.decode(errors="replace") for item in self.footer.metadata}

    @property
    def compression(self) -> Compression:
        """How streams and tail are compressed."""
        return Compression(self.postscript.compression)

    @property
    def compression_block_bytes(self) -> int:
        """The largest uncompressed chunk."""
        return self.postscript.compression_block_size or DEFAULT_BLOCK_BYTES

    @property
    def row_index_stride(self) -> int:
        """Rows per entry of the row index; with 0 there is none, and statistics do not count."""
        return self.footer.row_index_stride

    @property
    def calendar(self) -> Calendar:
        """The writer's calendar; a number of a later release counts as unknown."""
        try:
            return Calendar(self.footer.calendar)
        except ValueError:
            return Calendar.UNKNOWN

    def column_id(self, *names: str) -> int | None:
        """The column ID below these field names, compared exactly; None when one is not there."""
        column_id: int | None = 0
        for name in names:
            if column_id is None:
                return None
            column_id = self.types[column_id].by_name.get(name)
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


def _stripe(stripe: pb.Stripe) -> StripeInfo:
    return StripeInfo(
        offset=stripe.offset,
        index_length=stripe.index_length,
        data_length=stripe.data_length,
        footer_length=stripe.footer_length,
        rows=stripe.rows,
    )


def _layout(footer: pb.Footer) -> bytes:
    """The types of a footer, with the little else in it that does not differ from file to file."""
    layout = pb.Footer()
    layout.CopyFrom(footer)
    for name in _NO_LAYOUT:
        layout.ClearField(name)
    content: bytes = layout.SerializeToString()
    return content


def per_layout(function: Callable[[bytes], _R]) -> Callable[[bytes], _R]:
    """Remember what a function makes of a layout: a plan reads thousands of footers that have one.

    A layout that is very large is not remembered.
    """
    kept = functools.lru_cache(_KEPT_LAYOUTS)(function)

    @functools.wraps(function)
    def answer(layout: bytes) -> _R:
        return (kept if len(layout) <= _LARGEST_KEPT_BYTES else function)(layout)

    return answer


@per_layout
def types_of(layout: bytes) -> tuple[OrcType, ...]:
    """The types of a layout, by column ID."""
    return tuple(map(_type, pb.Footer.FromString(layout).types))


def _type(type_: pb.Type) -> OrcType:
    return OrcType(
        kind=type_.kind,
        children=tuple(type_.children),
        field_names=tuple(type_.field_names),
        maximum_length=type_.maximum_length,
        precision=type_.precision,
        scale=type_.scale,
    )
