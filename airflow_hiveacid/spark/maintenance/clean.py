"""Cleaning of one table: what `plan.cleaning` lets go is removed, and the queue is told.

Idempotent at every point: whatever a killed cleaner has not removed, the next one finds again.
It holds no lock, so each thing is looked at once more before it goes: the table may have been
dropped meanwhile and made again at its place, where its write IDs, and names, begin anew.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    LocationPermissionError,
    MetastoreCallError,
    NotEnoughHistoryError,
    TableChangedError,
)
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import STAGING_PREFIX, BaseName, parse_directory_name
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TransactionalKind
from airflow_hiveacid.format.versions import oldest_readable
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
)
from airflow_hiveacid.metastore.compaction_work import mark_failed
from airflow_hiveacid.plan.cleaning import (
    CleaningPlan,
    FirstSeen,
    Removal,
    StagingDirectory,
    is_clean,
    plan_cleaning,
    plan_staging,
    plan_uploads,
    replaced,
    waits_for,
)
from airflow_hiveacid.plan.keeping import Horizon, readable_for
from airflow_hiveacid.storage.stores.filesystem import delete_directory, delete_file
from airflow_hiveacid.storage.stores.listing import (
    files_below,
    list_directories,
    list_table,
    tree_size,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.open_uploads import give_up, open_uploads
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.losses import note_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hiveacid.format.directories import FileEntry, Listing
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.specs import CleanSpec
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.keeping import Tag
    from airflow_hiveacid.spark.maintenance.overview import Overview

log = logging.getLogger("hiveacid")

_PARALLEL: Final = 16
_COMMITS_REMEMBERED_S: Final = 30 * 86400.0
_HORIZON: Final = "horizon "
"""Beside replacements, the notes of a partition say when each horizon was written."""
_HELD: Final = "held "
_FREED: Final = "freed "
"""And which paths a tag had at the last look, and when they were first seen without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOutcome:
    """What went (or, in a dry run, would go) and what stays, of one partition.

    `oldest` is the oldest version that it held before; None if nobody asked.
    """

    partition: str
    removed: tuple[Removal, ...]
    kept: tuple[Removal, ...]
    marked_entries: tuple[int, ...] = ()
    oldest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Cleans partitions of one table. Not thread-safe.

    With an `overview` of the table, nobody is asked about a partition that needs no cleaning.
    """

    client: MetastorePort
    table: TableInfo
    spec: CleanSpec
    on_step: Callable[[str], None]
    now_s: Callable[[], float] = time.time
    overview: Overview | None = None

    def clean(self, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition.

        Raises:
            TableChangedError: the table was dropped meanwhile and made again.
        """
        notes = TableNotes.of(self.table)
        state, listing = self._first_look(partition)
        oldest = self._look_back(partition, state)
        names = [path for path in listing.directories if "/" not in path]
        if self._is_untouched(partition) and is_clean(state) and not any(map(_is_staging, names)):
            return CleaningOutcome(
                partition=str(partition.name), removed=(), kept=(), oldest=oldest
            )
        past = VersionNotes.of(self.table)
        tagged = _held(past.noted_tags(self._tags), partition, self._time_s())
        # Asked after listing: whoever listed the directory before us is among these, so nobody can
        # have seen what we are about to replace and be taken for younger than the replacement. And
        # after tags were looked for: whoever reads the version of one that is gone is among these.
        txns = self.client.valid_txns()
        # Of a clock that was ahead when it was noted, or nothing would go before that time is back.
        seen = {
            name: dataclasses.replace(note, at_s=min(note.at_s, self._time_s()))
            for name, note in notes.first_seen(partition.name).items()
        }
        self._check_table()
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=self._time_s())
        plan = plan_cleaning(
            state,
            _staging(partition, names),
            seen,
            txns,
            now_s=self._time_s(),
            retention_s=max(self.spec.retention_s, readable_for(self.table.parameters) or 0.0),
            orphan_age_s=self.spec.orphan_age_s,
            is_insert_only=self.table.kind is TransactionalKind.INSERT_ONLY,
            held=_held_or_read(state, tagged, seen, txns, note),
        )
        if self.spec.dry_run:
            return _outcome(partition, plan)
        seen |= dict.fromkeys(plan.unseen, note)
        plan, horizon = self._with_horizon(partition, plan, seen, past)
        notes.note_first_seen(partition.name, seen)
        self.on_step("noted")
        plan = _remove(partition, plan, listing)
        if horizon is not None:
            past.forget_horizons_below(horizon)
        self.on_step("removed")
        # Before the directory is looked at: what becomes ready later may have left something there.
        ready = self._ready(partition)
        txns = self.client.valid_txns()
        left, _ = self._state(partition, txns)
        notes.note_first_seen(partition.name, _still_of_use(seen, left))
        ready = self._committed(ready, txns, notes)
        marked = self._mark_cleaned(ready, notes) if is_clean(left) else ()
        return dataclasses.replace(_outcome(partition, plan), marked_entries=marked, oldest=oldest)

    def _look_back(self, partition: PartitionInfo, state: AcidState) -> WriteId | None:
        """Note what was removed without a version; gives the oldest version that is there."""
        if self.overview is None or self.overview.past is None:
            return None
        past, now = self.overview.past, self.overview.write_ids
        if not self.spec.dry_run:
            note_lost(self.client, past.witnesses, [(partition, state)], now)
        return oldest_readable(state, past.promises.of(partition.name), self.table.kind)

    def _with_horizon(
        self,
        partition: PartitionInfo,
        plan: CleaningPlan,
        seen: dict[str, FirstSeen],
        past: VersionNotes,
    ) -> tuple[CleaningPlan, Horizon | None]:
        """Say which versions end before anything of theirs goes, and wait for who reads them.

        Who reads an earlier version has read our notes in his transaction: those that may have done
        so before the horizon was written are waited for. Tags are looked for behind it: who made
        one has looked for horizons behind that (`versions.keeping.make_tag`).

        Args:
            partition: what is cleaned.
            plan: what would go.
            seen: the notes of the partition; the horizon's is added.
            past: the notes of the table's past.
        """
        ends = max((r.ends for r in plan.remove), default=WriteId(0))
        if not ends or not past.is_kept():
            return plan, None
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
        txns = self.client.valid_txns()
        held = _held(past.noted_tags(self._tags), partition, self._time_s())
        remove: list[Removal] = []
        keep = [*plan.keep]
        for removal in plan.remove:
            why_not = held.get(removal.path)
            if why_not is not None:
                seen[f"{_HELD}{removal.path}"] = seen[name]
            if removal.ends:
                why_not = why_not or waits_for(seen[name], txns, self._time_s(), 0.0)
            if why_not is None:
                remove.append(removal)
            else:
                keep.append(dataclasses.replace(removal, why=why_not))
        return dataclasses.replace(plan, remove=tuple(remove), keep=tuple(keep)), horizon

    def _time_s(self) -> float:
        """The time by the metastore's clock if something depends on it, else by our own."""
        asked = None if self.overview is None else self.overview.now_s
        return self.now_s() if asked is None else asked

    @property
    def _tags(self) -> dict[str, Tag] | None:
        """The tags that were read already, for another partition."""
        return None if self.overview is None else self.overview.tags

    def clean_staging(self) -> CleaningOutcome:
        """Remove what was staged at the location of a partitioned table."""
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        names = list_directories(*open_location(whole.location))
        plan = plan_staging(
            _staging(whole, names),
            self.client.valid_txns(),
            now_s=self.now_s(),
            orphan_age_s=self.spec.orphan_age_s,
        )
        if not self.spec.dry_run:
            plan = _remove(whole, plan, None)
        return _outcome(whole, plan)

    def clean_uploads(self, location: str) -> CleaningOutcome:
        """Give up the uploads that dead workers have left below a location.

        Who may not list them is told so; a rule of the bucket's can do the same.
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
            if not self.spec.dry_run:
                self._check_table()
                give_up(location, [upload for upload, _ in found])
        except LocationPermissionError as error:
            log.warning("uploads that dead workers have left stay: %s", error)
            kept = Removal(path=location, why=str(error), size_bytes=0)
            return _outcome(where, CleaningPlan(remove=(), keep=(kept,), unseen=()))
        removed = tuple(removal for _, removal in found)
        return _outcome(where, CleaningPlan(remove=removed, keep=(), unseen=()))

    def _is_untouched(self, partition: PartitionInfo) -> bool:
        """Whether neither the queue nor a note of ours says anything of a partition."""
        return (
            self.overview is not None
            and _in_queue(partition) not in self.overview.waiting
            and TableNotes.of(self.table).note_of(partition.name) not in self.overview.noted
        )

    def _first_look(self, partition: PartitionInfo) -> tuple[AcidState, Listing]:
        if self.overview is not None:
            listing = list_table(partition.location)
            try:
                return self._resolved(listing, self.overview.write_ids, self.overview.txns)
            except NotEnoughHistoryError:
                pass  # somebody has compacted and cleaned since
        return self._state(partition, self.client.valid_txns())

    def _state(self, partition: PartitionInfo, txns: ValidTxnList) -> tuple[AcidState, Listing]:
        ref = self.table.ref
        write_ids = self.client.valid_write_ids([ref], txns)[ref]
        listing = list_table(partition.location)
        return self._resolved(listing, write_ids, txns)

    def _resolved(
        self, listing: Listing, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> tuple[AcidState, Listing]:
        state = resolve(listing, write_ids, txns, self.table.kind)
        if self.table.kind is TransactionalKind.INSERT_ONLY and not self.table.reads_originals:
            # Nobody says that a base holds their rows.
            state = dataclasses.replace(state, obsolete=state.obsolete_directories)
        return state, listing

    def _check_table(self) -> None:
        """See that what was listed is of the table that the write IDs are of.

        Raises:
            TableChangedError: it was dropped meanwhile and made again.
        """
        if self.client.get_table(self.table.ref).table_id != self.table.table_id:
            raise TableChangedError(table=self.table.ref, what="table_id")

    def _ready(self, partition: PartitionInfo) -> list[CompactionEntry]:
        """The entries of the queue that wait for this partition to be cleaned."""
        if self.client.generation is MetastoreGeneration.V3:
            return []
        name = _in_queue(partition)
        return [
            entry
            for entry in self.client.show_compactions(self.table.ref, name)
            if entry.state is CompactionState.READY_FOR_CLEANING and entry.partition == name
        ]

    def _committed(
        self, ready: Iterable[CompactionEntry], txns: ValidTxnList, notes: TableNotes
    ) -> list[CompactionEntry]:
        """Those whose compaction was committed; what was aborted of ours fails.

        Of an entry that is marked as cleaned the server forgets which transactions up to its write
        ID were aborted. A compactor marks its entry before it commits, and may die in between; then
        its inputs are all there is, with the rows of those transactions in them.
        """
        found = []
        for entry in ready:
            entry_id, txn_id = entry.entry_id, entry.txn_id
            if txn_id is None or not (txn_id in txns.open or txn_id in txns.aborted):
                found.append(entry)
            elif (
                txn_id in txns.aborted
                and entry_id is not None
                and notes.highest_write_id(entry_id) is not None
            ):
                mark_failed(self.client, _claim_of(entry, entry_id), "it was not committed")
                notes.forget_compaction(entry_id)
        return found

    def _mark_cleaned(self, ready: Iterable[CompactionEntry], notes: TableNotes) -> tuple[int, ...]:
        """Tell the queue which of our compactions are done for good.

        Entries of other workers are left to the server's own cleaner: the queue does not say up to
        which write ID they went, and without that number the server would forget too much.
        """
        marked: list[int] = []
        for entry in ready:
            if entry.entry_id is None:
                continue
            highest = notes.highest_write_id(entry.entry_id)
            if highest is None:
                continue
            try:
                claim = _claim_of(entry, entry.entry_id)
                self.client.mark_cleaned(dataclasses.replace(claim, highest_write_id=highest))
            except MetastoreCallError as error:
                # 4.0.1 on PostgreSQL cannot mark an unpartitioned table ("could not determine data
                # type of parameter"). The files are gone all the same; the entry stays in sight.
                reason = str(error).partition("\n")[0]  # a page of Java follows
                log.warning("compaction %s stays ready for cleaning: %s", entry.entry_id, reason)
                continue
            notes.forget_compaction(entry.entry_id)
            marked.append(entry.entry_id)
        return tuple(marked)


def _claim_of(entry: CompactionEntry, entry_id: int) -> ClaimedCompaction:
    """What goes back to the server of an entry that nobody works on any more."""
    return ClaimedCompaction(
        entry_id=entry_id,
        table=entry.table,
        partition=entry.partition,
        compaction_type=entry.compaction_type,
        run_as=entry.run_as,
    )


def forget_unreadable(table: TableInfo, outcomes: Iterable[CleaningOutcome]) -> None:
    """Forget commits of versions that nobody can read any more, once they are a month old.

    Notes of the others are put together.

    Args:
        table: all of it was cleaned.
        outcomes: of its partitions.
    """
    oldest = {o.partition: WriteId(o.oldest) for o in outcomes if o.oldest is not None}
    if oldest:
        before_s = time.time() - _COMMITS_REMEMBERED_S
        VersionNotes.of(table).tidy_commits(oldest, before_s)


def _held(tags: Iterable[Tag], partition: PartitionInfo, now_s: float) -> dict[str, str]:
    """Why paths of a partition stay that nobody reads now: a tag has them."""
    found: dict[str, str] = {}
    for tag in tags:
        root = tag.root(partition.name)
        if root is not None and not tag.has_expired(now_s):
            found |= dict.fromkeys(root.names, f"tag {tag.name!r} has it")
    return found


def _held_or_read(
    state: AcidState,
    held: Mapping[str, str],
    seen: dict[str, FirstSeen],
    txns: ValidTxnList,
    note: FirstSeen,
) -> dict[str, str]:
    """Why replaced paths stay that a tag has, or had until lately.

    Who reads a tag's version may have begun until the tag was gone, long after its files were
    replaced, and after any horizon. So when it is first seen that none has them any more, all
    transactions of that moment are waited for.

    Args:
        state: what is replaced.
        held: what tags have, and why it stays.
        seen: the notes of the partition; those of tags are brought up to date.
        txns: open transactions now, asked for after tags were looked for.
        note: the time, and their watermark.
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
        why_not = None if since is None else waits_for(since, txns, since.at_s, 0.0)
        if why_not is not None:
            found[path] = why_not
    return found


