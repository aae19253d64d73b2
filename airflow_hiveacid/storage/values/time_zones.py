"""Offsets of time zones from UTC, as Java's `java.util.TimeZone` computes them.

Hive's readers shift a stripe's timestamps with Java's rules for the writer's zone. Before 1900,
Java uses the zone's present standard offset (ZoneInfoFile.getZoneInfo0), most C libraries local
mean time. Java also knows names that the database lacks: short names (JST) and custom offsets
(GMT+08:00). For the instants of Parquet files, Hive uses `java.time`, which follows the database
also before 1900 (`civil_zone_of`).

The rules come from the package `tzdata`, or else from the system's files, which on Debian differ
before 1970.

Example:
    >>> year_1899, year_2024 = -2_208_990_000, 1_720_000_000
    >>> zone_of("Europe/Paris").offsets_at(np.array([year_1899, year_2024])).tolist()
    [3600, 7200]
    >>> zone_of("GMT+08:00").offsets_at(np.array([0])).tolist()
    [28800]
"""

from __future__ import annotations

import calendar
import datetime as dt
import functools
import re
import struct
import zoneinfo
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]

_FIRST_RULE_S: Final = -2_208_988_800
"""1900-01-01 00:00:00 UTC (ZoneInfoFile.UTC1900)."""

_LAST_RULES_FROM: Final = 1970
_CYCLE_YEARS: Final = 400
"""The days and weekdays of the Gregorian calendar repeat after this number of years."""

_CYCLE_S: Final = 146_097 * 86400
_CYCLE_FROM: Final = 2100
_HOUR_S: Final = 3600

_FIXED: Final[Mapping[str, int]] = {"Z": 0, "EST": -5, "MST": -7, "HST": -10}
_SHORT_NAMES: Final[Mapping[str, str]] = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    # The database once had rules of their own for these names, and some copies still do.
    "CST6CDT": "America/Chicago",
    "EST5EDT": "America/New_York",
    "MST7MDT": "America/Denver",
    "PST8PDT": "America/Los_Angeles",
}
_CUSTOM: Final = re.compile(r"GMT([+-])([0-9]{1,2})(?::?([0-5][0-9]))?", re.ASCII)
_MOST_HOURS: Final = 23
_CIVIL_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?", re.ASCII
)
_MOST_CIVIL_HOURS: Final = 18
# The hours before 1900, and from 2037 on, in Java's copy of the database of release 2025b. The laws
# changed in 2026. But the first and the last day of years 1 to 9999 stand for "unknown" and "for
# ever" in files that were written before, and these days must not become other days. Java ignores
# that Namibia repealed its law in 2017.
_OUTER_HOURS: Final[Mapping[str, tuple[int, int]]] = {
    "Africa/Casablanca": (0, 1),
    "Africa/El_Aaiun": (0, 1),
    "Africa/Windhoek": (1, 1),
    **dict.fromkeys(("America/Vancouver", "Canada/Pacific"), (-8, -8)),
    **dict.fromkeys(("America/Edmonton", "America/Inuvik", "America/Yellowknife"), (-7, -7)),
    **dict.fromkeys(("America/Rainy_River", "America/Winnipeg", "Canada/Central"), (-6, -6)),
    "Canada/Mountain": (-7, -7),
}
_OUTER_FROM_S: Final = 2_114_377_200
_SYSTEM_V: Final = re.compile(r"SystemV/[A-Z]{3}([0-9]{1,2})", re.ASCII)
_DATABASE_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)

_OFFSET: Final = r"([+-]?[0-9:]+)"
_ABBREVIATION: Final = r"(?:[A-Za-z]+|<[^>]+>)"
_POSIX: Final = re.compile(
    rf"{_ABBREVIATION}{_OFFSET}(?:{_ABBREVIATION}{_OFFSET}?,([^,]+),([^,]+))?", re.ASCII
)
_DEFAULT_CHANGE_S: Final = 2 * _HOUR_S
_LAST_WEEK: Final = 5
_MAGIC: Final = b"TZif"
_HEADER: Final = struct.Struct(">4s1c15x6l")


