"""Bucket files of a table, made from files that Spark's own ORC writer writes.

Rows that pass through Python cost twice as much to write. So Spark writes flat files into staging,
and `flat_copy` converts them without decoding a value.

The driver publishes only copies that tasks reported, of files that Spark has committed. So a task's
commit must be one step: `can_write_flat` excludes stores without renames (docs/decisions/s3.md).
The commit of a repeated task still needs two calls; a loss between them is detected, as the copies
must contain as many rows as Spark has counted (docs/decisions/writing.md).

File sizes do not depend on the number of tasks: small neighbours are combined, large files split.

The frame has plain columns `c0`, `c1` and so on: dates are day numbers, a char has its padding,
timestamps are wall-clock times. For a partitioned table, the partition and its hash follow. If
Spark or Java would store a different value, there is no frame, or its tasks fail with an
`UnsupportedFileError`, and `event_files` writes the rows instead.
"""

from __future__ import annotations

import itertools
import logging
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyarrow import fs as pafs
from pyspark.errors import IllegalArgumentException, NumberFormatException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import MAX_BUCKET_ID, BucketId, encode
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.spark.engine import (
    UnknownJavaCallError,
    call_of_any_release,
    jvm_of,
    unknown_calls,
)
from airflow_hiveacid.spark.engine.catalyst import dataset_of, rebalanced
from airflow_hiveacid.spark.engine.failures import (
    SPARK_ERRORS,
    beneath,
    carried,
    reason_of,
    typed_failures,
)
from airflow_hiveacid.spark.engine.session import runs_in_utc
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import spark_type
from airflow_hiveacid.storage.acid import type_tree
from airflow_hiveacid.storage.acid.write import flat_copy
from airflow_hiveacid.storage.acid.write.orc_file import stripe_row_limit
from airflow_hiveacid.storage.orc.encoders import DICTIONARY_THRESHOLD
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.hadoop_settings import given_settings, without_observers
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, open_location, scheme_of
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.event_files import WRITTEN_SCHEMA, WritePlan, Written

KEY: Final = "key"
"""The `_partition` value."""

GROUP: Final = "g"
"""A hash of the partition: a task writes the rows of each hash to a separate file."""

# Java's replacement character for invalid UTF-8.
_REPLACED: Final = "\ufffd"
# Before, Spark converts timestamps to the hybrid calendar, which lacks ten days.
_OLD: Final = "1582-10-15 00:00:00"
# In this range, ORC stores the wrong second: it corrects only negative ones.
_LOST_FROM, _LOST_TO = "1969-12-31 23:59:59.001", "1970-01-01 00:00:00"


def flat_rows(
    table: TableInfo, source: DataFrame, values: Mapping[str, Column], key: Column | None
) -> DataFrame | None:
    """Return new rows for Spark to write; None if Spark's files would differ from our files.

    `values` are the table's data columns over these rows, cast to their types; a missing column is
    NULL. `key` is the `_partition` value; None in a table without partitions.
    """
    spark = source.sparkSession
    if table.num_buckets or not flat_copy.can_be_flat(table.columns):
        return None
    stores_clocks = (
        runs_in_utc(spark) and spark.conf.get("spark.sql.session.timeZone") in flat_copy.UTC_ZONES
    )
    if flat_copy.has_times(table.columns) and not stores_clocks:
        return None
    types = {f"c{i}": hive.parse_type(column.type) for i, column in enumerate(table.columns)}
    chosen = [
        values.get(column.name, F.lit(None).cast(spark_type(type_))).alias(name)
        for column, (name, type_) in zip(table.columns, types.items(), strict=True)
    ]
    key_columns = [] if key is None else [key.alias(KEY)]
    # Use two steps: the first computes each value once, and the second checks and stores it.
    rows = source.select(*chosen, *key_columns).withColumns(
        {name: flat for name, type_ in types.items() if (flat := _flat(type_, name)) is not None}
    )
    if key is None:
        return rows
    return rebalanced(rows.withColumn(GROUP, F.xxhash64(KEY)), GROUP)


