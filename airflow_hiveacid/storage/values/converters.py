"""From a column of an ORC file, as Arrow reads it, to one of a table: nesting, types, calendars.

Takes the type tree of a file and the Hive type that is wanted; gives a function over arrays. Must
not know which column of the file it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.types import (
    MAX_PRECISION,
    TIMESTAMP_LOCAL,
    ArrayType,
    CharType,
    DecimalType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, OrcTail, OrcType, TypeKind
from airflow_hiveacid.storage.values.calendars import SWITCHOVER_DAY, to_proleptic_days
from airflow_hiveacid.storage.values.char_text import unpadded
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.promotion import fit_length, promote
from airflow_hiveacid.storage.values.timestamps import (
    PAIR_TYPE,
    TimestampForm,
    form_type,
    in_form,
    instants,
    of_pairs,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

_TIMESTAMPS: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
_STRINGS: Final = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR})
_UTC: Final = "UTC"

Convert = Callable[[pa.Array, pa.Array | None], pa.Array]
"""From a column as Arrow reads it to the table's.

The second argument is the same column with timestamps as their seconds, if it was read in two
parts.
"""

TAG: Final = "tag"
"""Field of a union: which of its options, counting from 0, has the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file that columns are read from."""

    tail: OrcTail
    types: tuple[OrcType, ...]
    form: TimestampForm
    hybrid: bool

    def timestamps_below(self, column_id: int) -> list[int]:
        """The column IDs of the timestamps in a column, at any depth."""
        type_ = self.types[column_id]
        below = [found for child in type_.children for found in self.timestamps_below(child)]
        return [column_id, *below] if type_.kind in _TIMESTAMPS else below


def read_type(hive_type: HiveType, form: TimestampForm) -> pa.DataType:  # noqa: PLR0911
    """The Arrow type that a column comes out as: `row_schema.arrow_type`, timestamps in their form.

    A union, which nothing but a reader takes, is a struct of its tag and one value per option, all
    but the tagged one NULL. A union that is NULL cannot be told from one whose value is: it comes
    out as NULL.
    """
    match hive_type:
        case PrimitiveType(name="timestamp"):
            return form_type(form, None)
        case PrimitiveType(name=name) if name == TIMESTAMP_LOCAL:
            return form_type(form, _UTC)
        case ArrayType(element=element):
            return pa.list_(read_type(element, form))
        case MapType(key=key, value=value):
            return pa.map_(read_type(key, form), read_type(value, form))
        case StructType(fields=fields):
            return pa.struct([(name, read_type(field, form)) for name, field in fields])
        case UnionType(options=options):
            values = [(f"value{at}", read_type(option, form)) for at, option in enumerate(options)]
            return pa.struct([(TAG, pa.int8()), *values])
        case _:
            return arrow_type(hive_type)


def child_named(struct: OrcType, name: str) -> int | None:
    """The child of this name: exactly, else in any case (query-based compactions change it)."""
    return struct.by_name.get(name, struct.by_lower_name.get(name.lower()))


def nulls(type_: pa.DataType) -> Convert:
    """A column that the file does not have."""

    def convert(array: pa.Array, _seconds: pa.Array | None) -> pa.Array:
        return pa.nulls(len(array), type_)

    return convert


# ---- nested types --------------------------------------------------------------------------------


def converter(source: Source, column_id: int, wanted: HiveType, name: str) -> Convert:
    """How a column of the file becomes one of this type; `name` is for messages.

    Raises:
        UnsupportedFileError: it is stored as a type that cannot be read so.
    """
    type_ = source.types[column_id]
    match wanted, type_.kind:
        case StructType(), TypeKind.STRUCT:
            return _struct(source, type_, wanted, name)
        case ArrayType(element=element), TypeKind.LIST:
            inner = converter(source, type_.children[0], element, f"{name}.[]")
            return _list(inner, read_type(wanted, source.form))
        case MapType(key=key, value=value), TypeKind.MAP:
            keys = converter(source, type_.children[0], key, f"{name}.[key]")
            values = converter(source, type_.children[1], value, f"{name}.[value]")
            return _map(keys, values, read_type(wanted, source.form))
        case UnionType(options=options), TypeKind.UNION if len(options) == len(type_.children):
            parts = [
                converter(source, child, option, f"{name}.{at}")
                for at, (child, option) in enumerate(zip(type_.children, options, strict=True))
            ]
            return _union(parts, read_type(wanted, source.form))
        case _:
            return _leaf(source, type_, wanted, name)


def _struct(source: Source, type_: OrcType, wanted: StructType, name: str) -> Convert:
    fields = [pa.field(f, read_type(t, source.form)) for f, t in wanted.fields]
    parts: list[tuple[int | None, Convert]] = []
    for (field_name, field_type), field in zip(wanted.fields, fields, strict=True):
        child = child_named(type_, field_name)
        if child is None:
            parts.append((None, nulls(field.type)))
        else:
            inner = converter(source, child, field_type, f"{name}.{field_name}")
            parts.append((type_.children.index(child), inner))

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        children = [
            inner(
                array if at is None else array.field(at),
                None if at is None or seconds is None else seconds.field(at),
            )
            for at, inner in parts
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    return convert


def _list(inner: Convert, type_: pa.DataType) -> Convert:
    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        array, seconds = _unsliced(array), _unsliced(seconds)
        values = inner(array.values, None if seconds is None else seconds.values)
        return pa.ListArray.from_arrays(array.offsets, values, type=type_, mask=_mask(array))

    return convert


def _map(inner_keys: Convert, inner_values: Convert, type_: pa.DataType) -> Convert:
    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        array, seconds = _unsliced(array), _unsliced(seconds)
        keys = inner_keys(array.keys, None if seconds is None else seconds.keys)
        values = inner_values(array.items, None if seconds is None else seconds.items)
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=type_, mask=_mask(array))

    return convert


def _union(parts: Sequence[Convert], type_: pa.DataType) -> Convert:
    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        tags = array.type_codes
        values = [
            inner(array.field(at), None if seconds is None else seconds.field(at))
            for at, inner in enumerate(parts)
        ]
        chosen = [pc.and_(pc.equal(tags, at), v.is_valid()) for at, v in enumerate(values)]
        valid = functools.reduce(pc.or_, chosen)
        return pa.StructArray.from_arrays(
            [tags, *values], fields=list(type_), mask=pc.invert(valid)
        )

    return convert


def _unsliced(array: pa.Array | None) -> pa.Array | None:
    """The same array from offset 0, which building lists anew asks for."""
    return array if array is None or array.offset == 0 else pa.concat_arrays([array])


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# ---- primitive types -----------------------------------------------------------------------------


def _leaf(source: Source, type_: OrcType, wanted: HiveType, name: str) -> Convert:
    if _is_same(type_, wanted):
        return (
            _timestamp(source, type_, name) if type_.kind in _TIMESTAMPS else _plain(source, type_)
        )
    if isinstance(wanted, CharType | VarcharType) and type_.kind in _STRINGS:
        return _fitted(_plain(source, type_), wanted)
    return _promoted(source, type_, wanted, name)


def _is_same(type_: OrcType, wanted: HiveType) -> bool:
    """Whether the values need no other treatment than their kind does anyway."""
    match wanted:
        case PrimitiveType(name=name):
            # A varchar read as string is the same text; a char has padding to lose.
            same_text = name == "string" and type_.kind in (TypeKind.VARCHAR, TypeKind.CHAR)
            return same_text or type_.kind == PRIMITIVE_KINDS[name]
        case DecimalType(precision=precision, scale=scale):
            found = (type_.precision or MAX_PRECISION, type_.scale)
            return type_.kind == TypeKind.DECIMAL and found == (precision, scale)
        case VarcharType(length=length):
            return type_.kind == TypeKind.VARCHAR and 0 < type_.maximum_length <= length
        case _:
            return False


def _timestamp(source: Source, type_: OrcType, name: str) -> Convert:
    """Timestamps in the wanted form."""
    zone = _UTC if type_.kind == TypeKind.TIMESTAMP_INSTANT else None

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        if seconds is None and source.form is TimestampForm.NANOSECONDS:
            return array
        found = instants(array, seconds, hybrid=source.hybrid)
        return in_form(found, source.form, zone, path=source.tail.path, column=name)

    return convert


def _plain(source: Source, type_: OrcType) -> Convert:
    """Values as they mean: dates in the proleptic calendar, chars without padding, pairs."""

    def pairs(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        found = instants(array, seconds, hybrid=source.hybrid)
        return in_form(found, TimestampForm.PAIR, None, path=source.tail.path, column="")

    if type_.kind in _TIMESTAMPS:
        return pairs
    if type_.kind == TypeKind.CHAR:
        return lambda array, _seconds: unpadded(array)
    if type_.kind == TypeKind.DATE and source.hybrid:
        return lambda array, _seconds: _proleptic(array)
    return lambda array, _seconds: array


def _proleptic(array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32())
    least = pc.min(days).as_py()
    if least is None or least >= SWITCHOVER_DAY:
        return array
    shifted = to_proleptic_days(days.fill_null(0).to_numpy()).astype("int32")
    return pa.array(shifted, mask=_numpy_mask(array)).cast(pa.date32())


def _fitted(plain: Convert, wanted: CharType | VarcharType) -> Convert:
    return lambda array, seconds: fit_length(plain(array, seconds), wanted)


def _promoted(source: Source, type_: OrcType, wanted: HiveType, name: str) -> Convert:
    stored = _stored_type(type_)
    if stored is None or promote(pa.array([], stored), wanted) is None:
        kind = type_.kind.name if isinstance(type_.kind, TypeKind) else str(type_.kind)
        raise UnsupportedFileError(
            path=source.tail.path,
            reason=f"column {name!r} is stored as {kind}, which cannot be read as {wanted}",
        )
    plain = _plain(source, type_)

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        found = promote(plain(array, seconds), wanted)
        if wanted != PrimitiveType("timestamp"):
            return found
        return in_form(of_pairs(found), source.form, None, path=source.tail.path, column=name)

    return convert


def _stored_type(type_: OrcType) -> pa.DataType | None:
    """The Arrow type of plain values of an ORC type; None for what nothing else can be read as."""
    if type_.kind == TypeKind.DECIMAL:
        return pa.decimal128(type_.precision or MAX_PRECISION, type_.scale)
    return _STORED.get(type_.kind)


_STORED: Final[Mapping[int, pa.DataType]] = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: PAIR_TYPE,
}


def _numpy_mask(array: pa.Array) -> Mask:
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask
