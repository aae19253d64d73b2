"""Find the readable versions of a table with one check per range of equivalent versions.

Input is a table as of some version, and its roots with their listings. Two versions use the same
files of a root if no write ID in a file name or note lies between them, so only one version of each
such interval is checked. `format.state.versions` has the rules for one root: `check_provable` and
`oldest_readable`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from airflow_hiveacid.format.errors import (
    NotEnoughHistoryError,
    VersionGoneError,
    VersionNotSettledError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.records.keeping import Promises
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.state.directories import Listing
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.versions.loss_detector import LossDetector

Root = tuple["PartitionInfo", "Listing"]


class ReadableVersion(Protocol):
    """The attributes of `versions.past.Past` (a table as of a version) that this module needs."""

    @property
    def table(self) -> TableInfo:
        """The table."""

    @property
    def now(self) -> ValidWriteIdList:
        """The write IDs of the table that are committed now."""

    @property
    def then(self) -> ValidWriteIdList:
        """The write IDs of `now` that are visible in the version."""

    @property
    def loss_detector(self) -> LossDetector:
        """The notes that show which files were removed without a write ID."""

    @property
    def promised(self) -> Promises:
        """The guarantees about the table."""

    def at(self, number: WriteId) -> ReadableVersion:
        """Return the same table as of a different version number."""

    def state(self, info: PartitionInfo, listing: Listing) -> object:
        """Return the version's state of a root; raise an error if files are missing."""


@dataclass(frozen=True, kw_only=True)  # no slots: results are cached
class Readable:
    """The readable versions of some roots, or of the whole table if `is_whole`."""

    past: ReadableVersion
    roots: Sequence[Root]
    is_whole: bool = False
    _of_roots: dict[tuple[int, int], bool] = field(default_factory=dict, init=False, repr=False)
    _of_all: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds(self, number: WriteId) -> bool:
        """Return True if the version with this number is readable."""
        try:
            past = self.past.at(number)
        except (VersionNotSettledError, VersionUnknownError):
            return False
        key = bisect_right(self._all_borders, number)
        if key not in self._of_all:
            self._of_all[key] = not self._missing.vanished(self._existing, past.then) and all(
                self._holds(past, index, number) for index in range(len(self.roots))
            )
        return self._of_all[key]

    def oldest(self) -> int:
        """Return the oldest readable version; 0 if there is none."""
        numbers = (n for n in {1, *self._all_borders} if n > 0)
        return next((n for n in sorted(numbers) if self.holds(WriteId(n))), 0)

    def _holds(self, past: ReadableVersion, index: int, number: WriteId) -> bool:
        key = index, bisect_right(self._borders[index], number)
        if key not in self._of_roots:
            try:
                past.state(*self.roots[index])
            except (VersionGoneError, NotEnoughHistoryError):
                self._of_roots[key] = False
            else:
                self._of_roots[key] = True
        return self._of_roots[key]

    @cached_property
    def _existing(self) -> frozenset[PartitionName]:
        return frozenset(info.name for info, _ in self.roots)

    @cached_property
    def _missing(self) -> LossDetector:
        """The notes about missing partitions; empty unless all roots are known."""
        if not (self.is_whole and self.past.table.is_partitioned):
            return LossDetector(table=self.past.table)
        return self.past.loss_detector.without(self._existing)

    @cached_property
    def _all_borders(self) -> list[int]:
        missing = _noted(self._missing, self.past.now)
        return sorted({b for borders in self._borders for b in borders} | missing)

    @cached_property
    def _borders(self) -> list[list[int]]:
        """For each root, the ascending version numbers at which the readability can change."""
        write_ids, root_borders = self.past.now, []
        is_partitioned = self.past.table.is_partitioned
        unknown = None if is_partitioned else self.past.loss_detector.first_unknown(write_ids)
        for info, listing in self.roots:
            borders = _noted(self.past.loss_detector.of_root(info), write_ids)
            if unknown is not None:
                borders.add(unknown)
            names = _names(listing)
            for name in names:
                borders |= _ends(name, write_ids)
            moved = self.past.loss_detector.strangers(info, names)
            borders |= {until + 1 for _, until in moved if until < write_ids.high_watermark}
            promise = self.past.promised.of(info.name)
            if promise is not None:
                borders.add(_last_visible(write_ids, promise.floor))
            root_borders.append(sorted(borders))
        return root_borders


def _noted(loss_detector: LossDetector, write_ids: ValidWriteIdList) -> set[int]:
    """Return the version numbers that these notes contain."""
    numbers: set[int] = {note.write_id for note in loss_detector.commits}
    numbers |= {horizon.write_id for horizon in loss_detector.horizons}
    for reset in loss_detector.resets:
        numbers |= {reset.lowest, reset.write_id + 1}
    for root in () if loss_detector.keeping is None else loss_detector.keeping.roots.values():
        names = map(parse_directory_name, root.evidence)
        numbers |= {end for name in names if name is not None for end in _ends(name, write_ids)}
    return numbers


def _names(listing: Listing) -> list[BaseName | DeltaName]:
    tops = {path.partition("/")[0] for path in listing.directories}
    tops |= {file.path.partition("/")[0] for file in listing.files}
    return [name for top in tops if (name := parse_directory_name(top)) is not None]


def _ends(name: BaseName | DeltaName, write_ids: ValidWriteIdList) -> set[int]:
    """Return the version numbers at which the visible part of a directory changes."""
    low = name.low if isinstance(name, DeltaName) else name.write_id
    first = low
    while first < name.high and not write_ids.is_visible(first):
        first = WriteId(first + 1)
    return {low, first, name.high, _last_visible(write_ids, name.high)}


def _last_visible(write_ids: ValidWriteIdList, write_id: WriteId) -> WriteId:
    """Return the highest committed write ID up to `write_id`; 0 if there is none."""
    while write_id > 0 and not write_ids.is_visible(write_id):
        write_id = WriteId(write_id - 1)
    return write_id
