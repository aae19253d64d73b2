"""Which versions of a table can be read: what a reader of each would be told, asked once.

Takes a table as of some version, and its roots as they were listed. A root answers alike for all
versions between two of the numbers that its files and notes name, so only one of them is asked.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from airflow_hiveacid.format.errors import (
    NotEnoughHistoryError,
    VersionGoneError,
    VersionNotSettledError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import DeltaName, parse_directory_name
from airflow_hiveacid.versions.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.names import BaseName
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.plan.keeping import Promises

Root = tuple["PartitionInfo", "Listing"]


class Version(Protocol):
    """A table as of a version, as far as it matters here; `versions.past.Past` is one."""

    @property
    def table(self) -> TableInfo:
        """The table."""

    @property
    def now(self) -> ValidWriteIdList:
        """What is committed by now."""

    @property
    def then(self) -> ValidWriteIdList:
        """What the version sees of that."""

    @property
    def witnesses(self) -> Witnesses:
        """What it had that may have been removed."""

    @property
    def promised(self) -> Promises:
        """What is promised of the table."""

    def at(self, number: WriteId) -> Version:
        """The same table as of another version."""

    def state(self, info: PartitionInfo, listing: Listing) -> object:
        """What the version reads of one root; raises where not all of it is there."""


@dataclass(frozen=True, kw_only=True)  # no slots: what was asked is remembered
class Readable:
    """Which versions of these roots can be read; if they are all there are, of the table."""

    past: Version
    roots: Sequence[Root]
    is_whole: bool = False
    _of_roots: dict[tuple[int, int], bool] = field(default_factory=dict, init=False, repr=False)
    _of_all: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds(self, number: WriteId) -> bool:
        """Whether a reader of that version would be answered."""
        try:
            past = self.past.at(number)
        except (VersionNotSettledError, VersionUnknownError):
            return False
        key = bisect_right(self._all_borders, number)
        if key not in self._of_all:
            self._of_all[key] = not self._missing.vanished(self._existing, past.then) and all(
                self._holds(past, at, number) for at in range(len(self.roots))
            )
        return self._of_all[key]

    def oldest(self) -> int:
        """The oldest version that can be read; 0 if none can."""
        known = (n for n in {1, *self._all_borders} if n > 0)
        return next((n for n in sorted(known) if self.holds(WriteId(n))), 0)

    def _holds(self, past: Version, at: int, number: WriteId) -> bool:
        key = at, bisect_right(self._borders[at], number)
        if key not in self._of_roots:
            try:
                past.state(*self.roots[at])
            except (VersionGoneError, NotEnoughHistoryError):
                self._of_roots[key] = False
            else:
                self._of_roots[key] = True
        return self._of_roots[key]

    @cached_property
    def _existing(self) -> frozenset[PartitionName]:
        return frozenset(info.name for info, _ in self.roots)

    @cached_property
    def _missing(self) -> Witnesses:
        """Who knows of partitions that are not there, if that can be told."""
        if not (self.is_whole and self.past.table.is_partitioned):
            return Witnesses(table=self.past.table)
        return self.past.witnesses.without(self._existing)

    @cached_property
    def _all_borders(self) -> list[int]:
        missing = _noted(self._missing, self.past.now)
        return sorted({b for borders in self._borders for b in borders} | missing)

    @cached_property
    def _borders(self) -> list[list[int]]:
        """The numbers at which a root may begin to answer otherwise, ascending, of each root."""
        now, found = self.past.now, []
        is_partitioned = self.past.table.is_partitioned
        unknown = None if is_partitioned else self.past.witnesses.first_unknown(now)
        for info, listing in self.roots:
            borders = _noted(self.past.witnesses.of_root(info), now)
            if unknown is not None:
                borders.add(unknown)
            names = _names(listing)
            for name in names:
                borders |= _ends(name, now)
            moved = self.past.witnesses.strangers(info, names)
            borders |= {until + 1 for _, until in moved if until < now.high_watermark}
            kept = self.past.promised.of(info.name)
            if kept is not None:
                borders.add(_last_visible(now, kept.floor))
            found.append(sorted(borders))
        return found


def _noted(known: Witnesses, now: ValidWriteIdList) -> set[int]:
    """The numbers that notes name."""
    found: set[int] = {note.write_id for note in known.commits}
    found |= {horizon.write_id for horizon in known.horizons}
    for reset in known.resets:
        found |= {reset.lowest, reset.write_id + 1}
    for root in () if known.keeping is None else known.keeping.roots.values():
        names = map(parse_directory_name, root.witnesses)
        found |= {end for name in names if name is not None for end in _ends(name, now)}
    return found


def _names(listing: Listing) -> list[BaseName | DeltaName]:
    tops = {path.partition("/")[0] for path in listing.directories}
    tops |= {file.path.partition("/")[0] for file in listing.files}
    return [name for top in tops if (name := parse_directory_name(top)) is not None]


def _ends(name: BaseName | DeltaName, now: ValidWriteIdList) -> set[int]:
    """The versions from which on something of a directory counts, and all of it."""
    low = name.low if isinstance(name, DeltaName) else name.write_id
    first = low
    while first < name.high and not now.is_visible(first):
        first = WriteId(first + 1)
    return {low, first, name.high, _last_visible(now, name.high)}


def _last_visible(now: ValidWriteIdList, write_id: WriteId) -> WriteId:
    """The highest committed write ID up to one; below it, a version leaves out something."""
    while write_id > 0 and not now.is_visible(write_id):
        write_id = WriteId(write_id - 1)
    return write_id
