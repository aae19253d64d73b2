"""Read and write the rows of Avro files in the types of a Hive table, like Hive's AvroSerDe.

Columns are found by name; a column that is not in the file is NULL. Timestamps are instants, and
are read only if the file states that the writer's zone was UTC. Dates and times before 1582-10-15
are read in the calendar that the file states.

The module refuses what Avro cannot store, strings that are not UTF-8 and fractions of a millisecond
(Hive truncates them), and dates and times before 1582-10-15, because Hive 3.1 and Hive 4 read them
differently.
"""

from __future__ import annotations

import bz2
import io
import itertools
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import CorruptFileError, TypeMismatchError, UnsupportedFileError
from airflow_hiveacid.format.table import Column, FileFormat, Storage
from airflow_hiveacid.storage.orc.compression import snappy_length
from airflow_hiveacid.storage.plain.avro_schema import (
    Schema,
    check_avro,
    cramjam,
    fastavro,
    schema_of,
    why_not,
)
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.stream_writer import StreamWriter
from airflow_hiveacid.storage.stores.filesystem import file_errors, storage_errors
from airflow_hiveacid.storage.values import timestamps
from airflow_hiveacid.storage.values.column_types import TypeNode, arrow_type
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.limits import fit_texts, unpadded
from airflow_hiveacid.storage.values.nested import (
    batch_of,
    leaves,
    with_leaf_types,
    with_parts,
    with_time_unit,
)
from airflow_hiveacid.storage.values.promotion import fit_length
from airflow_hiveacid.storage.values.timestamps import (
    OLD_TIMES_REMEDY,
    OTHER_FORMAT_REMEDY,
    SWITCHOVER_DAY,
    Instants,
    TimestampForm,
    counts_of,
    in_form,
    with_microseconds,
)

WRITER_ZONE: Final = "writer.time.zone"
IS_PROLEPTIC: Final = "writer.proleptic"
OF_OLD_ZONES: Final = "writer.zone.conversion.legacy"
"""The keys of Hive's metadata in a file; Hive 4 added `IS_PROLEPTIC` and `OF_OLD_ZONES`."""

_UTC: Final = frozenset({"UTC", "GMT", "Z", "Etc/UTC"})
_MILLIS: Final = 1000
_NANOS_A_MILLI: Final = 1_000_000
# Each value is a Python object of about a hundred bytes.
_MOST_ROWS: Final = 4096
_TIMES: Final = frozenset({"date", "timestamp-millis"})
_BELOW: Final = frozenset({"fields", "items", "type", "values"})
_DAMAGES: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The context of a conversion; `is_proleptic` is None if the calendar is unknown."""

    path: str
    form: TimestampForm
    zone: str | None
    is_proleptic: bool | None


def avro_rows(
    file: PlainFile, wanted: Sequence[Column], *, batch_rows: int, timestamps: TimestampForm
) -> Iterator[pa.RecordBatch]:
    """Read some columns of the rows of a file.

    Raises UnsupportedFileError for a different type, a value that does not fit or is ambiguous, or
    another compression than deflate, bzip2 and Snappy, and ConfigurationError without fastavro or
    cramjam.
    """
    types = {column.name: hive.parse_type(column.type) for column in wanted}
    with _opened(file.fs, file.path) as (library, reader, blocks):
        stored = _stored(file, reader, types)
        target = _target(file.path, reader.metadata, timestamps)
        fields = [(name, arrow_type(types[name])) for name in stored]
        shape = with_time_unit(pa.struct(fields), "ms")
        rows = min(batch_rows, _MOST_ROWS)
        decoded = _records(library, reader, blocks)
        while records := list(itertools.islice(decoded, rows)):
            values = _decoded(file.path, records, shape)
            arrays = dict(zip(stored, values.flatten(), strict=True))
            columns = [
                _converted(target, arrays[name], type_, name)
                if name in arrays
                else pa.nulls(len(records), read_type(type_, timestamps))
                for name, type_ in types.items()
            ]
            found = [(n, column.type) for n, column in zip(types, columns, strict=True)]
            yield batch_of(columns, pa.schema(found), len(records))


def avro_rows_in(fs: pafs.FileSystem, path: str, _length: int) -> int:
    """Count the rows of an Avro file from its blocks, without decoding values."""
    with _opened(fs, path) as (_, _, blocks):
        return sum(block.records for block in blocks)


def avro_columns(file: PlainFile) -> tuple[str, ...]:
    """Return the names of the columns that an Avro file contains; see `avro_rows` for errors."""
    with _opened(file.fs, file.path) as (_, reader, _):
        return tuple(field["name"] for field in reader.writer_schema["fields"])


@contextmanager
def _opened(fs: pafs.FileSystem, path: str) -> Iterator[tuple[ModuleType, Any, Iterator[Block]]]:
    """Yield fastavro, its reader of a file's header, and the blocks after the header."""
    library = fastavro()
    with file_errors("read", path), fs.open_input_file(path) as source:
        try:
            yield library, *_blocks(library, source, path)
        except pa.ArrowException:
            raise  # also a ValueError or KeyError, but no proof of damage
        except _damage_types(library) as error:
            raise CorruptFileError(path=path, reason=f"not an Avro file: {error!r}") from error


