"""Files that Spark's own ORC writer writes, and how files of a table are made of them.

Rows that pass through Python on their way to a file cost twice what Spark takes to write them. So
Spark writes them flat, into staging, and `flat_copy` makes bucket files of what it wrote; no value
is touched. `write_flat` has both done and says the same of each file as `writers.write_events`.

Only what Spark has committed is copied, and only what came back from the copying is published;
everything else stays in staging and goes with it. So Spark's commit has to be one step for each
task: where a store renames nothing, no rows are written so (docs/adr/0047). Elsewhere it is two
calls for a task that is done a second time, and what is lost between them is seen by its rows:
those of the copies have to be as many as Spark has counted (docs/adr/0050). Files follow bytes:
neighbours become one file until they are large enough, and one that is too large becomes several,
however many tasks wrote.
"""

from __future__ import annotations

import itertools
import logging
import re
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyarrow import fs as pafs
from pyspark.errors import IllegalArgumentException, NumberFormatException

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID, encode
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.spark.failures import SPARK_ERRORS, beneath, reason_of, typed_failures
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.writing.counted_write import write_orc
from airflow_hiveacid.spark.writing.flat_rows import GROUP
from airflow_hiveacid.spark.writing.writers import WRITTEN_SCHEMA, Written
from airflow_hiveacid.storage.acid.row_schema import type_tree
from airflow_hiveacid.storage.acid.write.flat_copy import (
    FlatCopy,
    FlatIdentity,
    FlatPart,
    copy_flat,
)
from airflow_hiveacid.storage.acid.write.orc_file import stripe_row_limit
from airflow_hiveacid.storage.orc.encoders import DICTIONARY_THRESHOLD
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.given_settings import given_settings, without_observers
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, open_location, scheme_of
from airflow_hiveacid.storage.stores.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.spark.writing.writers import WritePlan

log = logging.getLogger("hiveacid")

