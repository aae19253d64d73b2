"""The form of a table's text files, from its parameters and its SerDe's (LazySerDeParameters)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import FileFormat, PartitionInfo, Storage, TableInfo
from airflow_hiveacid.storage.values.column_types import is_text

_DEFAULT_DELIMITER: Final = "\x01"
_DEFAULT_NULL: Final = "\\N"
_ASCII: Final = 0x80
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST_FIELDS: Final = 10_000
# Parameters that could change the meaning of a line, each with the values that have no effect.
_WITHOUT_EFFECT: Final[Mapping[str, frozenset[str]]] = {
    "escape.delim": frozenset(),
    "line.delim": frozenset({"\n"}),
    "serialization.encoding": frozenset({"utf-8", "utf8"}),
    "serialization.last.column.takes.rest": frozenset({"false"}),
    "skip.footer.line.count": frozenset({"0"}),
    "textinputformat.record.delimiter": frozenset({"\n"}),
    "timestamp.formats": frozenset(),
    "hive.serialization.extend.additional.nesting.levels": frozenset({"true", "false"}),
    "quote.delim": frozenset(),
}
_REAL: Final = r"^(-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?|NaN|-?Infinity)$"
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?$"
_SPELT: Final[Mapping[str, str]] = {
    "boolean": r"^(?i:true|false)$",
    "tinyint": r"^-?[0-9]{1,3}$",
    "smallint": r"^-?[0-9]{1,5}$",
    "int": r"^-?[0-9]{1,10}$",
    "bigint": r"^-?[0-9]{1,19}$",
    "float": _REAL,
    "double": _REAL,
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?$",
}


def is_in_text(hive_type: hive.HiveType) -> bool:
    """Return whether columns of this type can be read from text files and written to them."""
    return is_text(hive_type) or spelling(hive_type) is not None


def spelling(hive_type: hive.HiveType) -> str | None:
    """Return the regular expression that matches Hive's text for values of a type, or None."""
    match hive_type:
        case hive.PrimitiveType(name=name):
            return _SPELT.get(name)
        case hive.DecimalType():
            return _DECIMAL
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """The form of text files. The first `header_lines` lines of each file are skipped."""

    delimiter: str = _DEFAULT_DELIMITER
    null_text: str = _DEFAULT_NULL
    header_lines: int = 0
    most_fields: int = _MOST_FIELDS


DEFAULT_TEXT: Final = TextForm()
"""The form of a table that has no parameters for text files."""


def text_form(
    table: object,
    storage: Storage,
    parameters: Mapping[str, str],
    partition: Storage | None = None,
) -> TextForm:
    """Return the form of the text files of a table or partition, or a default for other formats.

    Parameters of a partition's SerDe override the table's, which override those of the table's
    SerDe; but only the table determines the number of header lines.

    `partition` is the storage of a partition; None for a table without partitions.
    """
    if (partition or storage).format is not FileFormat.TEXT:
        return DEFAULT_TEXT
    of_table = {**dict(storage.parameters), **parameters}
    said = {**of_table, **dict(partition.parameters if partition is not None else ())}
    for name, harmless in _WITHOUT_EFFECT.items():
        if name in said and said[name].lower() not in harmless:
            raise UnsupportedTableError(
                table=table,
                detail=f"is text with {name}={said[name]!r}, which is not read here; copy it with"
                " Hive into a table of ORC or Parquet",
            )
    header = of_table.get("skip.header.line.count", "0")
    if not header.isdecimal():
        raise UnsupportedTableError(table=table, detail=f"has {header!r} header lines")
    delimiter = _byte(said.get("field.delim", said.get("serialization.format", "1")))
    if delimiter is None:
        raise UnsupportedTableError(table=table, detail="is text with a delimiter beyond ASCII")
    return TextForm(
        delimiter=delimiter,
        null_text=said.get("serialization.null.format", _DEFAULT_NULL),
        header_lines=int(header),
    )


def check_text_writable(table: TableInfo, partitions: Iterable[PartitionInfo] = ()) -> None:
    """Raise an error if Hive would misread rows that are written to partitions of a text table."""
    if table.storage.format is not FileFormat.TEXT:
        return
    form = text_form(table.ref, table.storage, table.parameters)
    for column in table.columns:
        if not is_in_text(hive.parse_type(column.type)):
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is text, and its column {column.name} is of type {column.type}, which"
                " cannot be written to text here. Hive can write it; ORC and Parquet can hold it",
            )
    if form.header_lines:
        raise UnsupportedTableError(
            table=table.ref,
            detail=f"has skip.header.line.count={form.header_lines}: readers would skip the first"
            " rows of each new file. Unset it, and use only files without a header",
        )
    for partition in partitions:
        own = partition.storage
        if own is not None and text_form(table.ref, table.storage, table.parameters, own) != form:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is text, and its partition {partition.name} has other delimiters than"
                " the table; only Hive can write such a table",
            )


def _byte(text: str) -> str | None:
    """Parse a delimiter or its code (LazyUtils.getByte); return None if it is not ASCII."""
    if not text:
        return _DEFAULT_DELIMITER
    code = int(text) if _NUMBER.fullmatch(text) else ord(text[0])
    return chr(code) if 0 <= code < _ASCII else None
