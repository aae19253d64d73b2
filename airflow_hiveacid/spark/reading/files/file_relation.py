"""A frame over given files with Spark's vectorised reader, with a number for each file.

`spark.read.orc(paths)` would request the status of every path again, would start a Spark job for
more than 32 paths, and each row would contain only its file's path. But the driver's own listing
has all files with their lengths. So Spark's `InMemoryFileIndex` gets them as its cache of listings.
Spark provides a file's modification time as metadata of each row, and does not use it otherwise. So
this time is set to the file's number.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import FileFormat, PartitionInfo, TableInfo
from airflow_hiveacid.reading.helper_columns import NUMBER, partition_at
from airflow_hiveacid.reading.request import KeyRange, ReadRequest
from airflow_hiveacid.spark.engine.java_names import jvm_of, unknown_calls
from airflow_hiveacid.spark.engine.session import runs_in_utc
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.plain.files import PlainFile

log = logging.getLogger("hiveacid")

_BLOCK_BYTES: Final = 128 << 20
# The cache is large enough; Spark would repeat a listing that does not fit into it.
_CACHE_BYTES: Final = 1 << 40
_NO_EXPIRY: Final = -1
# Spark treats frames with the same root as the same frame. So each frame has its own root, a
# directory that does not exist. If a frame is refreshed, Spark lists the root again. If Spark found
# no root, it would treat the root as empty, and all rows would be lost. But Hadoop's file system
# for this scheme cannot list directories, and sends no request. So a refresh fails, and the frame
# keeps its files.
_ROOT: Final = "http://hiveacid/"
# With this option Spark accepts files outside the root.
_OPTIONS: Final = {"recursiveFileLookup": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedFile:
    """A file: its URI as Hadoop writes it (without escapes), its length in bytes, its number."""

    uri: str
    length: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of a table that a reader reads, in some partitions.

    Rows outside `ranges` may be omitted.
    """

    spark: SparkSession
    table: TableInfo
    partitions: Sequence[PartitionInfo]
    ranges: Mapping[str, KeyRange]

    def request(self, wanted: Collection[str]) -> ReadRequest:
        """Return the request to read the wanted data columns, with the ranges."""
        return ReadRequest(
            table_columns=self.table.columns,
            columns=tuple(c for c in self.table.columns if c.name in wanted),
            ranges=self.ranges,
            in_utc=runs_in_utc(self.spark),
        )

    def numbered(self, file: AcidFile | PlainFile, number: int) -> NumberedFile:
        """Return a file for Spark's reader."""
        root = (file.root or self.partitions[partition_at(number)].location).rstrip("/")
        return NumberedFile(uri=f"{root}/{file.key}", length=file.length, number=number)

    def log_reasons(self, count: int, total: int, reasons: Mapping[str, str]) -> None:
        """Log in one line how many files Python reads; it reads several times more slowly.

        `reasons` maps each reason to an example.
        """
        if count:
            log.info(
                "read in Python: table=%s files=%d of %d, because %s",
                self.table.ref,
                count,
                total,
                "; ".join(f"{why} ({where or 'for one'})" for why, where in reasons.items()),
            )


@unknown_calls()
def rows_of_files(
    spark: SparkSession,
    files: Sequence[NumberedFile],
    schema: StructType,
    options: Mapping[str, object],
    format_: FileFormat = FileFormat.ORC,
) -> DataFrame:
    """Return a frame of all rows of some files, with the number of their file as `NUMBER`.

    There is at least one file; no file is opened before the frame is computed.

    Raises:
        UnknownJavaCallError: this release of Spark takes no files in this way.
    """
    jvm, session = jvm_of(spark), spark._jsparkSession  # noqa: SLF001 - there is no public way
    spark_sql = jvm.org.apache.spark.sql
    sources, types = spark_sql.execution.datasources, spark_sql.types.DataType
    root = jvm.org.apache.hadoop.fs.Path(f"{_ROOT}{uuid.uuid4().hex}")
    cache = sources.SharedInMemoryCache(_CACHE_BYTES, _NO_EXPIRY).createForNewClient()
    cache.putLeafFiles(root, _statuses(spark, files))
    settings = jvm.PythonUtils.toScalaMap(
        {**_OPTIONS, **{key: _text(value) for key, value in options.items()}}
    )
    none, columns = jvm.scala.Option.empty(), types.fromJson(schema.json())
    index = sources.InMemoryFileIndex(
        session,
        jvm.PythonUtils.toSeq([root]),
        settings,
        jvm.scala.Option.apply(columns),
        cache,
        jvm.scala.Option.apply(sources.PartitionSpec.emptySpec()),
        none,
    )
    if index.allFiles().size() != len(files):
        raise AssertionError(f"{len(files)} files became {index.allFiles().size()}")
    relation = sources.HadoopFsRelation(
        index,
        types.fromJson(StructType([]).json()),
        columns,
        none,
        _reader(sources, format_),
        settings,
        session,
    )
    rows = DataFrame(session.baseRelationToDataFrame(relation), spark)
    number = F.unix_millis(F.col("_metadata.file_modification_time"))
    return rows.select("*", number.alias(NUMBER))


def _reader(sources: JavaObject, format_: FileFormat) -> JavaObject:
    match format_:
        case FileFormat.ORC:
            return sources.orc.OrcFileFormat()
        case FileFormat.PARQUET:
            return sources.parquet.ParquetFileFormat()
        case _:
            raise UnsupportedFileError(
                path="a frame", reason=f"{format_.value} files are not read by Spark's reader"
            )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _statuses(spark: SparkSession, files: Sequence[NumberedFile]) -> JavaObject:
    """Return an array of Hadoop's FileStatus, made in one call, for up to 100,000 files."""
    jvm = jvm_of(spark)
    jackson = jvm.com.fasterxml.jackson
    fields, creators, all_accessors = (
        getattr(jackson.annotation.PropertyAccessor, name) for name in ("FIELD", "CREATOR", "ALL")
    )
    visibility = getattr(jackson.annotation, "JsonAutoDetect$Visibility")
    mapper = jackson.databind.ObjectMapper()
    mapper.setVisibility(all_accessors, visibility.NONE)
    mapper.setVisibility(fields, visibility.ANY)
    mapper.setVisibility(creators, visibility.ANY)
    # The keys are the field names of FileStatus.
    each = [
        {
            "path": file.uri,
            "length": file.length,
            "isdir": False,
            "block_replication": 1,
            "blocksize": _BLOCK_BYTES,
            "modification_time": file.number,
        }
        for file in files
    ]
    kind = jvm.org.apache.hadoop.fs.FileStatus
    none: JavaObject = spark.sparkContext._gateway.new_array(kind, 0)  # noqa: SLF001
    return mapper.readValue(json.dumps(each), none.getClass())
