"""How plain pieces of work run on executors: some in each Spark task, rows back as Arrow.

The function and its pieces must be importable and plain (no session, no client, no lambda):
executors get them by pickle, and run the same snapshot again if a task is retried. Pieces are
dataclasses (`pieces`).
"""

from __future__ import annotations

import functools
import gc
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_hiveacid.spark.failures import worker_errors
from airflow_hiveacid.spark.pieces import Packed, into_tasks, work_of
from airflow_hiveacid.spark.store_tokens import with_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_T = TypeVar("_T")


@contextmanager
def job_group(spark: SparkSession, name: str) -> Iterator[Callable[[], None]]:
    """Put what this thread runs in the block into one group; gives what cancels it.

    Tasks are not interrupted, since HDFS takes an interrupted client for a dead node (HDFS-1208).
    """
    context = spark.sparkContext
    context.setJobGroup(name, f"hiveacid {name}")
    try:
        yield partial(context.cancelJobGroup, name)
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(key, None)


def collected(frame: DataFrame) -> list[pa.RecordBatch]:
    """All rows of a frame, on the driver; no batch where there are none."""
    # Its public name is Spark 4's.
    batches: list[pa.RecordBatch] = frame._collect_as_arrow()  # type: ignore[operator] # noqa: SLF001
    return batches


def run_tasks(
    spark: SparkSession,
    function: Callable[[_T], Iterator[pa.RecordBatch]],
    pieces: Sequence[_T],
    schema: str | StructType,
    *,
    work: Callable[[_T], int] = work_of,
) -> DataFrame:
    """A frame of what the function yields for each piece, in their order.

    Args:
        spark: the session.
        function: what is done to a piece.
        pieces: the work.
        schema: of the rows.
        work: how much a piece is, in bytes that are read; small ones share a task.
    """
    tasks = into_tasks(pieces, spark.sparkContext.defaultParallelism, work)
    ids = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    run = partial(_run, function=function, tasks=Packed.of(tasks))
    return ids.mapInArrow(with_tokens(run), schema)


def _run(
    batches: Iterator[pa.RecordBatch],
    *,
    function: Callable[[_T], Iterator[pa.RecordBatch]],
    tasks: Packed[_T],
) -> Iterator[pa.RecordBatch]:
    _spare_collections()
    with worker_errors():
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for piece in tasks[index]:
                    yield from function(piece)


@functools.cache
def _spare_collections() -> None:
    """Once a worker: Spark collects garbage after each task, and would look at every module."""
    gc.freeze()
