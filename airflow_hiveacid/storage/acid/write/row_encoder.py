"""Write ORC stripes row by row, for timestamps that Arrow writes incorrectly.

Arrow stores a timestamp as one integer of limited range, and rounds seconds towards zero, so a
fraction before 1970 becomes negative. This encoder passes seconds and nanoseconds separately.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import ConfigurationError, TypeMismatchError
from airflow_hiveacid.storage.acid import ROOT_KINDS
from airflow_hiveacid.storage.orc import encoders
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS
from airflow_hiveacid.storage.values.column_types import TypeNode
from airflow_hiveacid.storage.values.limits import is_utf8, used_parts
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, seconds_and_nanos


class RowEncoder:
    """An encoder that writes row by row, with exact seconds; 2 to 5 times slower than Arrow's."""

    def __init__(  # noqa: PLR0913 - a layout, its content, and a name for messages
        self,
        sink: encoders.StripeSink,
        nodes: Sequence[TypeNode],
        options: encoders.WriterOptions,
        byte_ids: frozenset[int] = frozenset(),
        table: object = "written",
        *,
        has_root: bool = True,
    ) -> None:
        """Start an encoder for rows of these types.

        Text columns `byte_ids`, with values that are not UTF-8, are written as binary. If
        `has_root`, the file has ACID columns and `row` contains the table's columns.
        """
        pyorc = _pyorc()
        self.byte_ids = byte_ids
        self._sink = sink
        self._values = PythonValues(byte_ids=byte_ids, table=table)
        self._nodes = tuple(nodes)
        self._has_root = has_root
        self._rows = 0
        row = _struct(_type_text(node, byte_ids) for node in nodes)
        self._writer = pyorc.Writer(
            sink,
            _acid_type(row) if has_root else row,
            batch_size=encoders.PIECE_ROWS,
            stripe_size=options.stripe_size_bytes,
            compression=pyorc.CompressionKind(options.kind),
            compression_block_size=options.compression_block_bytes,
            row_index_stride=options.row_index_stride,
            dict_key_size_threshold=encoders.DICTIONARY_THRESHOLD,
            converters={
                pyorc.TypeKind.TIMESTAMP: _Unchanged,
                pyorc.TypeKind.DATE: _Unchanged,
                pyorc.TypeKind.DECIMAL: _Unscaled,
            },
        )

    @property
    def wanted_rows(self) -> int:
        """The number of rows that the encoder's current batch still needs until it is full."""
        return encoders.PIECE_ROWS - self._rows % encoders.PIECE_ROWS

    def add(self, piece: pa.RecordBatch) -> bool:
        """Encode one piece; return True if a stripe ended with the last row of the piece."""
        # Only a loop over rows passes seconds and nanoseconds separately to pyorc. With zlib and 23
        # columns, it encodes 90,000 rows/s, Arrow 230,000.
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


_NAMES: Final = {kind: name for name, kind in PRIMITIVE_KINDS.items()}


def _acid_type(row: str) -> str:
    return _struct([*(_NAMES[kind] for kind in ROOT_KINDS[:-1]), row])


def _struct(fields: Iterable[str]) -> str:
    # The tail replaces these names.
    return f"struct<{','.join(f'_{index}:{field}' for index, field in enumerate(fields))}>"


def _type_text(node: TypeNode, byte_ids: frozenset[int]) -> str:
    children = [_type_text(child, byte_ids) for child in node.children]
    match node.type:
        case hive.StructType():
            return _struct(children)
        case hive.MapType():
            return f"map<{','.join(children)}>"
        case hive.ArrayType():
            return f"array<{children[0]}>"
        case _ if node.column_id in byte_ids:
            return "binary"
        # for the encoders, char and varchar are strings; the tail contains their real types
        case hive.CharType() | hive.VarcharType():
            return "string"
        case _:
            return str(node.type)


class _Unchanged:
    """A converter that returns days, or (seconds, nanoseconds), unchanged."""

    from_orc: ClassVar[None] = None  # pyorc looks it up, but never calls it

    @staticmethod
    def to_orc(value: Any, *_timezone: object) -> Any:  # noqa: ANN401 - of two types
        return value


class _Unscaled:
    """A converter that returns unscaled integers unchanged."""

    from_orc: ClassVar[None] = None

    @staticmethod
    def to_orc(_precision: int, _scale: int, unscaled: int) -> int:
        return unscaled


# ---- values --------------------------------------------------------------------------------------

_DECIMAL_BYTES: Final = 16


