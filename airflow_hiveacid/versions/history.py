"""The versions of a table, newest first, and the writes between two versions, with their notes.

Notes describe this provider's commits. Directories with a single write ID show those of other
clients, whose times are known only within bounds. A compaction creates no version, but the queue
lists it with its transaction (docs/decisions/versions.md).

The segments in each root of the writes between two versions, and the commit times, are found
without reading rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Final

from airflow_hiveacid.format import errors, versions
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.change_range import ChangeRange, ChangeSegment, segments_of
from airflow_hiveacid.format.directories import AcidDirectory, Listing
from airflow_hiveacid.format.ids import CONVERTED_WRITE_ID, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.records import CommitNote, Promises, Tag, TimeBounds
from airflow_hiveacid.format.snapshot import (
    Snapshot,
    ValidTxnList,
    ValidWriteIdList,
    settled,
    up_to,
)
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.history import Knowledge
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.loss_detector import LossDetector
from airflow_hiveacid.versions.past import Past, Readable, past_of, present_of, promises_of

ANOTHER_CLIENT: Final = "another client"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEntry:
    """One version of a table. Unknown values are None or empty.

    `by` is `ANOTHER_CLIENT`, or the job key with the DAG, run, task and map index. `partitions` are
    those that the version's note or directories name. If `is_readable` is false, it cannot be read
    by its number, but perhaps by one of its `tags`.
    """

    number: int
    committed: TimeBounds
    by: str
    operation: str
    is_readable: bool
    txn_id: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    partitions: tuple[str, ...] = ()
    size_bytes: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The known versions of a table, and its recent compactions.

    `oldest` is the oldest version that is readable in all partitions, and `newest` the newest one
    that has committed, or `oldest` if that is greater, because a base covers aborted writes after
    the newest commit; 0 if there is none. `compactions` come from the compaction queue, so old ones
    are missing. `open_write_id` is the lowest open one: no version from it on is readable by its
    number before that write ends.
    """

    table: str
    oldest: int
    newest: int
    is_kept: bool
    versions: tuple[VersionEntry, ...]
    tags: tuple[Tag, ...] = ()
    compactions: tuple[CompactionEntry, ...] = ()
    open_write_id: int | None = None


@dataclass(slots=True)
class _Found:
    """Facts about a write. Mutable: its directories are added one at a time."""

    operations: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    size_bytes: int = 0


def history_of(client: MetastorePort, table: TableInfo, *, most: int | None = None) -> TableHistory:
    """Return the versions of a transactional table, newest first, at most `most`.

    In a table that Hive has converted, the oldest version is `CONVERTED_WRITE_ID`.
    """
    if table.kind is TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=table.ref)
    snapshot = snapshot_now(client, [table.ref])
    roots = client.list_partitions(table)
    listings = list_in_place(table, roots)
    past = present_of(client, table, snapshot)
    readable = Readable(past=past, roots=list(zip(roots, listings, strict=True)), is_whole=True)
    commits = {note.write_id: note for note in past.loss_detector.commits}
    knowledge = Knowledge.of(commits.values(), born_s=table.born_s)
    knowledge = knowledge.with_log(client.logged_commits(table.ref))
    write_ids = past.now
    states = [resolve(listing, write_ids, snapshot.txns, table.kind) for listing in listings]
    facts = _found(roots, states)
    tags = VersionNotes.of(table).tags()
    names: dict[int, list[str]] = {}
    for tag in tags:
        names.setdefault(tag.version, []).append(tag.name)
    # When Hive converts a table, it skips the lower write IDs, so nothing shows one of them.
    traces = chain(commits, facts, names, write_ids.open, write_ids.aborted)
    is_converted = min(traces, default=write_ids.high_watermark) >= CONVERTED_WRITE_ID
    before_first = CONVERTED_WRITE_ID - 1 if is_converted else 0
    versions = []
    for number in range(write_ids.high_watermark, before_first, -1):
        write_id = WriteId(number)
        if not write_ids.is_visible(write_id):
            continue
        note, written = commits.get(write_id), facts.get(write_id, _Found())
        entry = _version(write_id, note, written, knowledge.of_commit(write_id))
        own_tags = tuple(names.get(write_id, ()))
        versions.append(replace(entry, is_readable=readable.holds(write_id), tags=own_tags))
        if most is not None and len(versions) >= most:
            break
    oldest = readable.oldest()
    return TableHistory(
        table=str(table.ref),
        oldest=oldest,
        # `oldest` may be an aborted write after the newest commit, because a base covers it.
        newest=max(versions[0].number, oldest) if versions else 0,
        is_kept=past.promised.keeping is not None,
        versions=tuple(versions),
        tags=tags,
        compactions=client.show_compactions(table.ref),
        open_write_id=write_ids.min_open_write_id,
    )


