"""Read the rows of one Avro file in the types of a Hive table, like Hive's AvroSerDe.

Columns are found by name; a column that is not in the file is NULL. Timestamps are instants, and
are read only if the file states that the writer's zone was UTC. Dates and times before 1582-10-15
are read in the calendar that the file states.
"""

from __future__ import annotations

import itertools
import json
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.plain.avro_blocks import (
    CODECS,
    SNAPPY,
    Block,
    BoundedSource,
    blocks_of,
)
from airflow_hiveacid.storage.plain.avro_schema import Schema, cramjam, fastavro, why_not
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values import calendars
from airflow_hiveacid.storage.values.char_text import unpadded
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.nested import batch_of, with_parts
from airflow_hiveacid.storage.values.promotion import fit_length
from airflow_hiveacid.storage.values.timestamps import Instants, TimestampForm, counts_of, in_form

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

    Raises UnsupportedFileError if a column is stored with a different type, or a value does not fit
    or is ambiguous. The same error is raised if the compression is not deflate, bzip2 or Snappy.
    Raises ConfigurationError if fastavro, or cramjam for Snappy, is not installed.
    """
    types = {column.name: hive.parse_type(column.type) for column in wanted}
    with _opened(file.fs, file.path) as (library, reader, blocks):
        stored = _stored(file, reader, types)
        target = _target(file.path, reader.metadata, timestamps)
        shape = pa.struct([(name, _as_decoded(types[name])) for name in stored])
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
            fields = [(n, column.type) for n, column in zip(types, columns, strict=True)]
            yield batch_of(columns, pa.schema(fields), len(records))


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
            raise
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


def _as_decoded(wanted: hive.HiveType) -> pa.DataType:
    match wanted:
        case hive.ArrayType(element=element):
            return pa.list_(_as_decoded(element))
        case hive.MapType(value=value):
            return pa.map_(pa.string(), _as_decoded(value))
        case hive.StructType(fields=fields):
            return pa.struct([(name, _as_decoded(type_)) for name, type_ in fields])
        case hive.CharType() | hive.VarcharType():
            return pa.string()
        case hive.PrimitiveType(name="timestamp"):
            return pa.timestamp("ms")
        case _:
            return arrow_type(wanted)


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
            return calendars.proleptic_dates(array, target.path, name, is_proleptic=proleptic)
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
    seconds = calendars.proleptic_seconds(seconds, target.path, name, is_proleptic=proleptic)
    return in_form(
        Instants(seconds, part * _NANOS_A_MILLI, valid),
        target.form,
        None,
        path=target.path,
        column=name,
    )
