"""What a cleaner asks about a table once, before it looks at its partitions.

A table of ten thousand partitions has something to clean in a few. That there is nothing in one is
seen from its listing and from what the run knew when it began; what was committed, aborted or
compacted since is left to the next run. An older snapshot never makes more obsolete or aborted than
a newer one: both are for good. What is not for good, who may be reading now, is not kept here.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.keeping import readable_for
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import look_after
from airflow_hiveacid.versions.losses import witnesses_of
from airflow_hiveacid.versions.past import promises_of

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.keeping import Promises, Tag
    from airflow_hiveacid.versions.witnesses import Witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNotes:
    """What a cleaner minds of a table's past: what is promised, and who bears witness of it."""

    promises: Promises
    witnesses: Witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A table as a run of the cleaner found it.

    `now_s` is the time by the metastore's clock; None if nothing depends on it. `past` is what is
    noted of the table's past; None if nothing is.

    `waiting` are the partitions (None for the whole table) of which a compaction is ready for
    cleaning, `noted` those with notes of an earlier cleaner, as `TableNotes.noted` tells them.
    `tags` grows as they are read (`VersionNotes.noted_tags`): one may name ten thousand partitions.
    """

    txns: ValidTxnList
    write_ids: ValidWriteIdList
    waiting: frozenset[PartitionName | None]
    noted: frozenset[str]
    now_s: float | None = None
    past: PastNotes | None = None
    tags: dict[str, Tag] = field(default_factory=dict, repr=False)

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
        noted = TableNotes.of(table).noted()
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
        return cls(txns=txns, write_ids=write_ids, waiting=waiting, noted=noted)


def with_past(
    client: MetastorePort, table: TableInfo, *, is_dry: bool
) -> tuple[TableInfo, Overview]:
    """The same, when what is to be done for the table's past has been done (`look_after`).

    Returns:
        The table, whose parameters may be others now, and what a run of the cleaner knows of it.

    Raises:
        ConfigurationError: the table's parameter says no time.
        StorageError: notes cannot be read or written.
    """
    notes = VersionNotes.of(table)
    has_terms = readable_for(table.parameters) is not None or notes.is_kept() or notes.tags()
    now_s = server_now(client) if has_terms else None
    if not is_dry:
        look_after(client, table, time.time() if now_s is None else now_s)
        table = client.get_table(table.ref)
    past = PastNotes(promises=promises_of(client, table), witnesses=witnesses_of(table))
    return table, dataclasses.replace(Overview.of(client, table), now_s=now_s, past=past)
