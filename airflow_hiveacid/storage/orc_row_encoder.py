"""How rows become ORC stripes one by one, for timestamps that Arrow's ORC writer gets wrong.

Takes record batches; gives stripes, as `orc_encoders.ArrowEncoder` does. Arrow holds a timestamp as one
integer and splits it towards zero, so that a fraction before 1970 gets negative nanoseconds; here they
are split downwards and handed over apart. The writer behind is the same C++ one, so stripes of both
encoders go into one file. Must not know what the columns mean.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.orc_encoders import (
    DICTIONARY_THRESHOLD,
    PIECE_ROWS,
    StripeSink,
    WriterOptions,
)
from airflow_hiveacid.storage.orc_limits import UNITS_PER_SECOND, used

_NANOS_PER_SECOND: Final = 10**9
_DECIMAL_BYTES: Final = 16


class RowEncoder:
    """The encoder for files with fractions before 1970: row by row, for seconds and nanoseconds apart.

    About twenty times slower than `ArrowEncoder`; the same C++ writer behind it, so that stripes of
    both go into one file. It counts its batches itself, across calls.
    """

    def __init__(self, sink: StripeSink, schema: pa.Schema, options: WriterOptions) -> None:
        pyorc = _pyorc()
        self._sink = sink
        self._rows = 0
        self._writer = pyorc.Writer(
            sink,
            _pyorc_type(pyorc, pa.struct(list(schema))),
            batch_size=PIECE_ROWS,
            stripe_size=options.stripe_size_bytes,
            compression=getattr(pyorc.CompressionKind, options.compression.upper()),
            compression_block_size=options.compression_block_bytes,
            row_index_stride=options.row_index_stride,
            dict_key_size_threshold=DICTIONARY_THRESHOLD,
            converters=_converters(pyorc),
        )

    def pieces(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut where this writer's own batches end, wherever they began."""
        start = 0
        while start < events.num_rows:
            length = PIECE_ROWS - self._rows % PIECE_ROWS
            yield events.slice(start, length)
            start += length

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; whether a stripe ended with its last row."""
        before = self._sink.received
        # A loop over rows, because nothing else takes seconds and nanoseconds apart: 60,000 rows/s of
        # 23 columns where Arrow encodes 300,000 (zlib). Only files that need it come here.
        for row in zip(*map(_python_values, piece.columns), strict=True):
            self._writer.write(row)
        self._rows += piece.num_rows
        return self._sink.received > before

    def finish(self) -> None:
        """Write the last stripe and the tail."""
        self._writer.close()


def _pyorc() -> Any:  # noqa: ANN401 - an untyped module
    try:
        return importlib.import_module("pyorc")
    except ImportError as error:
        raise ConfigurationError(
            "timestamps before 1970 with a fraction of a second need the Python package pyorc where"
            " the file is written: install it on the executors"
        ) from error


_PYORC_NAMES: Final = {
    pa.bool_(): "Boolean",
    pa.int8(): "TinyInt",
    pa.int16(): "SmallInt",
    pa.int32(): "Int",
    pa.int64(): "BigInt",
    pa.float32(): "Float",
    pa.float64(): "Double",
    pa.string(): "String",
    pa.binary(): "Binary",
    pa.date32(): "Date",
}


def _pyorc_type(pyorc: Any, arrow: pa.DataType) -> Any:  # noqa: ANN401 - an untyped module
    """The type as pyorc says it; field names are placeholders, for the tail is written anew anyway."""
    if pa.types.is_struct(arrow):
        fields = {f"_{i}": _pyorc_type(pyorc, child.type) for i, child in enumerate(arrow)}
        return pyorc.Struct(**fields)
    if pa.types.is_map(arrow):
        key, value = arrow.key_type, arrow.item_type
        return pyorc.Map(_pyorc_type(pyorc, key), _pyorc_type(pyorc, value))
    if pa.types.is_list(arrow):
        return pyorc.Array(_pyorc_type(pyorc, arrow.value_type))
    if pa.types.is_decimal128(arrow):
        return pyorc.Decimal(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return pyorc.TimestampInstant() if arrow.tz else pyorc.Timestamp()
    return getattr(pyorc, _PYORC_NAMES[arrow])()


class _Converter:
    """What pyorc wants of a converter; the reading half is looked up, but never called by a writer."""

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


def _converters(pyorc: Any) -> dict[Any, type]:  # noqa: ANN401 - an untyped module
    kinds = pyorc.TypeKind
    return {kinds.TIMESTAMP: _Timestamps, kinds.DATE: _Dates, kinds.DECIMAL: _Decimals}


def _python_values(values: pa.Array) -> list[Any]:
    """Values as ORC holds them: days, unscaled decimals, (seconds, nanoseconds), tuples for structs."""
    arrow = values.type
    if pa.types.is_struct(arrow):
        return _masked(values, list(zip(*map(_python_values, values.flatten()), strict=True)))
    if pa.types.is_map(arrow):
        items = zip(*(_python_values(used(values, a)) for a in (values.keys, values.items)), strict=True)
        return _cut(values, list(items), dict)
    if pa.types.is_list(arrow):
        return _cut(values, _python_values(used(values, values.values)), list)
    if pa.types.is_timestamp(arrow):
        return _masked(values, _seconds_and_nanos(values))
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


def _seconds_and_nanos(values: pa.Array) -> list[tuple[int, int]]:
    unit = UNITS_PER_SECOND[values.type.unit]
    numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy()
    seconds, rest = np.divmod(numbers, unit)
    nanos = rest * (_NANOS_PER_SECOND // unit)
    return list(zip(seconds.tolist(), nanos.tolist(), strict=True))


def _unscaled(values: pa.Array) -> list[int]:
    data = memoryview(values.buffers()[1])[values.offset * _DECIMAL_BYTES :]
    starts = range(0, len(values) * _DECIMAL_BYTES, _DECIMAL_BYTES)
    return [
        int.from_bytes(data[start : start + _DECIMAL_BYTES], "little", signed=True)
        for start in starts
    ]
