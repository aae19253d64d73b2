"""What a cleaner asks about a table once, before it looks at its partitions.

A table of ten thousand partitions has something to clean in a few. That there is nothing in one is
seen from its listing and from what the run knew when it began; what was committed, aborted or
compacted since is left to the next run. An older snapshot never makes more obsolete or aborted than
a newer one: both are for good. What is not for good, who may be reading now, is not kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.storage.stores.table_notes import TableNotes

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A table as a run of the cleaner found it.

    `waiting` are the partitions (None for the whole table) of which a compaction is ready for
    cleaning, `noted` those with notes of an earlier cleaner, as `TableNotes.noted` tells them.
    """

    txns: ValidTxnList
    write_ids: ValidWriteIdList
    waiting: frozenset[PartitionName | None]
    noted: frozenset[str]

    @classmethod
    def of(cls, client: MetastorePort, table: TableInfo) -> Overview:
        """Ask for all of it: the queue first, so that the snapshot sees what is ready there.

        Raises:
            StorageError: the notes cannot be listed.
        """
        is_served = client.generation is not MetastoreGeneration.V3
        waiting = frozenset(
            entry.partition
            for entry in (client.show_compactions(table.ref) if is_served else ())
            if entry.state is CompactionState.READY_FOR_CLEANING
        )
        noted = TableNotes(location=table.location).noted()
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
        return cls(txns=txns, write_ids=write_ids, waiting=waiting, noted=noted)