def undecodable(rows: pa.StructArray, nodes: Sequence[TypeNode]) -> frozenset[int]:
    """Return the ORC column IDs of the text columns with values that are not UTF-8."""
    ids = (_undecodable(values, node) for values, node in zip(rows.flatten(), nodes, strict=True))
    return frozenset(itertools.chain.from_iterable(ids))


def _undecodable(values: pa.Array, node: TypeNode) -> Iterator[int]:
    if pa.types.is_string(values.type) and not is_utf8(values):
        yield node.column_id
    # A timestamp of the `PAIR_TYPE` has two parts, but its node has no children.
    for child, child_node in zip(used_parts(values), node.children, strict=False):
        yield from _undecodable(child, child_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonValues:
    """A converter of Arrow values to Python values in the form that ORC stores.

    Dates become day numbers, decimals unscaled integers, timestamps pairs of seconds and
    nanoseconds, structs tuples, maps dictionaries, and text in the columns `byte_ids` bytes.
    """

    byte_ids: frozenset[int]
    table: object

    def of_struct(self, values: pa.StructArray, nodes: Sequence[TypeNode]) -> list[Any]:
        """Return structs as tuples."""
        fields = [self.of(v, node) for v, node in zip(values.flatten(), nodes, strict=True)]
        return _masked(values, list(zip(*fields, strict=True)))

    def of(self, values: pa.Array, node: TypeNode) -> list[Any]:
        """Return the values of a column of any type."""
        arrow = values.type
        if pa.types.is_timestamp(arrow) or arrow.equals(PAIR_TYPE):
            seconds, nanos = seconds_and_nanos(values)
            return _masked(values, list(zip(seconds.tolist(), nanos.tolist(), strict=True)))
        if pa.types.is_struct(arrow):
            return self.of_struct(values, node.children)
        if pa.types.is_nested(arrow):
            children = [
                self.of(v, n) for v, n in zip(used_parts(values), node.children, strict=True)
            ]
            if pa.types.is_list(arrow):
                return _cut(values, children[0], list)
            entries = list(zip(*children, strict=True))
            return _cut(values, entries, functools.partial(self._mapping, node))
        if pa.types.is_decimal128(arrow):
            return _masked(values, _unscaled(values))
        if pa.types.is_date32(arrow):
            values = values.cast(pa.int32())
        if node.column_id in self.byte_ids:
            values = values.view(pa.binary())
        python: list[Any] = values.to_pylist()
        return python

    def _mapping(self, node: TypeNode, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        # pyorc expects a dictionary. All keys are kept, even equal (0.0, -0.0) or unhashable ones.
        try:
            mapping = dict(pairs)
        except TypeError:
            mapping = {}
        if len(mapping) == len(pairs):
            return mapping
        kinds = {type(key) for key, _ in pairs}
        if not kinds <= _DISTINCT.keys():
            raise TypeMismatchError(
                table=self.table,
                column=node.name,
                column_type=str(node.type),
                value_type="a map with one key twice",
                remedy="keep one entry of each key",
            )
        return {_DISTINCT[type(key)](key): value for key, value in pairs}


def _distinct(kind: type) -> type:
    """Return a subclass of a key's type whose objects equal only themselves.

    So a dictionary keeps several keys that are equal, as ORC maps may have them.
    """
    own = {"__eq__": object.__eq__, "__hash__": object.__hash__}
    return type(f"_Distinct{kind.__name__}", (kind,), own)


_DISTINCT: Final = {kind: _distinct(kind) for kind in (int, float, str, bytes, tuple, list, dict)}


def _masked(values: pa.Array, python: Sequence[Any]) -> list[Any]:
    if not values.null_count:
        return list(python)
    valid = values.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(python, valid, strict=True)]


def _cut(lists: pa.Array, items: Sequence[Any], build: Callable[[Sequence[Any]], Any]) -> list[Any]:
    # `items` are those of these lists only (`used_parts`), so offsets count from the first.
    offsets = pc.subtract(lists.offsets, lists.offsets[0]).to_pylist()
    return _masked(lists, [build(items[start:end]) for start, end in itertools.pairwise(offsets)])


def _unscaled(values: pa.Array) -> list[int]:
    data = memoryview(values.buffers()[1])[values.offset * _DECIMAL_BYTES :]
    starts = range(0, len(values) * _DECIMAL_BYTES, _DECIMAL_BYTES)
    return [
        int.from_bytes(data[start : start + _DECIMAL_BYTES], "little", signed=True)
        for start in starts
    ]
