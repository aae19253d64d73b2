"""Notes of files removed without a write ID, so that later versions stay readable.

The notes are written before a cleaner deletes the evidence of a loss (`versions.loss_detector`).
Commit notes list the directories that this provider wrote. So before it drops a partition, this
module lists those of other clients.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.records import Reset
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.loss_detector import LossDetector, lowest_of

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


@contextmanager
def noted_drop(
    client: MetastorePort, ref: TableRef, names: Sequence[PartitionName]
) -> Iterator[None]:
    """Write notes of the lost files when the `with` block drops partitions.

    If the notes cannot be written, this function logs a warning, and the drop continues. The caller
    holds exclusive locks on the partitions, so no other client writes to them.
    """
    entries: Mapping[PartitionName, frozenset[str]] = {}
    with _only_warning(ref):
        table = client.get_table(ref)
        infos = client.get_partitions(table, names)
        sets = each_in_threads(lambda info: _entries(table, info), infos)
        entries = {info.name: texts for info, texts in zip(infos, sets, strict=True) if texts}
    try:
        yield
    except errors.MetastoreUnavailableError:  # the partitions may have been dropped
        with _only_warning(ref):
            _note_drop(client, ref, entries)
        raise
    with _only_warning(ref):
        _note_drop(client, ref, entries)


def _entries(table: TableInfo, info: PartitionInfo) -> frozenset[str]:
    """Return the directories and original files of a partition, in the form of `Reset.names`."""
    with suppress(errors.LocationNotFoundError):
        listing = list_table(info.location)
        paths = (*listing.directories, *(file.path for file in listing.files))
        tops = {path.partition("/")[0] for path in paths}
        root = info.location.rstrip("/")
        return frozenset(
            below(table.location, f"{root}/{top}") for top in tops if not top.startswith(("_", "."))
        )
    return frozenset()


def _note_drop(
    client: MetastorePort, ref: TableRef, entries: Mapping[PartitionName, frozenset[str]]
) -> None:
    table = client.get_table(ref)
    existing = frozenset(client.partition_names(table))
    entries = {name: texts for name, texts in entries.items() if name not in existing}
    if not entries:
        return
    notes = VersionNotes.of(table).listed_once()
    note_dropped(client, table, notes)
    write_ids = snapshot_now(client, [ref]).write_ids(ref)
    # Each write below `unknown` has a commit note, and the note names all partitions of the write.
    unknown = loss_detector_of(table, notes).first_unknown(write_ids)
    if unknown is None:
        return
    high = write_ids.high_watermark
    notes.note_resets(
        [
            Reset(
                partition=name,
                write_id=high,
                lowest=max(unknown, min(lowest_of(text.rpartition("/")[2]) for text in texts)),
                highest=high,
                names=texts,
            )
            for name, texts in entries.items()
        ]
    )


@contextmanager
def _only_warning(ref: TableRef) -> Iterator[None]:
    try:
        yield
    except errors.HiveAcidError as error:
        _log.warning(
            "cannot write notes of dropped partitions, so a restore of an earlier version may"
            " silently lack their rows table=%s: %s",
            ref,
            error,
        )
