"""Notes about a table's past: the start of keeping, removed versions, and tags.

Versions are kept from the time when Hive's cleaner is disabled for the table and no cleaning is in
progress. From then on only our cleaner removes files, after a note of the versions that become
unreadable (a horizon). `Promises` returns each root's oldest version whose files are all kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.state.versions import Guarantee
from airflow_hiveacid.format.table import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """A note that versions of a partition below `write_id` are no longer kept.

    `at_s` is its time in seconds since 1970, `high_watermark` the highest transaction ID then.
    """

    partition: PartitionName
    write_id: WriteId
    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Files of a partition that were removed without a new version of the table.

    The cause is DROP PARTITION, TRUNCATE of Hive 3.1, or a removal by hand. Versions from `lowest`
    to `write_id` may have contained the files; later versions did not. `highest` is the highest
    write ID of the removed files. `names` are missing directories and original files of earlier
    notes; if empty, only versions up to `write_id` are unreadable.
    """

    partition: PartitionName
    write_id: WriteId
    lowest: WriteId
    highest: WriteId
    names: frozenset[str] = frozenset()

    def may_have_been_in(self, version: WriteId) -> bool:
        """Return whether a version may have contained the removed files."""
        return self.lowest <= version <= self.write_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The time from which a table's versions are kept, and the live files at that time.

    `roots` has the guarantee of each partition that existed. `last_entry_id` is the newest entry of
    the compaction queue at the start of keeping, or -1 if the queue was empty.
    """

    last_entry_id: int
    since_s: float
    roots: Mapping[PartitionName, Guarantee]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCompaction:
    """A compaction by us, after which the server may forget earlier aborted write IDs."""

    entry_id: int
    aborted: tuple[WriteId, ...] = ()


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class Promises:
    """All notes about the kept versions of a table."""

    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()
    own: tuple[OwnCompaction, ...] = ()
    resets: tuple[Reset, ...] = ()
    has_ended: bool = False

    @property
    def aborted(self) -> frozenset[WriteId]:
        """The write IDs that were aborted, including those that the metastore has forgotten."""
        return frozenset(w for compaction in self.own for w in compaction.aborted)

    def is_broken(self, entry_ids: Collection[int]) -> bool:
        """Return whether another program, by these queue entries, has compacted the table."""
        if self.keeping is None or self.has_ended:
            return True
        ours = {compaction.entry_id for compaction in self.own}
        return any(i > self.keeping.last_entry_id and i not in ours for i in entry_ids)

    def of(self, partition: PartitionName) -> Guarantee | None:
        """Return the guarantee for one partition, without the versions of a `Reset`, or None."""
        if self.keeping is None or self.has_ended:
            return None
        guarantee = self.keeping.roots.get(partition, Guarantee(floor=WriteId(0)))
        floor = max(guarantee.floor, self._ends.get(partition, guarantee.floor))
        return Guarantee(floor=floor, evidence=guarantee.evidence)

    @cached_property
    def _ends(self) -> Mapping[PartitionName, WriteId]:
        """For each partition, the lowest version that no horizon or reset excludes."""
        floors: dict[PartitionName, WriteId] = {}
        ends = [(h.partition, h.write_id) for h in self.horizons]
        for partition, end in (*ends, *((r.partition, r.write_id + 1) for r in self.resets)):
            floors[partition] = WriteId(max(end, floors.get(partition, end)))
        return floors


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRoot:
    """The directory names and original files of one partition of a tagged version."""

    partition: PartitionName
    location: str
    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class Tag:
    """A named version whose files are kept until the tag is removed or expires.

    `write_ids` lists the version's visible write IDs, in Hive's string form. Without `expires_s`,
    it never expires. `is_sure` becomes True when the tag's creator has checked that no cleaner
    selected files of the tag before it was written.
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
        """The version number; for the state at a time, the newest write ID in that state."""
        return ValidWriteIdList.parse(self.write_ids).high_watermark

    def has_expired(self, now_s: float) -> bool:
        """Return whether the tag has expired, so that its files are no longer kept."""
        return self.expires_s is not None and self.expires_s <= now_s

    def root(self, partition: PartitionName) -> TaggedRoot | None:
        """Return the tag's entry for a partition; None if the tag has no such entry."""
        return self._by_name.get(partition)

    @cached_property
    def _by_name(self) -> Mapping[PartitionName, TaggedRoot]:
        return {root.partition: root for root in self.roots}
