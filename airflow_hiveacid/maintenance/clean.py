"""Cleaning of a table: remove the paths that `plan.cleaning` selects, and mark queue entries.

Cleaning can stop at any point, because the next cleaner finds what a killed cleaner has not
removed. The cleaner holds no lock, so it checks each path again before removing it. Meanwhile, the
table may have been dropped and created again at the same location. Then write IDs start again at 1,
and the new table's directories may have the names of old directories.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    LocationPermissionError,
    MetastoreCallError,
    NotEnoughHistoryError,
    OtherOwnerError,
    TableChangedError,
)
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import STAGING_PREFIX, BaseName, parse_directory_name
from airflow_hiveacid.format.records.cleaning import FirstSeen, Reader
from airflow_hiveacid.format.records.keeping import Horizon
from airflow_hiveacid.format.state.acid_state import AcidState, resolve
from airflow_hiveacid.format.state.versions import oldest_readable
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TransactionalKind
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.maintenance.ownership import check_aborted, check_known_writes
from airflow_hiveacid.maintenance.unknown_paths import (
    Places,
    UnknownPaths,
    unknown_between,
    unknown_in,
)
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    in_queue,
)
from airflow_hiveacid.metastore.transactions.compaction_work import end_entry
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan.cleaning import (
    CleaningPlan,
    Removal,
    StagingDirectory,
    is_clean,
    plan_cleaning,
    plan_staging,
    plan_unknown,
    plan_uploads,
    readers_before,
    replaced,
    waits_for,
)
from airflow_hiveacid.plan.keeping import NO_CLEANUP, readable_for
from airflow_hiveacid.storage.stores.filesystem import delete_directory, delete_file
from airflow_hiveacid.storage.stores.listing import (
    files_below,
    give_up,
    list_directories,
    list_table,
    open_uploads,
    tree_size,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.notes.job_ledger import Ledger
from airflow_hiveacid.storage.stores.notes.table_notes import TableNotes
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.versions.keeping import opted_out_of
from airflow_hiveacid.versions.losses import note_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_hiveacid.format.records.keeping import Tag
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.state.directories import FileEntry, Listing
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
    from airflow_hiveacid.maintenance.overview import Overview
    from airflow_hiveacid.metastore.port import MetastorePort

log = logging.getLogger("hiveacid")

_COMMITS_REMEMBERED_S: Final = 30 * 86400.0
_MOST_REASON: Final = 100  # characters
_HORIZON: Final = "horizon "
"""Prefix of the notes that record when each horizon of a partition was written."""
_HELD: Final = "held "
_FREED: Final = "freed "
"""Prefixes of two kinds of notes: a tag kept a path in the last run; a path has lost its tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOutcome:
    """The files that the cleaner of one partition removed (or would remove) and kept.

    `oldest` is the oldest version that was readable before the cleaning. `oldest` is None if the
    cleaner did not determine it. `waited_for` contains the open transactions for which files are
    kept. `unknown` summarizes the other files that no metadata knows; None if there are none.
    """

    partition: str
    removed: tuple[Removal, ...]
    kept: tuple[Removal, ...]
    marked_entries: tuple[int, ...] = ()
    oldest: int | None = None
    waited_for: tuple[Reader, ...] = ()
    unknown: UnknownPaths | None = None

    @property
    def text(self) -> str:
        """Describe the outcome."""
        size = sum(removal.size_bytes for removal in self.removed)
        unknown = f", found {self.unknown.count} unknown" if self.unknown else ""
        why = f" ({self.kept[0].why})" if self.kept else ""
        return f"removed {len(self.removed)} ({size} bytes), kept {len(self.kept)}{why}{unknown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """The cleaner of one table's partitions. Not thread-safe.

    With an `overview` of the table, a partition that needs no cleaning requires no metastore call.
    """

    client: MetastorePort
    table: TableInfo
    spec: CleanSpec
    on_step: Callable[[str], None]
    now_s: Callable[[], float] = time.time
    overview: Overview | None = None
    neighbours: Neighbours = field(default_factory=Neighbours)

    def clean(self, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition.

        Raises:
            OtherOwnerError: another table, or another metastore, has written here.
            TableChangedError: the table was dropped and created again during the cleaning.
        """
        notes = TableNotes.of(self.table)
        state, listing = self._first_look(partition)
        oldest = self._look_back(partition, state)
        unknown = unknown_in(self.table, state, listing, self.now_s())
        names = [path for path in listing.directories if "/" not in path]
        if self._is_untouched(partition) and is_clean(state) and not any(map(_is_staging, names)):
            return CleaningOutcome(
                partition=str(partition.name),
                removed=(),
                kept=(),
                oldest=oldest,
                unknown=UnknownPaths.of(unknown),
            )
        past = VersionNotes.of(self.table).listed_once()
        tags = past.noted_tags() if self.overview is None else self.overview.tags.values()
        tagged = _held(tags, partition, self._time_s())
        # Request the readers after listing the directory, and after reading the tags. Then the
        # readers include each transaction that listed the directory before this cleaner. The
        # readers then also include each transaction that still reads the version of a removed tag.
        # Otherwise, a reader that saw a replaced file could seem newer than the replacement.
        txns = self.client.valid_txns()
        readers = self._readers(txns)
        seen = _first_seen(notes, partition, self._time_s())
        now = self._table_now()
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=self._time_s())
        plan = plan_cleaning(
            state,
            _staging(partition, names),
            seen,
            txns,
            readers=readers,
            now_s=self._time_s(),
            retention_s=max(self.spec.retention_s, readable_for(now.parameters) or 0.0),
            orphan_age_s=self.spec.orphan_age_s,
            is_insert_only=self.table.kind is TransactionalKind.INSERT_ONLY,
            held=_held_or_read(state, tagged, seen, readers, note),
        )
        plan = dataclasses.replace(plan, unknown=unknown)
        why_not = turned_off(now)
        if why_not is not None:
            return _outcome(partition, _all_kept(plan, why_not))
        if state.aborted:
            check_aborted(self.table, state, past.commits())
        plan = self._without_shared(partition, plan)
        if self.spec.plan_only:
            return _outcome(partition, plan)
        seen |= dict.fromkeys(plan.unseen, note)
        plan, horizon = self._with_horizon(partition, plan, seen, past)
        notes.note_first_seen(partition.name, seen)
        self.on_step("noted")
        plan = self._look_again(plan, seen)
        self._confirm_writers(partition, plan)
        plan = _remove(partition, plan, listing)
        if horizon is not None:
            past.forget_horizons_below(horizon)
        self.on_step("removed")
        # Read the queue before listing the directory. An entry that becomes ready later may still
        # have files there.
        ready = self._ready(partition)
        txns = self.client.valid_txns()
        left, _ = self._state(partition, txns)
        notes.note_first_seen(partition.name, _still_of_use(seen, left))
        ready = self._committed(ready, txns, notes)
        marked = self._mark_cleaned(ready, notes) if is_clean(left) else ()
        return dataclasses.replace(_outcome(partition, plan), marked_entries=marked, oldest=oldest)

    def _readers(self, txns: ValidTxnList) -> tuple[Reader, ...]:
        """Return the open transactions that may read the table."""
        return possible_readers(self.client, self.table.ref, txns, now_s=self.now_s)

    def _without_shared(self, partition: PartitionInfo, plan: CleaningPlan) -> CleaningPlan:
        """Keep files that another table of the metastore may read.

        A replaced directory needs no check: its rows are in the directory that has replaced it.

        Raises:
            OtherOwnerError: an aborted directory is in another table, which may have committed it.
        """
        kept = {}
        for removal in plan.remove:
            is_directory = _is_directory_name(removal.path)
            if _is_staging(removal.path) or (is_directory and removal.replaced_by):
                continue
            uri = f"{partition.location.rstrip('/')}/{removal.path}"
            why = self.neighbours.why_read(
                self.client,
                self.table,
                uri,
                is_flat=not is_directory,
                partition=partition.name,
            )
            if why is not None and is_directory:
                raise OtherOwnerError(
                    table=self.table.ref,
                    location=uri,
                    why=why,
                    remedy="If the other table is gone for good, drop it without its files",
                )
            if why is not None:
                kept[removal.path] = why
        return _some_kept(plan, kept)

    def _look_again(self, plan: CleaningPlan, seen: Mapping[str, FirstSeen]) -> CleaningPlan:
        """Keep files for readers that locked this table after the readers were first requested.

        A reader that locked this table late may be an older transaction that first had locks only
        on other tables. A transaction that begins later sees the replacements, because the notes
        are already written.
        """
        if not any(removal.replaced_by for removal in plan.remove):
            return plan
        readers = self._readers(self.client.valid_txns())
        remove, keep, waited_for = [], [*plan.keep], dict.fromkeys(plan.waited_for)
        for removal in plan.remove:
            first_seen = seen.get(removal.replaced_by)
            before = () if first_seen is None else readers_before(first_seen, readers)
            if before:
                waited_for |= dict.fromkeys(before)
                keep.append(dataclasses.replace(removal, why=str(before[0])))
            else:
                remove.append(removal)
        return dataclasses.replace(
            plan, remove=tuple(remove), keep=tuple(keep), waited_for=tuple(waited_for)
        )

    def _confirm_writers(self, partition: PartitionInfo, plan: CleaningPlan) -> None:
        """Confirm the ledger's entries of writes whose directories this cleaning removes."""
        location = partition.location.rstrip("/")
        paths = [f"{location}/{r.path}" for r in plan.remove if r.replaced_by]
        if not paths or (self.overview is not None and not self.overview.unconfirmed):
            return
        ledger, ref, txns = Ledger.of(self.table), self.table.ref, self.client.valid_txns()
        left = ledger.unconfirmed(txns) if self.overview is None else self.overview.unconfirmed
        write_ids = self.client.valid_write_ids([ref], txns)[ref]
        ledger.confirm_committed(left, paths, write_ids, txns)

    def _look_back(self, partition: PartitionInfo, state: AcidState) -> WriteId | None:
        """Record files that were deleted without a write ID; return the oldest readable version."""
        if self.overview is None or self.overview.past is None:
            return None
        past, now = self.overview.past, self.overview.write_ids
        if not self.spec.plan_only:
            note_lost(self.client, past.loss_detector, [(partition, state)], now)
        return oldest_readable(state, past.promises.of(partition.name), self.table.kind)

    def _with_horizon(
        self,
        partition: PartitionInfo,
        plan: CleaningPlan,
        seen: dict[str, FirstSeen],
        past: VersionNotes,
    ) -> tuple[CleaningPlan, Horizon | None]:
        """Write a horizon before versions become unreadable; keep files that open readers may need.

        A transaction that reads an earlier version reads our notes first. So files are kept for
        transactions that may have read the notes before the horizon was written. The cleaner reads
        tags after it has written the horizon. `versions.tags.make_tag` reads horizons after it has
        written its tag. So this method sees the tag, or `make_tag` sees the horizon.

        Args:
            partition: the partition to clean.
            plan: the files to remove.
            seen: the partition's notes; this method adds a note of the horizon.
            past: the notes on the table's past versions.
        """
        if not any(r.replaced_by for r in plan.remove) or not past.is_kept():
            return plan, None
        ends = max((r.ends for r in plan.remove), default=WriteId(0))
        if not ends:
            return self._without_tagged(partition, plan, seen, past), None
        name = f"{_HORIZON}{ends}"
        if name not in seen:
            past.note_horizon(
                Horizon(
                    partition=partition.name,
                    write_id=ends,
                    high_watermark=TxnId(0),
                    at_s=self._time_s(),
                )
            )
            self.on_step("horizon")
            after = self.client.valid_txns()
            seen[name] = FirstSeen(high_watermark=after.high_watermark, at_s=self._time_s())
        horizon = Horizon(
            partition=partition.name,
            write_id=ends,
            high_watermark=seen[name].high_watermark,
            at_s=seen[name].at_s,
        )
        readers = self._readers(self.client.valid_txns())
        plan = self._without_tagged(partition, plan, seen, past)
        why_not = waits_for(seen[name], readers, self._time_s(), 0.0)
        if why_not is None:
            return plan, horizon
        ending = [dataclasses.replace(r, why=why_not) for r in plan.remove if r.ends]
        plan = dataclasses.replace(
            plan,
            remove=tuple(r for r in plan.remove if not r.ends),
            keep=(*plan.keep, *ending),
            waited_for=tuple(
                dict.fromkeys((*plan.waited_for, *readers_before(seen[name], readers)))
            ),
        )
        return plan, horizon

    def _without_tagged(
        self,
        partition: PartitionInfo,
        plan: CleaningPlan,
        seen: dict[str, FirstSeen],
        past: VersionNotes,
    ) -> CleaningPlan:
        """Keep the paths that tags need, including tags created after this run began."""
        past.refresh()
        held = _held(past.noted_tags(self._tags), partition, self._time_s())
        tagged = [r for r in plan.remove if r.path in held]
        for removal in tagged:
            if removal.replaced_by:
                seen[f"{_HELD}{removal.path}"] = seen[removal.replaced_by]
        keep = [dataclasses.replace(r, why=held[r.path]) for r in tagged]
        return dataclasses.replace(
            plan,
            remove=tuple(r for r in plan.remove if r.path not in held),
            keep=(*plan.keep, *keep),
        )

    def _time_s(self) -> float:
        """Return the metastore's time if guarantees or tags need it, else this machine's time."""
        asked = None if self.overview is None else self.overview.now_s
        return self.now_s() if asked is None else asked

    @property
    def _tags(self) -> dict[str, Tag] | None:
        """The tags that were read when the run began."""
        return None if self.overview is None else dict(self.overview.tags)

    def clean_staging(self) -> CleaningOutcome:
        """Remove staging directories at the table location of a partitioned table."""
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        names = list_directories(*open_location(whole.location))
        plan = plan_staging(
            _staging(whole, names),
            self.client.valid_txns(),
            now_s=self.now_s(),
            orphan_age_s=self.spec.orphan_age_s,
        )
        if not self.spec.plan_only:
            plan = _remove(whole, plan, None)
        return _outcome(whole, plan)

    def clean_unknown(self, partitions: Iterable[PartitionInfo]) -> CleaningOutcome:
        """List the unknown paths between the partitions of a table; remove old files if requested.

        Such a file belongs to no version of the table, so neither tags nor horizons need it. The
        cleaner waits for a day after it first wanted to remove the file, and for the readers that
        were open then.

        Args:
            partitions: the table's partitions. If there are unknown paths, the partitions are read
                again, because a writer may have added some.

        Raises:
            TableChangedError: the table was dropped and created again meanwhile.
            StorageError: a directory cannot be listed, or a file cannot be removed.
        """
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        found, listing = unknown_between(self.table, partitions, self.now_s())
        if found:
            places = Places.of(self.table, self.client.list_partitions(self.table))
            found = tuple(one for one in found if places.leaves(one.path))
        plan = CleaningPlan(remove=(), keep=(), unseen=(), unknown=found)
        if self.spec.unknown_age_s is None or not any(one.is_removable for one in found):
            return _outcome(whole, plan)
        notes = TableNotes.of(self.table)
        note_s = self.now_s()
        seen = _first_seen(notes, whole, note_s)
        txns = self.client.valid_txns()
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=note_s)
        plan = plan_unknown(
            found,
            seen,
            note,
            readers=self._readers(txns),
            unknown_age_s=self.spec.unknown_age_s,
        )
        # Other tables may read these files, and the table's own partitions under another name of
        # the directory.
        read = {
            r.path: self.neighbours.why_read(
                self.client,
                self.table,
                f"{whole.location.rstrip('/')}/{r.path}",
                is_flat=True,
            )
            or self.neighbours.why_unsure(self.client, self.table)
            for r in plan.remove
        }
        plan = _some_kept(plan, {path: why for path, why in read.items() if why is not None})
        # The table is read after its partitions, so these are the partitions of this table.
        why_not = turned_off(self._table_now())
        if why_not is not None:
            return _outcome(whole, _all_kept(plan, why_not))
        if self.spec.plan_only:
            return _outcome(whole, plan)
        kept = {removal.path for removal in plan.keep}
        left = {**dict.fromkeys(plan.unseen, note), **seen}
        notes.note_first_seen(whole.name, {p: s for p, s in left.items() if p in kept})
        return _outcome(whole, _remove(whole, plan, listing))

    def clean_uploads(self, location: str) -> CleaningOutcome:
        """Abort the uploads that killed workers left below a location.

        If the user has no permission to list uploads, the outcome says so. A lifecycle rule of the
        bucket can then abort the uploads.
        """
        where = PartitionInfo(name=PartitionName(), location=location)
        try:
            uploads = open_uploads(location)
            txns = self.client.valid_txns()
            ref = self.table.ref
            found = plan_uploads(
                uploads,
                txns,
                self.client.valid_write_ids([ref], txns)[ref],
                now_s=self.now_s(),
                orphan_age_s=self.spec.orphan_age_s,
            )
            if not self.spec.plan_only:
                self._table_now()
                give_up(location, [upload for upload, _ in found])
        except LocationPermissionError as error:
            log.warning("cannot abort uploads of killed workers: %s", error)
            kept = Removal(path=location, why=str(error), size_bytes=0)
            return _outcome(where, CleaningPlan(remove=(), keep=(kept,), unseen=()))
        removed = tuple(removal for _, removal in found)
        return _outcome(where, CleaningPlan(remove=removed, keep=(), unseen=()))

    def _is_untouched(self, partition: PartitionInfo) -> bool:
        """Return True if neither the queue nor our notes mention the partition."""
        return (
            self.overview is not None
            and in_queue(partition) not in self.overview.waiting
            and TableNotes.of(self.table).note_of(partition.name) not in self.overview.noted
        )

    def _first_look(self, partition: PartitionInfo) -> tuple[AcidState, Listing]:
        if self.overview is not None:
            listing = list_table(partition.location)
            try:
                return self._resolved(listing, self.overview.write_ids, self.overview.txns)
            except NotEnoughHistoryError:
                pass  # the partition was compacted and cleaned after the overview
        return self._state(partition, self.client.valid_txns())

    def _state(self, partition: PartitionInfo, txns: ValidTxnList) -> tuple[AcidState, Listing]:
        ref = self.table.ref
        write_ids = self.client.valid_write_ids([ref], txns)[ref]
        listing = list_table(partition.location)
        return self._resolved(listing, write_ids, txns)

    def _resolved(
        self, listing: Listing, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> tuple[AcidState, Listing]:
        check_known_writes(self.client, self.table, listing, write_ids, txns)
        state = resolve(listing, write_ids, txns, self.table.kind)
        if self.table.kind is TransactionalKind.INSERT_ONLY and not self.table.reads_originals:
            # A base does not make original files obsolete, because nothing proves that the base
            # contains their rows.
            state = dataclasses.replace(state, obsolete=state.obsolete_directories)
        return state, listing

    def _table_now(self) -> TableInfo:
        """Return the table's current definition; the files and write IDs belong to this table.

        A run may reach a partition long after its beginning. Meanwhile, the owner may have turned
        off the cleaning.

        Raises:
            TableChangedError: the table was dropped and created again meanwhile.
        """
        now = self.client.get_table(self.table.ref)
        if now.table_id != self.table.table_id:
            raise TableChangedError(table=self.table.ref, what="table_id")
        return now

    def _ready(self, partition: PartitionInfo) -> list[CompactionEntry]:
        """Return the queue's entries that wait for this partition to be cleaned."""
        if self.client.generation is MetastoreGeneration.V3:
            return []
        name = in_queue(partition)
        return [
            entry
            for entry in self.client.show_compactions(self.table.ref, name)
            if entry.state is CompactionState.READY_FOR_CLEANING and entry.partition == name
        ]

    def _committed(
        self, ready: Iterable[CompactionEntry], txns: ValidTxnList, notes: TableNotes
    ) -> list[CompactionEntry]:
        """Return the entries of committed compactions; end entries of aborted compactions.

        When an entry is marked as cleaned, the server forgets which transactions up to its write ID
        were aborted. A compactor may be killed after it has marked its entry, but before it
        commits. Then the table still consists of the compaction's inputs. The inputs contain rows
        of these aborted transactions. The server may also have forgotten the compaction's own
        aborted transaction. So an entry that does not show its commit waits for the next cleaning.
        """
        found = []
        for entry in ready:
            entry_id, txn_id = entry.entry_id, entry.txn_id
            has_ended = not (txn_id in txns.open or txn_id in txns.aborted)
            if txn_id is None or entry.is_committed or (has_ended and not entry.shows_commit):
                found.append(entry)
            elif txn_id in txns.aborted and entry_id is not None:
                claim = ClaimedCompaction.of_entry(entry)
                end_entry(self.client, claim, "its compaction was aborted")
                notes.forget_compaction(entry_id)
        return found

    def _mark_cleaned(self, ready: Iterable[CompactionEntry], notes: TableNotes) -> tuple[int, ...]:
        """Mark finished compactions as cleaned in the queue, whichever client made them.

        The partition has no replaced and no aborted files, so nothing is left for another cleaner.
        To mark an entry, the server needs the highest write ID of its compaction. Without this
        write ID, the server would forget too many aborted transactions.
        """
        marked: list[int] = []
        for entry in ready:
            if entry.entry_id is None:
                continue
            highest = notes.highest_write_id(entry.entry_id)
            if highest is None and entry.is_committed:
                highest = entry.highest_write_id
            if highest is None:
                continue
            claim = ClaimedCompaction.of_entry(entry)
            try:
                self.client.mark_cleaned(dataclasses.replace(claim, highest_write_id=highest))
            except MetastoreCallError as error:
                # No state of ours may depend on an entry that the metastore cannot mark.
                reason = str(error).partition("\n")[0][:_MOST_REASON]  # pages of Java follow
                if not end_entry(self.client, claim, f"committed and cleaned; {reason}"):
                    continue
            notes.forget_compaction(entry.entry_id)
            marked.append(entry.entry_id)
        return tuple(marked)


def turned_off(table: TableInfo) -> str | None:
    """Return the reason if the owner has turned off the cleaning of a table; None otherwise.

    Raises:
        StorageError: as in `opted_out_of`.
    """
    turned_off_by = opted_out_of(table, NO_CLEANUP)
    return turned_off_by and f"cleaning is turned off by {turned_off_by}"


def left_alone(table: TableInfo, why: str) -> CleaningOutcome:
    """Return the outcome for a table that is not cleaned, with the reason."""
    kept = Removal(path=table.location, why=why, size_bytes=0)
    return CleaningOutcome(partition="", removed=(), kept=(kept,))


def forget_unreadable(
    table: TableInfo, outcomes: Iterable[CleaningOutcome], notes: VersionNotes | None = None
) -> None:
    """Remove month-old notes of commits whose versions are no longer readable.

    Bundle the notes of other commits.

    Args:
        table: the table, after all its partitions were cleaned.
        outcomes: the outcomes of its partitions.
        notes: the table's notes; if None, they are read again.
    """
    oldest = {o.partition: WriteId(o.oldest) for o in outcomes if o.oldest is not None}
    if oldest:
        before_s = time.time() - _COMMITS_REMEMBERED_S
        notes = VersionNotes.of(table).listed_once() if notes is None else notes
        notes.tidy_commits(oldest, before_s)


def _first_seen(notes: TableNotes, partition: PartitionInfo, now_s: float) -> dict[str, FirstSeen]:
    """Return the notes of when a cleaner first saw each name, without times in the future.

    A machine whose clock was ahead may have noted such times. The paths would be kept until then.
    """
    return {
        name: dataclasses.replace(note, at_s=min(note.at_s, now_s))
        for name, note in notes.first_seen(partition.name).items()
    }


def _held(tags: Iterable[Tag], partition: PartitionInfo, now_s: float) -> dict[str, str]:
    """Return the paths of a partition that are kept for tags, with the reason for each."""
    found: dict[str, str] = {}
    for tag in tags:
        root = tag.root(partition.name)
        if root is not None and not tag.has_expired(now_s):
            found |= dict.fromkeys(root.names, f"tag {tag.name!r} needs it")
    return found


def _held_or_read(
    state: AcidState,
    held: Mapping[str, str],
    seen: dict[str, FirstSeen],
    readers: Sequence[Reader],
    note: FirstSeen,
) -> dict[str, str]:
    """Return the replaced paths that a current or recent tag needs, with a reason for each.

    As long as a tag exists, a transaction that reads the tag's version may begin. Such a
    transaction may begin even if the version's files were replaced long ago, or if the version is
    older than the horizon. So a path without its tag is kept for some time: until all transactions
    have ended that were open when a cleaner first noticed the missing tag.

    Args:
        state: the partition's state, with the replaced paths.
        held: the paths that tags keep, and the reason for each.
        seen: the notes of the partition. This function updates the notes on tags.
        readers: open transactions that may read the table. The readers were requested after the
            tags were read.
        note: the current time, and the high watermark of `readers`.
    """
    found: dict[str, str] = {}
    for path, _, _ in replaced(state):
        was_held, freed = f"{_HELD}{path}", f"{_FREED}{path}"
        if path in held:
            found[path] = held[path]
            seen[was_held] = note
            seen.pop(freed, None)
            continue
        if seen.pop(was_held, None) is not None:
            seen[freed] = note
        since = seen.get(freed)
        why_not = None if since is None else waits_for(since, readers, since.at_s, 0.0)
        if why_not is not None:
            found[path] = why_not
    return found


def _still_of_use(seen: Mapping[str, FirstSeen], left: AcidState) -> dict[str, FirstSeen]:
    """Return the notes on paths that are replaced but not yet removed."""
    replacements = replaced(left)
    names = {replacement for _, _, replacement in replacements}
    names |= {f"{kind}{path}" for path, _, _ in replacements for kind in (_HELD, _FREED)}
    return {
        name: note
        for name, note in seen.items()
        if name in names or (replacements and name.startswith(_HORIZON))
    }


def _is_staging(name: str) -> bool:
    return name.startswith(STAGING_PREFIX)


def _staging(partition: PartitionInfo, names: Iterable[str]) -> tuple[StagingDirectory, ...]:
    """Return the staging directories at a location, with size and time of the newest change."""
    found = []
    for name in names:
        if not _is_staging(name):
            continue
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        size, newest = tree_size(*open_location(f"{partition.location.rstrip('/')}/{name}"))
        found.append(
            StagingDirectory(
                path=name,
                txn_id=TxnId(int(number)) if number.isdecimal() else None,
                modified_s=newest,
                size_bytes=size,
            )
        )
    return tuple(found)


def _remove(partition: PartitionInfo, plan: CleaningPlan, listing: Listing | None) -> CleaningPlan:
    """Remove the plan's unchanged paths; return a plan with only the removed paths.

    Staging directories need no check, because their names are never reused.
    """
    judged: dict[str, list[FileEntry]] = {}
    for file in listing.files if listing else ():
        for path in {file.path, file.path.partition("/")[0]}:
            judged.setdefault(path, []).append(file)

    def remove(removal: Removal) -> bool:
        fs, path = open_location(f"{partition.location.rstrip('/')}/{removal.path}")
        if not _is_staging(removal.path):
            now = files_below(partition.location, removal.path)
            if now and now != tuple(judged.get(removal.path, ())):
                log.warning("skipped a path that was replaced after it was listed: %s", path)
                return False
        log.info("removing %s: %s", path, removal.why)
        if _is_directory_name(removal.path.rpartition("/")[2]):
            delete_directory(fs, path)
        else:
            delete_file(fs, path)
        return True

    # Remove bases first. Otherwise, a reader for which this cleaner does not wait could find an old
    # base without its deltas.
    first, then = _bases_first(plan.remove)
    is_removed = [*side_by_side(remove, first), *side_by_side(remove, then)]
    gone = {r.path for r, is_gone in zip((*first, *then), is_removed, strict=True) if is_gone}
    return dataclasses.replace(plan, remove=tuple(r for r in plan.remove if r.path in gone))


def _bases_first(removals: Iterable[Removal]) -> tuple[list[Removal], list[Removal]]:
    parts: tuple[list[Removal], list[Removal]] = ([], [])
    for removal in removals:
        parts[not isinstance(parse_directory_name(removal.path), BaseName)].append(removal)
    return parts


def _is_directory_name(name: str) -> bool:
    return _is_staging(name) or parse_directory_name(name) is not None


def _some_kept(plan: CleaningPlan, why: Mapping[str, str]) -> CleaningPlan:
    kept = (dataclasses.replace(r, why=why[r.path]) for r in plan.remove if r.path in why)
    return dataclasses.replace(
        plan,
        keep=(*plan.keep, *kept),
        remove=tuple(r for r in plan.remove if r.path not in why),
    )


def _all_kept(plan: CleaningPlan, why: str) -> CleaningPlan:
    kept = (dataclasses.replace(removal, why=why) for removal in plan.remove)
    return dataclasses.replace(plan, remove=(), keep=(*plan.keep, *kept))


def _outcome(partition: PartitionInfo, plan: CleaningPlan) -> CleaningOutcome:
    return CleaningOutcome(
        partition=str(partition.name),
        removed=plan.remove,
        kept=plan.keep,
        waited_for=plan.waited_for,
        unknown=UnknownPaths.of(plan.unknown),
    )
