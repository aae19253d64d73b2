"""Read the rows of one Parquet file in the types of a Hive table, if its types fit.

Columns and fields are found by name, and case is ignored. As in Hive, a missing column or field is
NULL. A numeric type may be wider in the table than in the file. A file is refused if the meaning of
a value is ambiguous.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.plain import parquet_footer as footer
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_batches import batches_of, open_parquet
from airflow_hiveacid.storage.plain.parquet_chunks import require_readable_chunks
from airflow_hiveacid.storage.values import timestamps
from airflow_hiveacid.storage.values.column_types import arrow_type, hive_name, holds, types_in
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.limits import Longs
from airflow_hiveacid.storage.values.nested import batch_of, parts_of, unsliced, with_parts
from airflow_hiveacid.storage.values.promotion import fit_length
from airflow_hiveacid.storage.values.time_zones import civil_zone_of
from airflow_hiveacid.storage.values.timestamps import (
    Instants,
    TimestampForm,
    counts_of,
    in_form,
    seconds_and_nanos,
)

_WIDER: Final = {
    "smallint": (pa.int8(),),
    "int": (pa.int8(), pa.int16()),
    "bigint": (pa.int8(), pa.int16(), pa.int32()),
    "double": (pa.float32(),),
}
"""Other stored types whose values can be read unchanged, by Hive type."""

# Impala and old versions of Spark mark no texts as UTF8; Hive reads bytes (ESTRING_CONVERTER).
_TEXTS: Final = (pa.string(), pa.binary())


class FieldPositions:
    """The positions of many columns or fields by name, in any case."""

    def __init__(self, fields: Iterable[pa.Field], path: str) -> None:
        self._path = path
        self._positions: dict[str, list[int]] = {}
        for position, field in enumerate(fields):
            self._positions.setdefault(field.name.lower(), []).append(position)

    def of(self, name: str) -> int | None:
        """Return the position of a name, or None if the name is missing."""
        positions = self._positions.get(name.lower(), [])
        if len(positions) > 1:
            raise UnsupportedFileError(path=self._path, reason=f"it has several columns {name!r}")
        return positions[0] if positions else None


def why_not(facts: footer.ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> str | None:
    """Return why a stored type cannot be read as a Hive type, as a phrase; None if it can."""
    if _fits(facts, found, wanted):
        if (
            not holds(wanted, _TIMESTAMP)
            or facts.clock is not footer.TimestampStorage.INSTANT
            or facts.zone is not None
        ):
            return None
        return (
            "has timestamps that Hive's versions show as different times, because the file does"
            f" not state the writer's time zone, or states {footer.OLD_RULES}=true"
        )
    return f"is stored as {hive_name(found)}, which cannot be read as {wanted}"


def is_exactly(facts: footer.ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> bool:
    """Return whether a column is stored exactly as its Hive type, but for texts' lengths."""
    # Callers cut or check the texts of a column of char or varchar, but not those inside a column.
    is_cut = any(isinstance(type_, hive.CharType | hive.VarcharType) for type_ in types_in(wanted))
    if is_cut and not isinstance(wanted, hive.CharType | hive.VarcharType):
        return False
    match wanted:
        case hive.StructType(fields=fields):
            return (
                pa.types.is_struct(found)
                and [f.name for f in found] == [name for name, _ in fields]
                and all(
                    is_exactly(facts, found.field(i).type, t) for i, (_, t) in enumerate(fields)
                )
            )
        case hive.ArrayType(element=element):
            return pa.types.is_list(found) and is_exactly(facts, found.value_type, element)
        case hive.MapType(key=key, value=value):
            return (
                pa.types.is_map(found)
                and is_exactly(facts, found.key_type, key)
                and is_exactly(facts, found.item_type, value)
            )
        case hive.PrimitiveType(name="timestamp"):
            # Spark cannot read timestamps that are stored as nanoseconds in 64 bits.
            is_too_fine = facts.clock is footer.TimestampStorage.WALL and found == pa.timestamp(
                "ns"
            )
            # Spark would show instants of 64 bits in the session's time zone.
            is_moved = facts.clock is footer.TimestampStorage.UTC
            return _fits(facts, found, wanted) and not is_too_fine and not is_moved
        case _:
            return bool(found == arrow_type(wanted))


