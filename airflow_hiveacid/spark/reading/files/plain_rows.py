"""A frame of an insert-only or flat table's rows, read by Spark's readers or by our readers.

Spark's own readers read the files that they read correctly (`plain_fit`). Our readers read the
other files. One log line gives the reasons for using our readers. All files that Spark reads with
equal options form one frame, as with full-ACID tables (docs/decisions/reading.md). Rows have no row
ID, only the number of their file.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from airflow_hiveacid.format.file_fitness import own_columns
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.format.types import CharType, PrimitiveType, VarcharType, parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.spark.engine.expressions.catalyst import opaque
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.time_zones import runs_in_utc
from airflow_hiveacid.spark.engine.types import spark_type, struct_of
from airflow_hiveacid.spark.reading.files.arrow_scan import for_spark
from airflow_hiveacid.spark.reading.files.file_numbers import NUMBER, file_number, partition_at
from airflow_hiveacid.spark.reading.files.file_relation import NumberedFile, rows_of_files
from airflow_hiveacid.spark.reading.files.orc_fit import Asked
from airflow_hiveacid.spark.reading.files.orc_frame import READ_OPTIONS, as_read, value_of
from airflow_hiveacid.spark.reading.files.plain_fit import PlainVerdict, SparkManner, judged_plain
from airflow_hiveacid.spark.reading.files.search_argument import search_argument
from airflow_hiveacid.storage.plain.files import PlainFile, plain_files
from airflow_hiveacid.storage.plain.fitness import check_files_readable
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.values.column_types import holds
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn

    from airflow_hiveacid.format.state.acid_state import AcidState
    from airflow_hiveacid.format.table import Column, PartitionInfo, TableInfo
    from airflow_hiveacid.spark.reading.files.key_ranges import KeyRange

log = logging.getLogger("hiveacid")

_MOVES_INSTANTS: Final = "spark.sql.parquet.int96TimestampConversion"
_MINDS_CASE: Final = "spark.sql.caseSensitive"
_PUSHES_DOWN: Final = "spark.sql.orc.filterPushdown"
# Java's ORC and the writers of statistics agree on the order of these types only.
_PUSHED_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
# Parquet's dictionary filters take 0.0 and -0.0 for different values.
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
_BATCH_ROWS: Final = 64 * 1024
# Spark never reads a Parquet file with dates of the old calendar, because `plain_fit` excludes such
# files.
_PARQUET_OPTIONS: Final = {"mergeSchema": False, "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPiece:
    """A file for a task, with its number, as plain values.

    `position` is the name of the column with the file number.
    """

    number: int
    file: PlainFile
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    position: str


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class PlainRows:
    """The files of an insert-only or flat table that a reader reads.

    `states` contains the `AcidState` of each of `partitions`. Rows outside `ranges` may be omitted.
    """

    spark: SparkSession
    table: TableInfo
    partitions: Sequence[PartitionInfo]
    states: Sequence[AcidState]
    ranges: Mapping[str, KeyRange]

    @cached_property
    def files(self) -> tuple[tuple[int, PlainFile], ...]:
        """Every file with its number, partition by partition.

        Raises:
            UnsupportedTableError: a partition is stored in a format that cannot be read.
            CorruptFileError, UnsupportedFileError: see `plain_files`.
        """
        files: list[tuple[int, PlainFile]] = []
        for partition, (info, state) in enumerate(zip(self.partitions, self.states, strict=True)):
            storage = info.storage or self.table.storage
            check_files_readable(self.table.ref, storage, self.table.parameters, self.table.columns)
            own = own_columns(
                self.table.ref, self.table.columns, info.name, info.columns, storage.format
            )
            text = text_form(
                self.table.ref, self.table.storage, self.table.parameters, info.storage
            )
            for file in plain_files(
                state,
                storage.format,
                with_originals=self.table.reads_originals or self._is_flat,
                text=text,
                columns=own,
            ):
                files.append((file_number(partition, len(files)), file))
        return tuple(files)

    @property
    def _is_flat(self) -> bool:
        return self.table.kind is TransactionalKind.NONE

    def rows(self, wanted: Collection[str], position: str) -> DataFrame:
        """Return the rows: `position`, the wanted data columns, and the columns with ranges.

        Raises:
            HiveAcidError: a footer cannot be read; see also `files`.
        """
        needed = {*wanted, *self.ranges}
        query = self._asked(needed)
        native: dict[SparkManner, list[NumberedFile]] = {}
        arrow_files: list[tuple[int, PlainFile]] = []
        reasons: dict[str, str] = {}
        for (number, file), verdict in zip(self.files, self._judged(query), strict=True):
            if not verdict.rows or verdict.is_outside:
                continue
            if verdict.why_not is None:
                native.setdefault(verdict.manner, []).append(self._numbered(number, file))
            else:
                arrow_files.append((number, file))
                reasons[verdict.why_not] = file.key
        frames = [self._native(query, position, manner, files) for manner, files in native.items()]
        if arrow_files or not frames:
            self._log_reasons(len(arrow_files), reasons)
            frames.append(self.with_arrow(needed, position, arrow_files))
        return reduce(DataFrame.unionByName, frames)

    def _asked(self, wanted: Collection[str]) -> Asked:
        return Asked(
            table_columns=self.table.columns,
            columns=tuple(c for c in self.table.columns if c.name in wanted),
            ranges=self.ranges,
            in_utc=runs_in_utc(self.spark),
        )

    def _judged(self, query: Asked) -> list[PlainVerdict]:
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

    def _numbered(self, number: int, file: PlainFile) -> NumberedFile:
        root = (file.root or self.partitions[partition_at(number)].location).rstrip("/")
        return NumberedFile(uri=f"{root}/{file.key}", length=file.length, number=number)

    def _native(
        self,
        query: Asked,
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
        query = self._asked(wanted)
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
        return run_tasks(self.spark, read_piece, pieces, schema)

    def _log_reasons(self, count: int, reasons: Mapping[str, str]) -> None:
        """Log in one line which files Python reads; it reads several times more slowly."""
        if count:
            log.info(
                "read in Python: table=%s files=%d of %d, because %s",
                self.table.ref,
                count,
                len(self.files),
                "; ".join(f"{why} ({where})" for why, where in reasons.items()),
            )


def _cut(column: Column, format_: FileFormat) -> SparkColumn:
    """Truncate a column to its maximum length; Parquet has no maximum for strings."""
    value, hive_type = F.col(quoted(column.name)), parse_type(column.type)
    if format_ is FileFormat.PARQUET and isinstance(hive_type, CharType | VarcharType):
        return F.substring(value, 1, hive_type.length)
    return value


def read_piece(piece: PlainPiece) -> Iterator[pa.RecordBatch]:
    """Read a piece's file on an executor, with Spark's types."""
    types = {c.name: parse_type(c.type) for c in piece.columns}
    for batch in read_rows(
        piece.file,
        piece.columns,
        data_columns=piece.wanted,
        batch_rows=_BATCH_ROWS,
        timestamps=TimestampForm.PAIR,
    ):
        number = pa.repeat(pa.scalar(piece.number, pa.int64()), batch.num_rows)
        where = pa.StructArray.from_arrays([number], names=[NUMBER])
        values = [for_spark(batch.column(name), types[name]) for name in piece.wanted]
        yield pa.RecordBatch.from_arrays([where, *values], names=[piece.position, *piece.wanted])
