"""The status of an unfinished queue entry: its owner, its progress, and the command that ends it.

`explain`, the sensors and all refusals share the sentence. Only `unfinished` makes a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.words import age, age_text
from airflow_hiveacid.metastore import compaction_queue
from airflow_hiveacid.metastore.port import MetastorePort


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStatus:
    """An unfinished entry, and what is known about its compaction.

    `txns` were read before the entry (`CompactionEntry.is_dead`). Without `names_owners`, texts
    contain no names of users and hosts.
    """

    entry: compaction_queue.CompactionEntry
    txns: ValidTxnList
    generation: MetastoreGeneration
    names_owners: bool = True

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"

    @property
    def is_dead(self) -> bool:
        """True if the entry's compaction has certainly ended without a result."""
        return self.entry.is_dead(self.txns)

    @property
    def what(self) -> str:
        """A sentence that names the entry, its owner and its progress."""
        entry = self.entry
        owner = entry.owner if self.names_owners else ""
        by_owner = f", by {owner}" if owner else ""
        where = entry.partition or "the table"
        return (
            f"compaction {entry.entry_id} ({entry.compaction_type.value}{by_owner}) of {where}"
            f" {self._progress}"
        )

    @property
    def _progress(self) -> str:
        entry = self.entry
        if self.is_dead:
            return f"has no result, because its transaction {entry.txn_id} was aborted"
        if not entry.state.is_known:
            return f"is in the unknown state {entry.state.value!r}"
        if entry.state is compaction_queue.CompactionState.INITIATED:
            asked = f", requested {age_text(age(entry.enqueued_s))} ago" if entry.enqueued_s else ""
            return f"waits for a worker{asked}"
        if entry.state is compaction_queue.CompactionState.WORKING:
            if entry.is_committed:
                return "is committed, but its worker died before it could mark the entry"
            begun = f" for {age_text(age(entry.started_s))}" if entry.started_s else ""
            return f"is being done{begun}, {self._transaction}"
        # READY_FOR_CLEANING: 3.1 marks an entry only after the work, and does not list the commit.
        is_done = self.generation is MetastoreGeneration.V3 or entry.is_committed
        waits = "waits for cleaning"
        return f"is done and {waits}" if is_done else f"{waits}, {self._transaction}"

    @property
    def _transaction(self) -> str:
        entry = self.entry
        if entry.txn_id is None:
            return "without a known transaction"
        if self._may_be_open:
            return f"in transaction {entry.txn_id}, which is open"
        return f"after its transaction {entry.txn_id} ended"

    @property
    def _may_be_open(self) -> bool:
        """False if the entry has no transaction, or its transaction has ended."""
        txn_id = self.entry.txn_id
        return txn_id is not None and (
            txn_id in self.txns.open or txn_id > self.txns.high_watermark
        )

    @property
    def remedy(self) -> str:
        """A sentence that names the command that ends the entry."""
        entry, table = self.entry, self.entry.table
        if self.generation is MetastoreGeneration.V3 or not entry.state.is_known:
            hive = "Hive 3.1" if self.generation is MetastoreGeneration.V3 else "Hive"
            return f"only {hive}'s own workers and cleaner can end it, so check that they run"
        if self.is_dead:
            return f"`clean {table}`, `compact {table}` or `cancel {table}` ends the entry"
        is_ready = entry.state is compaction_queue.CompactionState.READY_FOR_CLEANING
        # Hive commits a rebalance without the mark that `is_committed` reads (`shows_commit`).
        is_left = is_ready and not entry.is_committed and not self._may_be_open
        if is_left or entry.compaction_type is compaction_queue.CompactionType.ABORT_TXN_CLEANUP:
            return "check that the metastore's cleaner runs"
        if entry.state is compaction_queue.CompactionState.INITIATED:
            ours = "" if entry.waits_for_hive else "run HiveAcidCompactOperator, "
            return f"{ours}check Hive's compaction workers, or end it with `cancel {table}`"
        if entry.is_committed:
            return f"`clean {table}` ends the entry when no reader needs the replaced files"
        command = f"abort {entry.txn_id}" if is_ready else f"cancel {table}"
        return f"wait, or end it with `{command}`"


def statuses(
    entries: Iterable[compaction_queue.CompactionEntry],
    txns: ValidTxnList,
    generation: MetastoreGeneration,
    *,
    names_owners: bool = True,
) -> list[EntryStatus]:
    """Return the status of each unfinished entry; `txns` were read before the entries."""
    return [
        EntryStatus(entry=entry, txns=txns, generation=generation, names_owners=names_owners)
        for entry in entries
        if entry.is_pending
    ]


def unfinished(
    client: MetastorePort, ref: TableRef, partition: PartitionName | None = None
) -> list[EntryStatus]:
    """Return the status of a table's unfinished entries, or of one partition's."""
    if not any(entry.is_pending for entry in client.show_compactions(ref, partition)):
        return []
    # List the entries again, after the transactions (`EntryStatus`).
    txns = client.valid_txns()
    return statuses(client.show_compactions(ref, partition), txns, client.generation)