def _fits(facts: footer.ParquetFacts, found: pa.DataType, wanted: hive.HiveType) -> bool:  # noqa: PLR0911
    match wanted:
        case hive.StructType(fields=fields):
            return pa.types.is_struct(found) and _fit_all(facts, found, fields)
        case hive.ArrayType(element=element):
            return pa.types.is_list(found) and _fits(facts, found.value_type, element)
        case hive.MapType(key=key, value=value):
            return (
                pa.types.is_map(found)
                and _fits(facts, found.key_type, key)
                and _fits(facts, found.item_type, value)
            )
        case hive.DecimalType(precision=precision, scale=scale):
            is_decimal = pa.types.is_decimal(found)
            return bool(is_decimal and found.scale == scale and found.precision <= precision)
        case hive.CharType() | hive.VarcharType() | hive.PrimitiveType(name="string"):
            return found in _TEXTS
        case hive.PrimitiveType(name="timestamp"):
            return facts.clock is not footer.TimestampStorage.MIXED and pa.types.is_timestamp(found)
        case hive.PrimitiveType(name=name) if "timestamp" not in name:
            return found == arrow_type(wanted) or found in _WIDER.get(name, ())
        case _:
            return False


def _fit_all(
    facts: footer.ParquetFacts, found: pa.StructType, fields: Sequence[tuple[str, hive.HiveType]]
) -> bool:
    positions = FieldPositions(found, "a struct")
    return all(
        position is None or _fits(facts, found.field(position).type, type_)
        for name, type_ in fields
        for position in (positions.of(name),)
    )


