"""INSERT INTO, INSERT OVERWRITE and LOAD DATA with Spark.

Tasks that compute rows of an unpartitioned, unbucketed table also write these rows, without a
shuffle. All other rows are shuffled once, to the task that writes their partition and bucket.

Each source row is written exactly once, even if tasks fail and run again. Spark may recompute a
lost part of a shuffle after some tasks have read other parts. So a row's task depends only on the
row's values, never on its position, and a recomputed part must contain the same rows. Sources that
may violate this (a LIMIT, an aggregate of floating-point numbers, `rand()`, a database) are first
computed and kept (`localCheckpoint`); if an executor is lost then, the job fails, so that no row is
lost silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.ids import MAX_BUCKET_ID
from airflow_hiveacid.format.table import UNPARTITIONED, FileFormat, PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import ColumnMatch, InsertSpec, LoadSpec, SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.columns import check_load
from airflow_hiveacid.plan.statements.dml import columns_of_texts, quoted, resolve_insert
from airflow_hiveacid.reading.pieces import TASK_BYTES, arrow_schema
from airflow_hiveacid.spark.engine import catalyst
from airflow_hiveacid.spark.engine.catalyst import resolved
from airflow_hiveacid.spark.engine.failures import reason_of, typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.spark.reading.events import (
    Events,
    grouped,
    insert_events,
    partition_key,
    with_no_old_row,
)
from airflow_hiveacid.spark.statements.expressions import allowed, row_struct, stored
from airflow_hiveacid.spark.writing.flat_files import flat_rows
from airflow_hiveacid.spark.writing.spreading import hash_of, spread
from airflow_hiveacid.storage.plain.loadable import Checked, Found, checked_here
from airflow_hiveacid.storage.stores.locations import renames_directories, scheme_of
from airflow_hiveacid.writing.loading import (
    FileToCopy,
    LoadProgram,
    checked_load,
    copied,
    copied_here,
)
from airflow_hiveacid.writing.publish import StagedFile

_WRITER_BYTES: Final = 256 << 20
_HASH: Final = "_hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertProgram:
    """A checked INSERT: an expression over the source for each column of the table.

    Columns in `from_text` accept any string that can be cast to their type. `checked` has the frame
    of the check and its values, which an INSERT with the same frame uses again.
    """

    table: TableInfo
    expressions: Mapping[str, str]
    from_text: frozenset[str]
    moment: catalyst.Moment
    checked: tuple[DataFrame, Mapping[str, Column]] | None = None

    def values(self, source: DataFrame) -> dict[str, Column]:
        """Return checked and cast values; they raise an error for rows that the table rejects."""
        expressions = self._resolved(source, self.expressions)
        values = self._stored(source, expressions)
        return allowed(source.sparkSession, self.table, values, expressions, self.moment)

    def constants(self, source: DataFrame, names: Collection[str]) -> dict[str, Column]:
        """Return the values of some columns, without the constraints that apply to whole rows."""
        return self._stored(source, self._resolved(source, names))

    def _resolved(self, source: DataFrame, names: Collection[str]) -> dict[str, catalyst.Resolved]:
        texts = [self.expressions[name] for name in names]
        return dict(zip(names, resolved(self.table, source, texts, self.moment), strict=True))

    def _stored(
        self, source: DataFrame, found: Mapping[str, catalyst.Resolved]
    ) -> dict[str, Column]:
        return {
            name: stored(
                source.sparkSession, self.table, name, value, from_text=name in self.from_text
            )
            for name, value in found.items()
        }


def in_order(spec: InsertSpec, source: DataFrame) -> DataFrame:
    """Return the source; rename duplicate columns if an INSERT matches columns by position."""
    names = {name.lower() for name in source.columns}
    by_name = not spec.columns and spec.match is ColumnMatch.NAME
    if by_name or len(names) == len(source.columns):
        return source
    return source.toDF(*[f"col{i + 1}" for i in range(len(source.columns))])


def plan_insert(
    table: TableInfo, spec: InsertSpec, source: DataFrame, moment: catalyst.Moment
) -> InsertProgram:
    """Check an INSERT against the schemas of target and source."""
    program = InsertProgram(
        table=table,
        expressions=resolve_insert(table, spec, source.columns),
        from_text=columns_of_texts(table, spec, source.columns),
        moment=moment,
    )
    return replace(program, checked=(source, program.values(source)))


def new_row_events(program: InsertProgram, source: DataFrame, *, is_ours: bool = True) -> Events:
    """Return insert events for all source rows; `is_ours` is False for rows from user code."""
    table = program.table
    rows = program.moment.fixed_in(source)
    if not catalyst.is_repeatable(rows, is_ours=is_ours):
        rows = rows.localCheckpoint()
    shape, values = program.checked or (None, {})
    if shape is not source:  # the source is an ACID table, read again under the job's snapshot
        values = program.values(rows)
    key = partition_key(table, [values[c.name] for c in table.partition_columns])
    return Events(
        frame=partial(_row_events, table, rows, values, key),
        given=(frozenset(c.name for c in table.columns),),
        flat=flat_rows(table, rows, values, key if table.partition_columns else None)
        if table.storage.format is FileFormat.ORC
        else None,
    )


def _row_events(
    table: TableInfo, source: DataFrame, values: Mapping[str, Column], key: Column
) -> DataFrame:
    rows = source.select(
        key.alias("_partition"),
        row_struct(table.columns, values).alias("row"),
        F.lit(0).alias("_clause"),
    )
    if not table.partition_columns and not table.num_buckets:
        return insert_events(_in_partitions(_joined(table, rows, source)))
    return grouped(
        insert_events(spread(table, with_no_old_row(rows), _writers(source), row_hash(table)))
    )


def row_hash(table: TableInfo) -> Column:
    """Return a hash of all values in `row`, which selects the row's writer."""
    fields = struct_of(table.columns).fields
    return hash_of([(f.dataType, F.col(f"row.{quoted(f.name)}")) for f in fields])


