"""Copy flat ORC files into one file of the table; a flat file contains only a table's rows.

Another program, such as Spark, wrote them. Streams are copied without decoding, and
columns get new IDs. An ACID file of insert events also gets five identity columns (as runs), the
struct `row`, and the tail. A key column is not copied.

Some columns have another type that represents the same values exactly (`flat_kind`), such as a date
its day number. A key column may follow, with one string that identifies the rows' target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketProperty, RowId, WriteId
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.write.tail import (
    AcidFacts,
    compose_tail,
    plain_types,
    whole_tail,
)
from airflow_hiveacid.storage.orc.compression import WRITABLE, Compression
from airflow_hiveacid.storage.orc.encoders import RunColumn, RunLayout, Series, column_of_runs
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, OrcTail, OrcType, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import DIRECT, DIRECT_V2
from airflow_hiveacid.storage.orc.statistics import as_dates, merge_stripes, restate_bounds
from airflow_hiveacid.storage.orc.stripe_copy import (
    DATA,
    ROW_INDEX,
    StripeContent,
    StripeStream,
    StripeWriter,
    stripe_content,
    with_row_index,
)
from airflow_hiveacid.storage.orc.tail import parse_tail, read_tail, serialize_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors, new_file
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.values.column_types import TypeNode

UTC_ZONES: Final = frozenset(
    {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Etc/Universal"}
)
"""Names of time zones that equal UTC; files with these zones store timestamps unchanged."""

_TIMES: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
SHIFT: Final = acid.ROW_COLUMN_ID
"""The number to add to the column IDs of a flat file when its columns become fields of `row`."""

_KINDS: Final[Mapping[type, TypeKind]] = {
    hive.DecimalType: TypeKind.DECIMAL,
    hive.ArrayType: TypeKind.LIST,
    hive.StructType: TypeKind.STRUCT,
}
_LEAVES: Final = (hive.PrimitiveType, hive.CharType, hive.VarcharType, hive.DecimalType)
_NESTED: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"}
)


def can_be_flat(columns: Sequence[Column]) -> bool:
    """Return whether flat files can store every possible value of these columns.

    Values inside lists and structs keep their type, and their text lengths are not checked. Maps
    cannot be stored.
    """
    types = [hive.parse_type(column.type) for column in columns]
    return all(isinstance(type_, _LEAVES) or _fits_below(type_) for type_ in types)


def _fits_below(hive_type: hive.HiveType) -> bool:
    match hive_type:
        case hive.PrimitiveType(name=name):
            return name in _NESTED
        case hive.DecimalType():
            return True
        case hive.ArrayType(element=element):
            return _fits_below(element)
        case hive.StructType(fields=fields):
            return bool(fields) and all(_fits_below(type_) for _, type_ in fields)
        case _:
            return False


def has_times(columns: Sequence[Column]) -> bool:
    """Return whether flat files of these columns contain timestamps, which need a time zone."""
    return any(flat_kind(hive.parse_type(column.type)) in _TIMES for column in columns)


def flat_kind(hive_type: hive.HiveType) -> TypeKind:
    """Return the ORC type of a column in a flat file."""
    match hive_type:
        case hive.CharType() | hive.VarcharType():
            return TypeKind.STRING
        case hive.PrimitiveType(name="date"):
            return TypeKind.INT
        case hive.PrimitiveType(name=name):
            return TypeKind.TIMESTAMP if name == hive.TIMESTAMP_LOCAL else PRIMITIVE_KINDS[name]
        case _:
            return _KINDS[type(hive_type)]


def check_flat(
    tail: OrcTail, columns: Sequence[Column], *, row_index_stride: int, has_key: bool
) -> None:
    """Raise UnsupportedFileError unless a flat file of these columns has the expected layout."""
    nodes = acid.type_tree(columns)
    expected = [_described(node) for top in nodes for node in top.walk()]
    types = [(t.kind, t.children, *_decimal(t)) for t in tail.types[1:]]
    if has_key:
        expected.append((TypeKind.STRING, (), 0, 0))
    if types != expected:
        raise UnsupportedFileError(path=tail.path, reason=f"its types are {types}, not {expected}")
    if tail.row_index_stride != row_index_stride:
        raise UnsupportedFileError(
            path=tail.path, reason=f"its row index has a stride of {tail.row_index_stride}"
        )
    if len(tail.metadata.stripes) != len(tail.stripes) or any(
        len(stripe.columns) != len(tail.types) for stripe in tail.metadata.stripes
    ):
        raise UnsupportedFileError(path=tail.path, reason="it has no statistics of its stripes")
    if tail.compression not in WRITABLE:
        raise UnsupportedFileError(path=tail.path, reason="its compression cannot be written")


def _described(node: TypeNode) -> tuple[int, tuple[int, ...], int, int]:
    children = tuple(child.column_id - SHIFT for child in node.children)
    match node.type:
        case hive.DecimalType(precision=precision, scale=scale):
            return TypeKind.DECIMAL, children, precision, scale
        case _:
            return flat_kind(node.type), children, 0, 0


def _decimal(type_: OrcType) -> tuple[int, int]:
    return (type_.precision, type_.scale) if type_.kind == TypeKind.DECIMAL else (0, 0)


def key_of(tail: OrcTail) -> str:
    """Return the value of the key column; every row must have it according to the statistics."""
    column = tail.statistics(len(tail.types) - 1)
    if column is not None and column.values == tail.rows and column.strings.HasField("minimum"):
        strings = column.strings
        if strings.HasField("maximum") and strings.minimum == strings.maximum:
            return bytes(strings.minimum).decode(errors="surrogateescape")
    raise UnsupportedFileError(path=tail.path, reason="its key column is not known to be constant")


# The writer's time zone. ORC's C++ writer also uses this zone; it writes our other files.
_ZONE: Final = "GMT"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatIdentity:
    """The identity values that are equal in all rows of a bucket file."""

    write_id: WriteId
    bucket_property: BucketProperty


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPart:
    """The stripes of a flat file that begin at an offset in start..stop-1, in bytes."""

    uri: str
    start: int = 0
    stop: int | None = None

    def stripes(self, tail: OrcTail) -> list[int]:
        """Return the numbers of the stripes in this part; `tail` is the tail of the file."""
        stop = tail.file_length if self.stop is None else self.stop
        return [n for n, s in enumerate(tail.stripes) if self.start <= s.offset < stop]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatCopy:
    """The plan, as plain values, to copy `sources` into one file in the given order.

    `row_index_stride` is the row index stride of the flat files. `has_key` is True if the flat
    files have a key column. If `identity` is None, the new file has no identity columns.
    """

    columns: tuple[Column, ...]
    sources: tuple[FlatPart, ...]
    identity: FlatIdentity | None
    row_index_stride: int
    has_key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFile:
    """One finished file; `key` is the value of the key column, None without one."""

    rows: int
    size_bytes: int
    key: str | None


def copy_flat(work: FlatCopy, uri_of: Callable[[str | None], str]) -> CopiedFile | None:
    """Write one bucket file with row IDs from 0, or return None if there are no rows.

    `uri_of` takes the value of the key column and returns the URI of the new file. Raises
    UnsupportedFileError if a flat file has a different layout, so its rows must be decoded to be
    copied.
    """
    filled = _filled(work)
    first = next(filled, None)
    if first is None:
        return None
    key = key_of(first.tail) if work.has_key else None
    fs, path = open_location(uri_of(key))
    with new_file(fs, path) as out:
        copy = (_PlainCopy if work.identity is None else _AcidCopy)(work, first.tail, out.write)
        for flat_file in itertools.chain([first], filled):
            with (
                file_errors("read", flat_file.tail.path),
                flat_file.fs.open_input_file(flat_file.tail.path) as source,
            ):
                copy.add(source, flat_file.tail, flat_file.stripes)
        size = copy.finish(path)
    return CopiedFile(rows=copy.rows, size_bytes=size, key=key)


class _Filled(NamedTuple):
    """The stripes to copy from one file; at least one."""

    fs: pafs.FileSystem
    tail: OrcTail
    stripes: list[int]


def _filled(work: FlatCopy) -> Iterator[_Filled]:
    """Yield the parts that have rows, one at a time, because there may be many small parts."""
    expected: tuple[Compression, str | None] | None = None
    for part in work.sources:
        fs, path = open_location(part.uri)
        tail = read_tail(fs, path)
        check_flat(tail, work.columns, row_index_stride=work.row_index_stride, has_key=work.has_key)
        stripes = part.stripes(tail)
        if not stripes:
            continue
        layout = tail.compression, key_of(tail) if work.has_key else None
        if expected not in (None, layout):
            raise UnsupportedFileError(
                path=path, reason="its key or compression differs from that of the other files"
            )
        expected = layout
        yield _Filled(fs, tail, stripes)


_Stripe: TypeAlias = tuple[StripeContent, pb.StripeStatistics]
"""One stripe of the new file, with its statistics."""


class _PlainCopy:
    """A copy of stripes into a file without identity columns; `_AcidCopy` adds these."""

    def __init__(self, work: FlatCopy, first: OrcTail, write: Callable[[bytes], object]) -> None:
        self._work = work
        self._first = first
        self._writer = StripeWriter(write, first.compression)
        self._nodes = [node for top in acid.type_tree(work.columns) for node in top.walk()]
        self._dates = {
            column_id
            for column_id, node in enumerate(self._nodes, start=1)
            if node.type == hive.PrimitiveType("date")
        }
        self._has_times = has_times(work.columns)
        self._metadata = pb.Metadata()
        self._block_bytes = 0
        self.stripes: list[pb.Stripe] = []
        self.rows = 0

    def add(self, source: pa.NativeFile, tail: OrcTail, stripes: Sequence[int]) -> None:
        self._source, self._source_tail = source, tail
        self._block_bytes = max(self._block_bytes, tail.compression_block_bytes)
        for number in stripes:
            content = stripe_content(source, tail, number)
            if self._has_times and content.writer_time_zone not in UTC_ZONES:
                raise UnsupportedFileError(
                    path=tail.path,
                    reason=f"its timestamps were written in the zone {content.writer_time_zone!r}",
                )
            copied, statistics = self._stripe(content, tail.metadata.stripes[number])
            self.stripes.append(self._writer.add(source, tail, copied))
            self._metadata.stripes.append(statistics)
            self.rows += content.rows

    def finish(self, path: str) -> int:
        footer, postscript = pb.Footer(), pb.PostScript()
        footer.CopyFrom(self._first.footer)
        postscript.CopyFrom(self._first.postscript)
        postscript.compression_block_size = self._block_bytes
        for field in ("stripes", "statistics"):
            footer.ClearField(field)
        footer.stripes.extend(self.stripes)
        footer.statistics.extend(merge_stripes(self._metadata.stripes))
        edited = replace(self._first, postscript=postscript, footer=footer, metadata=self._metadata)
        end = serialize_tail(self._tail(edited, path))
        # A reader refuses a tail with more statistics than it allows for the file's length.
        try:
            parse_tail(path, end, self._writer.position + len(end))
        except CorruptFileError as error:
            raise UnsupportedFileError(
                path=path, reason=f"its {len(self.stripes)} stripes have too many statistics"
            ) from error
        return self._writer.finish(end)

    def _stripe(self, content: StripeContent, statistics: pb.StripeStatistics) -> _Stripe:
        # The key column, if any, comes last; it is left out.
        streams = [
            self._restated(stream)
            for stream in content.streams
            if stream.column <= len(self._nodes)
        ]
        whole = StripeContent(
            rows=content.rows,
            streams=tuple(streams),
            encodings=content.encodings[: len(self._nodes) + 1],
            writer_time_zone=_ZONE,
        )
        columns = [statistics.columns[0], *self._restated_statistics(statistics)]
        return whole, pb.StripeStatistics(columns=columns)

    def _tail(self, part: OrcTail, path: str) -> OrcTail:
        return whole_tail([part], plain_types(self._work.columns), (), path=path)

    def _restated(self, stream: StripeStream) -> StripeStream:
        if stream.kind != ROW_INDEX or stream.column not in self._dates:
            return stream
        return with_row_index(self._source, self._source_tail, stream, as_dates)

    def _restated_statistics(self, flat: pb.StripeStatistics) -> Iterator[pb.ColumnStatistics]:
        for column_id in range(1, len(self._nodes) + 1):
            column = pb.ColumnStatistics()
            column.CopyFrom(flat.columns[column_id])
            if column_id in self._dates:
                as_dates(column)
            restate_bounds(column)
            yield column


class _AcidCopy(_PlainCopy):
    def __init__(self, work: FlatCopy, first: OrcTail, write: Callable[[bytes], object]) -> None:
        super().__init__(work, first, write)
        if work.identity is None:
            raise ValueError("rows of a bucket file need an identity")
        self._of_all = work.identity
        self._keys: list[acid.RecordIdentifier] = []

    def _stripe(self, content: StripeContent, statistics: pb.StripeStatistics) -> _Stripe:
        identity = self._identity(content.rows)
        last = RowId(self.rows + content.rows - 1)
        self._keys.append(
            acid.RecordIdentifier(self._of_all.write_id, self._of_all.bucket_property, last)
        )
        struct = pb.ColumnStatistics(values=content.rows, has_null=False)
        leaves = (column.statistics for column in identity)
        columns = [struct, *leaves, struct, *self._restated_statistics(statistics)]
        return self._around(content, identity), pb.StripeStatistics(columns=columns)

    def _tail(self, part: OrcTail, path: str) -> OrcTail:
        facts = AcidFacts(stripe_keys=self._keys, is_delete=False, nul_column_ids=())
        return compose_tail([part], self._work.columns, facts, path=path)

    def _identity(self, rows: int) -> list[RunColumn]:
        layout = RunLayout.of(self._source_tail)
        columns = (
            (acid.Operation.INSERT, 0),
            (self._of_all.write_id, 0),
            (self._of_all.bucket_property, 0),
            (self.rows, 1),
            (self._of_all.write_id, 0),
        )
        return [
            column_of_runs(Series(first=int(first), step=step, rows=rows), layout)
            for first, step in columns
        ]

    def _around(self, content: StripeContent, identity: Sequence[RunColumn]) -> StripeContent:
        """Add the identity columns to a stripe, and move the table's columns into `row`."""
        streams = []
        for stream in content.streams:
            if stream.column == 0:
                # Neither the root struct nor `row` is ever NULL, so the root's index fits `row`.
                streams += [stream, replace(stream, column=acid.ROW_COLUMN_ID)]
            elif stream.column <= len(self._nodes):
                streams.append(replace(self._restated(stream), column=stream.column + SHIFT))
        for column_id, column in enumerate(identity, start=1):
            streams += (
                StripeStream(kind=ROW_INDEX, column=column_id, content=column.row_index),
                StripeStream(kind=DATA, column=column_id, content=column.data),
            )
        # A stable sort keeps the order of a column's streams.
        streams.sort(key=lambda s: s.column)
        whole, runs = pb.ColumnEncoding(kind=DIRECT), pb.ColumnEncoding(kind=DIRECT_V2)
        ours = content.encodings[1 : len(self._nodes) + 1]
        return StripeContent(
            rows=content.rows,
            streams=tuple(streams),
            encodings=(whole, *[runs] * len(identity), whole, *ours),
            writer_time_zone=_ZONE,
        )