def _flat(hive_type: hive.HiveType, name: str) -> Column | None:
    """Return the column as Spark must store it, if that differs; tasks fail on other values."""
    match hive_type:
        case hive.PrimitiveType(name="date"):
            # Spark would convert old dates to the hybrid calendar, and change ten days.
            return F.unix_date(name)
        case hive.PrimitiveType(name=kind) if kind in ("timestamp", hive.TIMESTAMP_LOCAL):
            # In UTC, an instant is the wall-clock time; Spark stores TIMESTAMP_NTZ as a number.
            clock = F.col(name).cast("timestamp")
            moved, start, end = (F.lit(t).cast("timestamp") for t in (_OLD, _LOST_FROM, _LOST_TO))
            is_wrong = (clock < moved) | ((clock >= start) & (clock < end))
            return _unless(is_wrong, clock, "a timestamp")
        # `rlike` sees U+FFFD in text that is not UTF-8. Text of few bytes has few characters.
        case hive.CharType(length=length):
            text = F.rtrim(name)
            is_odd = (F.octet_length(text) != F.length(text)) & text.rlike(_REPLACED)
            padded = F.rpad(text, length, " ")
            return _unless((F.length(text) > length) | is_odd, padded, f"text for {hive_type}")
        case hive.VarcharType(length=length):
            is_odd = (F.length(name) > length) | F.col(name).rlike(_REPLACED)
            is_long = F.octet_length(name) > length
            return _unless(is_long & is_odd, F.col(name), f"text for {hive_type}")
        case _:
            return None


def _unless(is_wrong: Column, value: Column, what: str) -> Column:
    error = UnsupportedFileError(path="the new rows", reason=f"{what} requires our own writer")
    return F.when(is_wrong, F.raise_error(F.lit(carried(error)))).otherwise(value)


_COUNT: Final = "numOutputRows"

_log = logging.getLogger(__name__)


def write_orc(
    rows: DataFrame, directory: str, options: Mapping[str, str], by: Sequence[str]
) -> int | None:
    """Write rows with Spark and return their number, or None if Spark does not report it.

    `options` override the session's settings. Spark partitions the rows into directories by the
    columns `by`. Without a number, ignore any files in the directory, as after a failure.
    """
    spark = rows.sparkSession
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    java_options = jvm.java.util.HashMap()
    for name, value in {**options, "path": directory}.items():
        java_options.put(name, value)
    to_seq, not_given = jvm.PythonUtils.toSeq, jvm.scala.Option.apply(None)
    # Session, class, paths, schema, partition columns, buckets, options, table of the catalog.
    arguments = [
        spark._jsparkSession,  # noqa: SLF001 - there is no public way
        "orc",
        to_seq([]),
        not_given,
        to_seq(list(by)),
        not_given,
        jvm.PythonUtils.toScalaMap(java_options),
        not_given,
    ]
    try:
        source = call_of_any_release(sql.execution.datasources.DataSource, arguments, not_given)
        with unknown_calls():
            plan = rows._jdf.logicalPlan()  # noqa: SLF001 - as above
            written = dataset_of(spark, source.planForWriting(sql.SaveMode.ErrorIfExists, plan))
    except UnknownJavaCallError:
        _log.warning("this release of Spark does not say how many rows it writes; it writes none")
        return None
    try:
        with unknown_calls():
            return _counted(written.queryExecution().commandExecuted())
    except UnknownJavaCallError:
        return None


def _counted(plan: JavaObject) -> int | None:
    """Return the row count from the plan of an executed command, unwrapping the outer nodes."""
    while True:
        match str(plan.getClass().getSimpleName()):
            case "CommandResult":
                plan = plan.commandPhysicalPlan()
            case "AdaptiveSparkPlanExec":
                plan = plan.executedPlan()  # the final plan; this is the plan that was executed
            case "ResultQueryStageExec":  # Spark 4 only
                plan = plan.plan()
            case "DataWritingCommandExec":
                metric = plan.metrics().get(_COUNT)
                return int(metric.get().value()) if metric.isDefined() else None
            case _:
                return None


log = logging.getLogger("hiveacid")

