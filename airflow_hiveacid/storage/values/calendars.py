"""Convert days before 1582-10-15 from the hybrid to the proleptic Gregorian calendar.

An ORC footer can state the hybrid calendar (Julian before that day), which Hive 4 writes and Arrow
ignores. A day becomes the proleptic day with the same label of year, month and day
(CalendarUtils.convertDateToProleptic in Hive's storage API).

Example:
    >>> to_proleptic_days(np.array([-719164, -141428, -141427]))
    array([-719162, -141438, -141427])
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.orc.footer import OrcCalendar, OrcTail, TypeKind, Writer
from airflow_hiveacid.storage.values.nested import null_mask

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

EPOCH: Final = dt.date(1970, 1, 1)
_JULIAN_DAY_OF_EPOCH: Final = 2440588
_MILLIS: Final = 1000
# OrcFile.WriterVersion ORC_135: the first writer version in files of Hive 3.
_FIRST_OF_HIVE_3: Final = 6

_Ints = npt.NDArray[np.int64]


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
    shifted = days + (_JULIAN_DAY_OF_EPOCH + 32082)
    years = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * years // 4
    months = (5 * day_of_year + 2) // 153
    return years - 4800, months, day_of_year - (153 * months + 2) // 5 + 1


def _gregorian_day(years: _Ints, months: _Ints, day: _Ints) -> _Ints:
    """Return the days from 1970 to a Gregorian date; years and months are as in `_julian_label`."""
    leap_days = years // 4 - years // 100 + years // 400
    return 365 * years + leap_days + (153 * months + 2) // 5 + day - 1 - 719468
