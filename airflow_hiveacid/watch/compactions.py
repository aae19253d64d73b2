"""Metastore queries for watchers of tables: the newest writes, and the compaction queue.

All functions of this module block, so a trigger must call them outside the event loop. No function
of this module lists a directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hiveacid.format.errors import CompactionFailedError, NotTransactionalError
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.format.words import first_few, several
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionType,
    newest_entries,
)
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
    from airflow_hiveacid.metastore.entry_status import EntryStatus


def newest_writes(
    endpoint: MetastoreEndpoint, tables: Collection[TableRef]
) -> dict[TableRef, ValidWriteIdList]:
    """Return the visible write IDs of several tables, with two calls.

    Raises:
        MetastoreUnavailableError: the metastore does not answer.
    """
    with connect(endpoint) as client:
        return client.valid_write_ids(tables, client.valid_txns())


class QueueState(NamedTuple):
    """The ID of a table's newest ended compaction, or 0, and whether another is not ended yet.

    If Hive's initiator could not request a compaction, it writes a queue entry, which does not
    count here. An entry in an unknown state has not ended, unless its partition has a newer entry.
    """

    ended_entry: int
    is_compacting: bool


def queue_state(endpoint: MetastoreEndpoint, table: str) -> QueueState:
    """Return the state of a table's compaction queue.

    Entries of a 3.1 metastore have no ID, so `ended_entry` is 0 for such a metastore.

    Raises:
        MetastoreUnavailableError: the metastore does not answer.
    """
    with connect(endpoint) as client:
        entries = _compactions(client.show_compactions(TableRef.parse(table)))
    at_work = set(_not_ended(entries))
    ended = (
        entry.entry_id or 0
        for entry in entries
        if entry.state.was_requested and entry not in at_work
    )
    return QueueState(max(ended, default=0), bool(at_work))


def _compactions(entries: Iterable[CompactionEntry]) -> list[CompactionEntry]:
    """Return the queue's compactions, without Hive's clean-ups of aborted transactions."""
    return [one for one in entries if one.compaction_type is not CompactionType.ABORT_TXN_CLEANUP]


def _not_ended(entries: Sequence[CompactionEntry]) -> tuple[CompactionEntry, ...]:
    """Return the entries that wait for a worker, have one, or may have one.

    A newer Hive may have states that this provider does not know. Such an entry may be at work
    until its partition has a newer entry.
    """
    newest = set(newest_entries(entries).values())
    return tuple(
        entry
        for entry in entries
        if entry.is_at_work or (not entry.state.is_known and entry in newest)
    )


# ---- the end of compactions ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCompactions:
    """The newest queue entry of each partition, when no compaction is waiting or at work."""

    table: str
    newest: tuple[CompactionEntry, ...]

    def record(self) -> dict[str, Any]:
        """Return the fields as plain values, for XCom."""
        return {
            "table": self.table,
            "compactions": [
                {
                    "partition": str(entry.partition or ""),
                    "entry_id": entry.entry_id,
                    "kind": entry.compaction_type.value,
                    "state": entry.state.value,
                }
                for entry in self.newest
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """The result of one poll of a table's queue: the entries at work, and the newest entries.

    `dead` are the entries at work whose worker has died. They end only by a command.
    """

    table: str
    at_work: tuple[CompactionEntry, ...]
    newest: tuple[CompactionEntry, ...]
    dead: tuple[EntryStatus, ...] = ()

    @property
    def due(self) -> tuple[EndedCompactions, ...]:
        """A tuple with the ended compactions, or an empty tuple if a compaction has not ended."""
        return () if self.at_work else (EndedCompactions(table=self.table, newest=self.newest),)

    def __str__(self) -> str:
        if not self.at_work:
            return f"{self.table}: no compaction waits for a worker or is at work"
        named = first_few([f"{e.partition or 'table'} {e.state.value}" for e in self.at_work])
        dead = "".join(f"; {status}" for status in self.dead[:1])
        return f"{self.table}: {several(len(self.at_work), 'compaction')} to end: {named}{dead}"


def look_at_queue(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, *, fail_on_failed: bool
) -> QueueLook:
    """Poll a table's compaction queue once.

    A partition whose newest entry is in an unknown state counts as one with a compaction at work.

    Raises:
        InputError: the table or partition does not exist, or the table is not transactional.
        CompactionFailedError: no compaction is at work, `fail_on_failed` is true, and the newest
            entry of a partition has failed.
        MetastoreUnavailableError: the metastore does not answer.
    """
    ref = TableRef.parse(table)
    name = PartitionName.parse(partition) if partition else None
    with connect(endpoint) as client:
        found = client.get_table(ref)
        if found.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=ref)
        if partition:
            partitions_of(client, found, partition)
        entries = _compactions(client.show_compactions(ref, name))
        at_work = _not_ended(entries)
        dead = [s for s in unfinished(client, ref, name) if s.is_dead] if at_work else []
    look = QueueLook(
        table=table,
        at_work=at_work,
        newest=tuple(newest_entries(entries).values()),
        dead=tuple(dead),
    )
    failed = [entry for entry in look.newest if entry.has_failed]
    if failed and fail_on_failed and not look.at_work:
        raise _failure(failed[-1])
    return look


def _failure(entry: CompactionEntry) -> CompactionFailedError:
    return CompactionFailedError(
        table=entry.table,
        partition=str(entry.partition or ""),
        entry_id=entry.entry_id or 0,
        kind=entry.compaction_type.value,
        state=entry.state.value,
        why=entry.reason,
    )
