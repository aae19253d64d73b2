"""What is promised of a table's past: from which version on nothing that it needs was removed.

Files that nobody reads any more are removed by cleaners, ours and the server's, in any order, and a
cleaner may die half-way. A table is kept from the moment on at which the server's was told to leave
it alone and nothing was in its hands; from then on only ours removes anything, and says beforehand
which versions end with it (a horizon). Takes notes of all this, and the compactions that the
metastore knows of; gives a promise for each root, or none. Must not know files.

Example:
    >>> readable_for({READABLE_FOR: "7 days"})
    604800.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.versions import Kept

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_hiveacid.format.table import PartitionName

READABLE_FOR: Final = "hiveacid.readable.for"
"""The table parameter that says how long what was replaced stays readable: `7 days`, `36 hours`."""

NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"

_DAY_S: Final = 86400
# No month: nobody knows how long one is. A year is a long one, so that nothing goes too early.
_UNITS: Final = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": _DAY_S,
    "week": 7 * _DAY_S,
    "year": 366 * _DAY_S,
}
_DURATION: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?", re.IGNORECASE)


def readable_for(parameters: Mapping[str, str]) -> float | None:
    """How many seconds a table's past stays readable, by its parameter; None without one.

    Raises:
        ConfigurationError: it says no time.
    """
    text = parameters.get(READABLE_FOR)
    return None if text is None else duration(text, f"table parameter {READABLE_FOR}")


def duration(text: str, what: str) -> float:
    """The seconds that a text such as `7 days` says; a year has 366 days.

    Raises:
        ConfigurationError: it says no time.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(
            f"{what}: {text!r} says no time; write 36 hours, 7 days or 2 years"
        )
    return float(found[1]) * _UNITS[found[2].lower()]


def kept_parameters(generation: MetastoreGeneration) -> dict[str, str]:
    """The table parameters by which the server is told to leave a table's files alone.

    3.1 has no word for its cleaner; what nobody compacts it does not clean.
    """
    found = {NO_AUTO_COMPACTION: "true"}
    if generation is not MetastoreGeneration.V3:
        found[NO_CLEANUP] = "true"
    return found


def leaves_alone(parameters: Mapping[str, str], generation: MetastoreGeneration) -> bool:
    """Whether a table's parameters still say so."""
    return all(
        (parameters.get(name) or parameters.get(name.upper()) or "").lower() == value
        for name, value in kept_parameters(generation).items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Versions of a partition below `write_id` end here: what only they need may be gone.

    `high_watermark` is of transactions, `at_s` seconds since 1970, when it was written.
    """

    partition: PartitionName
    write_id: WriteId
    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What a partition held of versions up to `write_id` was found removed without a version.

    By DROP PARTITION, TRUNCATE of Hive 3.1, or by hand. Later versions never had it; versions from
    `lowest` to `write_id` may have had it. `highest` is up to which write ID it went. `names` are
    what was missed: directories and original files, as the notes have them that bear witness.
    Without any, it is only known that nothing up to `write_id` can be read any more.
    """

    partition: PartitionName
    write_id: WriteId
    lowest: WriteId
    highest: WriteId
    names: frozenset[str] = frozenset()

    def may_have_been_in(self, version: WriteId) -> bool:
        """Whether a version of that high watermark may have had what was removed."""
        return self.lowest <= version <= self.write_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Since when a table is kept, and what was live then, by partition.

    A partition that is not named was made later, so that all its files are of that time.
    `last_entry_id` is the newest that the compaction queue had then; -1 without any.
    """

    table_id: str
    roots: Mapping[PartitionName, Kept]
    last_entry_id: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCompaction:
    """A queue entry that a compaction of ours took, and the aborted write IDs known just before.

    Once it is marked as cleaned, the server may forget that these were aborted.
    """

    entry_id: int
    aborted: tuple[WriteId, ...] = ()


@dataclass(frozen=True, kw_only=True)  # no slots: notes are sorted by partition once
class Promises:
    """All notes of keeping that a table has."""

    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()
    own: tuple[OwnCompaction, ...] = ()
    resets: tuple[Reset, ...] = ()
    has_ended: bool = False

    @property
    def aborted(self) -> frozenset[WriteId]:
        """Write IDs that were aborted, whatever the metastore remembers."""
        return frozenset(w for one in self.own for w in one.aborted)

    def is_broken(self, entry_ids: Collection[int]) -> bool:
        """Whether somebody else has compacted, whose files the server cleans after.

        Args:
            entry_ids: of the compactions of the table that the metastore knows of.
        """
        if self.keeping is None or self.has_ended:
            return True
        ours = {one.entry_id for one in self.own}
        return any(i > self.keeping.last_entry_id and i not in ours for i in entry_ids)

    def of(self, partition: PartitionName) -> Kept | None:
        """What is promised of one partition; None if nothing is.

        What was removed past every rule ends the promise for the versions that had it, and for none
        that came after that was noted.
        """
        if self.keeping is None or self.has_ended:
            return None
        found = self.keeping.roots.get(partition, Kept(floor=WriteId(0)))
        floor = max(found.floor, self._ends.get(partition, found.floor))
        return Kept(floor=floor, witnesses=found.witnesses)

    @cached_property
    def _ends(self) -> Mapping[PartitionName, WriteId]:
        """From which version on each partition may be whole, as far as notes end others."""
        found: dict[PartitionName, WriteId] = {}
        ends = [(h.partition, h.write_id) for h in self.horizons]
        for partition, end in (*ends, *((r.partition, r.write_id + 1) for r in self.resets)):
            found[partition] = WriteId(max(end, found.get(partition, end)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRoot:
    """What a tagged version reads of one partition: names of directories, paths of originals."""

    partition: PartitionName
    location: str
    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)  # no slots: partitions are sorted by name once
class Tag:
    """A version with a name, whose files stay until it is removed or has expired.

    `write_ids` is Hive's text of what it sees. `expires_s` None is never. One is not sure until its
    maker has seen that no cleaner decided before it was written.
    """

    name: str
    table_id: str
    write_ids: str
    made_s: float
    made_by: str = ""
    expires_s: float | None = None
    roots: tuple[TaggedRoot, ...] = field(default=())
    is_sure: bool = True

    @property
    def version(self) -> int:
        """The number of the version; of the state at a moment, that of its newest write."""
        return ValidWriteIdList.parse(self.write_ids).high_watermark

    def has_expired(self, now_s: float) -> bool:
        """Whether nothing is kept for it any more."""
        return self.expires_s is not None and self.expires_s <= now_s

    def root(self, partition: PartitionName) -> TaggedRoot | None:
        """What it reads of a partition; None if it reads nothing there."""
        return self._by_name.get(partition)

    @cached_property
    def _by_name(self) -> Mapping[PartitionName, TaggedRoot]:
        return {root.partition: root for root in self.roots}
