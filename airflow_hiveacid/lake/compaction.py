"""Compactions in this process: its threads merge the files of buckets."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

from airflow_hiveacid.arrow.scan import CORES
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    CompactedFile,
    compact_bucket,
)
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compacted_plain
from airflow_hiveacid.writing.compaction import CompactionEngine


class ProcessCompactions(CompactionEngine):
    """The tasks of compactions in threads of this process, as many as it has cores.

    A task is not interrupted: a compaction that has lost its transaction ends before it publishes.
    """

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    @property
    def job_id(self) -> str:
        """The ID of this process."""
        return f"python-{os.getpid()}"

    @property
    def at_once(self) -> int:
        """The number of cores."""
        return CORES

    @property
    def is_stopped(self) -> bool:
        """False, because the tasks end with the process."""
        return False

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:  # noqa: ARG002 - of the base class
        """Run a block; its tasks are not cancelled."""
        return nullcontext(self.stop)

    def stop(self) -> None:
        """Do nothing, because the tasks are not cancelled."""

    def buckets(self, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
        """Compact the buckets of one directory, side by side."""
        return list(chain.from_iterable(self._threads.map(_compact, works)))

    def plain_files(self, works: Sequence[PlainCompaction]) -> list[CompactedFile]:
        """Combine files of an insert-only table, side by side."""
        return list(self._threads.map(compacted_plain, works))


def _compact(work: BucketCompaction) -> tuple[CompactedFile, ...]:
    return compact_bucket(work, uuid.uuid4().hex)