def _writers(source: DataFrame) -> int:
    """Return the number of writers per partition; Spark's size estimate is often too high."""
    tasks = int(source.sparkSession.sparkContext.defaultParallelism)
    return max(1, min(tasks, catalyst.expected_bytes(source) // _WRITER_BYTES))


def _joined(table: TableInfo, rows: DataFrame, source: DataFrame) -> DataFrame:
    """On a store without renames, combine rows into as few tasks as their size requires.

    Compaction may be impossible there (docs/decisions/s3.md), so the file of every task would
    remain. Spark itself would keep as many tasks as cores.
    """
    if renames_directories(scheme_of(table.location)):
        return rows
    hashed = rows.withColumn(_HASH, row_hash(table))
    return catalyst.rebalanced(hashed, _HASH, _writers(source)).drop(_HASH)


def _in_partitions(rows: DataFrame) -> DataFrame:
    """Write each Spark partition as one bucket; combine partitions if there are too many."""
    return with_no_old_row(rows.coalesce(MAX_BUCKET_ID + 1)).withColumn(
        "_bucket", F.spark_partition_id()
    )


def fixed_partition(
    spark: SparkSession, program: InsertProgram, spec: InsertSpec
) -> tuple[PartitionName, ...] | None:
    """Return the partition of a fully static partition clause, or None if the rows decide.

    The partition's name is formatted from typed values: `01` for an int means partition 1. A value
    that does not fit its column's type is an error.
    """
    table = program.table
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    names = [c.name for c in table.partition_columns]
    if not names or set(fixed) != set(names):
        return None
    one_row = spark.range(1)
    values = program.constants(one_row, names)
    key = partition_key(table, [values[n] for n in names])
    try:
        with typed_failures():
            (row,) = one_row.select(key).collect()
    except PySparkException as error:
        raise ConfigurationError(
            f"INSERT into {table.ref}: partition {fixed} does not fit its columns' types:"
            f" {reason_of(error)}"
        ) from error
    return (table.partition_name(json.loads(row[0])),)


_RESULT_SCHEMA: Final = "position int, result string"
# The cost of opening one file, in bytes read.
_OPEN_BYTES: Final = 1 << 20
# For up to this many files, a stage of tasks would cost more than the work in the driver.
_FEW_FILES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileTask:
    """A file, its position among all files, and a function that returns a tuple for JSON."""

    position: int
    size_bytes: int
    function: Callable[[Any], tuple[Any, ...]]
    file: object


def plan_load(
    spark: SparkSession, table: TableInfo, spec: LoadSpec, client: MetastorePort
) -> LoadProgram:
    """Check the partition and every file of a LOAD DATA, and the number of files."""
    check_load(table, spec)
    return checked_load(
        client,
        table,
        spec.location,
        _partition(spark, table, spec.partition),
        each=partial(_checked_files, spark),
    )


def _checked_files(
    spark: SparkSession, check: Callable[[Found], Checked], files: Sequence[Found]
) -> Sequence[Checked]:
    sizes = [length for _, length in files]
    if _are_few(sizes):
        return checked_here(check, files)
    results: list[Any] = _in_tasks(spark, check, files, sizes)
    return results


def _partition(
    spark: SparkSession, table: TableInfo, given: Mapping[str, str | None]
) -> PartitionName:
    # To check the partition values by the rules of INSERT, prepare an INSERT without rows.
    insert = InsertSpec(target=str(table.ref), source=SourceSpec(values=()), partition=given)
    program = InsertProgram(
        table=table,
        expressions=resolve_insert(table, insert, ()),
        from_text=frozenset(name.lower() for name in given),
        moment=catalyst.Moment.now(spark),
    )
    partitions = fixed_partition(spark, program, insert)
    return UNPARTITIONED if partitions is None else partitions[0]


def copied_files(spark: SparkSession, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
    """Copy files to staging, each with its own bucket number and partition."""
    sizes = [copy.source.length for copy in copies]
    if _are_few(sizes):
        return copied_here(copies)
    results = _in_tasks(spark, copied, copies, sizes)
    return tuple(copy.staged(*result) for copy, result in zip(copies, results, strict=True))


def _are_few(sizes: Sequence[int]) -> bool:
    return len(sizes) <= _FEW_FILES and sum(sizes) + len(sizes) * _OPEN_BYTES <= TASK_BYTES


def _in_tasks(
    spark: SparkSession,
    function: Callable[[Any], tuple[Any, ...]],
    files: Sequence[object],
    sizes: Sequence[int],
) -> list[tuple[Any, ...]]:
    """Call a function for each file in tasks; return its results in the order of the files."""
    tasks = [
        _FileTask(position=position, size_bytes=size, function=function, file=file)
        for position, (file, size) in enumerate(zip(files, sizes, strict=True))
    ]
    with typed_failures():
        rows = run_tasks(
            spark, _called, tasks, _RESULT_SCHEMA, work=lambda task: task.size_bytes + _OPEN_BYTES
        ).collect()
    results = {row.position: tuple(json.loads(row.result)) for row in rows}
    return [results[task.position] for task in tasks]


def _called(task: _FileTask) -> Iterator[pa.RecordBatch]:
    """Call the function for one file; yield its position and the result."""
    row = {"position": task.position, "result": json.dumps(task.function(task.file))}
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(_RESULT_SCHEMA))
