"""Cleaning of one table: what `plan.cleaning` lets go is removed, and the queue is told.

Idempotent at every point: whatever a killed cleaner has not removed, the next one finds again.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import AcidState, Listing, resolve
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import STAGING_PREFIX, parse_directory_name
from airflow_hiveacid.format.table import PartitionInfo, PartitionName
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
)
from airflow_hiveacid.plan.cleaning import (
    CleaningPlan,
    FirstSeen,
    Removal,
    StagingDirectory,
    is_clean,
    plan_cleaning,
    plan_staging,
)
from airflow_hiveacid.storage.filesystem import (
    delete_directory,
    delete_file,
    list_table,
    open_location,
    tree_size,
)
from airflow_hiveacid.storage.job_ledger import Ledger
from airflow_hiveacid.storage.table_notes import TableNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hiveacid.format.snapshot import ValidTxnList
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.specs import CleanSpec
    from airflow_hiveacid.metastore.port import MetastorePort

log = logging.getLogger("hiveacid")

_PARALLEL: Final = 16
LEDGER_RETENTION_S: Final = 30 * 86400.0
"""How long a job's ledger entry is kept: longer than any retry may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOutcome:
    """What went (or, in a dry run, would go) and what stays, of one partition."""

    partition: str
    removed: tuple[Removal, ...]
    kept: tuple[Removal, ...]
    marked_entries: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Cleans partitions of one table. Not thread-safe."""

    client: MetastorePort
    table: TableInfo
    spec: CleanSpec
    on_step: Callable[[str], None]
    now_s: Callable[[], float] = time.time

    def clean(self, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition."""
        notes = TableNotes(location=self.table.location)
        txns = self.client.valid_txns()
        state, listing = self._state(partition, txns)
        seen = notes.first_seen(partition.name)
        plan = plan_cleaning(
            state,
            tuple(d for d in _staging(partition, listing) if "/" not in d.path),
            seen,
            txns,
            now_s=self.now_s(),
            retention_s=self.spec.retention_s,
            orphan_age_s=self.spec.orphan_age_s,
        )
        if self.spec.dry_run:
            return _outcome(partition, plan)
        note = FirstSeen(high_watermark=txns.high_watermark, at_s=self.now_s())
        seen |= dict.fromkeys(plan.unseen, note)
        notes.note_first_seen(partition.name, seen)
        self.on_step("noted")
        _remove(partition, plan.remove)
        self.on_step("removed")
        left, _ = self._state(partition, self.client.valid_txns())
        still = {d.superseded_by for d in left.obsolete_directories}
        if left.obsolete_originals and left.base:
            still.add(left.base.text)
        notes.note_first_seen(
            partition.name, {name: s for name, s in seen.items() if name in still}
        )
        marked = self._mark_cleaned(partition, notes) if is_clean(left) else ()
        return dataclasses.replace(_outcome(partition, plan), marked_entries=marked)

    def clean_unregistered(self, partitions: Iterable[PartitionInfo]) -> CleaningOutcome:
        """Remove what was staged for partitions that never came to be."""
        whole = PartitionInfo(name=PartitionName(), location=self.table.location)
        known = {p.location.rstrip("/") for p in partitions}
        staging = [
            directory
            for directory in _staging(whole, list_table(whole.location))
            if f"{whole.location.rstrip('/')}/{directory.path}".rpartition("/")[0] not in known
        ]
        plan = plan_staging(
            staging,
            self.client.valid_txns(),
            now_s=self.now_s(),
            orphan_age_s=self.spec.orphan_age_s,
        )
        if not self.spec.dry_run:
            _remove(whole, plan.remove)
        return _outcome(whole, plan)

    def forget_old_jobs(self) -> int:
        """Remove ledger entries that no retry can ask for any more; gives their number."""
        ledger = Ledger(location=self.table.location)
        old = list(ledger.older_than(self.now_s() - LEDGER_RETENTION_S))
        if not self.spec.dry_run:
            for uri in old:
                delete_file(*open_location(uri))
        return len(old)

    def _state(self, partition: PartitionInfo, txns: ValidTxnList) -> tuple[AcidState, Listing]:
        ref = self.table.ref
        write_ids = self.client.valid_write_ids([ref], txns)[ref]
        listing = list_table(partition.location)
        return resolve(listing, write_ids, txns), listing

    def _mark_cleaned(self, partition: PartitionInfo, notes: TableNotes) -> tuple[int, ...]:
        """Tell the queue which of our compactions are done for good.

        Entries of other workers are left to the server's own cleaner: the queue does not say up to
        which write ID they went, and without that number the server would forget too much.
        """
        if self.client.generation is MetastoreGeneration.V3:
            return ()
        marked: list[int] = []
        for entry in self.client.show_compactions(self.table.ref):
            highest = (
                notes.highest_write_id(entry.entry_id)
                if entry.entry_id is not None and _waits_here(entry, partition)
                else None
            )
            if entry.entry_id is None or highest is None:
                continue
            try:
                self.client.mark_cleaned(
                    ClaimedCompaction(
                        entry_id=entry.entry_id,
                        table=entry.table,
                        partition=entry.partition,
                        compaction_type=entry.compaction_type,
                        run_as=entry.run_as,
                        highest_write_id=highest,
                    )
                )
            except MetastoreCallError as error:
                # 4.0.1 on PostgreSQL cannot mark an unpartitioned table ("could not determine data
                # type of parameter"). The files are gone all the same; the entry stays in sight.
                log.warning("compaction %s stays ready for cleaning: %s", entry.entry_id, error)
                continue
            notes.forget_compaction(entry.entry_id)
            marked.append(entry.entry_id)
        return tuple(marked)


def _waits_here(entry: CompactionEntry, partition: PartitionInfo) -> bool:
    name = partition.name if partition.name.columns else None
    return entry.state is CompactionState.READY_FOR_CLEANING and entry.partition == name


def _staging(partition: PartitionInfo, listing: Listing) -> tuple[StagingDirectory, ...]:
    """Staging directories anywhere below a location, with their size and newest change."""
    found = []
    for path in listing.directories:
        name = path.rpartition("/")[2]
        if not name.startswith(STAGING_PREFIX):
            continue
        token = name.removeprefix(STAGING_PREFIX)
        size, newest = tree_size(*open_location(f"{partition.location.rstrip('/')}/{path}"))
        found.append(
            StagingDirectory(
                path=path,
                txn_id=TxnId(int(token)) if token.isdigit() else None,
                modified_s=newest,
                size_bytes=size,
            )
        )
    return tuple(found)


def _remove(partition: PartitionInfo, removals: Iterable[Removal]) -> None:
    def remove(removal: Removal) -> None:
        fs, path = open_location(f"{partition.location.rstrip('/')}/{removal.path}")
        log.info("removing %s: %s", path, removal.why)
        if _is_directory_name(removal.path.rpartition("/")[2]):
            delete_directory(fs, path)
        else:
            delete_file(fs, path)

    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(remove, removals))


def _is_directory_name(name: str) -> bool:
    return name.startswith(STAGING_PREFIX) or parse_directory_name(name) is not None


def _outcome(partition: PartitionInfo, plan: CleaningPlan) -> CleaningOutcome:
    return CleaningOutcome(partition=str(partition.name), removed=plan.remove, kept=plan.keep)
