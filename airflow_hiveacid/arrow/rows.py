"""Rows that a caller gives as Arrow data, as columns of a table's Hive types.

Each has the Arrow type in which it is written. A value is converted only if the table's type holds
exactly this value. Anything else is refused before a transaction begins.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, TableInfo
from airflow_hiveacid.format.types import ArrayType, HiveType, MapType, StructType, parse_type
from airflow_hiveacid.plan.statements.dml import require_column
from airflow_hiveacid.storage.plain.write import check_values
from airflow_hiveacid.storage.values.column_types import arrow_type, hive_name, types_from
from airflow_hiveacid.storage.values.limits import used_parts
from airflow_hiveacid.storage.values.nested import mask_of, with_parts, with_time_unit
from airflow_hiveacid.storage.values.timestamps import SWITCHOVER_DAY, day_of

Values = Mapping[str, pa.Array]
"""Rows as columns, by name; all columns have the same length."""

_LAST_DAY: Final = day_of(dt.date.max)
_COARSE: Final = ("s", "ms")
_WIDEST: Final = 76  # the digits of Arrow's largest decimal


class ArrowStream(Protocol):
    """Arrow data, such as a table or reader of PyArrow, or a frame of pandas or Polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def rows_of(rows: ArrowStream) -> pa.Table:
    """Return Arrow data as one table, or raise ConfigurationError, as for equal names."""
    if not hasattr(rows, "__arrow_c_stream__"):
        raise errors.ConfigurationError(
            f"rows must be Arrow data, such as a pyarrow.Table, but found a {type(rows).__name__};"
            " convert a list of dicts with pyarrow.Table.from_pylist"
        )
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    names = [name.lower() for name in table.column_names]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise errors.ConfigurationError(
            f"the rows have two columns {double}; Hive's names have no upper case, so rename one"
        )
    return table.rename_columns(names)


