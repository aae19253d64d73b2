"""Convert a column of an ORC file, as Arrow reads it, to a table's column."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.orc.footer import (
    PRIMITIVE_KINDS,
    OrcTail,
    OrcType,
    TypeKind,
    hive_text,
)
from airflow_hiveacid.storage.orc.view import TIMESTAMP_KINDS, shown_scale
from airflow_hiveacid.storage.values.column_types import PRIMITIVES, arrow_type
from airflow_hiveacid.storage.values.limits import unpadded
from airflow_hiveacid.storage.values.nested import parts_of, unsliced, with_parts
from airflow_hiveacid.storage.values.promotion import OutOfRangeError, fit_length, promote
from airflow_hiveacid.storage.values.time_zones import TimeZone
from airflow_hiveacid.storage.values.timestamps import (
    PAIR_TYPE,
    TimestampForm,
    form_type,
    in_form,
    instants,
    of_pairs,
    proleptic_dates,
)

DATED_KINDS: Final = frozenset({TypeKind.DATE}) | TIMESTAMP_KINDS
_STRINGS: Final = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR})
_UTC: Final = "UTC"

Convert = Callable[[pa.Array, pa.Array | None], pa.Array]
"""A function that converts an ORC column, as Arrow reads it, to the table's column.

If the column was read in two parts, the second argument is the same column with seconds instead of
timestamps.
"""

TAG: Final = "tag"
"""The name of the field that holds the 0-based number of a union's current option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFile:
    """The properties of a file that conversions need; `zone` is the writer's, None means UTC."""

    tail: OrcTail
    form: TimestampForm
    hybrid: bool
    zone: TimeZone | None

    def zone_of(self, type_: OrcType) -> TimeZone | None:
        """Return the time zone of the stored values of a timestamp type; None means UTC."""
        return self.zone if type_.kind == TypeKind.TIMESTAMP else None

    def dated_below(self, column_id: int) -> list[int]:
        """Return the column IDs of all dates and timestamps in a column, at any depth."""
        return [i for i in self.tail.below([column_id]) if self.tail.types[i].kind in DATED_KINDS]


def read_type(hive_type: hive.HiveType, form: TimestampForm) -> pa.DataType:  # noqa: PLR0911
    """Return the Arrow type of a converted column: `arrow_type`, but with timestamps in `form`.

    A union becomes a struct of its tag and one value per option; unions cannot be written. All but
    the tagged value are NULL. If that is NULL, too, the struct is, as Arrow has no NULL unions.
    """
    match hive_type:
        case hive.PrimitiveType(name="timestamp"):
            return form_type(form, None)
        case hive.PrimitiveType(name=name) if name == hive.TIMESTAMP_LOCAL:
            return form_type(form, _UTC)
        case hive.ArrayType(element=element):
            return pa.list_(read_type(element, form))
        case hive.MapType(key=key, value=value):
            return pa.map_(read_type(key, form), read_type(value, form))
        case hive.StructType(fields=fields):
            return pa.struct([(name, read_type(field, form)) for name, field in fields])
        case hive.UnionType(options=options):
            values = [(f"value{i}", read_type(option, form)) for i, option in enumerate(options)]
            return pa.struct([(TAG, pa.int8()), *values])
        case _:
            return arrow_type(hive_type)


def child_named(struct: OrcType, name: str) -> int | None:
    """Find a child by exact name, else ignoring case; query-based compactions change the case."""
    return struct.by_name.get(name, struct.by_lower_name.get(name.lower()))


def nulls(type_: pa.DataType) -> Convert:
    """Return a conversion to NULL for a column that the file does not have."""

    def convert(array: pa.Array, _seconds: pa.Array | None) -> pa.Array:
        return pa.nulls(len(array), type_)

    return convert


# ---- nested types --------------------------------------------------------------------------------


def converter(source: ColumnFile, column_id: int, wanted: hive.HiveType, name: str) -> Convert:
    """Return the conversion of a file's column to this type; `name` is for messages."""
    type_ = source.tail.types[column_id]
    match wanted, type_.kind:
        case hive.StructType(), TypeKind.STRUCT:
            return _struct(source, type_, wanted, name)
        case hive.ArrayType(element=element), TypeKind.LIST:
            inner = converter(source, type_.children[0], element, f"{name}.[]")
            return _with_converted_parts([inner], read_type(wanted, source.form))
        case hive.MapType(key=key, value=value), TypeKind.MAP:
            keys = converter(source, type_.children[0], key, f"{name}.[key]")
            values = converter(source, type_.children[1], value, f"{name}.[value]")
            checked = _with_keys(source, keys, key, name)
            return _with_converted_parts([checked, values], read_type(wanted, source.form))
        case hive.UnionType(options=options), TypeKind.UNION if len(options) == len(type_.children):
            parts = [
                converter(source, child, option, f"{name}.{index}")
                for index, (child, option) in enumerate(zip(type_.children, options, strict=True))
            ]
            return _union(parts, read_type(wanted, source.form))
        case _:
            if type_.lacks_precision:
                _require_room(source.tail, column_id, name)
                return _of_any_scale(source, type_, wanted, name)
            return _leaf(source, type_, wanted, name)


