"""The compaction job in Spark: its tasks run on executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.spark.engine.tasks import is_stopped, job_group
from airflow_hiveacid.spark.maintenance import bucket_tasks
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction, CompactedFile
from airflow_hiveacid.storage.plain.compact import PlainCompaction
from airflow_hiveacid.writing import compact_tables as any_engine
from airflow_hiveacid.writing.compaction import CompactionEngine


def compact_tables(job: JobContext) -> JobResult:
    """Compact the partitions that need it, of all transactional tables with matching names."""
    return any_engine.compact_tables(
        job, SparkCompactions(job.spark), any_engine.planned_tables(job)
    )


class SparkCompactions(CompactionEngine):
    """The tasks of compactions on Spark's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def job_id(self) -> str:
        """The ID of the Spark application."""
        return str(self._spark.sparkContext.applicationId)

    @property
    def at_once(self) -> int:
        """The number of cores."""
        return int(self._spark.sparkContext.defaultParallelism)

    def excuses(self, error: HiveAcidError) -> bool:  # noqa: ARG002 - of the base class
        """Return True if the session's JVM is ending."""
        return is_stopped(self._spark)

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """Run a block's Spark jobs as one job group."""
        return job_group(self._spark, name)

    def stop(self) -> None:
        """Cancel all jobs of the session."""
        self._spark.sparkContext.cancelAllJobs()

    def buckets(self, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
        """Compact the buckets of one directory; see `bucket_tasks`."""
        return bucket_tasks.compact_buckets(self._spark, works)

    def plain_files(self, works: Sequence[PlainCompaction]) -> list[CompactedFile]:
        """Combine files of an insert-only table."""
        return bucket_tasks.compact_plain_files(self._spark, works)