_NANOS_A_MICRO: Final = 1_000
_TIMESTAMP: Final = hive.PrimitiveType("timestamp")
_MICROS_A_SECOND: Final = 1_000_000
# None means that the calendar is unknown.
_DAYS_ARE_PROLEPTIC: Final = {
    footer.ParquetCalendar.HYBRID: False,
    footer.ParquetCalendar.PROLEPTIC: True,
    footer.ParquetCalendar.PROLEPTIC_DAYS: True,
    footer.ParquetCalendar.UNKNOWN: None,
}
_INSTANTS_ARE_PROLEPTIC: Final = {
    **_DAYS_ARE_PROLEPTIC,
    footer.ParquetCalendar.PROLEPTIC_DAYS: None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The context of a conversion: the file's path and facts, and the form of timestamps."""

    path: str
    facts: footer.ParquetFacts
    form: TimestampForm


@dataclass(frozen=True, slots=True)
class _Values:
    """Values as Arrow reads them; 96-bit timestamps are in microseconds.

    `nanos` are the same values in nanoseconds; None if not needed. They may have overflowed 64
    bits, but so does the product of the microseconds and 1000, and the difference is still the
    fraction of a microsecond.
    """

    array: pa.Array
    nanos: pa.Array | None

    def each(self, change: Callable[[pa.Array], pa.Array]) -> _Values:
        return _Values(change(self.array), None if self.nanos is None else change(self.nanos))

    def part(self, position: int) -> _Values:
        return self.each(lambda array: parts_of(array)[position])


def parquet_rows(
    file: PlainFile, wanted: Sequence[Column], *, batch_rows: int, timestamps: TimestampForm
) -> Iterator[pa.RecordBatch]:
    """Read some columns of the rows of a file."""
    types = {column.name: hive.parse_type(column.type) for column in wanted}
    fields = [pa.field(name, read_type(type_, timestamps)) for name, type_ in types.items()]
    with footer.parquet_errors(file.path), file.fs.open_input_file(file.path) as source:
        opened = open_parquet(source, "us")
        require_readable_chunks(source, opened.metadata, file.path)
        target = _Target(path=file.path, facts=footer.facts_of(opened, file.path), form=timestamps)
        field_positions = FieldPositions(target.facts.schema, file.path)
        positions = {name: field_positions.of(name) if file.knows(name) else None for name in types}
        for name, type_ in types.items():
            position = positions[name]
            if position is None:
                continue
            field = target.facts.schema.field(position)
            reason = why_not(target.facts, field.type, type_)
            wide = target.facts.wide_decimals.get(field.name.partition(".")[0])
            if wide is not None:
                reason = f"has {wide}, more than 16 bytes, which this reader cannot represent"
            if reason is not None:
                raise UnsupportedFileError(path=file.path, reason=f"column {name!r} {reason}")
        stored = {
            n: target.facts.schema.field(p).name for n, p in positions.items() if p is not None
        }
        names = list(stored.values())
        has_instants = target.facts.clock is footer.TimestampStorage.INSTANT and any(
            holds(type_, _TIMESTAMP) for type_ in types.values()
        )
        for batch, nanos in _readings(file, opened, names, batch_rows, has_instants=has_instants):
            columns = [
                _converted(
                    target,
                    _Values(
                        batch.column(stored[field.name]),
                        None if nanos is None else nanos.column(stored[field.name]),
                    ),
                    types[field.name],
                    field.name,
                )
                if field.name in stored
                else pa.nulls(batch.num_rows, field.type)
                for field in fields
            ]
            yield batch_of(columns, pa.schema(fields), batch.num_rows)


def _readings(
    file: PlainFile,
    opened: pq.ParquetFile,
    names: Sequence[str],
    batch_rows: int,
    *,
    has_instants: bool,
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """Yield each batch, and the same batch read in nanoseconds if `has_instants` (`_Values`)."""
    batches = batches_of(opened, names, batch_rows)
    if not has_instants:
        yield from zip(batches, itertools.repeat(None))
        return
    with file.fs.open_input_file(file.path) as source:
        again = open_parquet(source, "ns")
        yield from zip(batches, batches_of(again, names, batch_rows), strict=True)


# ---- values --------------------------------------------------------------------------------------


def _converted(target: _Target, values: _Values, wanted: hive.HiveType, name: str) -> pa.Array:
    match wanted:
        case hive.StructType(fields=fields):
            parts = _fields(target, values, fields, name)
        case hive.ArrayType(element=element):
            values = values.each(unsliced)
            parts = [_converted(target, values.part(0), element, f"{name}.[]")]
        case hive.MapType(key=key, value=value):
            values = values.each(unsliced)
            parts = [
                _converted(target, values.part(0), key, f"{name}.[key]"),
                _converted(target, values.part(1), value, f"{name}.[value]"),
            ]
        case _:
            return _leaf(target, values, wanted, name)
    return with_parts(values.array, parts, read_type(wanted, target.form))


def _fields(
    target: _Target, values: _Values, fields: Sequence[tuple[str, hive.HiveType]], name: str
) -> list[pa.Array]:
    array = values.array
    positions = FieldPositions(array.type, target.path)
    parts = []
    for field_name, field_type in fields:
        position = positions.of(field_name)
        parts.append(
            pa.nulls(len(array), read_type(field_type, target.form))
            if position is None
            else _converted(target, values.part(position), field_type, f"{name}.{field_name}")
        )
    return parts


def _leaf(target: _Target, values: _Values, wanted: hive.HiveType, name: str) -> pa.Array:
    array = values.array
    match wanted:
        case hive.CharType() | hive.VarcharType():
            return fit_length(array.cast(pa.string(), safe=False), wanted)
        case hive.PrimitiveType(name="timestamp"):
            return _timestamps(target, values, name)
        case hive.PrimitiveType(name="date"):
            proleptic = _DAYS_ARE_PROLEPTIC[target.facts.calendar]
            return timestamps.proleptic_dates(array, target.path, name, is_proleptic=proleptic)
        case hive.PrimitiveType(name="string"):
            return array.cast(pa.string(), safe=False)  # like Hive, accept bytes that are not UTF-8
        case _:
            return array.cast(arrow_type(wanted))


def _timestamps(target: _Target, values: _Values, name: str) -> pa.Array:
    # An instant of 96 bits is converted in the writer's time zone. An instant of 64 bits is shown
    # in UTC; Hive 4 shows it in the time zone of its own JVM (docs/decisions/values.md).
    array, zone = values.array, target.facts.zone
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if target.facts.clock in (footer.TimestampStorage.WALL, footer.TimestampStorage.UTC):
        seconds, nanos = seconds_and_nanos(array)
        return in_form(
            Instants(seconds, nanos, valid), target.form, None, path=target.path, column=name
        )
    micros = counts_of(array)
    rest = np.zeros(len(array), np.int64)
    if values.nanos is not None:
        # Both operands overflow 64 bits in the same way, so their difference is correct.
        rest = counts_of(values.nanos) - micros * _NANOS_A_MICRO
    seconds, part = np.divmod(micros, _MICROS_A_SECOND)
    proleptic = _INSTANTS_ARE_PROLEPTIC[target.facts.calendar]  # in UTC, as in Hive
    seconds = timestamps.proleptic_seconds(seconds, target.path, name, is_proleptic=proleptic)
    if zone is not None and not target.facts.is_in_utc:
        seconds = _shown(target, seconds, zone)
    whole = Instants(seconds, part * _NANOS_A_MICRO + rest, valid)
    return in_form(whole, target.form, None, path=target.path, column=name)


def _shown(target: _Target, seconds: Longs, zone: str) -> Longs:
    # As in Hive (TimestampTZUtil). Arrow follows the system's copy of the database, which has other
    # rules for old times on Debian, and ends daylight saving time in 2037.
    try:
        rules = civil_zone_of(zone)
    except LookupError as error:
        raise UnsupportedFileError(
            path=target.path,
            reason=f"it was written in the time zone {zone!r}, which is not known here",
        ) from error
    return seconds + rules.offsets_at(seconds)
