"""The metastore servers that failed lately; connections of this process ask them last.

Example:
    >>> outages = Outages(clock=lambda: 0.0)
    >>> outages.note("a")
    True
    >>> outages.in_order(["a", "b"])
    ['b', 'a']
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

_ASKED_LAST_S: Final = 60.0

_Address = TypeVar("_Address", bound="Hashable")


class Outages:
    """The servers that failed lately. Mutable and shared by threads: each method is one step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until_s: dict[Hashable, float] = {}

    def in_order(self, addresses: Iterable[_Address]) -> list[_Address]:
        """Return the addresses in their order, but those that failed lately last.

        After a pause, only one caller asks such a server first: each may wait until a time-out.
        """
        now_s, first, last = self._clock(), [], []
        for address in addresses:
            if self._until_s.get(address, now_s) > now_s:
                last.append(address)
                continue
            if address in self._until_s:
                self._until_s[address] = now_s + _ASKED_LAST_S
            first.append(address)
        return first + last

    def tried(self, addresses: Iterable[_Address]) -> Iterator[_Address]:
        """Yield one server's addresses as in `in_order`; stop after the first one that answers.

        The next address is requested only if the last one failed. A name may have several
        addresses, and each one that is down costs a time-out.
        """
        for address in self.in_order(addresses):
            try:
                yield address
            except GeneratorExit:
                self.forget(address)
                raise
            self.note(address)

    def note(self, address: Hashable) -> bool:
        """Record a failed server; return False if it was known to have failed."""
        is_news = address not in self._until_s
        self._until_s[address] = self._clock() + _ASKED_LAST_S
        return is_news

    def forget(self, address: Hashable) -> None:
        """Forget the failures of a server that answers."""
        self._until_s.pop(address, None)


OUTAGES: Final = Outages()
"""The servers that failed lately for any connection of this process."""
