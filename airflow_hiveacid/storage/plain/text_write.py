"""Write text files like Hive's LazySimpleSerDe: each line contains the fields of one row.

The module refuses a value with a delimiter or a line end, or spelled like NULL. Hive writes such
values, but later reads different rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import CharType, DecimalType, HiveType, PrimitiveType
from airflow_hiveacid.storage.plain.stream_writer import StreamWriter
from airflow_hiveacid.storage.plain.text_form import TextForm, is_in_text, spelling
from airflow_hiveacid.storage.plain.text_rows import LONGEST_LINE_BYTES
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.values.char_text import padded
from airflow_hiveacid.storage.values.column_types import TypeNode, types_from
from airflow_hiveacid.storage.values.hive_text import date_texts, double_texts, timestamp_texts
from airflow_hiveacid.storage.values.limits import fit_texts
from airflow_hiveacid.storage.values.timestamps import with_pairs

_LINE_ENDS: Final = ("\n", "\r")
# At the start of a file, readers interpret this character as a byte order mark.
_MARK: Final = "\ufeff"


class TextWriter(StreamWriter):
    """A `StreamWriter` for one text file."""

    BATCH_ROWS = 16 * 1024

    def __init__(
        self,
        fs: pafs.FileSystem,
        path: str,
        columns: Sequence[Column],
        form: TextForm,
        table: object,
    ) -> None:
        self._form = form
        for node in types_from(columns, 1):
            if not is_in_text(node.type):
                raise UnsupportedTableError(
                    table=table, detail=f"column {node.name!r} is a {node.type} in text"
                )
        super().__init__(fs, path, columns, table)
        self._is_open = True

    def _write(self, rows: pa.StructArray) -> None:
        fitted = fit_texts(rows, self._nodes, table=self._table)
        values = zip(self._nodes, fitted.flatten(), strict=True)
        fields = [self._field(node, array) for node, array in values]
        if pc.any(pc.starts_with(fields[0], _MARK)).as_py():
            raise self._refused(
                self._nodes[0], "a text that begins with U+FEFF, in the first field"
            )
        lines = pc.binary_join_element_wise(*fields, self._form.delimiter)
        if (pc.max(pc.binary_length(lines)).as_py() or 0) >= LONGEST_LINE_BYTES:
            raise self._refused(self._nodes[0], f"a line of more than {LONGEST_LINE_BYTES} bytes")
        with storage_errors("write", self._path):
            self._stream.write(_bytes_of(pc.binary_join_element_wise(lines, "\n", "")))

    def _field(self, node: TypeNode, values: pa.Array) -> pa.Array:
        try:
            texts = _texts(node.type, values)
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._refused(node, f"a value that a text file cannot store: {error}") from error
        spelt = spelling(node.type)
        if spelt and pc.all(pc.match_substring_regex(texts, spelt)).as_py() is False:
            raise self._refused(node, "a value that Hive does not read from text")
        for part in (self._form.delimiter, *_LINE_ENDS):
            if pc.any(pc.match_substring(texts, part)).as_py():
                raise self._refused(
                    node, f"a text with {part!r} in it, which ends a field or a row of this table"
                )
        if pc.any(pc.equal(texts, self._form.null_text)).as_py():
            raise self._refused(node, f"the text {self._form.null_text!r}, which stands for NULL")
        return texts.fill_null(self._form.null_text)

    def _refused(self, node: TypeNode, what: str) -> TypeMismatchError:
        return TypeMismatchError(
            table=self._table,
            column=node.name,
            column_type=f"{node.type}, in text",
            value_type=what,
        )


def _texts(hive_type: HiveType, values: pa.Array) -> pa.Array:
    match hive_type:
        case CharType(length=length):
            return padded(values, length)
        case PrimitiveType(name="float" | "double"):
            return pa.array(double_texts(values), pa.string())
        case PrimitiveType(name="date"):
            return pa.array(date_texts(values), pa.string())
        case PrimitiveType(name="timestamp"):
            return pa.array(timestamp_texts(with_pairs(values)), pa.string())
        case DecimalType():
            plain = [None if value is None else f"{value:f}" for value in values.to_pylist()]
            return pa.array(plain, pa.string())
        case _:
            return values.cast(pa.string())


def _bytes_of(lines: pa.Array) -> pa.Buffer:
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32, len(lines) + 1)
    return data.slice(ends[0], ends[-1] - ends[0])
