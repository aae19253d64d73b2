"""How rows become ORC stripes one by one, for timestamps that Arrow's ORC writer gets wrong.

Takes record batches; gives stripes, as `encoders.ArrowEncoder` does. Arrow holds a timestamp as
one integer, which has its limits, and splits it towards zero, so that a fraction before 1970 gets
negative nanoseconds; here seconds and nanoseconds are handed over apart. The writer behind is the
same C++ one, so stripes of both encoders go into one file. Must not know files nor what the columns
are for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import pyarrow as pa

    from airflow_hiveacid.storage.values.column_types import TypeNode


class RowEncoder:
    """The encoder for timestamps out of the ordinary: row by row, seconds and nanoseconds apart.

    Two to five times slower than `ArrowEncoder`; the same C++ writer behind it, so that stripes of
    both go into one file. It counts its batches itself, across calls.
    """

    def __init__(  # noqa: PLR0913 - a layout, what stands in it, and a name for messages
        self,
        sink: StripeSink,
        nodes: Sequence[TypeNode],
        options: WriterOptions,
        byte_ids: frozenset[int] = frozenset(),
        table: object = "written",
        *,
        has_root: bool = True,
    ) -> None:
        """Start, for rows of these types.

        Args:
            sink: Where the stripes go.
            nodes: The types of the table's columns.
            options: Compression and sizes.
            byte_ids: ORC column IDs of text that is not all UTF-8. It goes as binary values, whose
                streams are the same but for a dictionary.
            table: For messages.
            has_root: Whether the ACID columns stand around the rows.

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
        """Up to where this writer's own batch ends, which may have begun in another piece."""
        return PIECE_ROWS - self._rows % PIECE_ROWS

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; whether a stripe ended with its last row."""
        before = self._sink.received
        # A loop over rows, because nothing else takes seconds and nanoseconds apart: 90,000 rows/s
        # of 23 columns with zlib, where Arrow encodes 230,000. Only what needs it comes here.
        if self._has_root:
            *root, row = piece.columns
            columns = [column.to_pylist() for column in root]
            for event in zip(*columns, self._values.of_struct(row, self._nodes), strict=True):
                self._writer.write(event)
        else:
            for values in self._values.of_struct(piece.to_struct_array(), self._nodes):
                self._writer.write(values)
        self._rows += piece.num_rows
        return self._sink.received > before

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
    """A struct whose names stand for nothing: the tail is written anew, and `self` would not do."""
    return pyorc.Struct(**{f"_{index}": field for index, field in enumerate(fields)})


def _pyorc_type(  # noqa: PLR0911 - a type for each
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
        case _:  # char and varchar are strings to the encoders; the tail says what they are
            return pyorc.String()


class _Converter:
    """What pyorc wants of a converter; the reading half is looked up, never called by a writer."""

    from_orc: ClassVar[None] = None


class _Timestamps(_Converter):
    """Takes (seconds, nanoseconds) as they are."""

    @staticmethod
    def to_orc(value: tuple[int, int], _timezone: object) -> tuple[int, int]:
        return value


class _Dates(_Converter):
    """Takes days as they are."""

    @staticmethod
    def to_orc(days: int) -> int:
        return days


class _Decimals(_Converter):
    """Takes unscaled integers as they are."""

    @staticmethod
    def to_orc(_precision: int, _scale: int, unscaled: int) -> int:
        return unscaled


def _converters(pyorc: ModuleType) -> dict[Any, type]:
    kinds = pyorc.TypeKind
    return {kinds.TIMESTAMP: _Timestamps, kinds.DATE: _Dates, kinds.DECIMAL: _Decimals}
