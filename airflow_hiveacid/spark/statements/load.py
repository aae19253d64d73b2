"""LOAD DATA: existing files, copied unchanged into a directory of a table.

No row is read, because readers derive the row IDs of a loaded file from its path (Hive's
OrcRawRecordMerger). Files are numbered in the order of their names, as in Hive (`Hive.copyFiles`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID
from airflow_hiveacid.format.errors import SourceUnreadableError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    FileFormat,
    PartitionName,
    TableInfo,
    TransactionalKind,
)
from airflow_hiveacid.jobs.specs.statements import InsertSpec, LoadSpec, SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.columns import check_load
from airflow_hiveacid.plan.statements.dml import resolve_insert
from airflow_hiveacid.reading.pieces import TASK_BYTES, arrow_schema
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.statements.insert import InsertProgram, fixed_partition
from airflow_hiveacid.storage.plain.loadable import LoadableFile, copy_file, loadable_files
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.event_files import WritePlan
from airflow_hiveacid.writing.publish import StagedFile

_COPIED_SCHEMA: Final = "position int, attempt string"
# Loaded files contain plain rows, so they are named as in an insert-only table.
_PLAIN: Final = TransactionalKind.INSERT_ONLY
# The cost of opening one file, in bytes copied.
_OPEN_BYTES: Final = 1 << 20
# For up to this many files, a stage of tasks would cost more than copying in the driver.
_FEW_FILES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgram:
    """A checked LOAD DATA: the files, ordered by name, and their target partition."""

    table: TableInfo
    files: tuple[LoadableFile, ...]
    partition: PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToCopy:
    """A plan to copy one file in a task, as plain values; `at` is its index among all copies."""

    number: BucketId
    source: LoadableFile
    partition: PartitionName
    staging: Staging
    directory: str
    format: FileFormat
    at: int = 0


def plan_load(
    spark: SparkSession, table: TableInfo, spec: LoadSpec, client: MetastorePort
) -> LoadProgram:
    """Check the partition and every file of a LOAD DATA, and the number of files."""
    check_load(table, spec)
    partition = _partition(spark, table, spec.partition)
    existing = client.get_partitions(table, [partition]) if table.is_partitioned else ()
    files = loadable_files(table, spec.location, client.generation, next(iter(existing), None))
    if len(files) > MAX_BUCKET_ID + 1:
        raise SourceUnreadableError(
            source=spec.location,
            reason=f"it contains {len(files)} files, but a table's directory may contain at most"
            f" {MAX_BUCKET_ID + 1}; load them in several statements",
        )
    return LoadProgram(table=table, files=files, partition=partition)


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


def load_files(
    spark: SparkSession, program: LoadProgram, plan: WritePlan
) -> tuple[StagedFile, ...]:
    """Copy the files of a LOAD DATA to staging."""
    staging = plan.staging(program.partition)
    return copied_files(
        spark,
        [
            FileToCopy(
                number=BucketId(number),
                source=file,
                partition=program.partition,
                staging=staging,
                directory=str(plan.insert_directory),
                format=program.table.storage.format,
            )
            for number, file in enumerate(program.files)
        ],
    )


def copied_files(spark: SparkSession, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
    """Copy files to staging, each with its own bucket number and partition."""
    attempts = _copied(spark, [replace(copy, at=index) for index, copy in enumerate(copies)])
    return tuple(
        StagedFile(
            partition=copy.partition,
            directory=copy.directory,
            bucket=copy.number,
            attempt=attempts[index],
            rows=copy.source.rows,
            size_bytes=copy.source.length,
            kind=_PLAIN,
        )
        for index, copy in enumerate(copies)
    )


def _copied(spark: SparkSession, copies: Sequence[FileToCopy]) -> dict[int, str]:
    if len(copies) <= _FEW_FILES and sum(map(_work, copies)) <= TASK_BYTES:
        rows = [row for copy in copies for batch in copy_task(copy) for row in batch.to_pylist()]
        return {row["position"]: row["attempt"] for row in rows}
    with typed_failures():
        reports = run_tasks(spark, copy_task, copies, _COPIED_SCHEMA, work=_work).collect()
    return {row.position: row.attempt for row in reports}


def _work(copy: FileToCopy) -> int:
    return copy.source.length + _OPEN_BYTES


def copy_task(copy: FileToCopy) -> Iterator[pa.RecordBatch]:
    """Copy one file to a path unique to this attempt; yield the file's index and attempt."""
    attempt = uuid.uuid4().hex
    name = data_file(copy.number, _PLAIN)
    uri = copy.staging.attempt_path(copy.directory, name, attempt)
    copy_file(copy.source, uri, copy.format)
    row = {"position": copy.at, "attempt": attempt}
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(_COPIED_SCHEMA))
