"""LOAD DATA with Spark: many or large files are copied in tasks (`writing.loading`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_hiveacid.format.table import UNPARTITIONED, PartitionName, TableInfo
from airflow_hiveacid.jobs.specs.statements import InsertSpec, LoadSpec, SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.columns import check_load
from airflow_hiveacid.plan.statements.dml import resolve_insert
from airflow_hiveacid.reading.pieces import TASK_BYTES, arrow_schema
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.statements.insert import InsertProgram, fixed_partition
from airflow_hiveacid.writing.loading import (
    FileToCopy,
    LoadProgram,
    checked_load,
    copied,
    copied_here,
)
from airflow_hiveacid.writing.publish import StagedFile

_COPIED_SCHEMA: Final = "position int, attempt string"
# The cost of opening one file, in bytes copied.
_OPEN_BYTES: Final = 1 << 20
# For up to this many files, a stage of tasks would cost more than copying in the driver.
_FEW_FILES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopyTask:
    """A file to copy, and its position among all copies."""

    position: int
    copy: FileToCopy


def plan_load(
    spark: SparkSession, table: TableInfo, spec: LoadSpec, client: MetastorePort
) -> LoadProgram:
    """Check the partition and every file of a LOAD DATA, and the number of files."""
    check_load(table, spec)
    return checked_load(client, table, spec.location, _partition(spark, table, spec.partition))


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
    if len(copies) <= _FEW_FILES and sum(map(_work, copies)) <= TASK_BYTES:
        return copied_here(copies)
    tasks = [_CopyTask(position=position, copy=copy) for position, copy in enumerate(copies)]
    with typed_failures():
        rows = run_tasks(
            spark, _copied, tasks, _COPIED_SCHEMA, work=lambda task: _work(task.copy)
        ).collect()
    attempts = {row.position: row.attempt for row in rows}
    return tuple(task.copy.staged(attempts[task.position]) for task in tasks)


def _work(copy: FileToCopy) -> int:
    return copy.source.length + _OPEN_BYTES


def _copied(task: _CopyTask) -> Iterator[pa.RecordBatch]:
    """Copy one file; yield its position and the attempt."""
    row = {"position": task.position, "attempt": copied(task.copy)}
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(_COPIED_SCHEMA))
