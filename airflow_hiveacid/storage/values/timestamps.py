"""Read complete timestamps from ORC files: years 1 to 9999, with nanoseconds, in both calendars.

Arrow refuses values outside 1677 to 2262, such as many "valid until" dates, but `orc.view` shows
seconds and nanoseconds separately. A value that does not fit into the wanted form is an error. For
Spark, timestamps at any depth are converted between microseconds and pairs.

An ORC footer can state the hybrid calendar (Julian before 1582-10-15), which Hive 4 writes and
Arrow ignores. A day becomes the proleptic day with the same label of year, month and day
(CalendarUtils.convertDateToProleptic in Hive's storage API).

Example:
    >>> to_proleptic_days(np.array([-719164, -141428, -141427]))
    array([-719162, -141438, -141427])
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.orc.footer import OrcCalendar, OrcTail, TypeKind, Writer
from airflow_hiveacid.storage.values.nested import null_mask, parts_of, unsliced, with_parts
from airflow_hiveacid.storage.values.time_zones import TimeZone

SWITCHOVER: Final = dt.date(1582, 10, 15)
"""The first day of the Gregorian calendar."""

SWITCHOVER_DAY: Final = -141427
"""`SWITCHOVER` in days since 1970-01-01."""

SECONDS_A_DAY: Final = 86400
SWITCHOVER_SECOND: Final = SWITCHOVER_DAY * SECONDS_A_DAY
"""The first second of `SWITCHOVER`, since 1970-01-01."""

OLD_TIMES_REMEDY: Final = (
    "store the table as ORC, or make the column a string and cast the value to it"
)
"""What to do with a time before `SWITCHOVER` that a format cannot store."""
OTHER_FORMAT_REMEDY: Final = "change the value, or store the table in another file format"
"""What to do with another value that a format cannot store."""

EPOCH: Final = dt.date(1970, 1, 1)
_JULIAN_DAY_OF_EPOCH: Final = 2440588
# OrcFile.WriterVersion ORC_135: the first writer version in files of Hive 3.
_FIRST_OF_HIVE_3: Final = 6


def day_of(date: dt.date) -> int:
    """Return the number of days from 1970-01-01 to a Gregorian date."""
    return (date - EPOCH).days


def is_hybrid(tail: OrcTail, *, is_hives: bool) -> bool:
    """Return True if a file's dates before 1582-10-15 are read in the hybrid calendar.

    ORC's Java writer states the calendar since 1.6, but other writers do not. Hive 4 and Spark read
    every file that states no calendar as hybrid, whatever its writer. So do we for flat tables:
    Spark 2.3 to 3.1 wrote the hybrid calendar, in files that look like Hive 3.1's. Of the few
    writers of ACID tables, Hive 2 wrote the hybrid calendar, Hive 3.1 (with Java's LocalDate) and
    Trino the proleptic one.

    `is_hives`: the file was written into an ACID table (it has ACID columns, or lies in a base or
    delta).
    """
    match tail.calendar:
        case OrcCalendar.JULIAN_GREGORIAN:
            return True
        case OrcCalendar.PROLEPTIC_GREGORIAN:
            return False
        case OrcCalendar.UNKNOWN:
            is_java = tail.footer.writer == Writer.JAVA
            is_old = is_java and tail.postscript.writer_version < _FIRST_OF_HIVE_3
            return is_old or not is_hives


def may_have_old_days(tail: OrcTail, column_id: int, first_s: int = SWITCHOVER_SECOND) -> bool:
    """Return True if a column may, by statistics, have old dates or times before `first_s`."""
    statistics = tail.statistics(column_id) if tail.row_index_stride else None
    if statistics is None or not statistics.HasField("values"):
        return True
    if not statistics.values:
        return False
    if tail.types[column_id].kind == TypeKind.DATE:
        dates = statistics.dates
        return not (dates.HasField("minimum") and dates.minimum >= SWITCHOVER_DAY)
    times = statistics.timestamps
    return not (times.HasField("minimum_utc") and times.minimum_utc >= first_s * _MILLIS)


def to_proleptic_days(days: npt.NDArray[np.integer]) -> _Ints:
    """Convert hybrid to proleptic days of the same label; 29 February may become 1 March."""
    wide = days.astype(np.int64)
    old = wide < SWITCHOVER_DAY
    if old.any():
        wide[old] = _gregorian_day(*_julian_label(wide[old]))
    return wide


def proleptic_dates(
    dates: pa.Array, path: str, column: str, *, is_proleptic: bool | None = False
) -> pa.Array:
    """Return an Arrow array of dates in the proleptic calendar.

    `is_proleptic` states whether `dates` are in this calendar; None means that it is unknown.
    Raises UnsupportedFileError if a date is before 1582-10-15, and its calendar is unknown.
    """
    old_days = dates.cast(pa.int32()).fill_null(0).to_numpy()
    if is_proleptic or old_days.min(initial=0) >= SWITCHOVER_DAY:
        return dates
    if is_proleptic is None:
        raise _unknown_calendar(path, column)
    days = to_proleptic_days(old_days)
    return pa.array(days.astype("int32"), mask=null_mask(dates)).cast(pa.date32())


def proleptic_seconds(
    seconds: _Ints, path: str, column: str, *, is_proleptic: bool | None
) -> _Ints:
    """Act like `proleptic_dates` for wall-clock seconds since 1970."""
    if is_proleptic or seconds.min(initial=0) >= SWITCHOVER_SECOND:
        return seconds
    if is_proleptic is None:
        raise _unknown_calendar(path, column)
    return to_proleptic_seconds(seconds)


def _unknown_calendar(path: str, column: str) -> UnsupportedFileError:
    return UnsupportedFileError(
        path=path,
        reason=f"column {column!r} has values before 1582-10-15, and the file does not state"
        " their calendar: Hive 3.1 and Hive 4 assume different calendars",
    )


def to_proleptic_seconds(seconds: _Ints) -> _Ints:
    """Convert hybrid wall-clock seconds to proleptic seconds; each time keeps its label."""
    days = np.floor_divide(seconds, SECONDS_A_DAY)
    return seconds + (to_proleptic_days(days) - days) * SECONDS_A_DAY


def _julian_label(days: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return the Julian year, month and day; years begin in March, and months count from 0."""
    # Days are shifted to count from 1 March -4800; 1461 are four years, 153 are five months.
    shifted = days + (_JULIAN_DAY_OF_EPOCH + 32082)
    years = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * years // 4
    months = (5 * day_of_year + 2) // 153
    return years - 4800, months, day_of_year - (153 * months + 2) // 5 + 1


def _gregorian_day(years: _Ints, months: _Ints, day: _Ints) -> _Ints:
    """Return the days from 1970 to a Gregorian date; years and months are as in `_julian_label`."""
    leap_days = years // 4 - years // 100 + years // 400
    return 365 * years + leap_days + (153 * months + 2) // 5 + day - 1 - 719468


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
    # In `array`, all seconds are 0, which in ORC is 2015-01-01 (`ShowTimestamps`).
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
    """Return which times fit into 64 bits; the seconds `low` and `high` fit only in part."""
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
    """Change each array that `is_meant` chooses, at any depth, but nothing inside such an array."""
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
