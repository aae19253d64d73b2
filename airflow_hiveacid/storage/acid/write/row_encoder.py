"""Write ORC stripes row by row, for timestamps that Arrow writes incorrectly.

Arrow stores a timestamp as one integer, so the range of timestamps is limited. Arrow rounds seconds
towards zero, so a fraction of a second before 1970 becomes negative nanoseconds. This encoder
passes seconds and nanoseconds separately. This encoder and `ArrowEncoder` use the same C++ writer,
so a file can contain stripes of both.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar, Final

import pyarrow as pa

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
)
from airflow_hiveacid.storage.acid.row_schema import ROOT_KINDS
from airflow_hiveacid.storage.acid.write.python_values import PythonValues
from airflow_hiveacid.storage.orc.encoders import (
    DICTIONARY_THRESHOLD,
    PIECE_ROWS,
    StripeSink,
    WriterOptions,
)
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS
from airflow_hiveacid.storage.values.column_types import TypeNode


class RowEncoder:
    """An encoder that writes row by row, and stores seconds and nanoseconds separately.

    This encoder is two to five times slower than `ArrowEncoder`. The two encoders use the same C++
    writer, so a file can contain stripes of both. The encoder counts its rows across calls.
    """

    def __init__(  # noqa: PLR0913 - a layout, its content, and a name for messages
        self,
        sink: StripeSink,
        nodes: Sequence[TypeNode],
        options: WriterOptions,
        byte_ids: frozenset[int] = frozenset(),
        table: object = "written",
        *,
        has_root: bool = True,
    ) -> None:
        """Start an encoder for rows of these types.

        `byte_ids` are the text columns with values that are not UTF-8. Such text is written as
        binary, which changes only the dictionary streams of a stripe. If `has_root`, the file has
        ACID columns and `row` contains the table's columns.

        Raises:
            ConfigurationError: pyorc is not installed.
        """
        pyorc = _pyorc()
        self.byte_ids = byte_ids
        self._sink = sink
        self._values = PythonValues(byte_ids=byte_ids, table=table)
        self._nodes = tuple(nodes)
        self._has_root = has_root
        self._rows = 0
        self._writer = pyorc.Writer(
            sink,
            _acid_type(pyorc, nodes, byte_ids)
            if has_root
            else _struct(pyorc, [_pyorc_type(pyorc, node, byte_ids) for node in nodes]),
            batch_size=PIECE_ROWS,
            stripe_size=options.stripe_size_bytes,
            compression=pyorc.CompressionKind(options.kind),
            compression_block_size=options.compression_block_bytes,
            row_index_stride=options.row_index_stride,
            dict_key_size_threshold=DICTIONARY_THRESHOLD,
            converters=_converters(pyorc),
        )

    @property
    def wanted_rows(self) -> int:
        """The number of rows that the encoder's current batch still needs until it is full."""
        return PIECE_ROWS - self._rows % PIECE_ROWS

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; return True if a stripe ended with the last row of the piece."""
        # Loop over rows, because this is the only way to pass seconds and nanoseconds separately to
        # pyorc. With zlib and 23 columns, this loop encodes 90,000 rows/s and Arrow encodes 230,000
        # rows/s. So use this encoder only if necessary.
        if self._has_root:
            *root, row = piece.columns
            columns = [column.to_pylist() for column in root]
            for event in zip(*columns, self._values.of_struct(row, self._nodes), strict=True):
                self._writer.write(event)
        else:
            for values in self._values.of_struct(piece.to_struct_array(), self._nodes):
                self._writer.write(values)
        self._rows += piece.num_rows
        return self._sink.has_stripe

    def finish(self) -> None:
        """Write the last stripe and the tail."""
        self._writer.close()


def _pyorc() -> ModuleType:
    try:
        return importlib.import_module("pyorc")
    except ImportError as error:
        raise ConfigurationError(
            "timestamps before 1970 with a fraction of a second need the Python package pyorc where"
            " the file is written: install it on the executors"
        ) from error


_PYORC_NAMES: Final = {
    "boolean": "Boolean",
    "tinyint": "TinyInt",
    "smallint": "SmallInt",
    "int": "Int",
    "bigint": "BigInt",
    "float": "Float",
    "double": "Double",
    "string": "String",
    "binary": "Binary",
    "date": "Date",
    "timestamp": "Timestamp",
    TIMESTAMP_LOCAL: "TimestampInstant",
}
_BY_KIND: Final = {PRIMITIVE_KINDS[name]: text for name, text in _PYORC_NAMES.items()}


def _acid_type(pyorc: ModuleType, nodes: Sequence[TypeNode], byte_ids: frozenset[int]) -> object:
    leaves = [getattr(pyorc, _BY_KIND[kind])() for kind in ROOT_KINDS[:-1]]
    row = _struct(pyorc, [_pyorc_type(pyorc, node, byte_ids) for node in nodes])
    return _struct(pyorc, [*leaves, row])


def _struct(pyorc: ModuleType, fields: Sequence[object]) -> object:
    """Return a struct type with placeholder field names; the tail replaces these names.

    A field with the name `self` would cause an error.
    """
    return pyorc.Struct(**{f"_{index}": field for index, field in enumerate(fields)})


def _pyorc_type(  # noqa: PLR0911 - one return per type
    pyorc: ModuleType, node: TypeNode, byte_ids: frozenset[int]
) -> object:
    children = [_pyorc_type(pyorc, child, byte_ids) for child in node.children]
    match node.type:
        case StructType():
            return _struct(pyorc, children)
        case MapType():
            return pyorc.Map(*children)
        case ArrayType():
            return pyorc.Array(*children)
        case DecimalType(precision=precision, scale=scale):
            return pyorc.Decimal(precision, scale)
        case _ if node.column_id in byte_ids:
            return pyorc.Binary()
        case PrimitiveType(name=name):
            return getattr(pyorc, _PYORC_NAMES[name])()
        # for the encoders, char and varchar are strings; the tail contains their real types
        case _:
            return pyorc.String()


class _Converter:
    """Base class of the converters for pyorc; pyorc looks up `from_orc` but never calls it."""

    from_orc: ClassVar[None] = None


class _Timestamps(_Converter):
    """A converter that returns (seconds, nanoseconds) unchanged."""

    @staticmethod
    def to_orc(value: tuple[int, int], _timezone: object) -> tuple[int, int]:
        return value


class _Dates(_Converter):
    """A converter that returns days unchanged."""

    @staticmethod
    def to_orc(days: int) -> int:
        return days


class _Decimals(_Converter):
    """A converter that returns unscaled integers unchanged."""

    @staticmethod
    def to_orc(_precision: int, _scale: int, unscaled: int) -> int:
        return unscaled


def _converters(pyorc: ModuleType) -> dict[Any, type]:
    kinds = pyorc.TypeKind
    return {kinds.TIMESTAMP: _Timestamps, kinds.DATE: _Dates, kinds.DECIMAL: _Decimals}