_LEAST_BYTES: Final = 64 << 20
# A larger file is cut into parts of about this size, stripe by stripe. With the last stripe and
# small neighbours none is larger than 512 MiB.
_PART_BYTES: Final = 256 << 20
# Up to here a stage of tasks would cost more than the copying.
_FEW_COPIES: Final = 4
# What one task copies: about as many bytes, and no more files than that.
_TASK_BYTES: Final = 256 << 20
_TASK_COPIES: Final = 64
_PART: Final = re.compile(rf"(?:{GROUP}=(-?\d+)/)?part-[^/]+\.orc")
# What the committer and the local file system leave beside them.
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
    # A task's files appear when its commit is allowed, all or none; the other algorithm moves them
    # one by one.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.output.basename": "part",
    "mapreduce.outputcommitter.factory.class": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatFile:
    """One file that Spark has committed; `group` is None in a table without partitions."""

    uri: str
    group: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCopy:
    """One bucket file that is made of flat files; plain values."""

    bucket: BucketId
    sources: tuple[FlatPart, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """What one task copies; plain values."""

    plan: WritePlan
    copies: tuple[BucketCopy, ...]


def can_write_flat(plan: WritePlan) -> bool:
    """Whether a task's files get their place in one step, as Spark's committer takes for granted.

    It renames a task's directory, which S3A does by listing it and copying what the list has: what
    a late list lacks would be lost without a word, and a task that dies meanwhile leaves a part.
    And the job collects what a list has: so not where Spark's client may ask an observer of HDFS,
    which need not know yet what tasks have just committed.
    """
    if scheme_of(plan.table.location) in HADOOP_SCHEMES and without_observers(given_settings()):
        return False
    return _staging(plan).renames


def write_flat(plan: WritePlan, rows: DataFrame) -> list[Written]:
    """Have rows written and copied; what there is of each bucket file.

    Raises:
        UnsupportedFileError: they have to be written in another way, or some of them were lost.
        PySparkException: the rows could not be made.
        StorageError: reading or writing failed.
    """
    place = _staging(plan).flat_path(uuid.uuid4().hex)
    counted = _write(rows, place, plan)
    if counted is None:
        raise _untrusted(place, "Spark does not say how many rows it has written")
    copies = bucket_copies(committed_files(place))
    written = _copied(rows.sparkSession, copies, copy_tasks(plan, copies))
    if (found := sum(file.rows for file in written)) != counted:
        raise _untrusted(place, f"of {counted} rows that Spark has written its files hold {found}")
    return written


def _untrusted(place: str, reason: str) -> UnsupportedFileError:
    log.warning("Spark's files are left, and the rows written once more, by us: %s", reason)
    return UnsupportedFileError(path=place, reason=reason)


def _copied(
    spark: SparkSession, copies: Sequence[BucketCopy], tasks: Sequence[CopyTask]
) -> list[Written]:
    if len(copies) <= _FEW_COPIES and len(tasks) <= 1:
        return Written.all_of(batch for task in tasks for batch in copy_all(task))
    found = run_tasks(spark, copy_all, tasks, WRITTEN_SCHEMA)
    with typed_failures():
        return [Written.of(row) for row in found.collect()]


def _staging(plan: WritePlan) -> Staging:
    """Where Spark writes: at the table's location, wherever its partitions are."""
    return Staging(location=plan.table.location, token=plan.token)


def _write(rows: DataFrame, place: str, plan: WritePlan) -> int | None:
    """Have Spark write; how many rows it has counted."""
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
            return write_orc(rows, place, settings, [GROUP] if GROUP in rows.columns else [])
    except SPARK_ERRORS as error:
        reason = beneath(error)
        # Java's writer of ORC on what it has not expected, such as a long text that is no text.
        is_odd = isinstance(reason, IllegalArgumentException)
        if is_odd and not isinstance(reason, NumberFormatException):
            raise UnsupportedFileError(path="what is inserted", reason=reason_of(reason)) from error
        raise reason from error


def committed_files(place: str) -> list[FlatFile]:
    """The files of the tasks whose commit Spark allowed, in a fixed order.

    Raises:
        UnsupportedFileError: there are others, which may hold rows as well.
    """
    fs, root = open_location(place)
    with file_errors("list", place):
        infos = fs.get_file_info(pafs.FileSelector(root, recursive=True))
    found = []
    for info in infos:
        path = info.path[len(root) :].lstrip("/")
        if not info.is_file or _NO_PART.fullmatch(path):
            continue
        match = _PART.fullmatch(path)
        if match is None:
            raise UnsupportedFileError(path=info.path, reason="Spark gave it an unexpected name")
        group = None if match[1] is None else int(match[1])
        found.append(FlatFile(uri=f"{place}/{path}", group=group, size_bytes=info.size))
    return sorted(found, key=lambda file: (file.group or 0, file.uri))


def bucket_copies(files: Sequence[FlatFile]) -> list[BucketCopy]:
    """Which flat files become one bucket file: neighbours of one partition, until it is large."""
    copies: list[BucketCopy] = []
    for _, group in itertools.groupby(files, key=lambda file: file.group):
        members = [part for file in group for part in _parts(file)]
        total = sum(part_bytes for _, part_bytes in members)
        least = max(_LEAST_BYTES, -(-total // MAX_BUCKET_ID))
        bucket, size, sources = 0, 0, []
        for at, (part, part_bytes) in enumerate(members, start=1):
            sources.append(part)
            size += part_bytes
            if size >= least or at == len(members):
                copies.append(
                    BucketCopy(bucket=BucketId(bucket), sources=tuple(sources), size_bytes=size)
                )
                bucket, size, sources = bucket + 1, 0, []
    return copies


def _parts(file: FlatFile) -> list[tuple[FlatPart, int]]:
    """The file, or parts of it if it is large; with about how many bytes each has."""
    count = max(1, round(file.size_bytes / _PART_BYTES))
    size = -(-file.size_bytes // count)
    return [
        (
            FlatPart(uri=file.uri, start=i * size, stop=(i + 1) * size if i + 1 < count else None),
            size,
        )
        for i in range(count)
    ]


def copy_tasks(plan: WritePlan, copies: Sequence[BucketCopy]) -> list[CopyTask]:
    """The copies, some to a task."""
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
    """Make the bucket files of one task; yields one row of `WRITTEN_SCHEMA` for each."""
    plan, directory = task.plan, str(task.plan.insert_directory)
    attempt = uuid.uuid4().hex
    is_plain = plan.table.kind is TransactionalKind.INSERT_ONLY

    def place(bucket: BucketId, key: str | None) -> str:
        staging = plan.staging(plan.partition(_NO_PARTITION if key is None else key))
        return staging.attempt_path(directory, data_file(bucket, plan.table.kind), attempt)

    for copy in task.copies:
        work = FlatCopy(
            columns=plan.columns,
            sources=copy.sources,
            identity=None
            if is_plain
            else FlatIdentity(
                write_id=plan.write_id, bucket_property=encode(copy.bucket, plan.statement_id)
            ),
            row_index_stride=plan.options.row_index_stride,
            has_key=plan.table.is_partitioned,
        )
        made = copy_flat(work, partial(place, copy.bucket))
        if made is not None:
            written = Written(
                partition=_NO_PARTITION if made.key is None else made.key,
                directory=directory,
                bucket=int(copy.bucket),
                attempt=attempt,
                rows=made.rows,
                updated=0,
                size_bytes=made.size_bytes,
            )
            yield written.batch()
