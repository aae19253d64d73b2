"""The state of a table's compaction queue: which compactions have ended, and which have failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from airflow_hiveacid.format.errors import CompactionFailedError, NotTransactionalError
from airflow_hiveacid.format.table import PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.format.words import first_few, several
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionType,
    newest_entries,
)
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.watch import Observation


class QueueState(NamedTuple):
    """The ID of a table's newest ended compaction, or 0, and whether another is not ended yet.

    If Hive's initiator could not request a compaction, it writes a queue entry, which does not
    count here. An entry in an unknown state has not ended, unless its partition has a newer entry.
    """

    ended_entry: int
    is_compacting: bool


def queue_state(client: MetastorePort, ref: TableRef) -> QueueState:
    """Return the state of a table's compaction queue.

    Entries of a 3.1 metastore have no ID, so `ended_entry` is 0 for such a metastore.
    """
    entries = _compactions(client.show_compactions(ref))
    at_work = set(_not_ended(entries))
    ended = (
        entry.entry_id or 0
        for entry in entries
        if entry.state.was_requested and entry not in at_work
    )
    return QueueState(max(ended, default=0), bool(at_work))


def ended_compactions(
    client: MetastorePort, ref: TableRef, partition: str | None, *, fail_on_failed: bool
) -> Observation:
    """Poll a table's compaction queue once; the finding has the newest entry of each partition.

    A partition whose newest entry is in an unknown state counts as one with a compaction at work.
    If none is at work, and `fail_on_failed` is true, a failed one raises CompactionFailedError.
    """
    name = PartitionName.parse(partition) if partition else None
    table = client.get_table(ref)
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=ref)
    if partition:
        partitions_of(client, table, partition)
    entries = _compactions(client.show_compactions(ref, name))
    if at_work := _not_ended(entries):
        running = first_few([f"{e.partition or 'table'} {e.state.value}" for e in at_work])
        # A compaction whose worker has died ends only by a command, which the status names.
        dead = [f"; {status}" for status in unfinished(client, ref, name) if status.is_dead]
        number = several(len(at_work), "compaction")
        return Observation(summary=f"{ref}: {number} to end: {running}{''.join(dead[:1])}")
    newest = newest_entries(entries).values()
    failed = [entry for entry in newest if entry.has_failed]
    if failed and fail_on_failed:
        last = failed[-1]
        raise CompactionFailedError(
            table=last.table,
            partition=str(last.partition or ""),
            entry_id=last.entry_id or 0,
            kind=last.compaction_type.value,
            state=last.state.value,
            why=last.reason,
        )
    finding = {
        "table": str(ref),
        "compactions": [
            {
                "partition": str(entry.partition or ""),
                "entry_id": entry.entry_id,
                "kind": entry.compaction_type.value,
                "state": entry.state.value,
            }
            for entry in newest
        ],
    }
    return Observation(
        summary=f"{ref}: no compaction waits for a worker or is at work", findings=(finding,)
    )


def _compactions(entries: Iterable[CompactionEntry]) -> list[CompactionEntry]:
    return [
        entry for entry in entries if entry.compaction_type is not CompactionType.ABORT_TXN_CLEANUP
    ]


def _not_ended(entries: Sequence[CompactionEntry]) -> tuple[CompactionEntry, ...]:
    """Return the entries that wait for a worker, have one, or may have one.

    An entry in a state of a newer Hive may be at work until its partition has a newer entry.
    """
    newest = set(newest_entries(entries).values())
    return tuple(
        entry
        for entry in entries
        if entry.is_at_work or (not entry.state.is_known and entry in newest)
    )