def _damage_types(library: ModuleType) -> tuple[type[BaseException], ...]:
    error_types = (*_DAMAGES, library.schema.SchemaParseException)
    snappy = sys.modules.get("cramjam")  # fastavro imports cramjam if available
    return error_types if snappy is None else (*error_types, snappy.DecompressionError)


def _blocks(library: ModuleType, source: pa.NativeFile, path: str) -> tuple[Any, Iterator[Block]]:
    bounded = BoundedSource(source)
    reader = library.block_reader(bounded)
    if reader.codec not in CODECS:
        raise UnsupportedFileError(
            path=path,
            reason=f"Avro compressed with {reader.codec} cannot be read here; use deflate, bzip2 or"
            " snappy",
        )
    if reader.codec == SNAPPY:
        cramjam()
    return reader, blocks_of(bounded, reader.codec)


def _records(library: ModuleType, reader: Any, blocks: Iterator[Block]) -> Iterator[Any]:  # noqa: ANN401
    # Dates and times are yielded as numbers, because Python's types for them begin in year 1.
    schema = library.parse_schema(_without_times(json.loads(reader.metadata["avro.schema"])))
    for block in blocks:
        for _ in range(block.records):
            yield library.schemaless_reader(block.content, schema)
        if block.content.read(1):
            raise ValueError(f"a block continues after its {block.records} records")


