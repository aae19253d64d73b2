"""Check the description of each column chunk in a Parquet footer before Arrow is asked about it.

Arrow's Python functions about chunks end the process (a C++ exception) if a description contradicts
itself, or the column is encrypted. Arrow has parsed the footer, so only some fields are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError

_Fields: TypeAlias = Mapping[int, Callable[[int], int]]

# Field numbers in parquet.thrift.
_ROW_GROUPS: Final = 4
_COLUMNS: Final = 1
_META_DATA, _CRYPTO_METADATA = 3, 8
_TYPE, _STATISTICS, _SIZE_STATISTICS = 1, 12, 16
_BOUNDS: Final = (1, 2, 5, 6)
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
_TYPES: Final = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"),
    *("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
)
"""Physical types by their numbers."""

_BYTE_ARRAY: Final = _TYPES.index("BYTE_ARRAY")
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""The bytes of a value of a physical type, by the type's number."""

# Types of fields in the compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS: Final = (4, 5, 6)
_FIXED: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
_LAST_OF_NUMBER: Final = 0x7F
"""The greatest byte that ends a number; the highest bit says that another byte follows."""

_LONG_LIST: Final = 15
_END_BYTES: Final = 8


def require_readable_chunks(source: pa.NativeFile, metadata: pq.FileMetaData, path: str) -> None:
    """Check that Arrow can describe all column chunks of a file without ending the process."""
    size = int(source.size())
    length = int.from_bytes(source.read_at(_END_BYTES, size - _END_BYTES)[:4], "little")
    footer = source.read_at(length, size - _END_BYTES - length)
    try:
        groups = _Chunks(footer).groups
    except (LookupError, RecursionError) as error:
        raise CorruptFileError(path=path, reason="Parquet: its footer cannot be parsed") from error
    schema = metadata.schema
    columns = [schema.column(index) for index in range(len(schema))]
    expected = [
        (_TYPES.index(c.physical_type), c.max_repetition_level, c.max_definition_level)
        for c in columns
    ]
    for chunks in groups:
        if len(chunks) != len(columns):
            raise CorruptFileError(
                path=path,
                reason=f"Parquet: a row group has {len(chunks)} columns, the schema {len(columns)}",
            )
        for column, chunk, facts in zip(columns, chunks, expected, strict=True):
            if chunk.is_encrypted:
                raise UnsupportedFileError(path=path, reason=f"column {column.path} is encrypted")
            why = _contradiction(chunk, *facts)
            if why is not None:
                raise CorruptFileError(path=path, reason=f"Parquet: column {column.path} {why}")


@dataclass(slots=True)
class _Chunk:
    """What a footer says about a column chunk: its physical type, and the lengths of fields."""

    type: int = -1
    bounds: list[int] = field(default_factory=list)
    has_text_bytes: bool = False
    repetitions: int = 0
    definitions: int = 0
    is_encrypted: bool = False


def _contradiction(
    chunk: _Chunk, type_: int, most_repetitions: int, most_definitions: int
) -> str | None:
    if chunk.type != type_:
        return "has another type than in the schema"
    if any(0 < length < _WIDTHS.get(chunk.type, 0) for length in chunk.bounds):
        return "has bounds that are too short for its type"
    if chunk.has_text_bytes and chunk.type != _BYTE_ARRAY:
        return "has a size of texts, but is no text"
    for counts, max_level in (
        (chunk.repetitions, most_repetitions),
        (chunk.definitions, most_definitions),
    ):
        if counts and counts != max_level + 1:
            return "has numbers of levels that do not fit the schema"
    return None


# ---- the compact protocol ------------------------------------------------------------------------
# A footer may describe a hundred thousand chunks. So fields that are not needed are skipped, and
# positions are passed around in place of an object with a position.