def _still_of_use(seen: Mapping[str, FirstSeen], left: AcidState) -> dict[str, FirstSeen]:
    """The notes of what is replaced and not removed yet."""
    replacements = replaced(left)
    names = {replacement for _, _, replacement in replacements}
    names |= {f"{kind}{path}" for path, _, _ in replacements for kind in (_HELD, _FREED)}
    return {
        name: note
        for name, note in seen.items()
        if name in names or (replacements and name.startswith(_HORIZON))
    }


def _in_queue(partition: PartitionInfo) -> PartitionName | None:
    """What the queue calls a partition, or the whole table."""
    return partition.name if partition.name.columns else None


def _is_staging(name: str) -> bool:
    return name.startswith(STAGING_PREFIX)


def _staging(partition: PartitionInfo, names: Iterable[str]) -> tuple[StagingDirectory, ...]:
    """The staging directories among those at a location, with their size and newest change."""
    found = []
    for name in names:
        if not _is_staging(name):
            continue
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        size, newest = tree_size(*open_location(f"{partition.location.rstrip('/')}/{name}"))
        found.append(
            StagingDirectory(
                path=name,
                txn_id=TxnId(int(number)) if number.isdigit() else None,
                modified_s=newest,
                size_bytes=size,
            )
        )
    return tuple(found)


