"""The meaning of a driver's answer, and the failures that must not occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactSpec, RebalanceSpec
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.work import Task

_FORESEEN: Final = (errors.FencedError, errors.CommitStateUnknownError)

# A PartitionsFailedError is retryable, whatever has failed. These words are those of a
# CorruptFileError and a JobFailedError.
_OF_FINAL_ERRORS: Final = (" is damaged: ", "The driver's log has the details")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One try of a job: its start time, and its first position in the process's log."""

    task: Task
    attempt: str
    began_s: float
    offset: int


def note_answer(
    record: Record, who: str, doing: Doing, result: JobResult, *, is_zombie: bool
) -> bool:
    """Record an answer, with any unforeseen failure as trouble; return True if the job is done."""
    whose = "zombie " if is_zombie else ""
    record.note(
        f"{whose}{result.status.value}",
        seat=who,
        key=doing.task.key,
        attempt=doing.attempt,
        write_ids=dict(result.write_ids),
        error=result.error,
        took=round(record.now_s - doing.began_s, 2),
    )
    record.counts[f"{result.kind}: {whose}{result.status.value}"] += 1
    if result.status is not JobStatus.FAILED:
        return True
    error = (
        result.error.rebuild() if result.error else errors.HiveAcidError("failed without an error")
    )
    record.errors[f"{whose}{type(error).__name__}"] += 1
    if not _is_foreseen(record, error, doing):
        record.trouble("unforeseen", f"{doing.task.key} {doing.attempt}: {error}")
    return False


def _is_foreseen(record: Record, error: errors.HiveAcidError, doing: Doing) -> bool:
    if record.was_disk_full(doing.began_s):
        return True
    if isinstance(error, errors.PartitionsFailedError):
        return not any(words in str(error) for words in _OF_FINAL_ERRORS)
    if isinstance(error, (errors.RetryableError, *_FORESEEN)):
        return True
    is_compaction = isinstance(doing.task.job, CompactSpec)
    if isinstance(error, errors.CompactionCancelledError):
        return is_compaction and record.was_cancelled(doing.began_s)
    # No job has written the partition yet.
    return isinstance(error, errors.PartitionNotFoundError) and (
        is_compaction or isinstance(doing.task.job, RebalanceSpec)
    )