def stored(table: TableInfo, rows: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of rows in the types in which they are written.

    Raises UnknownColumnError if the table has no such column. Raises TypeMismatchError if a value
    of a column does not fit the column's type exactly. Raises StructFieldsError if a struct has
    other fields than its column.
    """
    for name in rows.column_names:
        require_column(table, name)
    types = {c.name: parse_type(c.type) for c in (*table.columns, *table.partition_columns)}
    values = {
        name: _Conversion(table=table, column=name).of(_whole(rows.column(name)), types[name])
        for name in rows.column_names
    }
    data = tuple(c for c in table.columns if c.name in values)
    if data:
        # As the writer will check texts and timestamps, but before anything is written.
        rows_as_struct = pa.StructArray.from_arrays(
            [values[c.name] for c in data], [c.name for c in data]
        )
        check_values(table.storage.format, rows_as_struct, types_from(data, 1), table=table.ref)
    return values


def check_not_null(table: TableInfo, values: Values) -> None:
    """Raise a ConstraintViolationError if a NOT NULL column of the table has a NULL here."""
    for column, constraint in table.constraints.not_null.items():
        if column in values and values[column].null_count:
            raise errors.ConstraintViolationError(
                table=table.ref, constraint=constraint, demand=f"{column} NOT NULL"
            )


def check_days(values: Values, names: Iterable[str]) -> None:
    """Raise SparkNeededError for days before 1582-10-15 or after 9999-12-31 in these columns."""
    for name in names:
        if pa.types.is_date32(values[name].type):
            ends = pc.min_max(values[name].cast(pa.int32())).as_py()
            low, high = ends["min"], ends["max"]
            if low is not None and (low < SWITCHOVER_DAY or high > _LAST_DAY):
                raise errors.SparkNeededError(
                    reason=f"{name} has a date outside of 1582-10-15 to 9999-12-31"
                )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    chunk = column.combine_chunks()
    return chunk.combine_chunks() if isinstance(chunk, pa.ChunkedArray) else chunk


class _Conversion:
    """The conversion of one column's values, at any depth, to a Hive type."""

    def __init__(self, *, table: TableInfo, column: str) -> None:
        self._table, self._column = table, column
        self._is_orc = table.storage.format is FileFormat.ORC

    def of(self, values: pa.Array, hive_type: HiveType) -> pa.Array:
        source = values.type
        match hive_type:
            case StructType(fields=fields) if pa.types.is_struct(source):
                return self._struct(values, fields)
            case ArrayType(element=element) if _is_list(source):
                return self._list(values, element)
            case MapType(key=key, value=value) if pa.types.is_map(source):
                return self._map(values, key, value)
            case _:
                return self._plain(values, hive_type)

    def _struct(self, values: pa.Array, fields: Sequence[tuple[str, HiveType]]) -> pa.Array:
        parts = dict(zip([f.name.lower() for f in values.type], values.flatten(), strict=True))
        names = [name for name, _ in fields]
        missing = tuple(name for name in names if name not in parts)
        unknown = tuple(name for name in parts if name not in names)
        if missing or unknown:
            raise errors.StructFieldsError(
                table=self._table.ref, path=self._column, missing=missing, unknown=unknown
            )
        inside = [self.of(parts[name], type_) for name, type_ in fields]
        return pa.StructArray.from_arrays(inside, names, mask=mask_of(values))

    def _list(self, values: pa.Array, element: HiveType) -> pa.Array:
        if not pa.types.is_list(values.type):
            values = values.cast(pa.list_(values.type.value_type))
        values = pa.concat_arrays([values])  # its offsets begin with 0
        (inside,) = (self.of(part, element) for part in used_parts(values))
        return with_parts(values, [inside], pa.list_(inside.type))

    def _map(self, values: pa.Array, key: HiveType, value: HiveType) -> pa.Array:
        values = pa.concat_arrays([values])  # its offsets begin with 0
        keys, items = used_parts(values)
        keys, items = self.of(keys, key), self.of(items, value)
        return with_parts(values, [keys, items], pa.map_(keys.type, items.type))

    def _plain(self, values: pa.Array, hive_type: HiveType) -> pa.Array:
        source, target = values.type, self._written_type(values.type, arrow_type(hive_type))
        if not _may_hold(source, target):
            raise self._mismatch(hive_type, source)
        try:
            if pa.types.is_decimal(target) and pa.types.is_integer(source):
                # Arrow casts an integer only to a decimal that can hold all values of its type.
                values = values.cast(pa.decimal256(_WIDEST, target.scale))
            result = values.cast(target)
            if pa.types.is_timestamp(target) and target.unit in _COARSE:
                result.cast(with_time_unit(target, "us"))  # a reader returns microseconds
        except pa.ArrowInvalid as error:
            raise self._mismatch(hive_type, source, f" ({error})") from error
        if pa.types.is_float32(target) and pa.types.is_float64(source):
            is_equal = pc.equal(result.cast(source), values)
            if not pc.all(pc.or_(is_equal, pc.is_nan(values)), min_count=0).as_py():
                raise self._mismatch(hive_type, source, " (a float would round its values)")
        return result

    def _written_type(self, found: pa.DataType, target: pa.DataType) -> pa.DataType:
        unit = found.unit if self._is_orc and pa.types.is_timestamp(found) else "us"
        return with_time_unit(target, unit)

    def _mismatch(
        self, hive_type: HiveType, found: pa.DataType, why: str = ""
    ) -> errors.TypeMismatchError:
        return errors.TypeMismatchError(
            table=self._table.ref,
            column=self._column,
            column_type=str(hive_type),
            value_type=f"{hive_name(found)}{why}",
        )


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def _may_hold(found: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of one type may be exact values of the other; a cast checks each."""
    is_ = pa.types
    if is_.is_null(found):
        return True
    if is_.is_timestamp(target):
        return bool(is_.is_timestamp(found)) and bool(found.tz) == bool(target.tz)
    kinds: dict[Any, Sequence[Any]] = {
        is_.is_boolean: (is_.is_boolean,),
        is_.is_integer: (is_.is_integer, is_.is_floating, is_.is_decimal),
        is_.is_floating: (is_.is_integer, is_.is_floating),
        is_.is_decimal: (is_.is_integer, is_.is_decimal),
        is_.is_string: (is_.is_string, is_.is_large_string, is_.is_string_view),
        is_.is_binary: (
            is_.is_binary,
            is_.is_large_binary,
            is_.is_binary_view,
            is_.is_fixed_size_binary,
        ),
        is_.is_date: (is_.is_date,),
    }
    fits = next((sources for is_kind, sources in kinds.items() if is_kind(target)), ())
    return any(is_kind(found) for is_kind in fits)
