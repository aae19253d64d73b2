"""Read and write the rows of text files in the types of a Hive table, like LazySimpleSerDe.

Columns are found by position; a column that is missing in a line is NULL. The module refuses a
value that Hive would not have written: Hive reads it as NULL, or truncated.

The module refuses a value with a delimiter or a line end, or spelled like NULL. Hive writes such
values, but later reads different rows.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, fs as pafs

from airflow_hiveacid.format.errors import (
    TypeMismatchError,
    UnsupportedFileError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import (
    CharType,
    DecimalType,
    HiveType,
    PrimitiveType,
    VarcharType,
    parse_type,
)
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.stream_writer import StreamWriter
from airflow_hiveacid.storage.plain.text_form import TextForm, is_in_text, spelling
from airflow_hiveacid.storage.stores.filesystem import file_errors, storage_errors
from airflow_hiveacid.storage.values.column_types import TypeNode, arrow_type, types_from
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.hive_text import date_texts, double_texts, timestamp_texts
from airflow_hiveacid.storage.values.limits import fit_texts, padded, unpadded
from airflow_hiveacid.storage.values.nested import batch_of
from airflow_hiveacid.storage.values.promotion import fit_length
from airflow_hiveacid.storage.values.timestamps import (
    OTHER_FORMAT_REMEDY,
    Instants,
    TimestampForm,
    counts_of,
    in_form,
    with_pairs,
)

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
# Hadoop recognizes a codec by the file name extension, and reads all other files unchanged.
_COMPRESSIONS: Final[Mapping[str, str]] = {".gz": "gzip", ".bz2": "bz2"}
_OTHER_CODECS: Final = frozenset(
    {".4mc", ".br", ".deflate", ".lz4", ".lzo", ".lzo_deflate", ".snappy", ".xz", ".zst"}
)


def is_compressed(name: str) -> bool:
    """Return whether Hadoop decompresses a file with this name."""
    return posixpath.splitext(name)[1] in _COMPRESSIONS.keys() | _OTHER_CODECS


_USUAL_NULLS: Final = frozenset({"\\N", ""})
_CONTROL: Final = r"[\x00-\x08\x0b-\x1f]"

LONGEST_LINE_BYTES: Final = 16 << 20
"""The maximum length of a line; a file with a longer line is refused."""

_LOOK_BYTES: Final = 64 << 10
_SECONDS: Final = len("2020-01-01 00:00:00")
_NANO_DIGITS: Final = 9
_WIDTHS: Final = ("tinyint", "smallint", "int", "bigint")
_INTEGERS: Final = frozenset(_WIDTHS)


def text_rows(
    file: PlainFile,
    columns: Sequence[Column],
    wanted: Sequence[Column],
    form: TextForm,
    *,
    timestamps: TimestampForm,
) -> Iterator[pa.RecordBatch]:
    """Read some columns of the rows of a file.

    `columns` are all data columns, in the table's order; `wanted` are those to return. Raises
    UnsupportedFileError for another compression than gzip and bzip2, an unsupported type, different
    numbers of fields, or a value that is not spelled as Hive spells it.
    """
    types = {column.name: parse_type(column.type) for column in wanted}
    for name, type_ in types.items():
        if not is_in_text(type_):
            raise UnsupportedFileError(
                path=file.path, reason=f"column {name!r} is a {type_}, which is not read from text"
            )
    fields = [pa.field(name, read_type(type_, timestamps)) for name, type_ in types.items()]
    positions = {c.name: position for position, c in enumerate(columns) if file.knows(c.name)}
    partition_types = _partition_types(file, types)
    for texts in _texts(file, form):
        for name, type_ in partition_types.items():
            if positions[name] < texts.num_columns:  # Hive shows a missing column as NULL
                # Refuse a value that does not fit the partition's type: Hive reads it as NULL.
                _values(file, texts.column(positions[name]), type_, name, timestamps)
        values = [
            _values(file, texts.column(positions[f.name]), types[f.name], f.name, timestamps)
            if positions.get(f.name, texts.num_columns) < texts.num_columns
            else pa.nulls(texts.num_rows, f.type)
            for f in fields
        ]
        yield batch_of(values, pa.schema(fields), texts.num_rows)


def check_lines(file: PlainFile, form: TextForm, fields: int) -> None:
    """Check that nothing shows that a file was written in a different form."""
    if form.header_lines or form.null_text not in _USUAL_NULLS:
        raise UnsupportedFileError(
            path=file.path,
            reason="readers skip its first lines"
            if form.header_lines
            else "readers take a text in it for NULL",
        )
    for texts in _texts(file, form):
        if texts.num_columns != fields:
            raise UnsupportedFileError(
                path=file.path,
                reason=f"a line has {texts.num_columns} fields, and the table has {fields} columns,"
                " so it may have other columns or delimiters",
            )
        if any(pc.any(pc.match_substring_regex(c, _CONTROL)).as_py() for c in texts.columns):
            raise UnsupportedFileError(
                path=file.path,
                reason="it has control characters, which may be delimiters of another definition",
            )


def _partition_types(file: PlainFile, types: Mapping[str, HiveType]) -> dict[str, HiveType]:
    """Return the types of columns whose type in the file's partition is narrower than `types`."""
    # Hive reads a value with the partition's type and then converts it to the table's type.
    own = {column.name: parse_type(column.type) for column in file.columns or ()}
    partition_types = {
        name: own[name] for name, type_ in types.items() if own.get(name, type_) != type_
    }
    for name, type_ in partition_types.items():
        pair = [str(type_), str(types[name])]
        if not (_INTEGERS.issuperset(pair) and sorted(pair, key=_WIDTHS.index) == pair):
            raise UnsupportedFileError(
                path=file.path,
                reason=f"column {name!r} is {type_} in its partition, but {types[name]} in the"
                " table",
            )
    return partition_types


