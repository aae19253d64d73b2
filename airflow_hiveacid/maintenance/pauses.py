"""Pauses of automatic compaction: after two failed jobs in a row, a partition is left alone.

A failed compaction may have read a whole partition. Without a pause, each night would repeat that
work, and fail again. A note of the table records the failures, on every metastore: the queue of
3.1 is Hive's own, and that of 4.x shows our failures as refused. The number of failures and the
length of a pause are those of Hive's Initiator.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.records import CompactionFailures
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.storage.stores.table_notes import TableNotes

FAILURES: Final = 2
"""As hive.compactor.initiator.failed.compacts.threshold."""

LASTS: Final = timedelta(days=7)
"""As hive.compactor.initiator.failed.retry.time; counted from the last failure."""

# Errors that the same files cause again, unless their cause is temporary. Other errors come from
# the metastore, from other jobs, or from settings that a user can correct for all partitions.
_OF_FILES: Final = (errors.StorageError, errors.JobFailedError, errors.ValueTooLargeError)
_OF_SETTINGS: Final = (errors.LocationPermissionError, errors.TaskKilledError)
_LONGEST_WHY: Final = 300

log = logging.getLogger("hiveacid")


def pauses(table: TableInfo, partitions: Collection[str], *, now_s: float) -> dict[str, str]:
    """Return why these partitions are paused, by name ('' is the whole table); omit the others."""
    reasons = {}
    for name, failures in TableNotes.of(table).failures(partitions).items():
        # A machine whose clock was ahead may have noted a time in the future, which counts as now.
        # A time far in the future is ignored, because the pause would not end.
        if failures.count >= FAILURES and abs(now_s - failures.last_s) < LASTS.total_seconds():
            reasons[name] = _text(replace(failures, last_s=min(failures.last_s, now_s)))
    return reasons


def _text(failures: CompactionFailures) -> str:
    since = datetime.fromtimestamp(failures.last_s, UTC)
    return (
        f"automatic compaction is paused since {since:%Y-%m-%d %H:%M} UTC, because"
        f" {failures.count} jobs in a row failed, the last with: {failures.why.rstrip('.')}. The"
        f" pause ends on {since + LASTS:%Y-%m-%d %H:%M} UTC. To try again now, compact with"
        " choice='major' or 'minor'"
    )


def would_fail_again(error: errors.HiveAcidError) -> bool:
    """Return true if the next compaction of the same files would probably fail, too."""
    if isinstance(error, _OF_SETTINGS):
        return False
    return isinstance(error, _OF_FILES) and not isinstance(error, errors.RetryableError)


def note_failure(
    table: TableInfo,
    partition: PartitionInfo,
    error: errors.HiveAcidError,
    *,
    job_key: str,
    now_s: float,
) -> None:
    """Count a job's failed compaction of a partition; only log an error.

    The retries of one job count once: tries within minutes may fail for the same temporary reason.
    """
    name, notes = str(partition.name), TableNotes.of(table)
    try:
        earlier = notes.failures([name]).get(name)
        earlier_count = 0 if earlier is None else earlier.count - (earlier.job_key == job_key)
        noted = CompactionFailures(
            count=earlier_count + 1, job_key=job_key, last_s=now_s, why=str(error)[:_LONGEST_WHY]
        )
        notes.note_failures(name, noted)
    except errors.StorageError as lost:
        log.warning("cannot note the failed compaction of %s %s: %s", table.ref, name, lost)


def forget_failures(table: TableInfo, partition: PartitionInfo) -> None:
    """Forget a partition's failures, because it is compacted now; only log an error."""
    try:
        TableNotes.of(table).note_failures(str(partition.name), None)
    except errors.StorageError as error:
        log.warning("cannot forget the failures of %s %s: %s", table.ref, partition.name, error)
