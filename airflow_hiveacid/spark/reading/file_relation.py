"""A frame over given files with Spark's vectorised reader, with a number for each file.

`spark.read.orc(paths)` would request the status of every path again, and each row would contain
only its file's path. So Spark's `InMemoryFileIndex` gets the driver's own listing as its cache,
with the file's number (`reading`) as its modification time, which Spark provides for each
row.

Java's ORC gets a filter to read only row groups that may contain wanted rows. Spark's would have a
column `row.x`, which ORC does not find, so we build it with the table's names, and pass it in
Spark's options. It uses integers and dates, which always have statistics that all engines compare
alike: writers omit long strings, which ORC then mistakes for NULLs, and beyond U+FFFF Java orders
them otherwise.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, StringType, StructType

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BUCKET_SHIFT, MAX_BUCKET_ID, VERSION_SHIFT, BucketCodec
from airflow_hiveacid.format.table import Column, FileFormat, PartitionInfo, TableInfo
from airflow_hiveacid.reading import FILE_BITS, NUMBER, KeyRange, ReadRequest, partition_at
from airflow_hiveacid.spark import engine
from airflow_hiveacid.spark.engine.session import runs_in_utc
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.values.timestamps import SWITCHOVER

log = logging.getLogger("hiveacid")

_BLOCK_BYTES: Final = 128 << 20
# The cache is large enough; Spark would repeat a listing that does not fit into it.
_CACHE_BYTES: Final = 1 << 40
_NO_EXPIRY: Final = -1
# Spark takes frames with one root for one frame, so each has its own root, a directory that does
# not exist. If a frame is refreshed, Spark lists the root again; it would take a missing root for
# an empty one, and lose all rows. But Hadoop's file system for this scheme cannot list, and sends
# no request: a refresh fails, and the frame keeps its files.
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
    """The files of a table that a reader reads, in some partitions; maybe not outside `ranges`."""

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
        """Log how many files Python reads, more slowly, with an example of each reason."""
        if count:
            log.info(
                "read in Python: table=%s files=%d of %d, because %s",
                self.table.ref,
                count,
                total,
                "; ".join(f"{why} ({where or 'for one'})" for why, where in reasons.items()),
            )


def rows_of_files(
    spark: SparkSession,
    files: Sequence[NumberedFile],
    schema: StructType,
    options: Mapping[str, object],
    format_: FileFormat = FileFormat.ORC,
) -> DataFrame:
    """Return a frame of all rows of some files, with the number of their file as `NUMBER`.

    There is at least one file; no file is opened before the frame is computed.
    """
    jvm, session = engine.jvm_of(spark), spark._jsparkSession  # noqa: SLF001 - there is no public way
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
    """Return Hadoop's statuses of files, made from JSON in a few calls of Java for all files."""
    jvm = engine.jvm_of(spark)
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


def partition_of(number: SparkColumn) -> SparkColumn:
    """Return the partition positions from a column of file numbers."""
    return F.shiftright(number, FILE_BITS).cast("int")


def file_of(number: SparkColumn) -> SparkColumn:
    """Return the positions of the files from a column of file numbers."""
    return number.bitwiseAND(F.lit((1 << FILE_BITS) - 1)).cast("int")


def bucket_of(bucket_property: SparkColumn) -> SparkColumn:
    """Return the bucket in a row's bucket property, as `format.ids.decode` does."""
    version = F.shiftright(bucket_property, VERSION_SHIFT)
    bucket = F.shiftright(bucket_property, BUCKET_SHIFT).bitwiseAND(F.lit(MAX_BUCKET_ID))
    return F.when(version == F.lit(int(BucketCodec.V1)), bucket).otherwise(bucket_property)


def looked_up(
    values: Sequence[str | None], data_type: DataType, position: SparkColumn
) -> SparkColumn:
    """Look up each row's string by 0-based position in a list from the driver, and cast it.

    The list becomes one literal, so the query needs no join. Spark evaluates a filter on these
    values for each file before it opens the file.
    """
    if len(set(values)) == 1:
        return F.lit(values[0]).cast(data_type)
    texts = F.from_json(F.lit(json.dumps(values)), "array<string>")
    array = texts
    if not isinstance(data_type, StringType):
        array = texts.cast(f"array<{data_type.simpleString()}>")
    return array[position]


_PUSHED_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILTER: Final = "orc.kryo.sarg"
_COLUMNS: Final = "orc.sarg.column.names"


def search_argument(
    spark: SparkSession, columns: Sequence[Column], ranges: Mapping[str, KeyRange]
) -> dict[str, object]:
    """Return the options that pass the ranges to ORC; empty if ORC can use no range."""
    try:
        return _search_argument(spark, columns, ranges)
    except engine.UnknownJavaCallError:
        return {}  # without a filter, ORC reads all rows


@engine.unknown_calls()
def _search_argument(
    spark: SparkSession, columns: Sequence[Column], ranges: Mapping[str, KeyRange]
) -> dict[str, object]:
    usable = [c for c in columns if c.type in _PUSHED_TYPES and _PLAIN_NAME.fullmatch(c.name)]
    jvm = engine.jvm_of(spark)
    spark_sql = jvm.org.apache.spark.sql
    filters = [
        getattr(spark_sql.sources, name)(column.name, value)
        for column in usable
        if column.name in ranges
        for name, value in _comparisons(spark, ranges[column.name])
    ]
    if not filters:
        return {}
    schema = spark_sql.types.DataType.fromJson(struct_of(usable).json())
    orc = spark_sql.execution.datasources.orc.OrcFilters
    arguments = [schema, jvm.PythonUtils.toSeq(filters)]
    none = jvm.scala.Option.apply(None)
    argument = engine.call_of_any_release(orc.createFilter, arguments, none)
    if argument.isEmpty():
        return {}
    is_loaded = False
    settings = jvm.org.apache.hadoop.conf.Configuration(is_loaded)
    jvm.org.apache.orc.mapred.OrcInputFormat.setSearchArgument(
        settings, argument.get(), schema.fieldNames()
    )
    return {key: settings.get(key) for key in (_FILTER, _COLUMNS)}


def _comparisons(
    spark: SparkSession, key_range: KeyRange
) -> Iterator[tuple[str, JavaObject | object]]:
    """Yield the comparisons that ORC evaluates correctly: the name in Spark, and a value."""
    for name, end in (("GreaterThanOrEqual", key_range.low), ("LessThanOrEqual", key_range.high)):
        match end:
            case dt.date():
                # Java lacks the days that the calendar switch skipped; these files have none.
                if end < SWITCHOVER:
                    continue
                yield name, engine.jvm_of(spark).java.sql.Date.valueOf(end.isoformat())
            case int():
                yield name, end
            case _:
                pass
