"""Spark tasks of a compaction: one for each bucket, or several for a large bucket.

If there are fewer buckets than cores can work on, large buckets are split (`bucket_merge`): first,
tasks compact all parts, then one task for each bucket joins them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, job_failure, typed_failures
from airflow_hiveacid.spark.engine.tasks import task_results
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    CompactedFile,
    SplitCompaction,
    compact_bucket,
    compact_part,
    split_compaction,
)
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compacted_plain

_W = TypeVar("_W")
_R = TypeVar("_R")

log = logging.getLogger("hiveacid")

LEAST_PART_BYTES: Final = 128 << 20
"""The minimum size of a part. A smaller part would cost more than it saves."""

_PARTS_PER_CORE: Final = 3


def compact_buckets(spark: SparkSession, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
    """Compact the buckets of one directory in Spark tasks, and return the staged files."""
    split, rest = _split_large(spark, works)
    if split:
        parts = [part for bucket in split for part in bucket.parts]
        log.info("compacting %d large buckets in %d parts", len(split), len(parts))
        compacted = iter(_results(spark, compact_part, parts))
        for bucket in split:
            rest += bucket.rest(list(itertools.islice(compacted, len(bucket.parts))))
    return [file for files in _results(spark, compact_bucket, rest) for file in files]


def compact_plain_files(
    spark: SparkSession, works: Sequence[PlainCompaction]
) -> list[CompactedFile]:
    """Combine files of an insert-only table in Spark tasks, and return the staged files."""
    return _results(spark, compacted_plain, works)


def _split_large(
    spark: SparkSession, works: Sequence[BucketCompaction]
) -> tuple[list[SplitCompaction], list[BucketCompaction]]:
    if all(_size(work) < 2 * LEAST_PART_BYTES for work in works):
        return [], list(works)
    tasks = _PARTS_PER_CORE * max(1, spark.sparkContext.defaultParallelism)
    part_bytes = max(LEAST_PART_BYTES, sum(map(_size, works)) // tasks)
    split: list[SplitCompaction] = []
    rest: list[BucketCompaction] = []
    for work in works:
        large = split_compaction(work, part_bytes) if _size(work) >= 2 * part_bytes else None
        if large is None:
            rest.append(work)
        else:
            split.append(large)
    return split, rest


def _size(work: BucketCompaction) -> int:
    return sum(file.length for file in work.inserts)


def _results(spark: SparkSession, task: Callable[[_W], _R], works: Sequence[_W]) -> list[_R]:
    """Run the tasks; return results in order. Spark's own failures spare other partitions."""
    try:
        with typed_failures():
            return task_results(spark, task, works)
    except SPARK_ERRORS as error:
        log.exception("a compaction's tasks failed")
        raise job_failure(error) from error
