"""Notes of partitions that this provider drops, so that a restore can detect missing rows.

Commit notes list the directories that this provider wrote (`versions.losses`). So this module lists
those of other clients before the drop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import DeltaName, parse_directory_name
from airflow_hiveacid.format.records.keeping import Reset
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.losses import loss_detector_of, note_dropped

_log = logging.getLogger(__name__)


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
            _note(client, ref, entries)
        raise
    with _only_warning(ref):
        _note(client, ref, entries)


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


def _note(
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
                lowest=max(unknown, min(map(_lowest, texts))),
                highest=high,
                names=texts,
            )
            for name, texts in entries.items()
        ]
    )


def _lowest(text: str) -> WriteId:
    """Return the lowest write ID of a directory; 0 if unknown, as for a base."""
    name = parse_directory_name(text.rpartition("/")[2])
    return name.low if isinstance(name, DeltaName) else WriteId(0)


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