class _Chunks:
    """The chunks of each row group of a footer; built by reading the footer once."""

    def __init__(self, data: bytes) -> None:
        """Read the footer; raise LookupError if it ends too early, or has an unknown type."""
        self.groups: list[list[_Chunk]] = []
        self._data = data
        self._statistics: _Fields = dict.fromkeys(_BOUNDS, self._bound)
        self._sizes: _Fields = {
            _TEXT_BYTES: self._text_bytes,
            _REPETITIONS: self._repetitions,
            _DEFINITIONS: self._definitions,
        }
        self._description: _Fields = {
            _TYPE: self._type,
            _STATISTICS: lambda offset: _struct(data, offset, self._statistics),
            _SIZE_STATISTICS: lambda offset: _struct(data, offset, self._sizes),
        }
        self._chunk: _Fields = {
            _META_DATA: lambda offset: _struct(data, offset, self._description),
            _CRYPTO_METADATA: self._encrypted,
        }
        self._group: _Fields = {_COLUMNS: lambda offset: _list(data, offset, self._add_chunk)}
        _struct(data, 0, {_ROW_GROUPS: lambda offset: _list(data, offset, self._add_group)})

    @property
    def _last(self) -> _Chunk:
        return self.groups[-1][-1]

    def _add_group(self, offset: int) -> int:
        self.groups.append([])
        return _struct(self._data, offset, self._group)

    def _add_chunk(self, offset: int) -> int:
        self.groups[-1].append(_Chunk())
        return _struct(self._data, offset, self._chunk)

    def _encrypted(self, offset: int) -> int:
        self._last.is_encrypted = True
        return _skip(self._data, offset, _STRUCT)

    def _type(self, offset: int) -> int:
        value, offset = _unsigned(self._data, offset)
        self._last.type = value >> 1
        return offset

    def _bound(self, offset: int) -> int:
        length, offset = _unsigned(self._data, offset)
        self._last.bounds.append(length)
        return offset + length

    def _text_bytes(self, offset: int) -> int:
        self._last.has_text_bytes = True
        return _skip(self._data, offset, _INTEGERS[0])

    def _repetitions(self, offset: int) -> int:
        self._last.repetitions = _list_head(self._data, offset)[0]
        return _skip(self._data, offset, _LIST)

    def _definitions(self, offset: int) -> int:
        self._last.definitions = _list_head(self._data, offset)[0]
        return _skip(self._data, offset, _LIST)


def _struct(data: bytes, offset: int, read: _Fields) -> int:
    """Return the end of a struct; `read` maps field numbers to functions from begin to end."""
    number = 0
    while head := data[offset]:
        offset += 1
        kind = head & 15
        # The high bits are the step from the last field number; if 0, the number itself follows.
        if head >> 4:
            number += head >> 4
        else:
            value, offset = _unsigned(data, offset)
            number = value >> 1
        if number in read:
            offset = read[number](offset)
        elif kind in _INTEGERS:
            while data[offset] > _LAST_OF_NUMBER:
                offset += 1
            offset += 1
        else:
            offset = _skip(data, offset, kind)
    return offset + 1


def _unsigned(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[offset]) > _LAST_OF_NUMBER:
        value |= (byte & _LAST_OF_NUMBER) << shift
        shift += 7
        offset += 1
    return value | byte << shift, offset + 1


def _list_head(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return the number of a list's elements, their kind, and the offset of the first."""
    head = data[offset]
    count, offset = (
        (head >> 4, offset + 1) if head >> 4 != _LONG_LIST else _unsigned(data, offset + 1)
    )
    return count, head & 15, offset


def _list(data: bytes, offset: int, read: Callable[[int], int]) -> int:
    count, _, offset = _list_head(data, offset)
    for _ in range(count):
        offset = read(offset)
    return offset


def _skip(data: bytes, offset: int, kind: int) -> int:
    if kind in _INTEGERS:
        return _unsigned(data, offset)[1]
    if kind == _BINARY:
        length, offset = _unsigned(data, offset)
        return offset + length
    if kind == _STRUCT:
        return _struct(data, offset, {})
    if kind in (_LIST, _SET, _MAP):
        return _skip_elements(data, offset, kind)
    return offset + _FIXED[kind]


def _skip_elements(data: bytes, offset: int, kind: int) -> int:
    if kind == _MAP:
        count, offset = _unsigned(data, offset)
        kinds = [data[offset] >> 4, data[offset] & 15] if count else []
        offset += bool(count)
    else:
        count, element, offset = _list_head(data, offset)
        kinds = [element]
    # A boolean element takes a byte, so each step ends nearer to the end of the bytes.
    kinds = [_BYTE if element_kind in (_TRUE, _FALSE) else element_kind for element_kind in kinds]
    for _ in range(count):
        for element_kind in kinds:
            offset = _skip(data, offset, element_kind)
    return offset
