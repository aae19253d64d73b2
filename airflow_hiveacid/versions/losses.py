"""Notes of files removed without a write ID, so that later versions stay readable.

Input is a metastore, a table, and the state of its roots. The notes are written before a cleaner
deletes the evidence of a loss (`versions.loss_detector`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow_hiveacid.format.records.keeping import Reset
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.versions.loss_detector import LossDetector

_log = logging.getLogger(__name__)


def note_lost(
    client: MetastorePort,
    loss_detector: LossDetector,
    roots: Iterable[tuple[PartitionInfo, AcidState]],
    now: ValidWriteIdList,
) -> None:
    """Write notes of files that roots had and that were removed without a write ID.

    The notes cover all versions up to the newest, even after `now`, whose files may also be gone.
    """
    losses = {info.name: loss_detector.newly_lost(info, state, now) for info, state in roots}
    losses = {name: lost for name, lost in losses.items() if lost}
    if not losses:
        return
    table = loss_detector.table
    newest = snapshot_now(client, [table.ref]).write_ids(table.ref).high_watermark
    resets = []
    for name, lost in losses.items():
        highest = max(high for _, high in lost.values())
        _log.warning(
            "files of version %s were removed without a write ID table=%s partition=%s",
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


def note_dropped(
    client: MetastorePort, table: TableInfo, notes: VersionNotes | None = None
) -> None:
    """Write notes of the dropped partitions that a table's notes mention.

    They replace the horizons of these partitions, which would accumulate if one is dropped daily.
    """
    if not table.is_partitioned:
        return
    notes = VersionNotes.of(table) if notes is None else notes
    loss_detector = loss_detector_of(table, notes)
    if not loss_detector.commits and loss_detector.keeping is None:
        return
    # List the partitions before taking the snapshot. Otherwise, a partition could be dropped
    # between the two steps. This partition might exist in versions after the snapshot, and the note
    # would not cover these versions.
    existing = client.partition_names(table)
    write_ids = snapshot_now(client, [table.ref]).write_ids(table.ref)
    resets = loss_detector.newly_dropped(existing, write_ids)
    notes.note_resets(resets)
    for horizon in loss_detector.superfluous(existing, resets):
        notes.forget_horizon(horizon)


def loss_detector_of(table: TableInfo, notes: VersionNotes | None = None) -> LossDetector:
    """Return a `LossDetector` with the notes about a table's past."""
    notes = VersionNotes.of(table) if notes is None else notes
    return LossDetector.of(table, notes.commits(), notes.promises())