def _texts(file: PlainFile, form: TextForm) -> Iterator[pa.RecordBatch]:
    extension = posixpath.splitext(file.path)[1]
    if extension in _OTHER_CODECS:
        raise UnsupportedFileError(
            path=file.path, reason=f"text in {extension} cannot be read here; use gzip or bzip2"
        )
    compression = _COMPRESSIONS.get(extension)
    with file_errors("read", file.path):
        opened: Callable[[], pa.NativeFile] = partial(
            file.fs.open_input_stream, file.path, compression=compression
        )
        with opened() as stream:
            only_line = _only_line(stream, form.header_lines)
        if only_line is not None:
            opened = partial(pa.BufferReader, only_line + b"\n")
        with opened() as stream:
            if not _has_lines(stream, form.header_lines):
                return  # Arrow raises an error for a file without lines
        with opened() as stream:
            try:
                yield from _parsed(file, opened, stream, form)
            except pa.ArrowInvalid as error:
                raise UnsupportedFileError(
                    path=file.path,
                    reason=f"its lines cannot be parsed as Hive parses them: {error}",
                ) from error


def _blocks(stream: pa.NativeFile) -> Iterator[bytes]:
    """Yield the content in blocks that do not end between CR and LF."""
    last_cr = b""
    while content := bytes(stream.read(_LOOK_BYTES)):
        block = last_cr + content
        last_cr = b"\r" if block.endswith(b"\r") else b""
        yield block.removesuffix(b"\r")
    if last_cr:
        yield last_cr


def _only_line(stream: pa.NativeFile, header_lines: int) -> bytes | None:
    """Return the content if one line without a line end follows the header; Arrow ignores it."""
    blocks: list[bytes] = []
    line_ends = size = 0
    for block in _blocks(stream):
        blocks.append(block)
        size += len(block)
        line_ends += len(_LINE_END.findall(block))
        if line_ends > header_lines or size > 2 * LONGEST_LINE_BYTES:
            return None
    is_ended = not blocks or blocks[-1].endswith((b"\n", b"\r"))
    return None if is_ended else b"".join(blocks)


