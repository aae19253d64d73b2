"""Spark tasks of a compaction: one for each bucket, or several for a large bucket.

The input is the work of each bucket of one directory. The output is the staged files. If there are
fewer buckets than cores can work on, large buckets are split (`bucket_parts`): first, tasks compact
all parts, then one task for each bucket joins them.
"""

from __future__ import annotations

import itertools
import json
import logging
import uuid
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, job_failure, typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.storage.acid.write.bucket_merge import CompactedFile, compact_bucket
from airflow_hiveacid.storage.acid.write.bucket_parts import (
    CompactedPart,
    compact_part,
    split_compaction,
)
from airflow_hiveacid.storage.plain.compact import compact_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Row, SparkSession

    from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction
    from airflow_hiveacid.storage.acid.write.bucket_parts import SplitCompaction
    from airflow_hiveacid.storage.plain.compact import PlainCompaction

_W = TypeVar("_W")
_R = TypeVar("_R")

log = logging.getLogger("hiveacid")

LEAST_PART_BYTES: Final = 128 << 20
"""The minimum size of a part. A smaller part would cost more than it saves."""

_PARTS_PER_CORE: Final = 3

_FILES_SCHEMA: Final = "directory string, bucket int, attempt string, rows long, size_bytes long"
_FILES_ARROW: Final = pa.schema(
    [
        ("directory", pa.string()),
        ("bucket", pa.int32()),
        ("attempt", pa.string()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)
# The columns of a part's file, the stripes to copy as JSON, and the number of rows read. The
# columns of the file are NULL if no row had to be decoded.
_PARTS_SCHEMA: Final = f"{_FILES_SCHEMA}, whole string, rows_read long"
_PARTS_ARROW: Final = pa.schema(
    [*_FILES_ARROW, pa.field("whole", pa.string()), pa.field("rows_read", pa.int64())]
)


def compact_buckets(spark: SparkSession, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
    """Compact the buckets of one directory in Spark tasks, and return the staged files.

    Raises:
        HiveAcidError: a task raised this error, or the footers of a large bucket cannot be read.
        JobFailedError: Spark failed for another reason.
    """
    split, rest = _split_large(spark, works)
    if split:
        parts = [part for one in split for part in one.parts]
        log.info("compacting %d large buckets in %d parts", len(split), len(parts))
        done = iter(_collected(spark, _compact_part_task, parts, _PARTS_SCHEMA, _part))
        for one in split:
            rest += one.rest(list(itertools.islice(done, len(one.parts))))
    return _collected(spark, _compact_task, rest, _FILES_SCHEMA, _file)


def compact_plain_files(
    spark: SparkSession, works: Sequence[PlainCompaction]
) -> list[CompactedFile]:
    """Combine files of an insert-only table in Spark tasks, and return the staged files.

    Raises:
        HiveAcidError: a task raised this error.
        JobFailedError: Spark failed for another reason.
    """
    return _collected(spark, _compact_plain_task, works, _FILES_SCHEMA, _file)


def _split_large(
    spark: SparkSession, works: Sequence[BucketCompaction]
) -> tuple[list[SplitCompaction], list[BucketCompaction]]:
    """Return the large buckets in parts, and the other buckets.

    The parts are so small that all cores have work, and so large that each is worth a task.
    """
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


def _collected(
    spark: SparkSession,
    task: Callable[[_W], Iterator[pa.RecordBatch]],
    works: Sequence[_W],
    schema: str,
    read: Callable[[Row], _R],
) -> list[_R]:
    """Run the tasks and return their results in the order of `works`.

    Raises:
        HiveAcidError: a task raised this error.
        JobFailedError: Spark failed for another reason. So the other partitions are compacted.
    """
    try:
        with typed_failures():
            return [read(row) for row in run_tasks(spark, task, works, schema).collect()]
    except SPARK_ERRORS as error:
        log.exception("a compaction's tasks failed")
        raise job_failure(error) from error


def _file(row: Row) -> CompactedFile:
    return CompactedFile(
        directory=row.directory,
        bucket_id=BucketId(row.bucket),
        attempt=row.attempt,
        rows=row.rows,
        size_bytes=row.size_bytes,
    )


def _part(row: Row) -> CompactedPart:
    return CompactedPart(
        file=None if row.attempt is None else _file(row),
        whole={key: tuple(numbers) for key, numbers in json.loads(row.whole).items()},
        rows_read=row.rows_read,
    )


def _record(file: CompactedFile) -> dict[str, object]:
    return {
        "directory": file.directory,
        "bucket": int(file.bucket_id),
        "attempt": file.attempt,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
    }


def _compact_task(work: BucketCompaction) -> Iterator[pa.RecordBatch]:
    files = compact_bucket(work, uuid.uuid4().hex)
    yield pa.RecordBatch.from_pylist([_record(file) for file in files], schema=_FILES_ARROW)


def _compact_part_task(work: BucketCompaction) -> Iterator[pa.RecordBatch]:
    part = compact_part(work, uuid.uuid4().hex)
    row = {
        **({} if part.file is None else _record(part.file)),
        "whole": json.dumps(part.whole),
        "rows_read": part.rows_read,
    }
    yield pa.RecordBatch.from_pylist([row], schema=_PARTS_ARROW)


def _compact_plain_task(work: PlainCompaction) -> Iterator[pa.RecordBatch]:
    attempt = uuid.uuid4().hex
    written = compact_plain(work, attempt)
    file = CompactedFile(
        directory=work.directory,
        bucket_id=work.number,
        attempt=attempt,
        rows=written.rows,
        size_bytes=written.size_bytes,
    )
    yield pa.RecordBatch.from_pylist([_record(file)], schema=_FILES_ARROW)
