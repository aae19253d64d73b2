"""Streams of Spark into tables: each micro-batch of a query is one transaction.

A batch is known by the ID of the query's checkpoint, by its number and by its plan there, so a
batch that Spark repeats after a kill or restart is not applied again. Spark plans a batch again,
with other rows, if the checkpoint was restored to an older state or if a copy of it runs; then, the
batch is refused. See docs/decisions/streams.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    SourceKeyError,
    TaskKilledError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.jobs.job import JobResult, StreamSpec
from airflow_hiveacid.maintenance.ownership import check_note
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.plan.transactions import check_order
from airflow_hiveacid.spark.acid import Task
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.session import check_session
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.spark.statements.planned import planned_one
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import CheckedStatement, naming, run_changes
from airflow_hiveacid.writing.streams import APPEND, LastBatch, Progress, Stream, stream_tables

log = logging.getLogger("hiveacid")

Select = Mapping[str, Callable[[DataFrame], DataFrame]]
WriteBatch = Callable[[JobContext, DataFrame], JobResult]

_FRAME: Final = specs.SourceSpec()  # the rows are passed as a frame
_POLL_S: Final = 2


class BatchSink:
    """The function of a query's `foreachBatch`. Mutable: it stores its last batch and its failure.

    Batches wait for `name`, because Spark knows the ID of a query only when it has started.
    """

    def __init__(
        self,
        job: JobContext,
        tables: tuple[specs.StreamTable, ...],
        checkpoint: str,
        write: WriteBatch,
        progress: Progress,
    ) -> None:
        self._job, self._write, self._progress = job, write, progress
        self._checkpoint = checkpoint
        self._turn = threading.Lock()
        self._is_named = threading.Event()
        self._stream = Stream(name="", tables=tables)
        self._last: LastBatch | None = None
        self._is_over = False
        self.failure: HiveAcidError | None = None

    def name(self, query_id: str) -> None:
        """Set the ID of the query, which its checkpoint keeps."""
        self._stream.name = query_id
        self._is_named.set()

    def end(self) -> None:
        """Wait until no batch is being written, and refuse later ones."""
        with self._turn:
            self._is_over = True

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write a micro-batch as one transaction, unless an earlier try has committed it."""
        with self._turn:
            self._is_named.wait()
            if self._is_over:  # Spark would record a batch that returns
                raise TaskKilledError("a batch came after the end of its stream")
            try:
                with typed_failures():
                    self._commit(rows, batch_id)
            except HiveAcidError as error:
                self.failure = error
                raise

    def _commit(self, rows: DataFrame, batch_id: int) -> None:
        clock = self._job.terms.clock
        arrived_s = clock.monotonic()
        kept = rows.persist()
        try:
            # The transaction begins only when the rows are there, so it is short.
            if not kept.count():
                return
            with self._job.client.clone() as client:
                own = dataclasses.replace(self._job, spark=kept.sparkSession, client=client)
                check_session(own.spark)
                plan = plan_of(own.spark, self._checkpoint, batch_id)
                batch = self._stream.batch(own, batch_id, after=self._last, plan=plan)
                result = self._write(batch, kept)
            self._last = self._stream.committed(batch_id, result)
            self._progress.add(result, arrived_s)
            log.info("batch=%d of the stream is %s", batch_id, result.status.value)
        finally:
            kept.unpersist()


