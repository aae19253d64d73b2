"""Read every row that a file stores, whether readers of the table see the row or not.

Deleted rows are included. A file that cannot be read completely raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.storage.acid import ROW, ROW_COLUMN_ID
from airflow_hiveacid.storage.acid.read import FileKind, has_acid_columns
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.orc import footer
from airflow_hiveacid.storage.orc.view import ColumnView, read_view
from airflow_hiveacid.storage.plain.avro_rows import avro_columns
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_footer import TimestampStorage, read_facts
from airflow_hiveacid.storage.plain.parquet_rows import FieldPositions, is_exactly
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_rows import check_lines
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.column_types import holds, types_in
from airflow_hiveacid.storage.values.convert import Matching, plan_fields
from airflow_hiveacid.storage.values.converters import DATED_KINDS
from airflow_hiveacid.storage.values.limits import longest, unpadded
from airflow_hiveacid.storage.values.timestamps import TimestampForm, may_have_old_days

_BEGINNINGS: Final = {
    b"ORC": FileFormat.ORC,
    b"PAR1": FileFormat.PARQUET,
    b"Obj\x01": FileFormat.AVRO,
}
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_OTHER_COLUMNS: Final = (
    "its columns are not those of the table, so a column was dropped, renamed or moved"
)
_TIMESTAMP: Final = hive.PrimitiveType("timestamp")
_OPAQUE: Final = frozenset({hive.StructType, hive.CharType, hive.VarcharType})
# Reading with this type cuts no text that a column of char or varchar may have.
_LONG: Final = "varchar(65535)"


def format_by_content(fs: pafs.FileSystem, path: str) -> FileFormat | None:
    """Return the format that a file's first bytes show; None if they show no known format."""
    with file_errors("read", path), fs.open_input_file(path) as file:
        beginning = bytes(file.read(max(map(len, _BEGINNINGS))))
    return next((f for start, f in _BEGINNINGS.items() if beginning.startswith(start)), None)


def row_path(tail: footer.OrcTail) -> tuple[str, ...]:
    """Return the path of the struct that holds the table's columns; empty for the root."""
    return (ROW,) if has_acid_columns(tail) else ()


def columns_in(file: PlainFile, tail: footer.OrcTail | None) -> tuple[str, ...] | None:
    """Return the columns of a file, by `tail` for ORC; None if a text file has no names."""
    if tail is not None:
        return tail.types[tail.column_id(*row_path(tail)) or 0].field_names
    match file.format:
        case FileFormat.PARQUET:
            return tuple(read_facts(file).schema.names)
        case FileFormat.AVRO:
            return avro_columns(file)
        case _:
            return None


