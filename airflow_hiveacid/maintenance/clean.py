"""Cleaning of a table: remove the paths that `plan.cleaning` selects, and mark queue entries.

Cleaning can stop at any point: the next cleaner finds what is left. The cleaner holds no lock, so
it checks each path again before removing it. Meanwhile, the table may have been dropped and created
again: then write IDs start again at 1, and new directories may have the names of old ones.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import FirstSeen, Horizon, Reader
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.format.versions import oldest_readable
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance import unknown_paths
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.maintenance.ownership import (
    Neighbours,
    check_aborted,
    check_known_writes,
    check_place,
)
from airflow_hiveacid.maintenance.removal import (
    committed_entries,
    is_directory_name,
    is_staging,
    mark_cleaned,
    ready_entries,
    remove_paths,
    staging_directories,
)
from airflow_hiveacid.metastore.compaction_queue import in_queue
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan import cleaning
from airflow_hiveacid.plan.keeping import NO_CLEANUP, readable_for
from airflow_hiveacid.storage.stores.conversion_note import unfinished_conversion
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.listing import (
    give_up,
    list_directories,
    list_table,
    open_uploads,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import opted_out_of
from airflow_hiveacid.versions.losses import note_lost

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOutcome:
    """The files that the cleaner of one partition removed (or would remove) and kept.

    `oldest` is the oldest version that was readable before the cleaning, or None. `waited_for` are
    the open transactions for which files are kept. `unknown` summarizes the other files that no
    metadata knows; None if there are none.
    """

    partition: str
    removed: tuple[cleaning.Removal, ...]
    kept: tuple[cleaning.Removal, ...]
    marked_entries: tuple[int, ...] = ()
    oldest: int | None = None
    waited_for: tuple[Reader, ...] = ()
    unknown: unknown_paths.UnknownPaths | None = None

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

    By the `overview` of the table, a partition that needs no cleaning requires no metastore call.
    """

    client: MetastorePort
    table: TableInfo
    spec: CleanSpec
    on_step: Callable[[str], None]
    overview: Overview
    now_s: Callable[[], float] = time.time
    neighbours: Neighbours = field(default_factory=Neighbours)

    def clean(self, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition."""
        notes = TableNotes.of(self.table)
        state, listing = self._first_look(partition)
        oldest = self._look_back(partition, state)
        unknown = unknown_paths.unknown_in(self.table, state, listing, self.now_s())
        names = [path for path in listing.directories if "/" not in path]
        if (
            self._is_untouched(partition)
            and cleaning.is_clean(state)
            and not any(map(is_staging, names))
        ):
            return CleaningOutcome(
                partition=str(partition.name),
                removed=(),
                kept=(),
                oldest=oldest,
                unknown=unknown_paths.UnknownPaths.of(unknown),
            )
        past = VersionNotes.of(self.table).listed_once()
        tags = self.overview.tags.values()
        tagged = cleaning.held_by_tags(tags, partition.name, self._time_s())
        # Request the readers after listing the directory, and after reading the tags. Then the
        # readers include each transaction that listed the directory before this cleaner. The
        # readers then also include each transaction that still reads the version of a removed tag.
        # Otherwise, a reader that saw a replaced file could seem newer than the replacement.
        txns = self.client.valid_txns()
        readers = self._readers(txns)
        first_seen = _first_seen(notes, partition, self._time_s())
        current_table = self._table_now()
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=self._time_s())
        plan = cleaning.plan_cleaning(
            state,
            staging_directories(partition, names),
            first_seen,
            txns,
            readers=readers,
            now_s=self._time_s(),
            retention_s=max(self.spec.retention_s, readable_for(current_table.parameters) or 0.0),
            orphan_age_s=self.spec.orphan_age_s,
            is_insert_only=self.table.kind is TransactionalKind.INSERT_ONLY,
            held=cleaning.held_or_read(state, tagged, first_seen, readers, note),
        )
        plan = dataclasses.replace(plan, unknown=unknown)
        why_not = switched_off(current_table)
        if why_not is not None:
            return _outcome(partition, plan.keeping(dict.fromkeys(plan.paths, why_not)))
        if state.aborted:
            check_aborted(self.table, state, past.commits())
        plan = self._without_shared(partition, plan)
        if self.spec.plan_only:
            return _outcome(partition, plan)
        first_seen |= dict.fromkeys(plan.unseen, note)
        plan, horizon = self._with_horizon(partition, plan, first_seen, past)
        notes.note_first_seen(partition.name, first_seen)
        self.on_step("noted")
        plan = self._look_again(plan, first_seen)
        self._confirm_writers(partition, plan)
        plan = remove_paths(partition, plan, listing)
        if horizon is not None:
            past.forget_horizons_below(horizon)
        self.on_step("removed")
        # Read the queue before listing the directory. An entry that becomes ready later may still
        # have files there.
        ready = ready_entries(self.client, self.table, partition)
        txns = self.client.valid_txns()
        state_after, _ = self._state(partition, txns)
        notes.note_first_seen(partition.name, cleaning.still_of_use(first_seen, state_after))
        ready = committed_entries(self.client, ready, txns, notes)
        marked = mark_cleaned(self.client, ready, notes) if cleaning.is_clean(state_after) else ()
        return dataclasses.replace(_outcome(partition, plan), marked_entries=marked, oldest=oldest)

    def _readers(self, txns: ValidTxnList) -> tuple[Reader, ...]:
        return possible_readers(self.client, self.table.ref, txns, now_s=self.now_s)

    def _without_shared(
        self, partition: PartitionInfo, plan: cleaning.CleaningPlan
    ) -> cleaning.CleaningPlan:
        """Keep files that another table of the metastore may read.

        The rows of a replaced directory are in its replacement, so it needs no check. An aborted
        directory raises OtherOwnerError, because the other table may have committed it.
        """
        reasons = {}
        for removal in plan.remove:
            is_directory = is_directory_name(removal.path)
            if is_staging(removal.path) or (is_directory and removal.replaced_by):
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
                raise errors.OtherOwnerError(
                    table=self.table.ref,
                    location=uri,
                    why=why,
                    remedy="If the other table is gone for good, drop it without its files",
                )
            if why is not None:
                reasons[removal.path] = why
        return plan.keeping(reasons)

    def _look_again(
        self, plan: cleaning.CleaningPlan, seen: Mapping[str, FirstSeen]
    ) -> cleaning.CleaningPlan:
        """Keep files for readers that locked this table after the readers were first requested.

        Such a reader may be an older transaction that first had locks only on other tables. One
        that begins later sees the replacements, because the notes are already written.
        """
        if not any(removal.replaced_by for removal in plan.remove):
            return plan
        readers = self._readers(self.client.valid_txns())
        reasons: dict[str, str] = {}
        waited_for: list[Reader] = []
        for removal in plan.remove:
            first_seen = seen.get(removal.replaced_by)
            earlier_readers = (
                () if first_seen is None else cleaning.readers_before(first_seen, readers)
            )
            if earlier_readers:
                waited_for += earlier_readers
                reasons[removal.path] = str(earlier_readers[0])
        return plan.keeping(reasons, waited_for)

    def _confirm_writers(self, partition: PartitionInfo, plan: cleaning.CleaningPlan) -> None:
        """Confirm the ledger's entries of writes whose directories this cleaning removes."""
        location = partition.location.rstrip("/")
        paths = [f"{location}/{r.path}" for r in plan.remove if r.replaced_by]
        entries = self.overview.unconfirmed
        if not paths or not entries:
            return
        ref, txns = self.table.ref, self.client.valid_txns()
        write_ids = self.client.valid_write_ids([ref], txns)[ref]
        Ledger.of(self.table).confirm_committed(entries, paths, write_ids, txns)

    def _look_back(self, partition: PartitionInfo, state: AcidState) -> WriteId | None:
        """Record files that were deleted without a write ID; return the oldest readable version."""
        past = self.overview.past
        if past is None:
            return None
        if not self.spec.plan_only:
            write_ids = self.overview.write_ids
            note_lost(self.client, past.loss_detector, [(partition, state)], write_ids)
        return oldest_readable(state, past.promises.of(partition.name), self.table.kind)

    def _with_horizon(
        self,
        partition: PartitionInfo,
        plan: cleaning.CleaningPlan,
        seen: dict[str, FirstSeen],
        past: VersionNotes,
    ) -> tuple[cleaning.CleaningPlan, Horizon | None]:
        """Write a horizon before versions become unreadable; keep files that open readers may need.

        A transaction that reads an earlier version reads our notes first, so files are kept for
        those that may have read them before the horizon was written. The cleaner reads tags after
        it has written the horizon, and `make_tag` reads horizons after it has written
        its tag, so one of them sees the other. A note of the horizon is added to `seen`.
        """
        if not any(r.replaced_by for r in plan.remove) or not past.is_kept():
            return plan, None
        ends = max((r.ends for r in plan.remove), default=WriteId(0))
        if not ends:  # no version becomes unreadable
            return self._without_tagged(partition, plan, seen, past), None
        name = f"{cleaning.HORIZON}{ends}"
        horizon = Horizon(
            partition=partition.name,
            write_id=ends,
            high_watermark=TxnId(0),
            at_s=self._time_s(),
        )
        if name not in seen:
            past.note_horizon(horizon)
            self.on_step("horizon")
            txns = self.client.valid_txns()
            seen[name] = FirstSeen(high_watermark=txns.high_watermark, at_s=self._time_s())
        first = seen[name]
        horizon = dataclasses.replace(horizon, high_watermark=first.high_watermark, at_s=first.at_s)
        readers = self._readers(self.client.valid_txns())
        plan = self._without_tagged(partition, plan, seen, past)
        why_not = cleaning.waits_for(seen[name], readers, self._time_s(), 0.0)
        if why_not is None:
            return plan, horizon
        ending = (removal.path for removal in plan.remove if removal.ends)
        earlier_readers = cleaning.readers_before(seen[name], readers)
        return plan.keeping(dict.fromkeys(ending, why_not), earlier_readers), horizon

    def _without_tagged(
        self,
        partition: PartitionInfo,
        plan: cleaning.CleaningPlan,
        seen: dict[str, FirstSeen],
        past: VersionNotes,
    ) -> cleaning.CleaningPlan:
        """Keep the paths that tags need, including tags created after this run began."""
        past.refresh()
        tags = past.noted_tags(dict(self.overview.tags))
        reasons = cleaning.held_by_tags(tags, partition.name, self._time_s())
        for removal in plan.remove:
            if removal.path in reasons and removal.replaced_by:
                seen[f"{cleaning.HELD}{removal.path}"] = seen[removal.replaced_by]
        return plan.keeping(reasons)

    def _time_s(self) -> float:
        """Return the metastore's time if guarantees or tags need it, else this machine's time."""
        server_time_s = self.overview.now_s
        return self.now_s() if server_time_s is None else server_time_s

    def clean_staging(self) -> CleaningOutcome:
        """Remove staging directories at the table location of a partitioned table."""
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        names = list_directories(*open_location(whole.location))
        plan = cleaning.plan_staging(
            staging_directories(whole, names),
            self.client.valid_txns(),
            now_s=self.now_s(),
            orphan_age_s=self.spec.orphan_age_s,
        )
        if not self.spec.plan_only:
            plan = remove_paths(whole, plan, None)
        return _outcome(whole, plan)

    def clean_unknown(self, partitions: Iterable[PartitionInfo]) -> CleaningOutcome:
        """List the unknown paths between the partitions of a table; remove old files if requested.

        No version needs such a file, so neither tags nor horizons do. The cleaner waits for a day
        after it first wanted to remove it, and for the readers that were open then. If there are
        unknown paths, the partitions are read again, because a writer may have added some.
        """
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        unknown, listing = unknown_paths.unknown_between(self.table, partitions, self.now_s())
        if unknown:
            places = unknown_paths.Places.of(self.table, self.client.list_partitions(self.table))
            unknown = tuple(entry for entry in unknown if places.leaves(entry.path))
        plan = cleaning.CleaningPlan(remove=(), keep=(), unseen=(), unknown=unknown)
        if self.spec.unknown_age_s is None or not any(entry.is_removable for entry in unknown):
            return _outcome(whole, plan)
        notes = TableNotes.of(self.table)
        note_s = self.now_s()
        first_seen = _first_seen(notes, whole, note_s)
        txns = self.client.valid_txns()
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=note_s)
        plan = cleaning.plan_unknown(
            unknown,
            first_seen,
            note,
            readers=self._readers(txns),
            unknown_age_s=self.spec.unknown_age_s,
            is_dry=self.spec.plan_only,
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
        plan = plan.keeping({path: why for path, why in read.items() if why is not None})
        # The table is read after its partitions, so these are the partitions of this table.
        why_not = switched_off(self._table_now())
        if why_not is not None:
            return _outcome(whole, plan.keeping(dict.fromkeys(plan.paths, why_not)))
        if self.spec.plan_only:
            return _outcome(whole, plan)
        kept_paths = {removal.path for removal in plan.keep}
        notes_after = {**dict.fromkeys(plan.unseen, note), **first_seen}
        notes.note_first_seen(whole.name, {p: s for p, s in notes_after.items() if p in kept_paths})
        return _outcome(whole, remove_paths(whole, plan, listing))

    def clean_uploads(self, location: str) -> CleaningOutcome:
        """Abort the uploads that killed workers left below a location.

        If the user may not list uploads, the outcome says so; a lifecycle rule of the bucket can do
        it.
        """
        where = PartitionInfo(name=PartitionName(), location=location)
        try:
            uploads = open_uploads(location)
            txns = self.client.valid_txns()
            ref = self.table.ref
            dead_uploads = cleaning.plan_uploads(
                uploads,
                txns,
                self.client.valid_write_ids([ref], txns)[ref],
                now_s=self.now_s(),
                orphan_age_s=self.spec.orphan_age_s,
            )
            if not self.spec.plan_only:
                self._table_now()  # raises an error if the table was created again
                give_up(location, [upload for upload, _ in dead_uploads])
        except errors.LocationPermissionError as error:
            log.warning("cannot abort uploads of killed workers: %s", error)
            kept = cleaning.Removal(path=location, why=str(error), size_bytes=0)
            return _outcome(where, cleaning.CleaningPlan(remove=(), keep=(kept,), unseen=()))
        removed = tuple(removal for _, removal in dead_uploads)
        return _outcome(where, cleaning.CleaningPlan(remove=removed, keep=(), unseen=()))

    def _is_untouched(self, partition: PartitionInfo) -> bool:
        """Return True if neither the queue nor our notes mention the partition."""
        return (
            in_queue(partition) not in self.overview.waiting
            and TableNotes.of(self.table).note_of(partition.name) not in self.overview.noted
        )

    def _first_look(self, partition: PartitionInfo) -> tuple[AcidState, Listing]:
        listing = list_table(partition.location)
        try:
            return self._resolved(listing, self.overview.write_ids, self.overview.txns)
        except errors.NotEnoughHistoryError:
            # The partition was compacted and cleaned after the overview.
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
        check_place(
            self.client, self.table, listing, self.neighbours, plan_only=self.spec.plan_only
        )
        state = resolve(listing, write_ids, txns, self.table.kind)
        if self.table.kind is TransactionalKind.INSERT_ONLY and not (
            self.table.reads_originals and unfinished_conversion(self.table) is None
        ):
            # A base does not make original files obsolete, because nothing proves that the base
            # contains their rows. A conversion may have moved them since.
            state = dataclasses.replace(state, obsolete=state.obsolete_directories)
        return state, listing

    def _table_now(self) -> TableInfo:
        """Return the table's definition now; its owner may have switched off the cleaning."""
        table = self.client.get_table(self.table.ref)
        if table.table_id != self.table.table_id:
            raise errors.TableChangedError(table=self.table.ref, what="table_id")
        return table


def switched_off(table: TableInfo) -> str | None:
    """Return the reason if the owner has switched off the cleaning of a table; None otherwise."""
    switched_off_by = opted_out_of(table, NO_CLEANUP)
    return switched_off_by and f"cleaning is switched off by {switched_off_by}"


def _first_seen(notes: TableNotes, partition: PartitionInfo, now_s: float) -> dict[str, FirstSeen]:
    """Return when a cleaner first saw each name; a clock that was ahead noted a future time."""
    return {
        name: dataclasses.replace(note, at_s=min(note.at_s, now_s))
        for name, note in notes.first_seen(partition.name).items()
    }


def _outcome(partition: PartitionInfo, plan: cleaning.CleaningPlan) -> CleaningOutcome:
    return CleaningOutcome(
        partition=str(partition.name),
        removed=plan.remove,
        kept=plan.keep,
        waited_for=plan.waited_for,
        unknown=unknown_paths.UnknownPaths.of(plan.unknown),
    )
