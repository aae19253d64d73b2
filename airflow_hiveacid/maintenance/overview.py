"""Facts about a table, which a cleaner reads once, before it cleans the partitions.

With the listing of a partition, they show whether it needs cleaning; the next run handles later
commits, aborts and compactions. A directory that is obsolete or aborted in one snapshot is so in
every newer snapshot, too. The list of open readers may change, so it is not part of these facts.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.records import LedgerEntry, Promises, Tag
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.keeping import readable_for
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.json_files import HiddenFiles
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import look_after
from airflow_hiveacid.versions.loss_detector import LossDetector
from airflow_hiveacid.versions.losses import loss_detector_of
from airflow_hiveacid.versions.past import promises_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNotes:
    """The facts about past versions that a cleaner needs: guarantees, and a detector of losses."""

    promises: Promises
    loss_detector: LossDetector


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A table as it was at the start of a cleaner's run.

    `now_s` is the time by the metastore's clock, or None if nothing depends on it. `waiting` are
    the partitions (None for the whole table) with a compaction that is ready for cleaning. `noted`
    are the partitions with notes of an earlier cleaner (`TableNotes.noted`). The keys of `tags` are
    the files of these tags, so they need not be read again. `notes` has a listing of its directory.
    `unconfirmed` are ledger entries of drivers that may have been killed directly after their
    commit.
    """

    txns: ValidTxnList
    write_ids: ValidWriteIdList
    waiting: frozenset[PartitionName | None]
    noted: frozenset[str]
    now_s: float | None = None
    past: PastNotes | None = None
    tags: dict[str, Tag] = field(default_factory=dict, repr=False)
    notes: VersionNotes | None = field(default=None, compare=False, repr=False)
    unconfirmed: tuple[LedgerEntry, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls, client: MetastorePort, table: TableInfo, notes: VersionNotes | None = None
    ) -> Overview:
        """Read all facts; read the queue first, so that the snapshot covers every queue entry."""
        notes = VersionNotes.of(table).listed_once() if notes is None else notes
        files = HiddenFiles(table.location) if notes.files is None else notes.files
        noted = TableNotes.of(table).noted(files)
        tags: dict[str, Tag] = {}
        notes.noted_tags(tags)
        is_served = client.generation is not MetastoreGeneration.V3 and not client.missing_calls
        waiting = frozenset(
            entry.partition
            for entry in (client.show_compactions(table.ref) if is_served else ())
            if entry.state is CompactionState.READY_FOR_CLEANING
        )
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
        return cls(
            txns=txns,
            write_ids=write_ids,
            waiting=waiting,
            noted=noted,
            tags=tags,
            notes=notes,
            # `files` was listed before the snapshot, so it may lack the entry of a write in the
            # snapshot.
            unconfirmed=Ledger.of(table).unconfirmed(txns),
        )


def with_past(
    client: MetastorePort, table: TableInfo, *, plan_only: bool
) -> tuple[TableInfo, Overview]:
    """Update the notes on a table's past versions; return the changed table and its overview."""
    notes = VersionNotes.of(table).listed_once()
    has_terms = readable_for(table.parameters) is not None or notes.is_kept() or notes.tags()
    now_s = server_now(client) if has_terms else None
    if not plan_only:
        look_after(client, table, time.time() if now_s is None else now_s, notes)
        table = client.get_table(table.ref)
        _forget_settled(client, table, notes)
    past = PastNotes(
        promises=promises_of(client, table, notes), loss_detector=loss_detector_of(table, notes)
    )
    return table, dataclasses.replace(Overview.of(client, table, notes), now_s=now_s, past=past)


def _forget_settled(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    """Remove the notes of our compactions that no longer wait for cleaning.

    Hive's cleaner may have marked them. A compactor writes its note while its entry is in progress,
    and the notes are listed before the queue: an entry that is not in progress has ended.
    """
    if notes.files is None:
        return
    own = TableNotes.of(table)
    noted = own.compactions(notes.files)
    if not noted:
        return
    under_way = {entry.entry_id for entry in client.show_compactions(table.ref) if entry.is_pending}
    for entry_id in sorted(noted - under_way):
        own.forget_compaction(entry_id)
