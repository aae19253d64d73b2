"""Parse the ID lists in Hive's snapshot strings, and search sorted ID lists.

A list contains plain integers in ascending order. This module must not depend on the kind of ID.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, TypeVar

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX

# The maximum number of IDs in the ranges of a string. A string with more IDs is not a valid
# snapshot, and would exhaust the memory.
_MOST_IDS: Final = 4_000_000
_MOST_DIGITS: Final = len(str(LONG_MAX))
_ONLY_NUMBERS: Final = re.compile(rf"[0-9]{{1,{_MOST_DIGITS}}}(?:,[0-9]{{1,{_MOST_DIGITS}}})*")

_Id = TypeVar("_Id", bound=int)


def sorted_disjoint(
    opened: Iterable[int], aborted: Iterable[int], *, what: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return both lists sorted and without duplicates; an ID in both raises InvalidNameError."""
    first, second = tuple(sorted(set(opened))), tuple(sorted(set(aborted)))
    both = set(first).intersection(second)
    if both:
        raise InvalidNameError(name=str(sorted(both)), what=f"{what}: open and aborted at once")
    return first, second


def lowest(given: int | None, opened: tuple[int, ...]) -> int | None:
    """Return the lower of the given ID and the lowest open ID; None if both are missing."""
    candidates = [*opened[:1], *([] if given is None else [given])]
    return min(candidates, default=None)


def holds(ids: tuple[int, ...], wanted: int) -> bool:
    """Return whether a sorted list contains an ID."""
    index = bisect_left(ids, wanted)
    return index < len(ids) and ids[index] == wanted


def count_within(ids: tuple[int, ...], low: int, high: int) -> int:
    """Return how many IDs of a sorted list are in low..high (inclusive)."""
    return max(0, bisect_right(ids, high) - bisect_left(ids, low))


def fields_of(text: str, *, at_least: int, at_most: int, what: str) -> list[str]:
    """Split a string at its colons, and pad it with empty fields, or raise InvalidNameError."""
    fields = [field.strip() for field in text.strip().split(":")]
    if not at_least <= len(fields) <= at_most:
        raise InvalidNameError(name=text, what=f"{what} ({at_least} to {at_most} fields)")
    return fields + [""] * (at_most - len(fields))


def number_in(field: str, text: str) -> int:
    """Parse a field that contains one ID of at most 64 bits, or raise InvalidNameError."""
    is_number = field.isascii() and field.isdigit() and len(field) <= _MOST_DIGITS
    if not is_number or int(field) > LONG_MAX:
        raise InvalidNameError(name=text, what=f"list of IDs ({field!r} is not a number)")
    return int(field)


def numbers_in(field: str, text: str) -> list[int]:
    """Parse a field that lists IDs; Hive 4 may write several IDs as a range `a-b`.

    Raises InvalidNameError, also for a range in a form that Hive never prints.
    """
    # A fast path for fields without ranges: a metastore may list a million single aborted IDs.
    if field.count(",") < _MOST_IDS and _ONLY_NUMBERS.fullmatch(field):
        numbers = list(map(int, field.split(",")))
        number_in(str(max(numbers)), text)
        return numbers
    ids: list[int] = []
    for item in field.split(",") if field else ():
        low, dash, high = item.partition("-")
        first = number_in(low.strip(), text)
        last = number_in(high.strip(), text) if dash else first
        if not 0 <= last - first < _MOST_IDS - len(ids):
            raise InvalidNameError(name=text, what=f"list of IDs (range {item!r})")
        ids.extend(range(first, last + 1))
    return ids


def minimum_of(value: _Id) -> _Id | None:
    """Return a parsed minimum; return None for Long.MAX_VALUE, which means "no open ID"."""
    return None if value == LONG_MAX else value


def printed_minimum(minimum: int | None) -> int:
    """Return a minimum as Hive prints it; None is printed as Long.MAX_VALUE."""
    return LONG_MAX if minimum is None else minimum


def joined(opened: tuple[int, ...], aborted: tuple[int, ...]) -> str:
    """Return open and aborted IDs as a string that Hive 3.1 and Hive 4 can parse."""
    return f"{','.join(map(str, opened))}:{','.join(map(str, aborted))}"