def stream(  # noqa: PLR0913 - each is a separate choice
    rows: DataFrame,
    tables: str | Sequence[specs.StreamTable],
    task: Task,
    *,
    checkpoint: str,
    mode: str = APPEND,
    keys: Sequence[str] | str = (),
    select: Select | None = None,
    every_s: float = 5.0,
    available_now: bool = False,
) -> JobResult:
    """Write a streaming DataFrame into tables, each micro-batch exactly once, and return the sums.

    The stream ends with its source, or after `run_for` of `HiveAcidStreamOperator`.

    Args:
        rows: a streaming DataFrame.
        tables: `db.table`, or an `acid.StreamTable` for each of several tables. The operator lists
            them in `inserts`, or in `changes` if they have keys.
        task: the task that `run` passes to the program.
        checkpoint: the URI of the query's checkpoint, where a later run continues.
        mode: `append`, or `merge` to update the rows whose keys exist.
        keys: the key columns, for `merge`. No row of a batch may have NULL in its key, and no two
            rows the same key.
        select: for some tables, the function that makes their rows from those of a batch.
        every_s: seconds between the beginnings of micro-batches.
        available_now: end when all rows that the source has now are written.

    Raises:
        InputError: a table, column or argument is invalid. The query was not started.
        FencedError: a newer copy of the query, with the same checkpoint, is running.
        SourceKeyError: a batch has a key twice, or NULL in a key; the earlier ones are committed.
        HiveAcidError: a batch failed; the earlier ones are committed.

    Example:
        acid.stream(rows, "demo.clicks", task, checkpoint="hdfs:///checkpoints/clicks")
    """
    job, own = task.job, dict(select or {})
    found = stream_tables(tables, mode, keys)
    _check_declared(job.job_of(StreamSpec), found, own)
    with typed_failures():
        # Check the statements of a batch without rows before the query starts.
        for change in changes_of(job, found, job.spark.createDataFrame([], rows.schema), own):
            check_note(job.client, change.table)

    def write(batch: JobContext, frame: DataFrame) -> JobResult:
        changes = changes_of(batch, found, frame, own)
        for each, change in zip(found, changes, strict=True):
            if each.keys and change.shape is not None:
                _check_keys(change.table, change.shape, each.keys)
        return run_changes(batch, changes)

    clock, limit_s = job.terms.clock, job.job_of(StreamSpec).run_for_s
    progress = Progress(clock)
    sink = BatchSink(job, found, checkpoint, write, progress)
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    pace: Any = {"processingTime": f"{every_s:g} seconds"}
    query = writer.trigger(**({"availableNow": True} if available_now else pace)).start()
    sink.name(query.id)
    try:
        while not query.awaitTermination(_POLL_S):
            progress.tick()
            if limit_s is not None and clock.monotonic() - progress.began_s >= limit_s:
                break
    except Exception as error:
        raise sink.failure or error from error
    finally:
        sink.end()
        query.stop()
        progress.tick(is_last=True)
    task.result = progress.result(job, {"checkpoint": checkpoint, "query_id": query.id})
    return task.result


def plan_of(spark: SparkSession, checkpoint: str, batch_id: int) -> str:
    """Return a digest of the offsets and the time that Spark noted before a batch's first try."""
    lines = spark.read.text(f"{checkpoint.rstrip('/')}/offsets/{batch_id}").collect()
    return hashlib.sha256("\n".join(line.value for line in lines).encode()).hexdigest()[:16]


def changes_of(
    job: JobContext, tables: Sequence[specs.StreamTable], rows: DataFrame, select: Select
) -> list[CheckedStatement]:
    """Return the checked statements of a batch with these rows, one for each table."""
    changes = []
    for number, each in enumerate(tables, start=1):
        spec: specs.StatementSpec = specs.InsertSpec(target=each.table, source=_FRAME)
        if each.keys:
            spec = specs.MergeSpec(
                target=each.table, source=_FRAME, keys=each.keys, clauses=specs.UPSERT
            )
        with naming(number, len(tables)):
            frame = select[each.table](rows) if each.table in select else rows
            changes.append(planned_one(job, spec, frame))
    check_order([change.step for change in changes])
    return changes


def _check_keys(table: TableInfo, rows: DataFrame, keys: Sequence[str]) -> None:
    """Refuse rows with a key that is NULL or occurs twice, which MERGE would insert each time."""
    types = {c.name: parse_type(c.type) for c in (*table.columns, *table.partition_columns)}
    own = {}
    for name in map(str.lower, keys):
        value = F.col(quoted(name)).cast(spark_type(types[name]))
        own[name] = F.rtrim(value) if isinstance(types[name], CharType) else value
    some_null = reduce(or_, (value.isNull() for value in own.values()))
    grouped = rows.groupBy(*own.values()).agg(F.count("*"), F.first(some_null))
    found = grouped.toDF(*map(str, range(len(own))), "rows", "has null")
    bad = found.where("rows > 1 OR `has null`").head()
    if bad is not None:
        key = ", ".join(f"{name}={value}" for name, value in zip(own, bad, strict=False))
        is_null = bad["has null"]
        problem = f"a row has NULL in its key: {key}" if is_null else f"the key {key} occurs twice"
        raise SourceKeyError(table=table.ref, keys=tuple(own), problem=problem)


def _check_declared(spec: StreamSpec, tables: Sequence[specs.StreamTable], select: Select) -> None:
    for each in tables:
        if each.table not in (spec.changes if each.keys else spec.targets):
            raise ConfigurationError(
                f"the stream writes {each.table}, but its task does not declare this: add the table"
                f" to {'changes' if each.keys else 'inserts'} of HiveAcidStreamOperator"
            )
    if strange := sorted(select.keys() - {each.table for each in tables}):
        raise ConfigurationError(
            f"select has {', '.join(strange)}, which the stream does not write"
        )
