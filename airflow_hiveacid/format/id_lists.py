"""Lists of transaction and write IDs: their parts of Hive's texts, and questions to sorted ones.

Takes and gives plain integers in order. Must not know what the IDs are of.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

# A text with more IDs than these in its ranges is a mistake, not a snapshot; it would fill the
# memory.
_MOST_IDS: Final = 4_000_000
_MOST_DIGITS: Final = len(str(LONG_MAX))

_Id = TypeVar("_Id", bound=int)


def sorted_disjoint(
    opened: Iterable[int], aborted: Iterable[int], *, what: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two lists of IDs without repetitions, ascending.

    Raises:
        InvalidNameError: an ID is in both.
    """
    first, second = tuple(sorted(set(opened))), tuple(sorted(set(aborted)))
    both = set(first).intersection(second)
    if both:
        raise InvalidNameError(name=str(sorted(both)), what=f"{what}: open and aborted at once")
    return first, second


def lowest(given: int | None, opened: tuple[int, ...]) -> int | None:
    """The lowest open ID, or a lower one that was given; None without either."""
    candidates = [*opened[:1], *([] if given is None else [given])]
    return min(candidates, default=None)


def holds(ids: tuple[int, ...], wanted: int) -> bool:
    """Whether sorted IDs hold one."""
    at = bisect_left(ids, wanted)
    return at < len(ids) and ids[at] == wanted


def count_within(ids: tuple[int, ...], low: int, high: int) -> int:
    """How many of sorted IDs lie within low..high, both inclusive."""
    return max(0, bisect_right(ids, high) - bisect_left(ids, low))


def fields_of(text: str, *, at_least: int, at_most: int, what: str) -> list[str]:
    """The fields of a text between colons, filled up with empty ones.

    Raises:
        InvalidNameError: there are too few or too many.
    """
    fields = [field.strip() for field in text.strip().split(":")]
    if not at_least <= len(fields) <= at_most:
        raise InvalidNameError(name=text, what=f"{what} ({at_least} to {at_most} fields)")
    return fields + [""] * (at_most - len(fields))


def number_in(field: str, text: str) -> int:
    """The ID that a field says.

    Raises:
        InvalidNameError: it is no number, or beyond 64 bits.
    """
    is_number = field.isascii() and field.isdigit() and len(field) <= _MOST_DIGITS
    if not is_number or int(field) > LONG_MAX:
        raise InvalidNameError(name=text, what=f"list of IDs ({field!r} is no number)")
    return int(field)


def numbers_in(field: str, text: str) -> list[int]:
    """The IDs that a field lists; ranges `a-b` of Hive 4 count as their members.

    Raises:
        InvalidNameError: something in it is no number, or a range is not one that Hive prints.
    """
    found: list[int] = []
    for item in field.split(",") if field else ():
        low, dash, high = item.partition("-")
        first = number_in(low.strip(), text)
        last = number_in(high.strip(), text) if dash else first
        if not 0 <= last - first < _MOST_IDS - len(found):
            raise InvalidNameError(name=text, what=f"list of IDs (range {item!r})")
        found.extend(range(first, last + 1))
    return found


def minimum_of(value: _Id) -> _Id | None:
    """A minimum as read: None for Long.MAX_VALUE."""
    return None if value == LONG_MAX else value


def printed_minimum(minimum: int | None) -> int:
    """A minimum as Hive prints it."""
    return LONG_MAX if minimum is None else minimum


def joined(opened: tuple[int, ...], aborted: tuple[int, ...]) -> str:
    """Open and aborted IDs as Hive 3.1 and 4 read them."""
    return f"{','.join(map(str, opened))}:{','.join(map(str, aborted))}"
