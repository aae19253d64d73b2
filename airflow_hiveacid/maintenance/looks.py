"""Which partitions of a table a poll or a compaction job must look at, given an earlier look.

A partition that was below the thresholds stays so until it is written. So a compaction job notes in
the table's hidden directory which partitions were not below them, and the next job plans these, and
those that were written since. A note is a claim, not an order: it concerns the plan of its own
table, and at the latest after a day, a job plans all partitions again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.looks import Look, PlannedLook, depends_on_time
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.notes import json_files
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes

FEW: Final = 32
"""A table with at most this many partitions has no note: to list them costs about as much."""

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A table's partitions by name, and those that were written between a look and a snapshot."""

    snapshot: Snapshot
    names: dict[str, PartitionName]
    written: frozenset[str]

    def roots(
        self, client: MetastorePort, table: TableInfo, selected: Collection[str]
    ) -> tuple[PartitionInfo, ...] | None:
        """Return the selected partitions; None if one was dropped, or has another form there."""
        names = [name for text, name in self.names.items() if text in selected]
        roots = client.get_partitions(table, names) if names else ()
        return roots if {root.name for root in roots} == set(names) else None


def news_since(client: MetastorePort, table: TableInfo, look: Look) -> News | None:
    """Return what has changed since a look; None if all partitions need a new look."""
    # A partition that is added from now on is not in this look, so the next look finds it.
    names = {str(name): name for name in client.partition_names(table)}
    snapshot = snapshot_now(client, [table.ref])
    news = look.news(table, compactors(table, snapshot), time.time())
    written = None if news is None else _written(table, news)
    # A partition that was written and does not exist may have another name.
    if written is None or not written <= names.keys():
        return None
    return News(snapshot=snapshot, names=names, written=written)


def _written(table: TableInfo, write_ids: range) -> frozenset[str] | None:
    try:
        return VersionNotes.of(table).written_partitions(write_ids)
    except StorageError as error:
        log.debug("cannot read what was written table=%s: %s", table.ref, error)
        return None


def compactors(table: TableInfo, snapshot: Snapshot) -> CompactorWriteIdList:
    """Return the write IDs of a table that a compactor with this snapshot can process."""
    return CompactorWriteIdList.of(snapshot.write_ids(table.ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart:
    """The partitions of a table that a job plans; `below` others are still below the thresholds."""

    partitions: tuple[PartitionInfo, ...]
    below: int
    full_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNotes(json_files.NotesOfTable):
    """The notes of plans of one table by jobs with the same terms."""

    table: TableInfo
    terms: str

    @classmethod
    def for_job(
        cls, table: TableInfo, spec: CompactSpec, policy: CompactionPolicy
    ) -> PlanNotes | None:
        """Return the notes of a job; None if it must plan all, as the only job of a table must."""
        is_by_writes = spec.choice is CompactionChoice.AUTO and not depends_on_time(policy.limits)
        is_of_many = not (spec.is_of_table or spec.partition) and table.is_partitioned
        if not (is_by_writes and is_of_many):
            return None
        limits = sorted((threshold.value, limit) for threshold, limit in policy.limits.items())
        terms = hashlib.sha256(repr((limits, table.kind.value)).encode()).hexdigest()[:16]
        return cls(location=table.location, table_id=table.table_id, table=table, terms=terms)

    def part(self, client: MetastorePort, requested: Collection[str]) -> PlannedPart:
        """Return the part of the table that may be due: all, unless a note says which part.

        `requested` are the partitions with a request in the queue.
        """
        now_s, look = time.time(), self._read()
        news = None if look is None else news_since(client, self.table, look)
        if look is not None and news is not None:
            selected = {*look.others, *news.written, *requested}
            roots = news.roots(client, self.table, selected)
            if roots is not None:
                below = len(news.names) - len(roots)
                return PlannedPart(partitions=roots, below=below, full_s=look.full_s)
        return PlannedPart(partitions=client.list_partitions(self.table), below=0, full_s=now_s)

    def note(self, known: Snapshot, part: PlannedPart, others: Collection[str]) -> None:
        """Note a part's plan under the snapshot `known`; `others` were not below thresholds."""
        if len(part.partitions) + part.below <= FEW:
            return
        look = PlannedLook(
            table_id=self.table_id,
            location=self.location,
            write_id=compactors(self.table, known).high_watermark,
            full_s=part.full_s,
            terms=self.terms,
            others=tuple(sorted(others)),
        )
        place, like = open_location(self._uri(self._name)), open_location(self.location)[1]
        try:
            write_bytes(*place, json_files.note_content(look), like=like)
        except StorageError as error:  # the next job plans all partitions
            log.debug("cannot note the plan of table=%s: %s", self.table.ref, error)

    def _read(self) -> PlannedLook | None:
        uri = self._uri(self._name)
        try:
            look = json_files.read_note(PlannedLook, self._content(self._name), uri)
        except (FileNotFoundError, StorageError) as error:
            log.debug("no plan of an earlier job table=%s: %s", self.table.ref, error)
            return None
        return look if look.terms == self.terms else None

    @property
    def _name(self) -> str:
        return f"_planned_{self._digest}.{self.terms}.json"
