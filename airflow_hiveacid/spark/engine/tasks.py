"""Execution of pieces of work in Spark tasks, with several pieces per task.

The function must be importable, and its pieces must be plain values (no session, no client, no
lambda). Executors get function and pieces by pickle, so a retried task reads the same snapshot.
Pieces are dataclasses (`pieces`).
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from zipimport import zipimporter

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.reading.pieces import Packed, into_tasks, work_of
from airflow_hiveacid.spark.engine.failures import worker_errors
from airflow_hiveacid.spark.engine.store_tokens import with_tokens

_T = TypeVar("_T")
_R = TypeVar("_R")


@contextmanager
def job_group(spark: SparkSession, name: str) -> Iterator[Callable[[], None]]:
    """Run a block's jobs as one group; yield its cancel, which interrupts no task (HDFS-1208)."""
    context = spark.sparkContext
    context.setJobGroup(name, f"hiveacid {name}")
    try:
        yield partial(context.cancelJobGroup, name)
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(key, None)


def is_stopped(spark: SparkSession) -> bool:
    """Return true if the session's JVM is ending, for example because the driver is killed."""
    jvm = spark.sparkContext._jsc  # noqa: SLF001 - there is no public way
    try:
        return jvm is None or bool(jvm.sc().isStopped())
    except Py4JError:  # it no longer answers
        return True


def task_of(function: Callable[..., Iterator[_R]]) -> Callable[..., Iterator[_R]]:
    """Return the function for `mapInArrow` or an RDD: it has tokens, and passes on typed errors."""
    return with_tokens(partial(_as_task, function=function))


def _as_task(rows: Iterator[object], *, function: Callable[..., Iterator[_R]]) -> Iterator[_R]:
    with task_body():
        yield from function(rows)


def collected(frame: DataFrame) -> list[pa.RecordBatch]:
    """Collect a frame's rows on the driver as batches; an empty frame has no batches."""
    # Only Spark 4 has a public method, which also copies the rows.
    collect = getattr(frame, "_collect_as_arrow", None) or frame.toArrow().to_batches
    batches: list[pa.RecordBatch] = collect()
    return batches


def run_tasks(
    spark: SparkSession,
    function: Callable[[_T], Iterator[pa.RecordBatch]],
    pieces: Sequence[_T],
    schema: str | StructType,
    *,
    work: Callable[[_T], int] = work_of,
) -> DataFrame:
    """Return a frame of the rows of each piece, in order; pieces with little `work` share tasks."""
    tasks = into_tasks(pieces, spark.sparkContext.defaultParallelism, work)
    ids = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    run = partial(_rows, function=function, tasks=Packed.of(tasks))
    return ids.mapInArrow(task_of(run), schema)


def task_results(
    spark: SparkSession, function: Callable[[_T], _R], pieces: Sequence[_T]
) -> list[_R]:
    """Call the function for each piece in Spark tasks; return the results in the pieces' order.

    It costs the driver less than the query plan of `run_tasks`. But frames have Python workers of
    their own, so a job that also runs frames uses `run_tasks`. Small pieces share a task. Missing
    results raise JobFailedError.
    """
    context = spark.sparkContext
    tasks = into_tasks(pieces, context.defaultParallelism, work_of)
    if not tasks:
        return []
    numbers = context.parallelize(range(len(tasks)), len(tasks))
    run = partial(_results, function=function, tasks=Packed.of(tasks))
    results: list[_R] = numbers.mapPartitions(task_of(run)).collect()
    if len(results) != len(pieces):
        raise JobFailedError(
            f"Spark returned {len(results)} results for {len(pieces)} pieces of work"
        )
    return results


def _rows(
    batches: Iterator[pa.RecordBatch],
    *,
    function: Callable[[_T], Iterator[pa.RecordBatch]],
    tasks: Packed[_T],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for index in batch.column("id").to_pylist():
            for piece in tasks[index]:
                yield from function(piece)


def _results(
    numbers: Iterator[int], *, function: Callable[[_T], _R], tasks: Packed[_T]
) -> Iterator[_R]:
    for number in numbers:
        for piece in tasks[number]:
            # Not `map`: it would end early if the function raised StopIteration.
            yield function(piece)


@contextmanager
def task_body() -> Iterator[None]:
    """Run a task's body; pass typed errors to the driver, and speed up the worker's next task."""
    if TaskContext.get() is not None:
        _spare_collections()
        _spare_archives()
    with worker_errors():
        yield


@functools.cache
def _spare_collections() -> None:
    """Freeze all modules once per worker, so that Spark's `gc.collect` after a task skips them."""
    gc.freeze()


def _spare_archives() -> None:
    """Forget the importers of zip archives; Python recreates them from its own cache.

    Before each task, Spark makes all importers drop their caches, and an archive's then rereads its
    table of contents: for pyspark.zip 45 ms of CPU time, most of the cost of a small task.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