def _struct(source: ColumnFile, type_: OrcType, wanted: hive.StructType, name: str) -> Convert:
    result_type = read_type(wanted, source.form)
    # The position of each wanted field in the file's struct, or None, and its conversion.
    parts: list[tuple[int | None, Convert]] = []
    for field_name, field_type in wanted.fields:
        child = child_named(type_, field_name)
        if child is None:
            parts.append((None, nulls(read_type(field_type, source.form))))
        else:
            inner = converter(source, child, field_type, f"{name}.{field_name}")
            parts.append((type_.children.index(child), inner))

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        children = [
            inner(
                array if position is None else array.field(position),
                None if position is None or seconds is None else seconds.field(position),
            )
            for position, inner in parts
        ]
        return with_parts(array, children, result_type)

    return convert


def _with_converted_parts(inner: Sequence[Convert], type_: pa.DataType) -> Convert:
    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        array = unsliced(array)
        parts = parts_of(array)
        of_seconds: list[pa.Array | None] = [None] * len(parts)
        if seconds is not None:
            of_seconds = parts_of(unsliced(seconds))
        converted = [c(p, s) for c, p, s in zip(inner, parts, of_seconds, strict=True)]
        return with_parts(array, converted, type_)

    return convert


def _with_keys(source: ColumnFile, inner: Convert, wanted: hive.HiveType, name: str) -> Convert:
    """Return the conversion of a map's keys that refuses keys that it makes NULL."""

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        keys = inner(array, seconds)
        if keys.null_count:
            raise UnsupportedFileError(
                path=source.tail.path,
                reason=f"a key of the map {name!r} cannot be converted to {wanted}, and becomes"
                " NULL, which this reader cannot represent",
            )
        return keys

    return convert


def _union(parts: Sequence[Convert], type_: pa.DataType) -> Convert:
    """Return the conversion of a union to a struct, which is NULL if the tagged value is."""

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        tags = array.type_codes
        values = [
            inner(array.field(index), None if seconds is None else seconds.field(index))
            for index, inner in enumerate(parts)
        ]
        chosen = [pc.and_(pc.equal(tags, index), v.is_valid()) for index, v in enumerate(values)]
        valid = functools.reduce(pc.or_, chosen)
        return pa.StructArray.from_arrays(
            [tags, *values], fields=list(type_), mask=pc.invert(valid)
        )

    return convert


# ---- primitive types -----------------------------------------------------------------------------


def _leaf(source: ColumnFile, type_: OrcType, wanted: hive.HiveType, name: str) -> Convert:
    if _is_same(type_, wanted):
        if type_.kind in TIMESTAMP_KINDS:
            return _timestamp(source, type_, name)
        return _plain(source, type_)
    if isinstance(wanted, hive.CharType | hive.VarcharType) and type_.kind in _STRINGS:
        plain = _plain(source, type_)
        return lambda array, seconds: fit_length(plain(array, seconds), wanted)
    return _promoted(source, type_, wanted, name)


def _is_same(type_: OrcType, wanted: hive.HiveType) -> bool:
    match wanted:
        case hive.PrimitiveType(name=name):
            # A varchar read as string needs no change; `_plain` unpads a char.
            same_text = name == "string" and type_.kind in (TypeKind.VARCHAR, TypeKind.CHAR)
            return same_text or type_.kind == PRIMITIVE_KINDS[name]
        case hive.DecimalType(precision=precision, scale=scale):
            parameters = (type_.precision, type_.scale)
            return type_.kind == TypeKind.DECIMAL and parameters == (precision, scale)
        case _:  # Hive cuts a varchar in every file; a writer may have stored longer text
            return False


