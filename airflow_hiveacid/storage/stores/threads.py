"""How many small reads are done at once: their files may be far away, and there may be very many.

Example:
    >>> each_in_threads(abs, [-1, 2])
    [1, 2]
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")
_R = TypeVar("_R")

_PARALLEL: Final = 16
# Handing one footer to a thread costs half of what reading it from a disk does.
_MOST_IN_A_ROW: Final = 64


def each_in_threads(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """What a function makes of each item, in their order.

    Raises:
        Exception: what the function raised first.
    """

    def of_part(part: Sequence[_T]) -> list[_R]:
        return [function(item) for item in part]

    step = max(1, min(_MOST_IN_A_ROW, len(items) // _PARALLEL))
    parts = [items[at : at + step] for at in range(0, len(items), step)]
    if len(parts) <= 1:
        return of_part(items)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(chain.from_iterable(pool.map(of_part, parts)))
