"""What a cleaning changes: the paths that its plan names, and entries of the queue.

A path that was replaced after it was listed stays.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from typing import Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import STAGING_PREFIX, BaseName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    in_queue,
)
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.compaction_work import end_entry
from airflow_hiveacid.plan.cleaning import CleaningPlan, Removal, StagingDirectory
from airflow_hiveacid.storage.stores.filesystem import delete_directory, delete_file
from airflow_hiveacid.storage.stores.listing import files_below, tree_size
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.threads import side_by_side

log = logging.getLogger("hiveacid")


def is_staging(name: str) -> bool:
    """Return whether a directory is a writer's staging directory."""
    return name.startswith(STAGING_PREFIX)


def staging_directories(
    partition: PartitionInfo, names: Iterable[str]
) -> tuple[StagingDirectory, ...]:
    """Return the staging directories at a location, with size and time of the newest change."""
    staging = []
    for name in names:
        if not is_staging(name):
            continue
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        size, newest = tree_size(*open_location(f"{partition.location.rstrip('/')}/{name}"))
        staging.append(
            StagingDirectory(
                path=name,
                txn_id=TxnId(int(number)) if number.isdecimal() else None,
                modified_s=newest,
                size_bytes=size,
            )
        )
    return tuple(staging)


def remove_paths(
    partition: PartitionInfo, plan: CleaningPlan, listing: Listing | None
) -> CleaningPlan:
    """Remove the plan's unchanged paths; return a plan with only the removed paths.

    Staging directories need no check, because their names are never reused.
    """
    judged: dict[str, list[FileEntry]] = {}
    for file in listing.files if listing else ():
        for path in {file.path, file.path.partition("/")[0]}:
            judged.setdefault(path, []).append(file)

    def remove(removal: Removal) -> bool:
        fs, path = open_location(f"{partition.location.rstrip('/')}/{removal.path}")
        if not is_staging(removal.path):
            files = files_below(partition.location, removal.path)
            if files and files != tuple(judged.get(removal.path, ())):
                log.warning("skipped a path that was replaced after it was listed: %s", path)
                return False
        log.info("removing %s: %s", path, removal.why)
        if is_directory_name(removal.path.rpartition("/")[2]):
            delete_directory(fs, path)
        else:
            delete_file(fs, path)
        return True

    # Remove bases first. Otherwise, a reader for which this cleaner does not wait could find an old
    # base without its deltas.
    bases, remainder = _bases_first(plan.remove)
    is_removed = [*side_by_side(remove, bases), *side_by_side(remove, remainder)]
    removed_paths = {
        r.path for r, is_gone in zip((*bases, *remainder), is_removed, strict=True) if is_gone
    }
    return dataclasses.replace(
        plan, remove=tuple(r for r in plan.remove if r.path in removed_paths)
    )


def _bases_first(removals: Iterable[Removal]) -> tuple[list[Removal], list[Removal]]:
    parts: tuple[list[Removal], list[Removal]] = ([], [])
    for removal in removals:
        parts[not isinstance(parse_directory_name(removal.path), BaseName)].append(removal)
    return parts


def is_directory_name(name: str) -> bool:
    """Return whether a name is that of a base, a delta or a staging directory."""
    return is_staging(name) or parse_directory_name(name) is not None


_MOST_REASON: Final = 100  # characters


def ready_entries(
    client: MetastorePort, table: TableInfo, partition: PartitionInfo
) -> list[CompactionEntry]:
    """Return the queue's entries that wait for this partition, if clients can end entries here."""
    if client.generation is MetastoreGeneration.V3 or client.missing_calls:
        return []
    name = in_queue(partition)
    return [
        entry
        for entry in client.show_compactions(table.ref, name)
        if entry.state is CompactionState.READY_FOR_CLEANING and entry.partition == name
    ]


def committed_entries(
    client: MetastorePort, ready: Iterable[CompactionEntry], txns: ValidTxnList, notes: TableNotes
) -> list[CompactionEntry]:
    """Return the entries of committed compactions; end entries of aborted compactions.

    When an entry is marked as cleaned, the server forgets which transactions up to its write ID
    were aborted. A compactor may be killed after it has marked its entry, but before it commits:
    the table then still has its inputs, with rows of aborted transactions. So an entry that does
    not show its commit waits for the next cleaning.
    """
    committed = []
    for entry in ready:
        entry_id, txn_id = entry.entry_id, entry.txn_id
        # A type whose commit the queue never shows counts as committed if it ended unaborted.
        has_ended = not (txn_id in txns.open or txn_id in txns.aborted)
        if txn_id is None or entry.is_committed or (has_ended and not entry.shows_commit):
            committed.append(entry)
        elif txn_id in txns.aborted and entry_id is not None:
            claim = ClaimedCompaction.of_entry(entry)
            end_entry(client, claim, "its compaction was aborted")
            notes.forget_compaction(entry_id)
    return committed


def mark_cleaned(
    client: MetastorePort, ready: Iterable[CompactionEntry], notes: TableNotes
) -> tuple[int, ...]:
    """Mark finished compactions as cleaned in the queue, whichever client made them.

    The partition has no replaced and no aborted files. Without the highest write ID of the
    compaction, the server would forget too many aborted transactions.
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
            client.mark_cleaned(dataclasses.replace(claim, highest_write_id=highest))
        except MetastoreCallError as error:
            # No state of ours may depend on an entry that the metastore cannot mark.
            reason = str(error).partition("\n")[0][:_MOST_REASON]  # pages of Java follow
            if not end_entry(client, claim, f"committed and cleaned; {reason}"):
                continue
        notes.forget_compaction(entry.entry_id)
        marked.append(entry.entry_id)
    return tuple(marked)
