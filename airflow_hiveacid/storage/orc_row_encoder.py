"""How rows become ORC stripes one by one, for timestamps that Arrow's ORC writer gets wrong.

Takes record batches; gives stripes, as `orc_encoders.ArrowEncoder` does. Arrow holds a timestamp as
one integer, which has its limits, and splits it towards zero, so that a fraction before 1970 gets
negative nanoseconds; here seconds and nanoseconds are handed over apart. The writer behind is the
same C++ one, so stripes of both encoders go into one file. Must not know files nor what the columns
are for.
"""

from __future__ import annotations

import importlib
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
)
from airflow_hiveacid.storage.orc_encoders import (
    DICTIONARY_THRESHOLD,
    PIECE_ROWS,
    StripeSink,
    WriterOptions,
)
from airflow_hiveacid.storage.orc_limits import seconds_and_nanos, used_items
from airflow_hiveacid.storage.orc_timestamps import PAIR_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from airflow_hiveacid.storage.row_schema import TypeNode

_DECIMAL_BYTES: Final = 16


class RowEncoder:
    """The encoder for timestamps out of the ordinary: row by row, seconds and nanoseconds apart.

    Two to five times slower than `ArrowEncoder`; the same C++ writer behind it, so that stripes of
    both go into one file. It counts its batches itself, across calls.
    """

    def __init__(self, sink: StripeSink, nodes: Sequence[TypeNode], options: WriterOptions) -> None:
        """Start, for the ACID columns around rows of these types.

        Raises:
            ConfigurationError: pyorc is not installed.
        """
        pyorc = _pyorc()
        self._sink = sink
        self._rows = 0
        self._writer = pyorc.Writer(
            sink,
            _acid_type(pyorc, nodes),
            batch_size=PIECE_ROWS,
            stripe_size=options.stripe_size_bytes,
            compression=getattr(pyorc.CompressionKind, options.compression.upper()),
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
        for row in zip(*map(_python_values, piece.columns), strict=True):
            self._writer.write(row)
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
_ROOT_NAMES: Final = ("Int", "BigInt", "Int", "BigInt", "BigInt")


def _acid_type(pyorc: ModuleType, nodes: Sequence[TypeNode]) -> object:
    leaves = [getattr(pyorc, name)() for name in _ROOT_NAMES]
    return _struct(pyorc, [*leaves, _struct(pyorc, [_pyorc_type(pyorc, node) for node in nodes])])


def _struct(pyorc: ModuleType, fields: Sequence[object]) -> object:
    """A struct whose names stand for nothing: the tail is written anew, and `self` would not do."""
    return pyorc.Struct(**{f"_{index}": field for index, field in enumerate(fields)})


def _pyorc_type(pyorc: ModuleType, node: TypeNode) -> object:
    children = [_pyorc_type(pyorc, child) for child in node.children]
    match node.type:
        case StructType():
            return _struct(pyorc, children)
        case MapType():
            return pyorc.Map(*children)
        case ArrayType():
            return pyorc.Array(*children)
        case DecimalType(precision=precision, scale=scale):
            return pyorc.Decimal(precision, scale)
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


def _python_values(values: pa.Array) -> list[Any]:
    """Values as ORC holds them: days, unscaled decimals, (seconds, nanoseconds), tuples."""
    arrow = values.type
    if pa.types.is_timestamp(arrow) or arrow.equals(PAIR_TYPE):
        seconds, nanos = seconds_and_nanos(values)
        return _masked(values, list(zip(seconds.tolist(), nanos.tolist(), strict=True)))
    if pa.types.is_struct(arrow):
        return _masked(values, list(zip(*map(_python_values, values.flatten()), strict=True)))
    if pa.types.is_map(arrow):
        keys, items = (used_items(values, part) for part in (values.keys, values.items))
        pairs = list(zip(_python_values(keys), _python_values(items), strict=True))
        return _cut(values, pairs, dict)
    if pa.types.is_list(arrow):
        return _cut(values, _python_values(used_items(values, values.values)), list)
    if pa.types.is_decimal128(arrow):
        return _masked(values, _unscaled(values))
    if pa.types.is_date32(arrow):
        values = values.cast(pa.int32())
    python: list[Any] = values.to_pylist()
    return python


def _masked(values: pa.Array, python: Sequence[Any]) -> list[Any]:
    if not values.null_count:
        return list(python)
    valid = values.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(python, valid, strict=True)]


def _cut(lists: pa.Array, items: Sequence[Any], build: Callable[[Sequence[Any]], Any]) -> list[Any]:
    offsets = pc.subtract(lists.offsets, lists.offsets[0]).to_pylist()
    return _masked(lists, [build(items[start:end]) for start, end in itertools.pairwise(offsets)])


def _unscaled(values: pa.Array) -> list[int]:
    data = memoryview(values.buffers()[1])[values.offset * _DECIMAL_BYTES :]
    starts = range(0, len(values) * _DECIMAL_BYTES, _DECIMAL_BYTES)
    return [
        int.from_bytes(data[start : start + _DECIMAL_BYTES], "little", signed=True)
        for start in starts
    ]