def _without_times(schema: Schema) -> Schema:
    """Return the schema with the types of the stored numbers instead of dates and timestamps."""
    if isinstance(schema, list):
        return [_without_times(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        key: _without_times(value) if key in _BELOW else value for key, value in schema.items()
    }
    if cleaned.get("logicalType") in _TIMES:
        del cleaned["logicalType"]
    return cleaned


def _stored(file: PlainFile, reader: Any, types: Mapping[str, hive.HiveType]) -> list[str]:  # noqa: ANN401
    """Return the wanted columns that the file contains; raise an error if a type does not fit."""
    schema: Schema = reader.writer_schema
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UnsupportedFileError(path=file.path, reason="it holds no records")
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    stored = [name for name in types if name in fields and file.knows(name)]
    for name in stored:
        if (why := why_not(fields[name], types[name])) is not None:
            raise UnsupportedFileError(path=file.path, reason=f"column {name!r} {why}")
    return stored


def _target(path: str, metadata: Mapping[str, str], form: TimestampForm) -> _Target:
    calendar = metadata.get(IS_PROLEPTIC)
    return _Target(
        path=path,
        form=form,
        zone=metadata.get(WRITER_ZONE),
        is_proleptic=None if calendar is None else calendar.lower() == "true",
    )


def _decoded(path: str, records: list[Any], shape: pa.DataType) -> pa.StructArray:
    try:
        return pa.array(records, shape)
    except pa.ArrowException as error:
        raise UnsupportedFileError(
            path=path, reason=f"a value does not fit its column: {error}"
        ) from error


def _converted(target: _Target, array: pa.Array, wanted: hive.HiveType, name: str) -> pa.Array:
    match wanted:
        case hive.ArrayType(element=element):
            parts = [_converted(target, array.values, element, name)]
        case hive.MapType(value=value):
            parts = [array.keys, _converted(target, array.items, value, name)]
        case hive.StructType(fields=fields):
            parts = [
                _converted(target, array.field(index), type_, name)
                for index, (_, type_) in enumerate(fields)
            ]
        case _:
            return _leaf(target, array, wanted, name)
    return with_parts(array, parts, read_type(wanted, target.form))


def _leaf(target: _Target, array: pa.Array, wanted: hive.HiveType, name: str) -> pa.Array:
    match wanted:
        case hive.CharType() | hive.VarcharType():
            texts = unpadded(array) if isinstance(wanted, hive.CharType) else array
            return fit_length(texts, wanted)
        case hive.PrimitiveType(name="timestamp"):
            return _timestamps(target, array, name)
        case hive.PrimitiveType(name="date"):
            proleptic = target.is_proleptic
            return timestamps.proleptic_dates(array, target.path, name, is_proleptic=proleptic)
        case _:
            return array


def _timestamps(target: _Target, array: pa.Array, name: str) -> pa.Array:
    if target.zone not in _UTC and array.null_count < len(array):
        raise UnsupportedFileError(
            path=target.path,
            reason=f"column {name!r} has times, and the file says that its writer's zone was"
            f" {target.zone or 'none'}; only UTC can be read here. Hive can copy the file",
        )
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    seconds, part = np.divmod(counts_of(array), _MILLIS)
    proleptic = target.is_proleptic
    seconds = timestamps.proleptic_seconds(seconds, target.path, name, is_proleptic=proleptic)
    return in_form(
        Instants(seconds, part * _NANOS_A_MILLI, valid),
        target.form,
        None,
        path=target.path,
        column=name,
    )


SNAPPY: Final = "snappy"
SYNC_BYTES: Final = 16

# zlib's maximum ratio is 1032. Writers end a block after 64 KB, or after one long record.
_MOST_EXPANSION: Final = 1100
_SMALL_BLOCK_BYTES: Final = 4 << 20
# Records have no bytes only if all their fields have the type null.
_MOST_EMPTY_RECORDS: Final = 1 << 16
_CHECKSUM_BYTES: Final = 4
_CONTINUED: Final = 0x80
_LONGEST_NUMBER: Final = 10


class BoundedSource:
    """A source that limits reads, as fastavro trusts any length; `last` is what was read last."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._left = source, int(source.size())
        self.last = b""

    def tell(self) -> int:
        """Return the position."""
        return int(self._source.tell())

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or all remaining bytes if there are fewer."""
        if size < 0:
            raise EOFError(f"{size} bytes")
        content: bytes = self._source.read(min(size, self._left))
        self._left -= len(content)
        self.last = content
        return content


@dataclass(frozen=True, slots=True)
class Block:
    """One block: the number of records, and the bytes of the records."""

    records: int
    content: io.BytesIO


def blocks_of(source: BoundedSource, codec: str) -> Iterator[Block]:
    """Yield the blocks of a file; the header must have been read already."""
    sync = source.last[-SYNC_BYTES:]
    while (records := _number(source, may_end=True)) is not None:
        size = _number(source) or 0
        data = source.read(size)
        if len(data) < size or source.read(SYNC_BYTES) != sync:
            raise ValueError("a block does not end where its header states")
        limit = max(_SMALL_BLOCK_BYTES, _MOST_EXPANSION * len(data))
        content = _EXPAND[codec](data, limit)
        if len(content) > limit:
            raise ValueError("a block expands to more than the allowed size")
        if not 0 <= records <= max(_MOST_EMPTY_RECORDS, len(content)):
            raise ValueError(f"a block of {len(content)} bytes counts {records} records")
        yield Block(records, io.BytesIO(content))


def _number(source: BoundedSource, *, may_end: bool = False) -> int | None:
    """Read a zigzag number, seven bits a byte, low bits first; None at an end that is allowed."""
    value = 0
    for number in range(_LONGEST_NUMBER):
        byte = source.read(1)
        if not byte:
            if may_end and not number:
                return None
            raise EOFError("a number is cut off")
        value |= (byte[0] & ~_CONTINUED) << (7 * number)
        if not byte[0] & _CONTINUED:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("a number of more than 64 bits")


def _of_bzip2(data: bytes, most: int) -> bytes:
    parts, size = [], 0
    while data and size <= most:
        expander = bz2.BZ2Decompressor()
        parts.append(expander.decompress(data, most + 1 - size))
        size += len(parts[-1])
        if not expander.eof and size <= most:
            raise ValueError("a block ends before its data does")
        data = expander.unused_data
    return b"".join(parts)


def _of_snappy(data: bytes, most: int) -> bytes:
    if snappy_length(data) > most:
        raise ValueError("a block expands to more than the allowed size")
    return bytes(cramjam().snappy.decompress_raw(data[:-_CHECKSUM_BYTES]))


_EXPAND: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "null": lambda data, _: data,
    "deflate": lambda data, most: zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most + 1),
    "bzip2": _of_bzip2,
    SNAPPY: _of_snappy,
}

