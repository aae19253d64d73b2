"""A frame of an insert-only or flat table's rows, read by Spark's readers or by our readers.

Spark reads the files that it reads correctly (`plain_fit`), our readers the others, and one log
line gives the reasons. All files that Spark reads with equal options form one frame
(docs/decisions/reading.md). Rows have no row ID, only the number of their file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import CharType, PrimitiveType, VarcharType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading.arrow_scan import PlainPiece, scan_plain
from airflow_hiveacid.reading.plain_fit import PlainVerdict, SparkManner, judged_plain
from airflow_hiveacid.reading.request import NUMBER, ReadRequest
from airflow_hiveacid.spark.engine.expressions.catalyst import opaque
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import spark_type, struct_of
from airflow_hiveacid.spark.reading.files.file_relation import (
    NumberedFile,
    TableFiles,
    rows_of_files,
    search_argument,
)
from airflow_hiveacid.spark.reading.files.orc_frame import READ_OPTIONS, as_read, value_of
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.values.column_types import holds

_MOVES_INSTANTS: Final = "spark.sql.parquet.int96TimestampConversion"
_MINDS_CASE: Final = "spark.sql.caseSensitive"
_PUSHES_DOWN: Final = "spark.sql.orc.filterPushdown"
# Java's ORC and the writers of statistics agree on the order of these types only.
_PUSHED_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
# Parquet's dictionary filters take 0.0 and -0.0 for different values.
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
# Spark never reads a Parquet file with dates of the old calendar, because `plain_fit` excludes such
# files.
_PARQUET_OPTIONS: Final = {"mergeSchema": False, "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows(TableFiles):
    """The files of an insert-only or flat table that a reader reads, with their numbers."""

    files: Sequence[tuple[int, PlainFile]]

    def rows(self, wanted: Collection[str], position: str) -> DataFrame:
        """Return the rows: `position`, the wanted data columns, and the columns with ranges."""
        needed = {*wanted, *self.ranges}
        query = self.request(needed)
        native: dict[SparkManner, list[NumberedFile]] = {}
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
        """Return whether a setting of the session is `true`, in upper or lower case."""
        return (self.spark.conf.get(setting, None) or "").strip().lower() == "true"

    def _native(
        self,
        query: ReadRequest,
        position: str,
        manner: SparkManner,
        files: Sequence[NumberedFile],
    ) -> DataFrame:
        types = [spark_type(parse_type(c.type)) for c in query.columns]
        schema = StructType(
            [
                StructField(c.name, as_read(t) if manner.has_instants else t)
                for c, t in zip(query.columns, types, strict=True)
            ]
        )
        options: dict[str, object] = {**READ_OPTIONS}
        if manner.format is FileFormat.PARQUET:
            options |= {**_PARQUET_OPTIONS, "int96RebaseMode": manner.rebase}
        else:
            options |= search_argument(self.spark, query.columns, query.ranges)
        rows = rows_of_files(self.spark, files, schema, options, manner.format)
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
        return value_of(self.spark, column, stored if is_safe else opaque(self.spark, stored))

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
