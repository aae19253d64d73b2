"""The health of a table's partitions, and which of them a poll or a job must look at.

A partition is measured with the write ID list of a compactor, without a transaction. Files are not
opened, except the footers of delete deltas to count deleted rows. With the last look of a poll,
only partitions that may have changed since are listed again.

A partition that was below the thresholds stays so until it is written. So a compaction job notes in
the table's hidden directory which partitions were not below them, and the next job plans these, and
those that were written since. A note is a claim, not an order: it concerns the plan of its own
table, and at the latest after a day, a job plans all partitions again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial as bind
from itertools import islice
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.looks import LastLook, Look, PlannedLook, depends_on_time
from airflow_hiveacid.plan.thresholds import SMALL_FILE_BYTES, CompactionPolicy, TableHealth
from airflow_hiveacid.storage.acid.read.inspect import orc_rows
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads, side_by_side
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

_ATTEMPTS: Final = 3

_Reached = Callable[[TableInfo, tuple[TableHealth, ...]], Collection[str]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """The health of a table's partitions, with the snapshot under which they were measured.

    An unpartitioned table has exactly one value in `healths`. `look` is for the next measurement of
    a whole partitioned table.
    """

    table: TableInfo
    snapshot: Snapshot
    healths: tuple[TableHealth, ...]
    look: LastLook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roots:
    """The partitions to list under a snapshot, and what is known of the others."""

    table: TableInfo
    partition: str | None = None
    snapshot: Snapshot
    roots: tuple[PartitionInfo, ...]
    full_s: float
    known: tuple[TableHealth, ...] = ()


def _every_partition(_: TableInfo, healths: tuple[TableHealth, ...]) -> Collection[str]:
    return {health.partition for health in healths}


def measure(  # noqa: PLR0913 - what to measure, and what need not be measured again
    client: MetastorePort,
    ref: TableRef,
    partition: str | None = None,
    *,
    counts_rows: bool = False,
    small_file_bytes: int = SMALL_FILE_BYTES,
    last: LastLook | None = None,
    reached: _Reached = _every_partition,
) -> MeasuredTable:
    """Measure a table, or one partition of it; the call blocks.

    Without `partition` (`month=1`), measure all partitions, in the metastore's order, and omit one
    that is dropped during the call. With the `last` look of the same condition, list only the
    partitions that may have changed since, and those that `reached` names among the remembered
    healths. So every finding follows from a new listing. The ages in other healths are outdated.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            table = client.get_table(ref)
            if table.kind is TransactionalKind.NONE:
                raise errors.NotTransactionalError(table=ref)
            roots = None if last is None or partition else _changed(client, table, last, reached)
            if roots is None:
                roots = _Roots(
                    table=table,
                    partition=partition,
                    full_s=time.time(),
                    roots=partitions_of(client, table, partition or None),
                    snapshot=snapshot_now(client, [ref]),
                )
            return _measured(client, roots, counts_rows, small_file_bytes)
        except errors.NotEnoughHistoryError:
            # This function opens no transaction, so a cleaner may remove files that are visible in
            # the snapshot. If files are missing, take a newer snapshot, which shows the files that
            # replaced the missing files.
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError(_ATTEMPTS)


def _changed(
    client: MetastorePort, table: TableInfo, last: LastLook, reached: _Reached
) -> _Roots | None:
    """Return the partitions that need a new look; None if all do."""
    news = news_since(client, table, last)
    if news is None:
        return None
    unwritten = news.names.keys() - news.written
    known = tuple(health for health in last.healths if health.partition in unwritten)
    findings = reached(table, known)
    known = tuple(health for health in known if health.partition not in findings)
    roots = news.roots(client, table, news.names.keys() - {h.partition for h in known})
    if roots is None:
        return None
    return _Roots(table=table, snapshot=news.snapshot, roots=roots, full_s=last.full_s, known=known)


def _measured(
    client: MetastorePort,
    part: _Roots,
    counts_rows: bool,  # noqa: FBT001 - `measure` names it
    small_file_bytes: int,
) -> MeasuredTable:
    table, snapshot = part.table, part.snapshot.for_compactor()
    of_root = bind(_health, table, snapshot, small_file_bytes, time.time())
    measured = side_by_side(of_root, part.roots)
    missing = [root for root, health in zip(part.roots, measured, strict=True) if health is None]
    if missing:
        _check_dropped(client, table.ref, part.partition, missing)
    present = [pair for pair in measured if pair is not None]
    new = _with_deleted_rows(present) if counts_rows else (health for health, _ in present)
    healths = tuple(sorted((*new, *part.known), key=lambda health: health.partition))
    look = LastLook(
        table_id=table.table_id,
        location=table.location,
        write_id=compactors(table, snapshot).high_watermark,
        full_s=part.full_s,
        healths=healths,
    )
    is_whole = table.is_partitioned and not part.partition
    return MeasuredTable(
        table=table, snapshot=part.snapshot, healths=healths, look=look if is_whole else None
    )


def _health(
    table: TableInfo, snapshot: Snapshot, small_file_bytes: int, now_s: float, root: PartitionInfo
) -> tuple[TableHealth, tuple[FileEntry, ...]] | None:
    """Return a root's health and the files of its delete deltas; None if it has no directory."""
    try:
        listing = list_table(root.location)
    except errors.LocationNotFoundError:
        return None
    state = resolve(listing, snapshot.write_ids(table.ref), snapshot.txns, table.kind)
    health = TableHealth.of(
        state,
        table=str(table.ref),
        partition=str(root.name),
        kind=table.kind,
        small_file_bytes=small_file_bytes,
        now_s=now_s,
    )
    return health, tuple(file for delta in state.delete_deltas for file in delta.files)


def _with_deleted_rows(
    measured: Sequence[tuple[TableHealth, tuple[FileEntry, ...]]],
) -> Iterator[TableHealth]:
    """Add the number of delete events in each root, from the footers of the root's files."""
    footers = []
    for health, files in measured:
        fs, root = open_location(health.location)
        footers += [(fs, f"{root}/{file.path}", file.size_bytes) for file in files]
    rows = iter(each_in_threads(lambda footer: orc_rows(*footer), footers))
    for health, files in measured:
        yield replace(health, deleted_rows=sum(islice(rows, len(files))))


def _check_dropped(
    client: MetastorePort, ref: TableRef, partition: str | None, missing: list[PartitionInfo]
) -> None:
    """Raise an error if a missing directory still belongs to a partition in the metastore."""
    present = {
        root.location for root in partitions_of(client, client.get_table(ref), partition or None)
    }
    for root in missing:
        if root.location in present:
            raise errors.LocationNotFoundError(location=root.location)
        _log.debug("%s %s was dropped while it was listed", ref, root.name)


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
    except errors.StorageError as error:
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
        """Return the notes of a job; None if it must plan all partitions, as a job of one table."""
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
        except errors.StorageError as error:  # the next job plans all partitions
            log.debug("cannot note the plan of table=%s: %s", self.table.ref, error)

    def _read(self) -> PlannedLook | None:
        uri = self._uri(self._name)
        try:
            look = json_files.read_note(PlannedLook, self._content(self._name), uri)
        except (FileNotFoundError, errors.StorageError) as error:
            log.debug("no plan of an earlier job table=%s: %s", self.table.ref, error)
            return None
        return look if look.terms == self.terms else None

    @property
    def _name(self) -> str:
        return f"_planned_{self._digest}.{self.terms}.json"
