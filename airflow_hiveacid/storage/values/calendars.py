"""Days before 1582-10-15: from the calendar that changes there to the one that never does.

ORC files say in their footer which calendar their dates and timestamps are in. Hive 4 writes the
hybrid one (Julian before the change), Hive 3.1 the proleptic one without saying so, and Arrow
looks at neither. A date means its label, year-month-day, so a hybrid day becomes the proleptic day
of the same label (CalendarUtils.convertDateToProleptic of Hive's storage API). Takes and gives
NumPy arrays of days and seconds since 1970-01-01.

Example:
    >>> to_proleptic_days(np.array([-719164, -141428, -141427]))
    array([-719162, -141438, -141427])
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt

from airflow_hiveacid.storage.orc.footer import Calendar, OrcTail

SWITCHOVER: Final = dt.date(1582, 10, 15)
"""The first day of the Gregorian calendar."""

SWITCHOVER_DAY: Final = -141427
"""The same, in days since 1970-01-01."""

EPOCH: Final = dt.date(1970, 1, 1)
_SECONDS_A_DAY: Final = 86400
_JULIAN_DAY_OF_EPOCH: Final = 2440588
_JAVA_WRITER: Final = 0
# OrcFile.WriterVersion ORC_135: the first whose Java writers may be those of Hive 3.
_FIRST_OF_HIVE_3: Final = 6

_Ints = npt.NDArray[np.int64]


def day_of(date: dt.date) -> int:
    """The number of a day, counted from 1970-01-01, in the calendar of today."""
    return (date - EPOCH).days


def is_hybrid(tail: OrcTail) -> bool:
    """Whether the old dates of a file are in the hybrid calendar.

    A file that does not say was written before ORC 1.6: in the hybrid calendar by Hive 2, in the
    proleptic one by Hive 3.1 (whose dates are LocalDates) and by writers other than Java's. Hive 4
    takes all of them for hybrid and shows dates of Hive 3.1 two days off; they are read here as
    their writer reads them.
    """
    match tail.calendar:
        case Calendar.JULIAN_GREGORIAN:
            return True
        case Calendar.PROLEPTIC_GREGORIAN:
            return False
        case Calendar.UNKNOWN:
            is_java = tail.footer.writer == _JAVA_WRITER
            return is_java and tail.postscript.writer_version < _FIRST_OF_HIVE_3


def to_proleptic_days(days: npt.NDArray[np.integer]) -> _Ints:
    """Hybrid days to the proleptic days with the same label; later days stay.

    A 29 February that only the Julian calendar has becomes 1 March, as in Hive.
    """
    wide = days.astype(np.int64)
    old = wide < SWITCHOVER_DAY
    if old.any():
        wide[old] = _gregorian_day(*_julian_label(wide[old]))
    return wide


def to_proleptic_seconds(seconds: _Ints) -> _Ints:
    """Hybrid wall-clock seconds to proleptic ones with the same label; later seconds stay."""
    days = np.floor_divide(seconds, _SECONDS_A_DAY)
    return seconds + (to_proleptic_days(days) - days) * _SECONDS_A_DAY


def _julian_label(days: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Julian year, month and day; years here begin in March, and months count from 0."""
    shifted = days + (_JULIAN_DAY_OF_EPOCH + 32082)
    years = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * years // 4
    months = (5 * day_of_year + 2) // 153
    return years - 4800, months, day_of_year - (153 * months + 2) // 5 + 1


def _gregorian_day(years: _Ints, months: _Ints, day: _Ints) -> _Ints:
    """Days since 1970-01-01 of a proleptic Gregorian date; years and months as above."""
    leap_days = years // 4 - years // 100 + years // 400
    return 365 * years + leap_days + (153 * months + 2) // 5 + day - 1 - 719468
