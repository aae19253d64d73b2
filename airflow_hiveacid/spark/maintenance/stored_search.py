"""Search of stored files for rows that satisfy a condition, whether readers see the rows or not.

A file is not read if its partition or its ORC statistics prove that it has no such row. Spark
evaluates the condition for every row of the others, which count as searched only if their task has
reported the file's end. The driver gets numbers of rows, never a value.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, SparkSession, functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_hiveacid.format.errors import StorageError, StoreUnavailableError
from airflow_hiveacid.format.names import ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX, METADATA_FILE
from airflow_hiveacid.format.table import Column, FileFormat, TableInfo, TransactionalKind
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.maintenance.stored_files import StoredFile
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import KeyRange, free_name
from airflow_hiveacid.reading.arrow_scan import BATCH_ROWS, for_spark
from airflow_hiveacid.reading.orc_fit import is_column, lies_outside
from airflow_hiveacid.spark.engine.catalyst import Moment, condition as checked_condition, resolved
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import named, spark_type, struct_of
from airflow_hiveacid.spark.reading.file_relation import looked_up
from airflow_hiveacid.spark.reading.pruning import bounds, partitions_where
from airflow_hiveacid.spark.reading.target import columns_used, empty_target, whole_rows
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.plain import stored
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.stores.change_feed import FEED_NOTE
from airflow_hiveacid.storage.stores.locations import locate
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.storage.values.timestamps import TimestampForm

_WITHOUT_ROWS: Final = frozenset({ACID_VERSION_FILE, METADATA_FILE, FEED_NOTE})


class How(enum.StrEnum):
    """How a file was looked at."""

    SCAN = "scan"
    STATISTICS = "statistics"
    PARTITION = "partition"
    WITHOUT_ROWS = "without rows"
    NOT_READ = "not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """How one file was looked at, and how many of its rows match; `why_not` if it was not read."""

    how: How
    rows: int = 0
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class StoredSearch:
    """The search for the rows of one table that satisfy a condition.

    Members raise UnknownColumnError, ExpressionError or UnsafeTextError for a wrong one.
    """

    spark: SparkSession
    table: TableInfo
    where: str
    moment: Moment

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that the condition uses."""
        names = columns_used(self.spark, self.table, self.where, self.moment)
        every = (*self.table.columns, *self.table.partition_columns)
        return tuple(column for column in every if column.name in names)

    def look(self, files: Sequence[StoredFile]) -> dict[StoredFile, SearchResult]:
        """Look at each file."""
        names = tuple(dict.fromkeys(f.name for f in files if f.name is not None))
        partitions = partitions_where(self.spark, self.table, names, self.where, self.moment)
        _ = self._ranges  # before the threads need them

        def glance(file: StoredFile) -> SearchResult | PlainFile:
            if partitions is not None and file.name is not None and file.name not in partitions:
                return SearchResult(how=How.PARTITION)
            try:
                return self._glance(file)
            except StoreUnavailableError:
                raise
            except StorageError as error:
                return _not_read(_without_values(error))

        glanced = dict(zip(files, each_in_threads(glance, files), strict=True))
        results = {
            file: result for file, result in glanced.items() if isinstance(result, SearchResult)
        }
        return results | self._scan({f: p for f, p in glanced.items() if isinstance(p, PlainFile)})

    @cached_property
    def _ranges(self) -> Mapping[str, KeyRange]:
        empty = empty_target(self.spark, self.table).alias("t")
        return bounds(self.table, empty, self.where, self.moment)

    def _glance(self, file: StoredFile) -> SearchResult | PlainFile:
        """Look at a file's name and footer; return the file if its rows must be read."""
        if file.why_not:
            return _not_read(file.why_not)
        entry = file.entry
        is_checksum = entry.name.startswith(".") and entry.name.endswith(".crc")
        # Only streaming writers of full ACID tables write side files; elsewhere, it is a data file.
        is_length = entry.name.endswith(FLUSH_LENGTH_SUFFIX)
        is_length &= self.table.kind is TransactionalKind.FULL_ACID
        is_side = entry.name in _WITHOUT_ROWS or is_length
        if not entry.size_bytes or is_checksum or is_side:
            return SearchResult(how=How.WITHOUT_ROWS)
        description = self._described(file)
        if description is None:
            unread = _not_read("its format is unknown")
            return SearchResult(how=How.WITHOUT_ROWS) if file.is_note else unread
        tail = description.tail() if description.format is FileFormat.ORC else None
        why_not = self._why_not_placed(file)
        if why_not is None and tail is not None and self._lies_outside(tail):
            return SearchResult(how=How.STATISTICS)
        why_not = why_not or self._why_not_columns(
            file, description.format, stored.columns_in(description, tail)
        )
        why_not = why_not or stored.why_not_as_defined(
            description,
            tail,
            self._columns(file),
            self._read_from(file),
            is_outside=file.is_outside,
        )
        return description if why_not is None else _not_read(why_not)

    def _columns(self, file: StoredFile) -> tuple[Column, ...]:
        return (*self.table.columns, *(self.table.partition_columns if file.is_outside else ()))

    def _described(self, file: StoredFile) -> PlainFile | None:
        store, root = locate(file.root)
        storage = file.partition.storage if file.partition is not None else None
        description = PlainFile(
            store=store,
            path=f"{root}/{file.entry.path}",
            key=file.below,
            length=file.entry.size_bytes,
            format=FileFormat.TEXT,
            text=text_form(self.table.ref, self.table.storage, self.table.parameters, storage),
        )
        content_format = stored.format_by_content(description.fs, description.path)
        if content_format is not None:
            return replace(description, format=content_format)
        # Only text files have no sign of their format in their content.
        is_text = (storage or self.table.storage).format is FileFormat.TEXT and not file.is_outside
        return description if is_text and not file.is_note else None

    def _why_not_placed(self, file: StoredFile) -> str | None:
        needed = [c.name for c in self.used if c in self.table.partition_columns]
        if not needed or file.name is not None or file.is_outside:
            return None
        return f"its path does not show {', '.join(needed)}, which the condition uses"

    def _why_not_columns(
        self, file: StoredFile, format_: FileFormat, names: Sequence[str] | None
    ) -> str | None:
        """Return why a column that the file lacks need not be NULL, or None.

        In the table, a missing column was added later, or renamed. For ORC files, the reader tells
        these cases apart, and refuses a file whose columns may have been renamed.
        """
        if names is None:
            return None
        present = {name.lower() for name in names}
        lacking = [c.name for c in self._read_from(file) if c.name not in present]
        if not lacking:
            return None
        if file.is_outside:
            return f"it has no column {', '.join(lacking)}"
        if format_ is not FileFormat.ORC and present - set(self.table.column_names):
            return f"it has no column {', '.join(lacking)}, which may have been renamed"
        return None

    def _read_from(self, file: StoredFile) -> tuple[Column, ...]:
        is_placed = file.name is not None or not file.is_outside
        return tuple(c for c in self.used if not (is_placed and c in self.table.partition_columns))

    def _lies_outside(self, tail: OrcTail) -> bool:
        """Return whether the statistics of an ORC file prove that no row meets the condition."""
        path = stored.row_path(tail)
        names = tail.types[tail.column_id(*path) or 0].field_names
        # Engines match columns by name or by position, so both must find the same column.
        if names != tuple(c.name for c in self.table.columns[: len(names)]):
            return False
        return any(
            column_id is not None
            and is_column(tail, column_id, parse_type(column.type), in_utc=True)
            and lies_outside(tail, column_id, column, self._ranges[column.name])
            for column in self.table.columns
            if column.name in self._ranges
            for column_id in (tail.column_id(*path, column.name),)
        )

    def _scan(self, files: Mapping[StoredFile, PlainFile]) -> dict[StoredFile, SearchResult]:
        if not files:
            return {}
        table = self.table
        number, why_not = (free_name(name, table.column_names) for name in ("file", "why_not"))
        tasks = [
            _FileTask(
                number=file_number,
                file=plain,
                columns=self._columns(file),
                used=self.used,
                read=tuple(c.name for c in self._read_from(file)),
                names=(number, why_not),
            )
            for file_number, (file, plain) in enumerate(files.items())
        ]
        fields = [StructField(number, LongType()), StructField(why_not, StringType())]
        schema = StructType([*fields, *struct_of(self.used)])
        rows = run_tasks(self.spark, _read, tasks, schema)
        values = [self._value(column, number, list(files)) for column in self.used]
        every = whole_rows(table, rows.select(number, why_not, *values), number, why_not)
        (expression,) = resolved(table, every, [self.where], self.moment)
        holds = F.coalesce(checked_condition(table, self.where, expression), F.lit(False))
        counts = every.groupBy(number).agg(
            F.count_if(F.col(why_not).isNull() & holds), F.max(why_not)
        )
        ended = {number: _scanned(matching, why) for number, matching, why in counts.collect()}
        return {file: ended.get(number, _scanned(0, None)) for number, file in enumerate(files)}

    def _value(self, column: Column, number: str, files: Sequence[StoredFile]) -> SparkColumn:
        value = F.col(quoted(column.name))
        if column in self.table.partition_columns:
            index = self.table.partition_columns.index(column)
            texts = [
                None
                if file.name is None
                else partition_texts(self.table.partition_columns, file.name)[index]
                for file in files
            ]
            kind = spark_type(parse_type(column.type))
            value = F.coalesce(looked_up(texts, kind, F.col(number)), value)
        return named(self.spark, column, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileTask:
    """A file for a task.

    `columns` are all columns that the file may have, `used` the columns of the frame, and `read`
    the names of those that are read from the file. The others are NULL. `names` are the names of
    the columns with the file's number and with the reason if the file cannot be read.
    """

    number: int
    file: PlainFile
    columns: tuple[Column, ...]
    used: tuple[Column, ...]
    read: tuple[str, ...]
    names: tuple[str, str]


def _read(task: _FileTask) -> Iterator[pa.RecordBatch]:
    """Read a file on an executor; the last row has a blank reason, or the reason of the failure."""
    try:
        for batch in stored.stored_rows(
            task.file, task.columns, data_columns=task.read, batch_rows=BATCH_ROWS
        ):
            yield _rows(task, batch.num_rows, None, batch)
    except StoreUnavailableError:
        raise
    except StorageError as error:
        yield _rows(task, 1, _without_values(error), None)
    else:
        yield _rows(task, 1, "", None)


def _rows(
    task: _FileTask, size: int, why_not: str | None, batch: pa.RecordBatch | None
) -> pa.RecordBatch:
    values = []
    for column in task.used:
        type_ = parse_type(column.type)
        if batch is not None and column.name in task.read:
            value = batch.column(column.name)
        else:
            value = pa.nulls(size, read_type(type_, TimestampForm.PAIR))
        values.append(for_spark(value, type_, path=task.file.path, column=column.name))
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(task.number, pa.int64()), size),
            pa.repeat(pa.scalar(why_not, pa.string()), size),
            *values,
        ],
        names=[*task.names, *(column.name for column in task.used)],
    )


def _scanned(matching: int, why_not: str | None) -> SearchResult:
    if why_not == "":
        return SearchResult(how=How.SCAN, rows=matching)
    return _not_read(why_not or "no task has reported its end")


def _not_read(why_not: str) -> SearchResult:
    return SearchResult(how=How.NOT_READ, why_not=why_not)


def _without_values(error: StorageError) -> str:
    """Return an error's text; without it if a library wrote it, since it may contain a value."""
    return str(error) if error.__cause__ is None else f"it cannot be read: {type(error).__name__}"
