"""A frame of the live rows in a table's data files, read by Spark's readers or by our readers.

Our readers (`arrow_scan`) read the files for which Spark's result is not correct (`orc_fit`);
one log line gives the reasons. All files of an insert-only or flat table that Spark
reads with equal options form one frame (docs/decisions/reading.md), with a file number for a row
ID.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import CharType, PrimitiveType, VarcharType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import NUMBER, ReadRequest, file_number
from airflow_hiveacid.reading.arrow_scan import (
    PlainPiece,
    ScanPiece,
    TargetFile,
    deletes_of,
    read_together,
    scan_piece,
    scan_plain,
    work_of_scan,
)
from airflow_hiveacid.reading.orc_fit import (
    Doubts,
    PlainVerdict,
    SparkManner,
    delete_files,
    judged,
    judged_plain,
    require_own_bucket,
)
from airflow_hiveacid.spark.engine import UnknownJavaCallError, unknown_calls
from airflow_hiveacid.spark.engine.catalyst import opaque
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import spark_type, struct_of
from airflow_hiveacid.spark.reading import file_relation, orc_frame
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.values.column_types import holds


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles(file_relation.TableFiles):
    """The data files of a full-ACID table that a reader reads; `partition` is a position."""

    files: Sequence[TargetFile]
    doubts: Sequence[Doubts]
    write_ids: ValidWriteIdList

    def rows(
        self, wanted: Collection[str], position: str, *, for_changes: bool = False
    ) -> DataFrame:
        """Return the live rows: `position`, the wanted data columns, and the columns with ranges.

        With `for_changes`, refuse a file if Hive would ignore delete events for some of its rows.
        """
        needed = {*wanted, *self.ranges}
        query = self.request(needed)
        verdicts = self._judged(query, for_changes=for_changes)
        native = [file for file, why in verdicts if why is None]
        arrow_files = [(file, why) for file, why in verdicts if why is not None]
        try:
            with unknown_calls():
                frames = [self._native(native, query, position)] if native else []
        except UnknownJavaCallError as error:
            self.log_reasons(len(self.files), len(self.files), {str(error): "all"})
            return self.with_arrow(needed, position)
        if arrow_files or not frames:
            reasons = {why: str(self.partitions[f.partition].name) for f, why in arrow_files}
            self.log_reasons(len(arrow_files), len(self.files), reasons)
            frames.append(self.with_arrow(needed, position, [file for file, _ in arrow_files]))
        return reduce(DataFrame.unionByName, frames)

    def with_arrow(
        self, wanted: Collection[str], position: str, files: Sequence[TargetFile] | None = None
    ) -> DataFrame:
        """Return the live rows of files, by default of all, as our own reader reads them."""
        columns = [c for c in self.table.columns if c.name in wanted]
        schema = StructType(
            [
                StructField(position, StructType(list(orc_frame.POSITION_FIELDS))),
                *struct_of(columns),
            ]
        )
        pieces = [
            ScanPiece(
                numbers=tuple(file.number for file in together),
                data=tuple(file.data for file in together),
                stripes=stripes,
                deletes=deletes_of(together),
                write_ids=self.write_ids,
                columns=self.table.columns,
                wanted=tuple(c.name for c in columns),
                ranges=self.ranges,
                position=position,
            )
            for together, stripes in read_together(
                self.files if files is None else files,
                self.spark.sparkContext.defaultParallelism,
            )
        ]
        return run_tasks(self.spark, scan_piece, pieces, schema, work=work_of_scan)

    def _judged(
        self, query: ReadRequest, *, for_changes: bool
    ) -> list[tuple[TargetFile, str | None]]:
        """Return files that may have requested rows, each with a reason to avoid Spark, or None."""
        pairs = [(f.data, self.doubts[f.partition]) for f in self.files]
        verdicts = judged(query, pairs, for_changes=for_changes)
        for file, verdict in zip(self.files, verdicts, strict=True):
            require_own_bucket(file.data, verdict.buckets)
        # Spark identifies a file only by its path. But two partitions may share a location.
        first = {file.data.path: file.number for file in reversed(self.files)}
        return [
            (
                file,
                verdict.why_not
                or (None if first[file.data.path] == file.number else "two partitions share it"),
            )
            for file, verdict in zip(self.files, verdicts, strict=True)
            if verdict.rows and not verdict.is_outside
        ]

    def _native(self, files: Sequence[TargetFile], query: ReadRequest, position: str) -> DataFrame:
        # The partition is part of the join key, because one frame has the files of all partitions.
        deletes = {delete.path: (file, delete) for file in files for delete in file.deletes}
        event_files = delete_files([(d, self.doubts[f.partition]) for f, d in deletes.values()])
        native = orc_frame.NativeFiles(
            data=[self.numbered(f.data, f.number) for f in files],
            deletes=[
                orc_frame.DeleteEvents(
                    file=self.numbered(event_file.file, file_number(partition, index)),
                    delete=event_file,
                )
                for index, event_file in enumerate(event_files)
                for partition in (deletes[event_file.file.path][0].partition,)
            ],
        )
        return orc_frame.live_rows(self.spark, query, native, self.write_ids, position)


_MOVES_INSTANTS: Final = "spark.sql.parquet.int96TimestampConversion"
_MINDS_CASE: Final = "spark.sql.caseSensitive"
_PUSHES_DOWN: Final = "spark.sql.orc.filterPushdown"
# Java's ORC and the writers of statistics agree on the order of these types only.
_PUSHED_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
# Parquet's dictionary filters take 0.0 and -0.0 for different values.
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
# `orc_fit` excludes Parquet files with dates of the old calendar.
_PARQUET_OPTIONS: Final = {"mergeSchema": False, "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows(file_relation.TableFiles):
    """The files of an insert-only or flat table that a reader reads, with their numbers."""

    files: Sequence[tuple[int, PlainFile]]

    def rows(self, wanted: Collection[str], position: str) -> DataFrame:
        """Return the rows: `position`, the wanted data columns, and the columns with ranges."""
        needed = {*wanted, *self.ranges}
        query = self.request(needed)
        native: dict[SparkManner, list[file_relation.NumberedFile]] = {}
        arrow_files: list[tuple[int, PlainFile]] = []
        reasons: dict[str, str] = {}
        for (number, file), verdict in zip(self.files, self._judged(query), strict=True):
            if not verdict.rows or verdict.is_outside:
                continue
            if verdict.why_not is None:
                native.setdefault(verdict.manner, []).append(self.numbered(file, number))
            else:
                arrow_files.append((number, file))
                reasons[verdict.why_not] = file.key
        try:
            with unknown_calls():
                frames = [self._native(query, position, *item) for item in native.items()]
        except UnknownJavaCallError as error:
            self.log_reasons(len(self.files), len(self.files), {str(error): "all"})
            return self.with_arrow(needed, position)
        if arrow_files or not frames:
            self.log_reasons(len(arrow_files), len(self.files), reasons)
            frames.append(self.with_arrow(needed, position, arrow_files))
        return reduce(DataFrame.unionByName, frames)

    def _judged(self, query: ReadRequest) -> list[PlainVerdict]:
        verdicts = judged_plain(
            query,
            [file for _, file in self.files],
            moves_instants=self._is_set(_MOVES_INSTANTS),
            minds_case=self._is_set(_MINDS_CASE),
        )
        # Spark identifies a file only by its path. But two partitions may share a location.
        first = {file.path: number for number, file in reversed(self.files)}
        return [
            verdict
            if first[file.path] == number or verdict.why_not is not None
            else dataclasses.replace(verdict, why_not="two partitions share it")
            for (number, file), verdict in zip(self.files, verdicts, strict=True)
        ]

    def _is_set(self, setting: str) -> bool:
        return (self.spark.conf.get(setting, None) or "").strip().lower() == "true"

    def _native(
        self,
        query: ReadRequest,
        position: str,
        manner: SparkManner,
        files: Sequence[file_relation.NumberedFile],
    ) -> DataFrame:
        types = [spark_type(parse_type(c.type)) for c in query.columns]
        schema = StructType(
            [
                StructField(c.name, orc_frame.as_read(t) if manner.has_instants else t)
                for c, t in zip(query.columns, types, strict=True)
            ]
        )
        options: dict[str, object] = {**orc_frame.READ_OPTIONS}
        if manner.format is FileFormat.PARQUET:
            options |= {**_PARQUET_OPTIONS, "int96RebaseMode": manner.rebase}
        else:
            options |= file_relation.search_argument(self.spark, query.columns, query.ranges)
        rows = file_relation.rows_of_files(self.spark, files, schema, options, manner.format)
        where = F.struct(F.col(NUMBER)).alias(position)
        values = [self._value(c, manner.format) for c in query.columns]
        return rows.select(where, *values)

    def _value(self, column: Column, format_: FileFormat) -> SparkColumn:
        """Return a column's value; a user's own session may push only safe conditions to files."""
        stored = _cut(column, format_)
        if format_ is FileFormat.ORC:
            is_off = self.spark.conf.get(_PUSHES_DOWN) == "false"  # Spark's default is `true`
            is_safe = is_off or column.type in _PUSHED_TYPES
        else:
            is_safe = not any(holds(parse_type(column.type), kind) for kind in _FLOATS)
        return orc_frame.value_of(
            self.spark, column, stored if is_safe else opaque(self.spark, stored)
        )

    def with_arrow(
        self,
        wanted: Collection[str],
        position: str,
        files: Sequence[tuple[int, PlainFile]] | None = None,
    ) -> DataFrame:
        """Read the rows with our own reader, from all files by default."""
        query = self.request(wanted)
        # All pieces share this object, so it is sent only once.
        names = tuple(c.name for c in query.columns)
        where = StructType([StructField(NUMBER, LongType())])
        schema = StructType([StructField(position, where), *struct_of(query.columns)])
        pieces = [
            PlainPiece(
                number=number,
                file=file,
                columns=self.table.columns,
                wanted=names,
                position=position,
            )
            for number, file in (self.files if files is None else files)
        ]
        return run_tasks(self.spark, scan_plain, pieces, schema)


def _cut(column: Column, format_: FileFormat) -> SparkColumn:
    """Truncate a column to its maximum length; Parquet has no maximum for strings."""
    value, hive_type = F.col(quoted(column.name)), parse_type(column.type)
    if format_ is FileFormat.PARQUET and isinstance(hive_type, CharType | VarcharType):
        return F.substring(value, 1, hive_type.length)
    return value