CODECS: Final = frozenset(_EXPAND)
"""The supported compressions of blocks."""


_OLDEST: Final = {pa.timestamp("us"): SWITCHOVER_DAY * 86_400_000_000, pa.date32(): SWITCHOVER_DAY}
# The metadata that Hive 4.0.1 writes. Days since 1582-10-15 are the same in all calendars.
_SAID: Final = {WRITER_ZONE: "UTC", IS_PROLEPTIC: "false", OF_OLD_ZONES: "false"}
# The record name; readers ignore it.
_RECORD: Final = "rows"


class AvroWriter(StreamWriter):
    """A `StreamWriter` for one Avro file."""

    BATCH_ROWS = 4096

    def __init__(
        self, fs: pafs.FileSystem, path: str, columns: Sequence[Column], table: object
    ) -> None:
        check_avro(table, Storage(format=FileFormat.AVRO), {}, columns)
        library = fastavro()
        super().__init__(fs, path, columns, table)
        with storage_errors("write", path):
            self._writer = library.write.Writer(
                self._stream,
                library.parse_schema(schema_of(_RECORD, columns)),
                codec="deflate",
                metadata=_SAID,
            )
        self._is_open = True

    def _finish(self) -> None:
        self._writer.flush()

    def _write(self, rows: pa.StructArray) -> None:
        parts = [
            with_microseconds(values, path=self._path, column=node.name)
            for node, values in zip(self._nodes, rows.flatten(), strict=True)
        ]
        whole = pa.StructArray.from_arrays(parts, [node.name for node in self._nodes])
        fitted = fit_texts(whole, self._nodes, table=self._table)
        for node, values in zip(self._nodes, fitted.flatten(), strict=True):
            self._refuse_old(node, values)
        try:
            # This cast refuses microseconds that are not whole milliseconds.
            whole = _cast(fitted, {pa.timestamp("us"): pa.timestamp("ms")})
            numbers = {pa.timestamp("ms"): pa.int64(), pa.date32(): pa.int32()}
            records = _cast(whole, numbers).to_pylist(maps_as_pydicts="strict")
        except (ValueError, KeyError) as error:
            raise TypeMismatchError(
                table=self._table,
                column="(one of them)",
                column_type="in Avro, which stores whole milliseconds and UTF-8",
                value_type=f"a value that Avro cannot store: {error}",
                remedy=OTHER_FORMAT_REMEDY,
            ) from error
        with storage_errors("write", self._path):
            # fastavro writes rows one at a time.
            for record in records:
                self._writer.write(record)

    def _refuse_old(self, node: TypeNode, values: pa.Array) -> None:
        for array in filter(lambda leaf: leaf.type in _OLDEST, leaves(values)):
            minimum = pc.min(array.cast(pa.int32() if array.type == pa.date32() else pa.int64()))
            if minimum.is_valid and minimum.as_py() < _OLDEST[array.type]:
                raise TypeMismatchError(
                    table=self._table,
                    column=node.name,
                    column_type=str(node.type),
                    value_type="a day or time before 1582-10-15, which Hive 3.1 and Hive 4 read"
                    " differently in Avro",
                    remedy=OLD_TIMES_REMEDY,
                )


def _cast(values: pa.Array, types: Mapping[pa.DataType, pa.DataType]) -> pa.Array:
    return values.cast(with_leaf_types(values.type, lambda type_: types.get(type_, type_)))
