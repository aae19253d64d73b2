"""LOAD DATA: files that are there already, copied into a directory of a table as they are.

Takes a location; gives staged files. No row is read: readers give the rows of such a file the
identity that follows from its place (OrcRawRecordMerger of Hive). Files are numbered by their
names, as Hive does (`Hive.copyFiles`), so that each is a bucket of its own.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID
from airflow_hiveacid.format.errors import ConfigurationError, SourceUnreadableError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import UNPARTITIONED, FileFormat, TransactionalKind
from airflow_hiveacid.jobs.specs import InsertSpec, SourceSpec
from airflow_hiveacid.plan.statements import resolve_insert
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.pieces import TASK_BYTES
from airflow_hiveacid.spark.statements.insert import InsertProgram, fixed_partition
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.writing.publish import StagedFile
from airflow_hiveacid.storage.plain.file_copy import copy_file
from airflow_hiveacid.storage.plain.loadable import LoadableFile, loadable_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.conflicts import MetastoreGeneration
    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.jobs.loading import LoadSpec
    from airflow_hiveacid.spark.writing.writers import WritePlan
    from airflow_hiveacid.storage.stores.staging import Staging

_COPIED_SCHEMA: Final = "number int, attempt string"
_COPIED_ARROW: Final = pa.schema([("number", pa.int32()), ("attempt", pa.string())])
# Rows as they are, whatever the table's kind: that decides a file's name, and what lies beside it.
_PLAIN: Final = TransactionalKind.INSERT_ONLY
# What opening one file is worth in bytes copied.
_OPEN_BYTES: Final = 1 << 20
# Up to here a stage of tasks would cost more than the copying.
_FEW_FILES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgram:
    """A checked LOAD DATA: its files, by name, and the one partition that they go to."""

    table: TableInfo
    files: tuple[LoadableFile, ...]
    partition: PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToCopy:
    """One file for a task; plain values."""

    number: BucketId
    source: LoadableFile
    staging: Staging
    directory: str
    format: FileFormat


def plan_load(
    spark: SparkSession, table: TableInfo, spec: LoadSpec, generation: MetastoreGeneration
) -> LoadProgram:
    """Check a LOAD DATA: the partition, and every file.

    Raises:
        ConfigurationError: the table is bucketed; or the partition is not exactly one of it.
        UnknownColumnError: a column is named that is no partition column.
        SourceUnreadableError: a file cannot be a file of the table, or there are too many.
        StorageError: see `loadable_files`.
    """
    if table.num_buckets:
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: it is CLUSTERED BY, and a row has to lie in the file of"
            " its bucket. INSERT from the files: HiveAcidInsertOperator, with them as its source"
        )
    partition = _partition(spark, table, spec.partition)
    files = loadable_files(table, spec.location, generation)
    if len(files) > MAX_BUCKET_ID + 1:
        raise SourceUnreadableError(
            source=spec.location,
            reason=f"it holds {len(files)} files, and a directory of a table may have"
            f" {MAX_BUCKET_ID + 1}; load them in parts",
        )
    return LoadProgram(table=table, files=files, partition=partition)


def _partition(
    spark: SparkSession, table: TableInfo, given: Mapping[str, str | None]
) -> PartitionName:
    # The columns without their rows: an INSERT's rules for the values of partitions.
    nothing = InsertSpec(target=str(table.ref), source=SourceSpec(values=()), partition=given)
    program = InsertProgram(
        table=table,
        expressions=resolve_insert(table, nothing, ()),
        from_text=frozenset(name.lower() for name in given),
        moment=Moment.now(spark),
    )
    found = fixed_partition(spark, program, nothing)
    if found is None and table.is_partitioned:
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: every partition column needs its value, which are"
            f" {', '.join(c.name for c in table.partition_columns)}; files whose rows say their"
            " partitions are a source of an INSERT"
        )
    return UNPARTITIONED if found is None else found[0]


def load_files(
    spark: SparkSession, program: LoadProgram, plan: WritePlan
) -> tuple[StagedFile, ...]:
    """Copy the files to staging.

    Raises:
        SourceUnreadableError: one was changed since it was checked.
        StorageError: reading or writing failed.
    """
    directory = str(plan.insert_directory)
    copies = [
        FileToCopy(
            number=BucketId(number),
            source=file,
            staging=plan.staging(program.partition),
            directory=directory,
            format=program.table.storage.format,
        )
        for number, file in enumerate(program.files)
    ]
    attempts = _copied(spark, copies)
    return tuple(
        StagedFile(
            partition=program.partition,
            directory=directory,
            bucket=copy.number,
            attempt=attempts[copy.number],
            rows=copy.source.rows,
            updated=0,
            size_bytes=copy.source.length,
            kind=_PLAIN,
        )
        for copy in copies
    )


def _copied(spark: SparkSession, copies: Sequence[FileToCopy]) -> dict[int, str]:
    """Have files copied; the attempt that counts, by the file's number."""
    if len(copies) <= _FEW_FILES and sum(map(_work, copies)) <= TASK_BYTES:
        rows = [row for copy in copies for batch in copy_task(copy) for row in batch.to_pylist()]
        return {row["number"]: row["attempt"] for row in rows}
    with typed_failures():
        found = run_tasks(spark, copy_task, copies, _COPIED_SCHEMA, work=_work).collect()
    return {row.number: row.attempt for row in found}


def _work(copy: FileToCopy) -> int:
    return copy.source.length + _OPEN_BYTES


def copy_task(copy: FileToCopy) -> Iterator[pa.RecordBatch]:
    """Copy one file to a place of this attempt's own; yields its number and the attempt."""
    attempt = uuid.uuid4().hex
    name = data_file(copy.number, _PLAIN)
    place = copy.staging.attempt_path(copy.directory, name, attempt)
    copy_file(copy.source, place, copy.format)
    row = {"number": int(copy.number), "attempt": attempt}
    yield pa.RecordBatch.from_pylist([row], schema=_COPIED_ARROW)
