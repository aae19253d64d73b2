"""Noting what was removed from a table without a version, so that later versions can be read.

Takes a metastore, a table, and what its roots look like; writes notes. What was missed is said by
those who bear witness (`versions.witnesses`), so it is noted before any of them is forgotten.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.plan.keeping import Reset
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

_log = logging.getLogger(__name__)


def note_lost(
    client: MetastorePort,
    witnesses: Witnesses,
    roots: Iterable[tuple[PartitionInfo, AcidState]],
    now: ValidWriteIdList,
) -> None:
    """Note what roots are known to have had and was removed without a version.

    What was written until now may have been removed with it, also if it was after `now` was taken.

    Args:
        client: the metastore.
        witnesses: what is noted of the table.
        roots: what is read of each now.
        now: what is committed now.

    Raises:
        StorageError: it cannot be noted.
    """
    found = {info.name: witnesses.newly_lost(info, state, now) for info, state in roots}
    found = {name: lost for name, lost in found.items() if lost}
    if not found:
        return
    table = witnesses.table
    newest = snapshot_of(client, table).write_ids(table.ref).high_watermark
    resets = []
    for name, lost in found.items():
        highest = max(high for _, high in lost.values())
        _log.warning(
            "what version %s wrote was removed without a version table=%s partition=%s",
            highest,
            table.ref,
            name,
        )
        resets.append(
            Reset(
                partition=name,
                write_id=max(newest, highest),
                lowest=min(low for low, _ in lost.values()),
                highest=highest,
                names=frozenset(lost),
            )
        )
    VersionNotes.of(table).note_resets(resets)


def note_dropped(client: MetastorePort, table: TableInfo) -> None:
    """Note which partitions were dropped that somebody bears witness of.

    What is noted says all that their horizons said, so these go: tables drop a partition each day.

    Raises:
        StorageError: notes cannot be read or written.
    """
    if not table.is_partitioned:
        return
    witnesses = witnesses_of(table)
    if not witnesses.commits and witnesses.keeping is None:
        return
    # Before the snapshot: a version that is written after it may still have had what is missed.
    existing = client.partition_names(table)
    now = snapshot_of(client, table).write_ids(table.ref)
    notes, found = VersionNotes.of(table), witnesses.newly_dropped(existing, now)
    notes.note_resets(found)
    for horizon in witnesses.superfluous(existing, found):
        notes.forget_horizon(horizon)


def witnesses_of(table: TableInfo) -> Witnesses:
    """What is noted of a table's past.

    Raises:
        StorageError: notes cannot be read.
    """
    notes = VersionNotes.of(table)
    commits, promises = notes.commits(), notes.promises()
    return Witnesses(
        table=table,
        commits=commits,
        keeping=promises.keeping,
        horizons=promises.horizons,
        resets=promises.resets,
    )


def snapshot_of(client: MetastorePort, table: TableInfo) -> Snapshot:
    """What is committed now."""
    txns = client.valid_txns()
    return Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids([table.ref], txns))