@dataclass(frozen=True, slots=True, eq=False)
class TimeZone:
    """A zone's offsets from UTC in seconds.

    `starts` are the seconds since 1970 at which an offset begins, ascending. `offsets` has one
    more, which comes first.
    """

    starts: _Ints
    offsets: _Ints

    @property
    def is_utc(self) -> bool:
        """True if the zone's clocks always show UTC."""
        return not self.offsets.any()

    def offsets_at(self, seconds: _Ints) -> _Ints:
        """Return the offset at each of these times, in seconds since 1970 in UTC."""
        if not len(self.starts):
            return np.broadcast_to(self.offsets, seconds.shape)
        end = int(self.starts[-1])
        if len(seconds) and seconds.max() > end:
            # `starts` ends with a whole cycle, so a later time is as one some cycles before it.
            late = np.maximum(seconds - end, 0)
            seconds = seconds - -(-late // _CYCLE_S) * _CYCLE_S
        return self.offsets[np.searchsorted(self.starts, seconds, "right")]

    def instant_of(self, wall_s: int) -> int:
        """Return the UTC time at which clocks show this time; they may not change within a day."""
        return wall_s - int(self.offsets_at(np.array([wall_s]))[0])


@functools.lru_cache(maxsize=64)
def zone_of(name: str) -> TimeZone:
    """Return the zone with this name, or raise LookupError."""
    if name in _FIXED:
        return _fixed(_FIXED[name] * _HOUR_S)
    if custom := _CUSTOM.fullmatch(name):
        sign, hours, minutes = custom.groups(default="0")
        if int(hours) <= _MOST_HOURS:
            return _fixed(int(f"{sign}1") * (int(hours) * _HOUR_S + int(minutes) * 60))
    if old := _SYSTEM_V.fullmatch(name):
        return _fixed(-int(old[1]) * _HOUR_S)
    return _zone(_SHORT_NAMES.get(name, name), is_civil=False)


@functools.lru_cache(maxsize=64)
def civil_zone_of(name: str) -> TimeZone:
    """Act like `zone_of` with the rules of `java.time.ZoneId`."""
    if offset := _CIVIL_OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = offset.groups(default="0")
        if int(hours) <= _MOST_CIVIL_HOURS:
            total = int(hours) * _HOUR_S + int(minutes) * 60 + int(seconds)
            return _fixed(int(f"{sign}1") * total)
    return _zone(_SHORT_NAMES.get(name, name), is_civil=True)


def _fixed(offset_s: int) -> TimeZone:
    return TimeZone(np.array([], dtype=np.int64), np.array([offset_s]))


def _database_file(name: str) -> bytes | None:
    if not _DATABASE_NAME.fullmatch(name):
        return None
    roots = [Path(path) for path in zoneinfo.TZPATH]
    with suppress(ModuleNotFoundError):
        roots.insert(0, resources.files("tzdata") / "zoneinfo")  # type: ignore[arg-type]
    for root in roots:
        try:
            content = root.joinpath(*name.split("/")).read_bytes()
        except OSError:
            continue
        if content.startswith(_MAGIC):  # there are also tables, such as `leapseconds`
            return content
    return None


# ---- the database's files (RFC 9636) -------------------------------------------------------------


def _zone(name: str, *, is_civil: bool) -> TimeZone:
    content = _database_file(name)
    if content is None:
        raise LookupError(name)
    changes, first, last_rules = _parsed(content)
    outer_hours = _OUTER_HOURS.get(name)
    standard, yearly = _last_rules(last_rules)
    if outer_hours is not None:
        standard = outer_hours[0] * _HOUR_S
        changes = [change for change in changes if change[0] < _OUTER_FROM_S]
        changes.append((_OUTER_FROM_S, outer_hours[1] * _HOUR_S))
    # The yearly rules apply after the last change that is listed.
    end = changes[-1][0] if changes else _FIRST_RULE_S
    changes += [change for change in yearly if change[0] > end]
    if is_civil:
        starts, offsets = [start for start, _ in changes], [first, *(o for _, o in changes)]
    else:
        starts, offsets = _since_1900(changes, first, standard)
    if starts and not yearly:
        # A last, empty cycle: the offset stays the same.
        starts.append(starts[-1] + _CYCLE_S)
        offsets.append(offsets[-1])
    return TimeZone(np.array(starts, dtype=np.int64), np.array(offsets, dtype=np.int64))


def _since_1900(
    changes: Sequence[tuple[int, int]], first: int, standard: int
) -> tuple[list[int], list[int]]:
    """Return the starts and offsets from 1900 on; the standard offset applies before."""
    offset = first
    starts: list[int] = []
    offsets = [standard]
    for start, next_offset in changes:
        if start >= _FIRST_RULE_S:
            if not starts and start > _FIRST_RULE_S:
                starts.append(_FIRST_RULE_S)
                offsets.append(offset)
            starts.append(start)
            offsets.append(next_offset)
        offset = next_offset
    return starts, offsets


def _parsed(content: bytes) -> tuple[list[tuple[int, int]], int, str]:
    """Return the changes (start, offset), the first offset, and the text of the last rules."""
    *_, end = _sections(content, 0, 4)  # version 1 of the data, with 32 bits, comes first
    begin, changes, types, end = _sections(content, end, 8)
    # The starts come first, then each change's type, then the types: six bytes, the offset first.
    starts = np.frombuffer(content, ">i8", changes, begin).tolist()
    numbers = content[begin + changes * 8 : begin + changes * 9]
    offsets = [
        struct.unpack_from(">l", content, begin + changes * 9 + number * 6)[0]
        for number in range(types)
    ]
    pairs = [(start, offsets[number]) for start, number in zip(starts, numbers, strict=True)]
    return pairs, offsets[0], content[end:].decode("ascii").strip()


def _sections(content: bytes, at: int, size: int) -> tuple[int, int, int, int]:
    # A block has a header at `at`, and times of `size` bytes. Return the begin of its data, its
    # numbers of changes and types, and its end.
    *_, utc, std, leaps, changes, types, chars = _HEADER.unpack_from(content, at)
    begin = at + _HEADER.size
    end = begin + changes * (size + 1) + types * 6 + chars + leaps * (size + 4) + std + utc
    return begin, changes, types, end


def _last_rules(text: str) -> tuple[int, list[tuple[int, int]]]:
    # In the text, offsets are positive west of UTC. Java takes the smaller offset for standard
    # time, also where winter is the exception.
    match = _POSIX.fullmatch(text)
    if match is None:
        raise LookupError(text)
    standard = -_seconds(match[1])
    if match[3] is None:
        return standard, []
    summer = -_seconds(match[2]) if match[2] else standard + _HOUR_S
    changes = sorted(
        change
        for year in range(_LAST_RULES_FROM, _CYCLE_FROM + _CYCLE_YEARS)
        for change in (
            (_start(match[3], year) - standard, summer),
            (_start(match[4], year) - summer, standard),
        )
    )
    return min(standard, summer), changes


def _start(rule: str, year: int) -> int:
    """Return when a rule such as `M3.5.0/2` applies in a year: seconds since 1970 on the wall."""
    day, _, time = rule.partition("/")
    return _day(day, year) * 86400 + (_seconds(time) if time else _DEFAULT_CHANGE_S)


def _day(text: str, year: int) -> int:
    if text.startswith("M"):
        month, week, weekday = map(int, text[1:].split("."))
        first = dt.date(year, month, 1)
        day = 1 + (weekday - first.isoweekday()) % 7 + 7 * (week - 1)
        if week == _LAST_WEEK and day > calendar.monthrange(year, month)[1]:
            day -= 7
        return (first - dt.date(1970, 1, 1)).days + day - 1
    number = int(text.lstrip("J"))
    if text.startswith("J"):  # from 1, and 29 February is not counted
        number += -1 + (calendar.isleap(year) and number >= 60)  # noqa: PLR2004 - 1 March
    return (dt.date(year, 1, 1) - dt.date(1970, 1, 1)).days + number


def _seconds(text: str) -> int:
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (_HOUR_S, 60, 1), strict=False))
    return -seconds if text.startswith("-") else seconds