def _remove(partition: PartitionInfo, plan: CleaningPlan, listing: Listing | None) -> CleaningPlan:
    """Remove what is still what it was when it was judged; gives the plan without the rest.

    Names of staging are used only once, so that they say enough.
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
                log.warning("left alone, since it is another one by now: %s", path)
                return False
        log.info("removing %s: %s", path, removal.why)
        if _is_directory_name(removal.path.rpartition("/")[2]):
            delete_directory(fs, path)
        else:
            delete_file(fs, path)
        return True

    # A reader whose time is over must not find an old base without the deltas that belong to it.
    first, then = _bases_first(plan.remove)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        is_removed = [*pool.map(remove, first), *pool.map(remove, then)]
    gone = {r.path for r, is_gone in zip((*first, *then), is_removed, strict=True) if is_gone}
    return dataclasses.replace(plan, remove=tuple(r for r in plan.remove if r.path in gone))


def _bases_first(removals: Iterable[Removal]) -> tuple[list[Removal], list[Removal]]:
    parts: tuple[list[Removal], list[Removal]] = ([], [])
    for removal in removals:
        parts[not isinstance(parse_directory_name(removal.path), BaseName)].append(removal)
    return parts


def _is_directory_name(name: str) -> bool:
    return _is_staging(name) or parse_directory_name(name) is not None


def _outcome(partition: PartitionInfo, plan: CleaningPlan) -> CleaningOutcome:
    return CleaningOutcome(partition=str(partition.name), removed=plan.remove, kept=plan.keep)