def _timestamp(source: ColumnFile, type_: OrcType, name: str) -> Convert:
    zone = _UTC if type_.kind == TypeKind.TIMESTAMP_INSTANT else None

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        if seconds is None and source.form is TimestampForm.NANOSECONDS:
            return array  # nanoseconds begin in 1677, so the calendar does not matter
        times = instants(array, seconds, hybrid=source.hybrid, zone=source.zone_of(type_))
        return in_form(times, source.form, zone, path=source.tail.path, column=name)

    return convert


def _plain(source: ColumnFile, type_: OrcType) -> Convert:
    """Return a conversion within a type: to proleptic dates, unpadded chars or timestamp pairs."""

    def pairs(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        times = instants(array, seconds, hybrid=source.hybrid, zone=source.zone_of(type_))
        return in_form(times, TimestampForm.PAIR, None, path=source.tail.path, column="")

    if type_.kind in TIMESTAMP_KINDS:
        return pairs
    if type_.kind == TypeKind.CHAR:
        return lambda array, _seconds: unpadded(array)
    if type_.kind == TypeKind.DATE and source.hybrid:
        return lambda array, _seconds: proleptic_dates(array, source.tail.path, "")
    return lambda array, _seconds: array


def _require_room(tail: OrcTail, column_id: int, name: str) -> None:
    """Check that 38 digits can hold a column of decimals without precision as Arrow shows them."""
    statistics = tail.statistics(column_id) if tail.row_index_stride else None
    if statistics is not None and statistics.HasField("values") and not statistics.values:
        return  # every value is NULL
    bounds = (
        () if statistics is None else (statistics.decimals.minimum, statistics.decimals.maximum)
    )
    limit = hive.MAX_PRECISION - shown_scale(tail.types[column_id].scale)
    digits = [_whole_digits(bound) for bound in bounds]
    if tail.rows and (not digits or max(digits) > limit):
        raise UnsupportedFileError(
            path=tail.path,
            reason=f"the decimals of column {name!r} have no precision, and may have more than"
            f" {limit} digits before the point; this reader cannot represent them exactly",
        )


def _whole_digits(bound: str) -> float:
    """Return the number of digits before the point; old versions of Hive wrote 1E+30, too."""
    try:
        return Decimal(bound).adjusted() + 1
    except InvalidOperation:  # there is no bound
        return math.inf


def _of_any_scale(source: ColumnFile, type_: OrcType, wanted: hive.HiveType, name: str) -> Convert:
    """Return the conversion of decimals without precision; they are shown with one more digit."""
    if not (isinstance(wanted, hive.DecimalType) and wanted.scale <= type_.scale):
        raise UnsupportedFileError(
            path=source.tail.path,
            reason=f"the decimals of column {name!r} have no precision; this reader can represent"
            f" them as decimals with up to {type_.scale} digits after the point, not as {wanted}",
        )
    return lambda array, _seconds: promote(array, wanted)


def _promoted(source: ColumnFile, type_: OrcType, wanted: hive.HiveType, name: str) -> Convert:
    stored = _stored_type(type_)
    text = hive_text(source.tail.types, source.tail.types.index(type_))
    # Hive would return the padding of a char as bytes, too. `promote` shows with an empty array
    # whether it has a conversion.
    is_padded = type_.kind == TypeKind.CHAR and wanted == hive.PrimitiveType("binary")
    if stored is None or is_padded or promote(pa.array([], stored), wanted) is None:
        raise UnsupportedFileError(
            path=source.tail.path,
            reason=f"column {name!r} is stored as {text}, which cannot be read as {wanted}",
        )
    plain = _plain(source, type_)

    def convert(array: pa.Array, seconds: pa.Array | None) -> pa.Array:
        try:
            values = promote(plain(array, seconds), wanted)
        except OutOfRangeError as error:
            raise UnsupportedFileError(
                path=source.tail.path,
                reason=f"column {name!r} is stored as {text}, and Hive reads {error} as {wanted}."
                " This provider cannot represent the result",
            ) from error
        if wanted != hive.PrimitiveType("timestamp"):
            return values
        return in_form(of_pairs(values), source.form, None, path=source.tail.path, column=name)

    return convert


def _stored_type(type_: OrcType) -> pa.DataType | None:
    """Return the Arrow type of `_plain`'s result; None if it cannot be converted further."""
    if type_.kind == TypeKind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return None if type_.kind == TypeKind.TIMESTAMP_INSTANT else _STORED.get(type_.kind)


_STORED: Final[Mapping[int, pa.DataType]] = {
    **{PRIMITIVE_KINDS[name]: type_ for name, type_ in PRIMITIVES.items()},
    TypeKind.VARCHAR: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.TIMESTAMP: PAIR_TYPE,
}
