"""Compactions in this process: the tasks of their buckets run in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Final, TypeVar

from airflow_hiveacid.arrow import TASK_LIMITS
from airflow_hiveacid.arrow.scan import CORES
from airflow_hiveacid.format.errors import HiveAcidError, SparkNeededError
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.maintenance.compaction_planner import TablesPlan, Window
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    CompactedFile,
    compact_bucket,
)
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compacted_plain
from airflow_hiveacid.writing.compact_tables import compact_tables, planned_tables
from airflow_hiveacid.writing.compaction import CompactionEngine
from airflow_hiveacid.writing.job import WritingJob

_W = TypeVar("_W")
_R = TypeVar("_R")

# Each bucket of a merge keeps batches of all its files in memory.
_AT_ONCE: Final = min(CORES, 4)


def compact_in_process(
    job: WritingJob, most_bytes: int = TASK_LIMITS.file_bytes, remedy: str = ""
) -> JobResult:
    """Run a compaction job in threads of this process; see `prepared_compaction`."""
    return prepared_compaction(job, most_bytes, remedy)()


def prepared_compaction(
    job: WritingJob,
    most_bytes: int = TASK_LIMITS.file_bytes,
    remedy: str = "",
    excused: tuple[type[HiveAcidError], ...] = (),
) -> Callable[[], JobResult]:
    """Plan a compaction job, and return the function that runs it in threads of this process.

    Failures of the kinds `excused` do not pause a partition, because another engine tries next.

    Raises SparkNeededError, with the remedy, before anything is changed, if the partitions that are
    due have more than `most_bytes` to read in all; not for a plan, nor after the window's end.
    """
    plan = planned_tables(job)
    size = sum(outcome.bytes_in for _, outcome in plan.due)
    if size > most_bytes and not (plan.spec.plan_only or Window.of(plan.spec).is_over):
        raise SparkNeededError(
            reason=f"the compaction reads {size} bytes, more than {most_bytes}",
            limit="file_bytes",
            table=job.spec.job.target,
            remedy=remedy or _remedy(plan, most_bytes),
        )

    def run() -> JobResult:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return compact_tables(job, ProcessCompactions(threads, excused), plan)

    return run


def _remedy(plan: TablesPlan, most_bytes: int) -> str:
    """Return what to do about a plan that reads too much; no limit helps if one partition does."""
    remedy = "Use engine='auto' or 'spark'"
    if any(outcome.bytes_in > most_bytes for _, outcome in plan.due):
        return remedy
    limit = "partition" if plan.spec.is_of_table else "max_bytes"
    return f"{remedy}, or compact less in one task: set {limit}"


class ProcessCompactions(CompactionEngine):
    """The tasks of compactions in threads of this process, at most one for each core.

    A task is not interrupted: a compaction that has lost its transaction ends before it publishes.
    """

    def __init__(
        self, threads: ThreadPoolExecutor, excused: tuple[type[HiveAcidError], ...] = ()
    ) -> None:
        self._threads, self._excused = threads, excused

    @property
    def job_id(self) -> str:
        """The ID of this process."""
        return f"python-{os.getpid()}"

    @property
    def at_once(self) -> int:
        """The number of threads."""
        return _AT_ONCE

    def excuses(self, error: HiveAcidError) -> bool:
        """Return True if another engine tries next."""
        return isinstance(error, self._excused)

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:  # noqa: ARG002 - of the base class
        """Run a block; its tasks are not cancelled."""
        return nullcontext(self.stop)

    def stop(self) -> None:
        """Do nothing, because the tasks are not cancelled."""

    def buckets(self, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
        """Compact the buckets of one directory, side by side."""
        return list(chain.from_iterable(self._each(compact_bucket, works)))

    def plain_files(self, works: Sequence[PlainCompaction]) -> list[CompactedFile]:
        """Combine files of an insert-only table, side by side."""
        return self._each(compacted_plain, works)

    def _each(self, task: Callable[[_W], _R], works: Sequence[_W]) -> list[_R]:
        """Return each task's result, in order; an error waits for the running tasks.

        Otherwise they would write into the staging directory after the abort has removed it.
        """
        futures = [self._threads.submit(task, work) for work in works]
        try:
            return [future.result() for future in futures]
        finally:
            wait([future for future in futures if not future.cancel()])
