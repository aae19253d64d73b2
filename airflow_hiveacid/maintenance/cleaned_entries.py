"""The queue's entries of compactions whose files a cleaning has removed.

Input is a metastore, and the entries of a clean partition. The entries are marked as cleaned or, if
their compactions were aborted, ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError
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

if TYPE_CHECKING:
    from airflow_hiveacid.storage.stores.notes.table_notes import TableNotes

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
    were aborted. A compactor may be killed after it has marked its entry, but before it
    commits. Then the table still consists of the compaction's inputs. The inputs contain rows
    of these aborted transactions. The server may also have forgotten the compaction's own
    aborted transaction. So an entry that does not show its commit waits for the next cleaning.
    """
    committed = []
    for entry in ready:
        entry_id, txn_id = entry.entry_id, entry.txn_id
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
            client.mark_cleaned(dataclasses.replace(claim, highest_write_id=highest))
        except MetastoreCallError as error:
            # No state of ours may depend on an entry that the metastore cannot mark.
            reason = str(error).partition("\n")[0][:_MOST_REASON]  # pages of Java follow
            if not end_entry(client, claim, f"committed and cleaned; {reason}"):
                continue
        notes.forget_compaction(entry.entry_id)
        marked.append(entry.entry_id)
    return tuple(marked)