def _version(
    write_id: WriteId, note: CommitNote | None, facts: _Found, committed: TimeBounds
) -> VersionEntry:
    entry = VersionEntry(
        number=write_id,
        committed=committed,
        by=ANOTHER_CLIENT,
        operation="+".join(sorted(facts.operations)),
        is_readable=False,
        partitions=tuple(sorted(facts.partitions)),
        size_bytes=facts.size_bytes or None,
    )
    if note is None:
        return entry
    return replace(
        entry,
        by=note.job_key,
        operation=note.kind,
        txn_id=note.txn_id,
        inserted=note.inserted,
        updated=note.updated,
        deleted=note.deleted,
        partitions=note.partitions,
        size_bytes=note.size_bytes,
    )


def _found(roots: Sequence[PartitionInfo], states: Sequence[AcidState]) -> dict[WriteId, _Found]:
    every: dict[WriteId, _Found] = {}
    for info, state in zip(roots, states, strict=True):
        for directory in (*state.live, *state.obsolete_directories):
            # A compactor's directory, or a delta of several writes, does not describe one write.
            if directory.is_compacted or directory.name.visibility_txn_id is not None:
                continue
            if isinstance(directory.name, DeltaName) and directory.name.low != directory.name.high:
                continue
            facts = every.setdefault(directory.high, _Found())
            facts.operations.add(_operation(directory))
            facts.size_bytes += directory.size_bytes
            if info.name.columns:
                facts.partitions.add(str(info.name))
    return every


def _operation(directory: AcidDirectory) -> str:
    if directory.is_base:
        return "overwrite"
    return "delete" if directory.is_delete else "insert"


Version = int | str | datetime | versions.VersionSpec
"""The values that `VersionSpec.meant_by` accepts."""

