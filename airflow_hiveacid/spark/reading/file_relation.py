"""Chosen files as one frame, read by Spark's own vectorised reader, each with a number of ours.

`spark.read.orc(paths)` asks the store of every path again, in a Spark job beyond 32 of them, and
says of a row only its file's path, as text. The driver knows all files with their lengths from its
own listing. So they are handed over as they are: `InMemoryFileIndex` believes a cache of listings,
and this cache is ours. Spark carries along when a file was changed, and does nothing with it; a
number takes that place, so that it stands beside each row as one constant of its file.

Takes and gives plain values and frames; all JVM names are Spark's or Hadoop's own.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.spark.reading.file_numbers import NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py4j.java_gateway import JavaObject

_BLOCK_BYTES: Final = 128 << 20
_CACHE_BYTES: Final = 1 << 40  # never too small: what does not fit would be listed
_NO_EXPIRY: Final = -1
# Two frames are the same one to Spark if their roots are, so each has a root of its own; there is
# nothing. When Spark is told to refresh a frame it lists the root anew, and takes one that is not
# there for an empty one: all rows would be gone. Hadoop's file system for this scheme can list
# nothing (and asks nobody), so that a refresh fails and the files stay those that were given.
_ROOT: Final = "http://hiveacid/"
# Our files are taken as they are, wherever they lie.
_OPTIONS: Final = {"recursiveFileLookup": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedFile:
    """One file: its URI as Hadoop writes it (nothing escaped), its length in bytes, its number."""

    uri: str
    length: int
    number: int


def rows_of_files(
    spark: SparkSession,
    files: Sequence[NumberedFile],
    schema: StructType,
    options: Mapping[str, object],
    format_: FileFormat = FileFormat.ORC,
) -> DataFrame:
    """A frame of all rows of some files, with the number of their file as `NUMBER`.

    Args:
        spark: the session.
        files: at least one; none is opened before the frame is computed.
        schema: what to read of them.
        options: of Spark's source of such files.
        format_: of all files.
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
    nothing, columns = jvm.scala.Option.empty(), types.fromJson(schema.json())
    index = sources.InMemoryFileIndex(
        session,
        jvm.PythonUtils.toSeq([root]),
        settings,
        jvm.scala.Option.apply(columns),
        cache,
        jvm.scala.Option.apply(sources.PartitionSpec.emptySpec()),
        nothing,
    )
    if index.allFiles().size() != len(files):
        raise AssertionError(f"{len(files)} files became {index.allFiles().size()}")
    relation = sources.HadoopFsRelation(
        index,
        types.fromJson(StructType([]).json()),
        columns,
        nothing,
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
                path="a frame", reason=f"Spark is not asked to read {format_.value} files"
            )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _statuses(spark: SparkSession, files: Sequence[NumberedFile]) -> JavaObject:
    """An array of Hadoop's FileStatus, made in one call: there may be a hundred thousand."""
    jvm = jvm_of(spark)
    jackson = jvm.com.fasterxml.jackson
    fields, creators, nothing = (
        getattr(jackson.annotation.PropertyAccessor, name) for name in ("FIELD", "CREATOR", "ALL")
    )
    visibility = getattr(jackson.annotation, "JsonAutoDetect$Visibility")
    mapper = jackson.databind.ObjectMapper()
    mapper.setVisibility(nothing, visibility.NONE)
    mapper.setVisibility(fields, visibility.ANY)
    mapper.setVisibility(creators, visibility.ANY)
    # Names of FileStatus's own fields.
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
