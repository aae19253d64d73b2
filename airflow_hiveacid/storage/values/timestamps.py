"""Read complete timestamps from ORC files: years 1 to 9999, with nanoseconds.

Arrow refuses values outside 1677 to 2262, such as many "valid until" dates, but `orc.view` shows
seconds and nanoseconds separately. A value that does not fit into the wanted form is an error. For
Spark, timestamps at any depth are converted between microseconds and pairs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.values.calendars import to_proleptic_seconds
from airflow_hiveacid.storage.values.nested import null_mask, parts_of, unsliced, with_parts
from airflow_hiveacid.storage.values.time_zones import TimeZone

SECONDS: Final = "seconds"
NANOS: Final = "nanos"
PAIR_TYPE: Final = pa.struct([(SECONDS, pa.int64()), (NANOS, pa.int32())])
"""A pair: seconds since 1970-01-01 00:00:00, rounded down, and the remaining nanoseconds."""

NANOS_A_SECOND: Final = 1_000_000_000
UNITS_A_SECOND: Final[Mapping[str, int]] = {
    "s": 1,
    "ms": 10**3,
    "us": 10**6,
    "ns": NANOS_A_SECOND,
}
"""The number of units in a second, by unit name in Arrow."""

NANOSECONDS_REACH_S: Final = ((1 << 63) - 1) // NANOS_A_SECOND
"""The number of seconds before or after 1970 that fit into Arrow's nanoseconds."""

# ORC counts seconds from 2015-01-01 (TimestampTreeWriter.BASE_TIMESTAMP_STRING).
_ORC_EPOCH_S: Final = 1_420_070_400
_CUT_NANOS: Final = 999_999
# Statistics may be in the writer's time zone, less than `_MARGIN_S` from UTC.
_MARGIN_S: Final = 2 * 86400
_MILLIS: Final = 1000

_Ints = npt.NDArray[np.int64]


class TimestampForm(enum.Enum):
    """The form of timestamps in a result.

    NANOSECONDS and MICROSECONDS are Arrow timestamps; a value that does not fit is an error. PAIR
    is `PAIR_TYPE`; it can hold every value.
    """

    NANOSECONDS = "ns"
    MICROSECONDS = "us"
    PAIR = "pair"


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """The timestamps of one array; where `valid` is False, the numbers have no meaning."""

    seconds: _Ints
    nanos: _Ints
    valid: npt.NDArray[np.bool_]


