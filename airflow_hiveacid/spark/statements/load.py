"""LOAD DATA with Spark: many or large files are read and copied in tasks (`writing.loading`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_hiveacid.format.table import UNPARTITIONED, PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import InsertSpec, LoadSpec, SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.columns import check_load
from airflow_hiveacid.plan.statements.dml import resolve_insert
from airflow_hiveacid.reading.pieces import TASK_BYTES, arrow_schema
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.statements.insert import InsertProgram, fixed_partition
from airflow_hiveacid.storage.plain.loadable import Checked, Found, checked_here
from airflow_hiveacid.writing.loading import (
    FileToCopy,
    LoadProgram,
    checked_load,
    copied,
    copied_here,
)
from airflow_hiveacid.writing.publish import StagedFile

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
        moment=Moment.now(spark),
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