def _has_lines(stream: pa.NativeFile, header_lines: int) -> bool:
    """Return whether anything follows the header lines."""
    missing = header_lines
    for block in _blocks(stream):
        if not missing:
            return True
        *lines, rest = _LINE_END.split(block, maxsplit=missing)
        missing -= len(lines)
        if not missing and rest:
            return True
    return False


def _has_empty_lines(stream: pa.NativeFile) -> bool:
    end = b"\n"
    for block in _blocks(stream):
        ends = end + block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n\n" in ends:
            return True
        end = ends[-1:]
    return False


def _parsed(
    file: PlainFile, opened: Callable[[], pa.NativeFile], stream: pa.NativeFile, form: TextForm
) -> Iterator[pa.RecordBatch]:
    reader = csv.open_csv(
        stream,
        read_options=csv.ReadOptions(
            autogenerate_column_names=True,
            skip_rows=form.header_lines,
            block_size=LONGEST_LINE_BYTES,
            use_threads=False,
        ),
        parse_options=csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=False,
            double_quote=False,
            escape_char=False,
            newlines_in_values=False,
            ignore_empty_lines=False,
        ),
        convert_options=csv.ConvertOptions(
            column_types={f"f{index}": pa.string() for index in range(form.most_fields)},
            null_values=[form.null_text],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )
    is_looked_through = False
    for batch in reader:
        if any(type_ != pa.string() for type_ in batch.schema.types):
            raise UnsupportedFileError(path=file.path, reason="it has too many fields")
        if batch.num_columns > 1 and not is_looked_through and _may_have_empty_line(batch):
            # Hive reads an empty line as one empty field and NULLs, Arrow as empty fields.
            with opened() as again:
                if _has_empty_lines(again):
                    raise UnsupportedFileError(path=file.path, reason="it has empty lines")
            is_looked_through = True
        yield batch


def _may_have_empty_line(batch: pa.RecordBatch) -> bool:
    is_empty = None
    for column in batch.columns:
        is_blank = pc.fill_null(pc.equal(column, ""), fill_value=False)
        is_empty = is_blank if is_empty is None else pc.and_(is_empty, is_blank)
    return bool(pc.any(is_empty).as_py())


def _values(
    file: PlainFile, texts: pa.Array, wanted: HiveType, name: str, form: TimestampForm
) -> pa.Array:
    if wanted == PrimitiveType("string"):
        return texts
    if isinstance(wanted, CharType | VarcharType):
        return fit_length(unpadded(texts) if isinstance(wanted, CharType) else texts, wanted)
    # An empty string is NULL for all types except string types.
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    spelt = spelling(wanted) or ""
    if pc.all(pc.match_substring_regex(texts, spelt)).as_py() is False:  # None: all are NULL
        raise _not_hives(file, name, wanted)
    try:
        if wanted == PrimitiveType("timestamp"):
            return _timestamps(file, texts, name, form)
        if wanted == PrimitiveType("boolean"):
            return pc.equal(pc.utf8_lower(texts), "true")
        return texts.cast(arrow_type(wanted))
    except pa.ArrowInvalid as error:
        raise _not_hives(file, name, wanted) from error


def _not_hives(file: PlainFile, name: str, wanted: HiveType) -> UnsupportedFileError:
    return UnsupportedFileError(
        path=file.path, reason=f"column {name!r} has a text that Hive does not write for {wanted}"
    )


def _timestamps(file: PlainFile, texts: pa.Array, name: str, form: TimestampForm) -> pa.Array:
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    whole = pc.utf8_slice_codeunits(texts, 0, _SECONDS).cast(pa.timestamp("s"))
    fraction = pc.utf8_slice_codeunits(texts, _SECONDS + 1)
    nanos = pc.utf8_rpad(fraction, _NANO_DIGITS, "0").cast(pa.int64()).fill_null(0)
    times = Instants(counts_of(whole), nanos.to_numpy().astype(np.int64), valid)
    return in_form(times, form, None, path=file.path, column=name)


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
            texts = _field_texts(node.type, values)
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
            remedy=OTHER_FORMAT_REMEDY,
        )


def _field_texts(hive_type: HiveType, values: pa.Array) -> pa.Array:
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