def may_overflow(tail: OrcTail, column_id: int) -> bool:
    """Return True if a timestamp column may exceed nanoseconds, or has no row index."""
    statistics = tail.statistics(column_id)
    if statistics is None or not tail.row_index_stride:
        return True
    time_statistics = statistics.timestamps
    bounds = [
        getattr(time_statistics, name)
        for name in ("minimum", "maximum", "minimum_utc", "maximum_utc")
        if time_statistics.HasField(name)
    ]
    if len(bounds) < 2:  # noqa: PLR2004 - a least and a greatest bound
        return bool(statistics.values)
    return any(abs(bound) // _MILLIS > NANOSECONDS_REACH_S - _MARGIN_S for bound in bounds)


def instants(
    array: pa.Array, raw_seconds: pa.Array | None, *, hybrid: bool, zone: TimeZone | None = None
) -> Instants:
    """Return the timestamps of a column.

    If `raw_seconds` has the column's seconds as they are stored, only the nanoseconds of `array`
    are used; otherwise `array` has complete timestamps. `hybrid`: the file's dates before
    1582-10-15 are in the hybrid calendar. `zone` is that of the writer, and needs `raw_seconds`;
    None means UTC. The result are the times that the writer's clocks showed
    (TimestampTreeReader.readTimestamp).
    """
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = counts_of(array)
    if raw_seconds is None:
        return Instants(numbers // NANOS_A_SECOND, numbers % NANOS_A_SECOND, valid)
    nanos = numbers - _ORC_EPOCH_S * NANOS_A_SECOND
    # The stored seconds count from 2015-01-01 00:00:00 on the writer's clock.
    epoch_s = _ORC_EPOCH_S if zone is None else zone.instant_of(_ORC_EPOCH_S)
    seconds = counts_of(raw_seconds) + epoch_s
    # Writers truncate seconds towards zero, so those of a time before 1970 with a fraction are too
    # high by one. All readers correct them (TimestampTreeReader.nextVector).
    seconds -= (seconds < 0) & (nanos > _CUT_NANOS)
    # Arrow's writer instead stores negative nanoseconds for timestamps before 1970.
    seconds += nanos // NANOS_A_SECOND
    if zone is not None:
        seconds += zone.offsets_at(seconds)
    if hybrid:
        seconds = to_proleptic_seconds(seconds)
    return Instants(seconds, nanos % NANOS_A_SECOND, valid)


def of_pairs(pairs: pa.Array) -> Instants:
    """Return the timestamps in an array of `PAIR_TYPE`."""
    seconds: _Ints = pairs.field(SECONDS).fill_null(0).to_numpy()
    nanos: _Ints = pairs.field(NANOS).fill_null(0).to_numpy().astype(np.int64)
    return Instants(seconds, nanos, pairs.is_valid().to_numpy(zero_copy_only=False))


def in_form(
    found: Instants, form: TimestampForm, zone: str | None, *, path: str, column: str
) -> pa.Array:
    """Convert timestamps to `form`; `zone` is the column's time zone in Arrow, or None."""
    if form is TimestampForm.PAIR:
        return pa.StructArray.from_arrays(
            [pa.array(found.seconds), pa.array(found.nanos.astype(np.int32))],
            fields=list(PAIR_TYPE),
            mask=pa.array(~found.valid),
        )
    units_a_second = UNITS_A_SECOND[form.value]
    nanos_a_unit = NANOS_A_SECOND // units_a_second
    fits = (found.nanos % nanos_a_unit == 0) & _reaches(found, units_a_second)
    if not fits[found.valid].all():
        raise UnsupportedFileError(
            path=path,
            reason=f"column {column!r} holds timestamps that 64 bits of {form.value} cannot hold"
            " exactly",
        )
    values = np.where(found.valid, found.seconds * units_a_second + found.nanos // nanos_a_unit, 0)
    return pa.array(values, mask=~found.valid).cast(pa.timestamp(form.value, zone))


def _reaches(found: Instants, units_a_second: int) -> npt.NDArray[np.bool_]:
    low, high = -(1 << 63) // units_a_second, ((1 << 63) - 1) // units_a_second
    nanos_a_unit = NANOS_A_SECOND // units_a_second
    first = -(1 << 63) % units_a_second * nanos_a_unit
    last = ((1 << 63) - 1) % units_a_second * nanos_a_unit
    reaches: npt.NDArray[np.bool_] = (
        (found.seconds > low) | ((found.seconds == low) & (found.nanos >= first))
    ) & ((found.seconds < high) | ((found.seconds == high) & (found.nanos <= last)))
    return reaches


def seconds_and_nanos(values: pa.Array) -> tuple[_Ints, _Ints]:
    """Return the seconds since 1970, rounded down, and nanoseconds, of times or pairs."""
    if pa.types.is_struct(values.type):
        times = of_pairs(values)
        return np.where(times.valid, times.seconds, 0), np.where(times.valid, times.nanos, 0)
    unit = UNITS_A_SECOND[values.type.unit]
    seconds, rest = np.divmod(counts_of(values), unit)
    return seconds, rest * (NANOS_A_SECOND // unit)


def form_type(form: TimestampForm, zone: str | None) -> pa.DataType:
    """Return the Arrow type of a timestamp column in this form."""
    return PAIR_TYPE if form is TimestampForm.PAIR else pa.timestamp(form.value, zone)


def counts_of(array: pa.Array) -> _Ints:
    """Return Arrow timestamps as integers in their own unit; 0 for NULL."""
    counts: _Ints = array.cast(pa.int64()).fill_null(0).to_numpy()
    return counts


_NANOS_A_MICRO: Final = NANOS_A_SECOND // UNITS_A_SECOND["us"]


def with_pairs(array: pa.Array) -> pa.Array:
    """Replace each Arrow timestamp with an exact pair of seconds and nanoseconds."""
    return _mapped(array, lambda a: pa.types.is_timestamp(a.type), _as_pair)


def with_microseconds(array: pa.Array, *, path: str, column: str) -> pa.Array:
    """Replace each pair with Arrow microseconds without time zone, rounded down.

    Raises UnsupportedFileError for a time that 64 bits of microseconds cannot hold.
    """

    def change(pairs: pa.Array) -> pa.Array:
        times = of_pairs(pairs)
        micros = times.nanos // _NANOS_A_MICRO
        whole = Instants(times.seconds, micros * _NANOS_A_MICRO, times.valid)
        return in_form(whole, TimestampForm.MICROSECONDS, None, path=path, column=column)

    return _mapped(array, lambda a: a.type.equals(PAIR_TYPE), change)


def _mapped(
    array: pa.Array,
    is_meant: Callable[[pa.Array], bool],
    change: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    if is_meant(array):
        return change(array)
    if not pa.types.is_nested(array.type):
        return array
    array = unsliced(array)
    parts = [_mapped(part, is_meant, change) for part in parts_of(array)]
    types = [part.type for part in parts]
    if pa.types.is_struct(array.type):
        result_type = pa.struct(zip((field.name for field in array.type), types, strict=True))
    else:
        result_type = (pa.map_ if pa.types.is_map(array.type) else pa.list_)(*types)
    return with_parts(array, parts, result_type)


def _as_pair(array: pa.Array) -> pa.Array:
    times = Instants(*seconds_and_nanos(array), ~null_mask(array))
    return in_form(times, TimestampForm.PAIR, None, path="", column="")