def stored_rows(
    file: PlainFile, columns: Sequence[Column], *, data_columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows that a file stores, in file order.

    An ORC file may have the ACID columns. Batches are not empty, and have the columns
    `data_columns`, in this order. A delete event without values is no row.
    """
    if file.format is FileFormat.ORC:
        tail = file.tail()
        if has_acid_columns(tail):
            if not _has_rows(file.fs, tail):
                return
            for events in read_events(
                file.as_acid(FileKind.DATA),
                columns,
                data_columns=data_columns,
                batch_rows=batch_rows,
                timestamps=TimestampForm.PAIR,
                matching=Matching.UNAMBIGUOUS,
                tail=tail,
            ):
                if events.num_rows:
                    yield pa.RecordBatch.from_struct_array(events.column(ROW))
            return
    cut = {
        column.name: type_
        for column in columns
        if file.format is not FileFormat.ORC
        and isinstance(type_ := hive.parse_type(column.type), hive.CharType | hive.VarcharType)
    }
    if file.format is FileFormat.TEXT:
        check_lines(file, file.text, len(columns))
    for batch in read_rows(
        file,
        [replace(column, type=_LONG) if column.name in cut else column for column in columns],
        data_columns=data_columns,
        batch_rows=batch_rows,
        timestamps=TimestampForm.PAIR,
    ):
        yield _uncut(file, batch, cut)


def why_not_as_defined(
    file: PlainFile,
    tail: footer.OrcTail | None,
    columns: Sequence[Column],
    used: Sequence[Column],
    *,
    is_outside: bool,
) -> str | None:
    """Return why a file's own columns cannot be compared with those of the table, or None.

    A value is compared only if the table's type keeps it unchanged. Whether an ORC file, whose tail
    is given, lacks a column, or has it elsewhere, is checked by its reader.

    `columns` are those that the file may have, in the table's order; `used` are those to compare.
    `is_outside`: the file is outside the table, so that it may have other columns, too.
    """
    types = {column.name: hive.parse_type(column.type) for column in used}
    names = [column.name for column in columns]
    file_columns = [name.lower() for name in columns_in(file, tail) or ()]
    if tail is not None:
        if not is_outside and len(file_columns) > len(names):
            return _OTHER_COLUMNS
        struct_id = tail.column_id(*row_path(tail)) or 0
        plans = plan_fields(tail, struct_id, columns, wanted=used, form=TimestampForm.PAIR)
        return _first_other(
            plan.field.name
            for plan, hive_type in zip(plans, types.values(), strict=True)
            if plan.column_id is not None and not _is_kept(tail.types, plan.column_id, hive_type)
        )
    if not is_outside and file_columns != names[: len(file_columns)]:
        return _OTHER_COLUMNS
    nested = {
        name: t
        for name, t in types.items()
        if isinstance(t, hive.ArrayType | hive.MapType | hive.StructType)
    }
    if file.format is FileFormat.AVRO:
        # The reader takes structs that lack a field, and cuts texts inside a column.
        return _first_other(
            name
            for name, hive_type in nested.items()
            if not _OPAQUE.isdisjoint(map(type, types_in(hive_type)))
        )
    facts = read_facts(file) if file.format is FileFormat.PARQUET else None
    timed = next((name for name, hive_type in types.items() if holds(hive_type, _TIMESTAMP)), None)
    if facts is not None and facts.clock is TimestampStorage.UTC and timed is not None:
        return f"column {timed} has instants, which Hive shows in the time zone of its process"
    return _first_other(
        name
        for name, hive_type in nested.items()
        if facts is not None
        and (position := FieldPositions(facts.schema, file.path).of(name)) is not None
        and not is_exactly(facts, facts.schema.field(position).type, hive_type)
    )


def _first_other(names: Iterable[str]) -> str | None:
    name = next(iter(names), None)
    return name and f"column {name} is not stored with the type that it has in the table"


def _is_kept(types: Sequence[footer.OrcType], column_id: int, wanted: hive.HiveType) -> bool:
    """Return whether every value that a column can store stays unchanged in this type."""
    orc_type = types[column_id]
    match wanted:
        case hive.PrimitiveType(name=name) if name in _INTEGERS:
            return orc_type.kind in [
                footer.PRIMITIVE_KINDS[n] for n in _INTEGERS[: _INTEGERS.index(name) + 1]
            ]
        case hive.PrimitiveType(name="string"):
            return orc_type.kind in (footer.TypeKind.STRING, footer.TypeKind.VARCHAR)
        case hive.VarcharType(length=length):
            return orc_type.kind == footer.TypeKind.VARCHAR and orc_type.maximum_length <= length
        case hive.DecimalType(precision=precision, scale=scale):
            whole = orc_type.precision - orc_type.scale
            return (
                orc_type.kind == footer.TypeKind.DECIMAL
                and not orc_type.lacks_precision
                and orc_type.scale <= scale
                and whole <= precision - scale
            )
        case _:
            return is_stored_as(types, column_id, wanted)


def _uncut(
    file: PlainFile, batch: pa.RecordBatch, types: Mapping[str, hive.CharType | hive.VarcharType]
) -> pa.RecordBatch:
    """Check that no text is longer than its column's type; remove the padding of char."""
    for index, name in enumerate(batch.schema.names):
        if name not in types:
            continue
        texts = batch.column(index)
        if isinstance(types[name], hive.CharType):
            texts = unpadded(texts)
            batch = batch.set_column(index, name, texts)
        if longest(texts) > types[name].length:
            raise UnsupportedFileError(
                path=file.path, reason=f"a text in it is longer than the type of column {name}"
            )
    return batch


def _has_rows(fs: pafs.FileSystem, tail: footer.OrcTail) -> bool:
    view = ColumnView(columns=(ROW_COLUMN_ID,), flatten=ROW_COLUMN_ID)
    batches = read_view(fs, tail, view)
    return any(batch.column(0).null_count < batch.num_rows for batch in batches)


def is_stored_as(types: Sequence[footer.OrcType], column_id: int, wanted: hive.HiveType) -> bool:  # noqa: PLR0911
    """Return whether a column is stored exactly as a Hive type, including all field names."""
    orc_type = types[column_id]
    facts = (orc_type.kind, orc_type.precision, orc_type.scale, orc_type.maximum_length)
    match wanted:
        case hive.PrimitiveType(name=name):
            return orc_type.kind == footer.PRIMITIVE_KINDS.get(name)
        case hive.DecimalType(precision=precision, scale=scale):
            is_alike = facts == (footer.TypeKind.DECIMAL, precision, scale, 0)
            return is_alike and not orc_type.lacks_precision
        case hive.CharType(length=length):
            return facts == (footer.TypeKind.CHAR, 0, 0, length)
        case hive.VarcharType(length=length):
            return facts == (footer.TypeKind.VARCHAR, 0, 0, length)
        case hive.ArrayType(element=element):
            return _are_stored_as(types, orc_type, footer.TypeKind.LIST, (element,))
        case hive.MapType(key=key, value=value):
            return _are_stored_as(types, orc_type, footer.TypeKind.MAP, (key, value))
        case hive.StructType(fields=fields):
            has_names = orc_type.field_names == tuple(name for name, _ in fields)
            return has_names and _are_stored_as(
                types, orc_type, footer.TypeKind.STRUCT, [field for _, field in fields]
            )
        case _:
            return False


def _are_stored_as(
    types: Sequence[footer.OrcType],
    found: footer.OrcType,
    kind: footer.TypeKind,
    below: Sequence[hive.HiveType],
) -> bool:
    if found.kind != kind or len(found.children) != len(below):
        return False
    return all(
        is_stored_as(types, child, child_type)
        for child, child_type in zip(found.children, below, strict=True)
    )


def are_old_values_known(tail: footer.OrcTail) -> bool:
    """Return whether all readers show the same values for all dates and timestamps of a file.

    Java's writer stores the calendar in the file since ORC 1.6, but other writers do not. Arrow
    writes negative nanoseconds before 1970, which Hive cannot read.
    """
    if tail.footer.writer == footer.Writer.JAVA and tail.calendar is not footer.OrcCalendar.UNKNOWN:
        return True
    dated = (i for i, type_ in enumerate(tail.types) if type_.kind in DATED_KINDS)
    return not (tail.rows and any(may_have_old_days(tail, i, first_s=0) for i in dated))