# The metastore's clock has a resolution of one second.
_EXACT_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)  # no slots, for cached properties
class WriteRange:
    """The writes of a table between two versions, with the files that exist now.

    `first` and `last` are the table as of the two versions; None before the first write. What the
    caller knows of the first version: `held` maps a partition name to a file or directory name in
    its root (`newest_of`), `had` are the partitions that existed, or None if unknown.
    """

    client: MetastorePort
    table: TableInfo
    now: ValidWriteIdList
    txns: ValidTxnList
    part: ChangeRange
    commits: tuple[CommitNote, ...]
    first: Past | None
    last: Past | None
    held: Mapping[str, str] = field(default_factory=dict)
    had: frozenset[PartitionName] | None = None

    @property
    def ends_now(self) -> bool:
        """True if the later version includes all writes that are committed now."""
        first = WriteId(1)
        write_ids = self.part.until.visible_within(first, self.part.until.high_watermark)
        return write_ids == self.now.visible_within(first, self.now.high_watermark)

    def vanished(self, existing: Collection[PartitionName]) -> frozenset[PartitionName]:
        """Return the known partitions of the two versions that no longer exist."""
        first, last = (
            frozenset(() if past is None else past.vanished(existing))
            for past in (self.first, self.last)
        )
        # The version number alone does not show whether the partition was dropped before that
        # version.
        gone_before = frozenset() if self.had is None else first - self.had
        return (first | last) - gone_before

    def check_vanished(self, names: Collection[PartitionName]) -> None:
        """Raise an error if the changes need missing partitions (`names`)."""
        for name in sorted(names, key=str):
            raise self._gone(f"partition {name} was dropped together with its rows")

    def segments(self, info: PartitionInfo, listing: Listing) -> tuple[ChangeSegment, ...]:
        """Return the segments of the range in a root; the listing must be current."""
        try:
            segments = self._segments(listing)
        except errors.ChangesGoneError:
            # List the files before reading the guarantees: a cleaner writes its notes before it
            # removes files.
            promise = self._promises.of(info.name)
            if promise is None:
                raise
            segments = self._segments(listing, promise)
        self._check_commits(info, listing)
        self._check_held(info, listing, segments)
        return segments

    def newest(self, listing: Listing) -> str | None:
        """Return the newest file or directory of a root in the later version; None if unknown."""
        try:
            return versions.newest_of(resolve(listing, self.part.until, self.txns, self.table.kind))
        except errors.NotEnoughHistoryError:
            return None

    def commit_times(self) -> Mapping[WriteId, float]:
        """Return the commit times of writes in the range, if they are known to the second."""
        knowledge = Knowledge.of(self.commits, born_s=self.table.born_s)
        times: dict[WriteId, float] = {}
        for note in self.commits:
            if self.part.holds(note.write_id):
                time = knowledge.of_commit(note.write_id)
                if time.by_s is None or time.after_s is None:
                    continue
                if time.by_s - time.after_s <= _EXACT_S:
                    times[note.write_id] = time.by_s
        return times

    def _segments(
        self, listing: Listing, promise: versions.Guarantee | None = None
    ) -> tuple[ChangeSegment, ...]:
        return segments_of(
            listing, self.now, self.part, txns=self.txns, kind=self.table.kind, kept=promise
        )

    def _check_commits(self, info: PartitionInfo, listing: Listing) -> None:
        """For each write with a note, check that its files were not removed without a write ID."""
        since, until = self.part.since, self.part.until
        try:
            state = resolve(listing, until, self.txns, self.table.kind)
        except errors.NotEnoughHistoryError:
            return  # a base contains the writes
        why = self._loss_detector.missed(info, state, until)
        if why is None and self._loss_detector.removed_between(info.name, since, until):
            why = f"files at {info.location} were removed without a write ID"
        if why is not None:
            raise self._gone(why)

    def _check_held(
        self, info: PartitionInfo, listing: Listing, segments: tuple[ChangeSegment, ...]
    ) -> None:
        """Check that the files of the first version, or their replacements, still exist.

        An overwrite or compaction within the range is no replacement: it may lack lost rows.
        """
        if segments:
            state = segments[0].state
            why = self._loss_detector.missed(info, state, self.part.since)
            if why is not None:
                raise self._gone(why)
        else:
            state = resolve(listing, self.now, self.txns, self.table.kind)
        name = self.held.get(str(info.name))
        if name is None or any(f.path == name or _top(f.path) == name for f in listing.files):
            return
        if versions.not_held(state, [name]) is not None:
            raise self._gone(
                f"{name} was at {info.location} at that version and was removed without a"
                " write ID, for example by TRUNCATE of Hive 3.1 or by hand"
            )

    @cached_property
    def _promises(self) -> Promises:
        return promises_of(self.client, self.table)

    @cached_property
    def _loss_detector(self) -> LossDetector:
        resets = VersionNotes.of(self.table).resets()
        return LossDetector(table=self.table, commits=self.commits, resets=resets)

    def _gone(self, why: str) -> errors.ChangesGoneError:
        return errors.ChangesGoneError(
            table=self.table.ref, since=self.part.since.high_watermark, oldest=0, why=why
        )


def between(  # noqa: PLR0913 - a table, two versions of it, and the metastore
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    since: Version,
    until: Version | None,
    *,
    taken_s: Callable[[], float | None],
) -> WriteRange:
    """Return the range of writes after an earlier version, up to and including a later version.

    Without `until`, the range ends at the newest version that no open write can change. `taken_s`
    is as for `past_of`. Raises VersionRangeError if the later version lacks a write of the earlier.
    """
    notes = VersionNotes.of(table)
    commits = notes.commits()
    aborted = Knowledge.of(commits).aborted | notes.promises().aborted
    write_ids = versions.without_aborted(snapshot.write_ids(table.ref), aborted)

    def past(version: Version) -> Past | None:
        spec = versions.VersionSpec.meant_by(version)
        if spec.number == 0:
            return None
        return past_of(client, table, spec, snapshot, taken_s=taken_s)

    first = past(since)
    newest = settled(write_ids)
    # If the first version is later than `newest`, the range is empty.
    if until is None and first is not None and first.then.high_watermark > newest:
        until = since
    last = past(newest if until is None else until)
    start, end = (
        up_to(write_ids, WriteId(0)) if edge is None else edge.then for edge in (first, last)
    )
    if start.shows_more_than(end):
        raise errors.VersionRangeError(
            table=table.ref, since=start.high_watermark, until=end.high_watermark
        )
    return WriteRange(
        client=client,
        table=table,
        now=write_ids,
        txns=snapshot.txns,
        part=ChangeRange(since=start, until=end),
        commits=commits,
        first=first,
        last=last,
    )


def _top(path: str) -> str:
    return path.partition("/")[0]