_LEAST_BYTES: Final = 64 << 20
# A larger file is split, stripe by stripe, into parts of about this size, at most 512 MiB.
_PART_BYTES: Final = 256 << 20
# For up to this many copies, a stage of tasks would cost more than copying in the driver.
_FEW_COPIES: Final = 4
# One task copies about this many bytes, and at most this many files.
_TASK_BYTES: Final = 256 << 20
_TASK_COPIES: Final = 64
_PART: Final = re.compile(rf"(?:{GROUP}=(-?\d+)/)?part-[^/]+\.orc")
# The committer and the local file system create these files. These files contain no rows.
_NO_PART: Final = re.compile(r"_SUCCESS|_temporary/.*|(?:.*/)?\.[^/]+\.crc", re.DOTALL)
_NO_PARTITION: Final = "[]"
_SETTINGS: Final[Mapping[str, str]] = {
    "orc.bloom.filter.columns": "",
    "orc.block.padding": "false",
    "orc.column.encoding.direct": "",
    "orc.create.index": "true",
    "orc.encrypt": "",
    "orc.mask": "",
    "orc.write.format": "0.12",
    "maxRecordsPerFile": "0",
    # Algorithm 1 shows all files of a task at its commit, 2 moves one at a time.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.output.basename": "part",
    "mapreduce.outputcommitter.factory.class": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatFile:
    """A file that Spark has committed; `group` is None in a table without partitions."""

    uri: str
    group: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCopy:
    """The plan to copy flat files into one bucket file, as plain values."""

    bucket: BucketId
    sources: tuple[flat_copy.FlatPart, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """The copies that one task makes, as plain values."""

    plan: WritePlan
    copies: tuple[BucketCopy, ...]


def can_write_flat(plan: WritePlan) -> bool:
    """Return True if the store publishes a task's files in one step, as Spark's committer assumes.

    The committer renames a task's directory. S3A copies the listed files instead: some would be
    lost silently if the listing is out of date, and remain if the task is killed. The job also
    lists directories to find the files, so an HDFS observer, which may lag behind, does not do
    either.
    """
    if scheme_of(plan.table.location) in HADOOP_SCHEMES and without_observers(given_settings()):
        return False
    return _staging(plan).renames


def write_flat(plan: WritePlan, rows: DataFrame) -> list[Written]:
    """Write rows with Spark, and copy them into bucket files; or raise UnsupportedFileError."""
    directory = _staging(plan).flat_path(uuid.uuid4().hex)
    counted = _write(rows, directory, plan)
    if counted is None:
        raise _untrusted(directory, "Spark does not report how many rows it wrote")
    copies = bucket_copies(committed_files(directory))
    written = _copied(rows.sparkSession, copies, copy_tasks(plan, copies))
    if (copied := sum(file.rows for file in written)) != counted:
        raise _untrusted(directory, f"Spark wrote {counted} rows, but its files contain {copied}")
    return written


def _untrusted(directory: str, reason: str) -> UnsupportedFileError:
    log.warning("ignoring Spark's files and writing the rows again with our writer: %s", reason)
    return UnsupportedFileError(path=directory, reason=reason)


def _copied(
    spark: SparkSession, copies: Sequence[BucketCopy], tasks: Sequence[CopyTask]
) -> list[Written]:
    if len(copies) <= _FEW_COPIES and len(tasks) <= 1:
        return Written.all_of(batch for task in tasks for batch in copy_all(task))
    frame = run_tasks(spark, copy_all, tasks, WRITTEN_SCHEMA)
    with typed_failures():
        return [Written.of(row) for row in frame.collect()]


def _staging(plan: WritePlan) -> Staging:
    """Return Spark's staging area; it is always at the table's location, for all partitions."""
    return Staging(location=plan.table.location, token=plan.token)


def _write(rows: DataFrame, directory: str, plan: WritePlan) -> int | None:
    options = plan.options
    settings = {
        **_SETTINGS,
        "compression": options.compression,
        "orc.compress": options.kind.name,
        "orc.compress.size": str(options.compression_block_bytes),
        "orc.dictionary.key.threshold": str(DICTIONARY_THRESHOLD),
        "orc.row.index.stride": str(options.row_index_stride),
        "orc.stripe.row.count": str(stripe_row_limit(type_tree(plan.columns))),
        "orc.stripe.size": str(options.stripe_size_bytes),
    }
    try:
        with typed_failures():
            return write_orc(rows, directory, settings, [GROUP] if GROUP in rows.columns else [])
    except SPARK_ERRORS as error:
        reason = beneath(error)
        # Java's ORC writer raises it, as for a long string of invalid UTF-8; a cast, its subclass.
        is_odd = isinstance(reason, IllegalArgumentException)
        if is_odd and not isinstance(reason, NumberFormatException):
            raise UnsupportedFileError(path="the new rows", reason=reason_of(reason)) from error
        raise reason from error


def committed_files(directory: str) -> list[FlatFile]:
    """Return the files of tasks that Spark allowed to commit, in a fixed order."""
    fs, root = open_location(directory)
    with file_errors("list", directory):
        infos = fs.get_file_info(pafs.FileSelector(root, recursive=True))
    flat_files = []
    for info in infos:
        path = info.path[len(root) :].lstrip("/")
        if not info.is_file or _NO_PART.fullmatch(path):
            continue
        match = _PART.fullmatch(path)
        if match is None:
            raise UnsupportedFileError(path=info.path, reason="Spark gave it an unexpected name")
        group = None if match[1] is None else int(match[1])
        flat_files.append(FlatFile(uri=f"{directory}/{path}", group=group, size_bytes=info.size))
    return sorted(flat_files, key=lambda file: (file.group or 0, file.uri))


def bucket_copies(files: Sequence[FlatFile]) -> list[BucketCopy]:
    """Combine neighbouring flat files of one partition into bucket files that are large enough."""
    copies: list[BucketCopy] = []
    for _, group in itertools.groupby(files, key=lambda file: file.group):
        members = [part for file in group for part in _parts(file)]
        total = sum(part_bytes for _, part_bytes in members)
        # Large enough that there are not more files than bucket IDs.
        enough = max(_LEAST_BYTES, -(-total // MAX_BUCKET_ID))
        bucket, size, sources = 0, 0, []
        for number, (part, part_bytes) in enumerate(members, start=1):
            sources.append(part)
            size += part_bytes
            if size >= enough or number == len(members):
                copies.append(
                    BucketCopy(bucket=BucketId(bucket), sources=tuple(sources), size_bytes=size)
                )
                bucket, size, sources = bucket + 1, 0, []
    return copies


def _parts(file: FlatFile) -> list[tuple[flat_copy.FlatPart, int]]:
    """Return a file as one part, or a large file as several, each with its approximate size."""
    count = max(1, round(file.size_bytes / _PART_BYTES))
    size = -(-file.size_bytes // count)
    return [
        (
            flat_copy.FlatPart(
                uri=file.uri, start=i * size, stop=(i + 1) * size if i + 1 < count else None
            ),
            size,
        )
        for i in range(count)
    ]


def copy_tasks(plan: WritePlan, copies: Sequence[BucketCopy]) -> list[CopyTask]:
    """Divide the copies among tasks."""
    tasks: list[CopyTask] = []
    pending: list[BucketCopy] = []
    size = 0
    for copy in copies:
        if pending and (size + copy.size_bytes > _TASK_BYTES or len(pending) == _TASK_COPIES):
            tasks.append(CopyTask(plan=plan, copies=tuple(pending)))
            pending, size = [], 0
        pending.append(copy)
        size += copy.size_bytes
    return [*tasks, CopyTask(plan=plan, copies=tuple(pending))] if pending else tasks


def copy_all(task: CopyTask) -> Iterator[pa.RecordBatch]:
    """Make the bucket files of one task; yield one row of `WRITTEN_SCHEMA` for each file."""
    plan, directory = task.plan, str(task.plan.insert_directory)
    attempt = uuid.uuid4().hex
    is_plain = plan.table.kind is TransactionalKind.INSERT_ONLY

    def new_file(bucket: BucketId, key: str | None) -> str:
        staging = plan.staging(plan.partition(_NO_PARTITION if key is None else key))
        return staging.attempt_path(directory, data_file(bucket, plan.table.kind), attempt)

    for copy in task.copies:
        work = flat_copy.FlatCopy(
            columns=plan.columns,
            sources=copy.sources,
            identity=None
            if is_plain
            else flat_copy.FlatIdentity(
                write_id=plan.write_id, bucket_property=encode(copy.bucket, plan.statement_id)
            ),
            row_index_stride=plan.options.row_index_stride,
            has_key=plan.table.is_partitioned,
        )
        bucket_copy = flat_copy.copy_flat(work, partial(new_file, copy.bucket))
        if bucket_copy is not None:
            written = Written(
                partition=_NO_PARTITION if bucket_copy.key is None else bucket_copy.key,
                directory=directory,
                bucket=int(copy.bucket),
                attempt=attempt,
                rows=bucket_copy.rows,
                updated=0,
                size_bytes=bucket_copy.size_bytes,
            )
            yield written.batch()
