"""The search for the live rows that a statement changes, and the events of found and new rows.

No columns are read but those that the pick of a batch's rows needs. Stripes whose statistics
exclude the condition are not read. Delete events are read only for files with a picked row.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.arrow import Limits
from airflow_hiveacid.arrow.columns import repeated
from airflow_hiveacid.format.errors import SparkNeededError
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat, PartitionName, TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements.conditions import Condition, columns_of, may_hold, reduced
from airflow_hiveacid.plan.statements.constants import UNFIT, Constant, constant_of
from airflow_hiveacid.reading.arrow_scan import BATCH_ROWS, TargetFile
from airflow_hiveacid.reading.orc_fit import check_rows, require_own_bucket
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.read import FileKind
from airflow_hiveacid.storage.acid.read.buckets import bucket_ids_in
from airflow_hiveacid.storage.acid.read.reader import chosen_columns, read_events
from airflow_hiveacid.storage.acid.read.scan import live_in
from airflow_hiveacid.storage.hashing import bucket_ids
from airflow_hiveacid.storage.orc.footer import OrcTail, TypeKind
from airflow_hiveacid.storage.orc.view import stream_bytes
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values import timestamps
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.convert import FieldPlan, Matching, plan_fields
from airflow_hiveacid.storage.values.nested import with_leaf_types
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.writing import event_files

Pick = Callable[[Mapping[str, pa.Array]], pa.BooleanArray]
"""A function from columns by name to the mask of the rows that a statement changes."""

# Every look-up of keys builds a hash table of the wanted keys, so batches are joined before it:
# 100,000 deletes among 10 million rows took 2.6 s instead of 6.6 s.
_LOOK_ROWS: Final = 1_000_000
_LOOK_BYTES: Final = 64 << 20

_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_LAST_DAY: Final = timestamps.day_of(dt.date.max)
_INTEGER_KINDS: Final = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """Live rows of one file: `rows` has the root columns but `row`, `columns` those of `Search`."""

    file: TargetFile
    rows: pa.RecordBatch
    columns: Mapping[str, pa.Array]

    @property
    def size_bytes(self) -> int:
        """The size of the row IDs and columns in memory."""
        return int(self.rows.nbytes) + sum(int(column.nbytes) for column in self.columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The rows to find.

    `reach` limits the partitions and stripes; rows outside it are not picked. `columns` are the
    columns that `pick` needs. Without a pick, every live row is found.
    """

    reach: Condition | None
    columns: tuple[str, ...]
    pick: Pick | None

    def find(self, view: TableView, limits: Limits) -> list[FileRows]:
        """Return the live rows, file by file, in order of row ID; SparkNeededError if too many."""
        reading = [part for part in self._files(view) if part.stripes]
        limits.check_reading(sum(part.rows for part in reading), 0)
        if sum(part.stripe_bytes for part in reading) > limits.key_bytes:
            limits.check_reading(0, sum(part.key_bytes for part in reading))
        file_rows: list[FileRows] = []
        rows = size = 0
        for part in reading:
            for batch in part.live(view.write_ids, self.pick):
                rows, size = rows + batch.rows.num_rows, size + batch.size_bytes
                limits.check_changes(rows, size)
                file_rows.append(batch)
        return file_rows

    def _files(self, view: TableView) -> list[_FilePart]:
        table = view.table
        names = columns_of(self.reach).union(self.columns)
        partition_columns = [c.name for c in table.partition_columns if c.name in names]
        partitions = {}
        for position, info in enumerate(view.partitions):
            values = partition_constants(table, info.name, partition_columns)
            rest = True if self.reach is None else reduced(self.reach, values)
            if rest is not False:
                partitions[position] = _Partition(values, None if rest is True else rest)
        own = tuple(c.name for c in table.columns if c.name in self.columns)
        files = [
            (file, partitions[file.partition])
            for file in view.files
            if file.partition in partitions
        ]
        return each_in_threads(lambda pair: _part_of(table, own, *pair), files)


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition that the reach allows: values of its columns, and what remains of the reach."""

    values: Mapping[str, Constant]
    reach: Condition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilePart:
    """The stripes of one file that may contain a row, and the columns to read from it."""

    table: TableInfo
    file: TargetFile
    tail: OrcTail
    stripes: tuple[int, ...]
    columns: tuple[str, ...]
    column_ids: frozenset[int]
    partition: Mapping[str, Constant]

    @property
    def rows(self) -> int:
        return sum(self.tail.stripes[number].rows for number in self.stripes)

    @property
    def stripe_bytes(self) -> int:
        """The stored bytes of all columns in the stripes."""
        return sum(self.tail.stripes[number].length for number in self.stripes)

    @property
    def key_bytes(self) -> int:
        """The stored bytes of the columns to read; reads the stripes' footers."""
        return stream_bytes(self.file.data.fs, self.tail, self.column_ids, self.stripes)

    def live(self, write_ids: ValidWriteIdList, pick: Pick | None) -> Iterator[FileRows]:
        """Yield the picked rows that are visible and have no visible delete event."""
        picked = self._picked(pick)
        first = next(picked, None)
        if first is None:
            return
        rows = itertools.chain([first], picked)  # not a list: most rows may be picked
        events = live_in([self.file.data], self.file.deletes, write_ids, lambda _: rows)
        for batch in events:
            if batch.num_rows:
                ids = batch.select(acid.IDENTITY_SCHEMA.names)
                yield FileRows(file=self.file, rows=ids, columns=self._values(batch))

    def _picked(self, pick: Pick | None) -> Iterator[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._read():
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _LOOK_ROWS or size >= _LOOK_BYTES:
                yield from self._look(batches, pick)
                batches, rows, size = [], 0, 0
        yield from self._look(batches, pick)

    def _look(
        self, batches: Sequence[pa.RecordBatch], pick: Pick | None
    ) -> Iterator[pa.RecordBatch]:
        if pick is None or not batches:
            yield from batches
            return
        parts = [self._values(batch) for batch in batches]
        mask = pick({name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]})
        start = 0
        for batch in batches:
            own = mask.slice(start, batch.num_rows)
            start += batch.num_rows
            if own.true_count:
                yield batch.filter(own)

    def _read(self) -> Iterator[pa.RecordBatch]:
        return read_events(
            self.file.data,
            self.table.columns,
            data_columns=self.columns,
            stripes=self.stripes,
            batch_rows=BATCH_ROWS,
            timestamps=timestamps.TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
            tail=self.tail,
        )

    def _values(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        values = dict(zip(self.columns, batch.column(acid.ROW).flatten(), strict=True))
        for column in self.table.partition_columns:
            if column.name in self.partition:
                constant = self.partition[column.name]
                values[column.name] = repeated(constant, column.type, batch.num_rows)
        return values


def stripes_where(
    table: TableInfo, file: TargetFile, tail: OrcTail, condition: Condition
) -> tuple[int, ...]:
    """Return the stripes of a file that may contain a row that meets a condition."""
    check_rows(file.data, tail)  # see `_part_of`
    columns = columns_of(condition)
    fields = _fields(table, file, tail, [c.name for c in table.columns if c.name in columns])
    return _stripes(table, tail, fields, condition)


def _part_of(
    table: TableInfo, names: tuple[str, ...], file: TargetFile, partition: _Partition
) -> _FilePart:
    tail = file.data.tail()
    # Before stripes are chosen: statistics of row changes of Hive 2 are not those of the old rows.
    check_rows(file.data, tail)
    fields = _fields(table, file, tail, names)
    stripes = _stripes(table, tail, fields, partition.reach)
    own = () if file.data.kind is FileKind.ORIGINAL else acid.IDENTITY_COLUMN_IDS
    ids = frozenset(tail.below(field.column_id for field in fields if field.column_id is not None))
    return _FilePart(
        table=table,
        file=file,
        tail=tail,
        stripes=stripes,
        columns=names,
        column_ids=ids.union(own),
        partition=partition.values,
    )


def _fields(
    table: TableInfo, file: TargetFile, tail: OrcTail, names: Sequence[str]
) -> Sequence[FieldPlan]:
    is_original = file.data.kind is FileKind.ORIGINAL
    return plan_fields(
        tail,
        0 if is_original else tail.types[0].children[-1],
        table.columns,
        wanted=chosen_columns(table.columns, names),
        form=timestamps.TimestampForm.PAIR,
        matching=Matching.UNAMBIGUOUS,
    )


def _stripes(
    table: TableInfo, tail: OrcTail, fields: Sequence[FieldPlan], reach: Condition | None
) -> tuple[int, ...]:
    return tuple(
        number
        for number in range(len(tail.stripes))
        if reach is None or may_hold(reach, _ranges(table, tail, fields, number))
    )


def _ranges(
    table: TableInfo, tail: OrcTail, fields: Sequence[FieldPlan], stripe: int
) -> dict[str, tuple[Constant, Constant]]:
    """Return the ranges of columns in one stripe; none for strings, which writers shorten."""
    types = {column.name: column.type for column in table.columns}
    ranges: dict[str, tuple[Constant, Constant]] = {}
    for field in fields:
        name, column_id = field.field.name, field.column_id
        if column_id is None:
            continue
        ends: tuple[Constant, Constant] | None = None
        kind = tail.types[column_id].kind
        if types[name] in _WHOLE_NUMBERS and kind in _INTEGER_KINDS:
            ends = tail.integer_range(column_id, stripe)
        elif types[name] == "date" and kind == TypeKind.DATE:
            ends = _days(tail, column_id, stripe)
        if ends is not None:
            ranges[name] = ends
    return ranges


def _days(tail: OrcTail, column_id: int, stripe: int) -> tuple[dt.date, dt.date] | None:
    """Return the ends of a date column, if all engines count its days in one calendar."""
    if timestamps.may_have_old_days(tail, column_id):
        return None
    statistics = tail.statistics(column_id, stripe)
    dates = None if statistics is None else statistics.dates
    if dates is None or not (dates.HasField("minimum") and dates.HasField("maximum")):
        return None
    if dates.maximum > _LAST_DAY:
        return None
    low, high = (
        timestamps.EPOCH + dt.timedelta(days=days) for days in (dates.minimum, dates.maximum)
    )
    return low, high


def partition_constants(
    table: TableInfo, name: PartitionName, columns: Sequence[str]
) -> dict[str, Constant]:
    """Return a partition's values as readers see them, or raise SparkNeededError."""
    texts = partition_texts(table.partition_columns, name)
    values: dict[str, Constant] = {}
    for column, text in zip(table.partition_columns, texts, strict=True):
        if column.name not in columns:
            continue
        value = None if text is None else constant_of(text, parse_type(column.type))
        if value is UNFIT:
            raise SparkNeededError(
                reason=f"partition {name} has a value of {column.name}"
                f" that is no plain {column.type}"
            )
        values[column.name] = value
    return values


# The positions of both clauses in `WritePlan.given`.
UPDATE_CLAUSE: Final = 0
INSERT_CLAUSE: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatches:
    """The events of one statement.

    `updated` are the numbers of the files whose rows are updated; `assigned` are the columns that
    an update sets, None without an update.
    """

    batches: Sequence[pa.RecordBatch]
    updated: frozenset[int] = frozenset()
    assigned: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class EventMaker:
    """Makes the events of one statement; `columns` are those that its new rows contain."""

    table: TableInfo
    columns: tuple[Column, ...]

    def deletes(self, view: TableView, found: FileRows) -> pa.RecordBatch:
        """Return a delete event for each row; UnsupportedFileError if Hive would ignore one."""
        count, own = found.rows.num_rows, _buckets(found)
        require_own_bucket(found.file.data, own.unique().to_pylist())
        return self._batch(
            partition=_repeated_text(view, found),
            kind=event_files.DELETE_KIND,
            bucket=own,
            file=pa.nulls(count, pa.int64()),
            clause=pa.nulls(count, pa.int32()),
            identity=[found.rows.column(name) for name in acid.IDENTITY_COLUMNS],
            row=pa.nulls(count, self._row_type),
        )

    def updates(
        self, view: TableView, found: FileRows, values: Mapping[str, pa.Array]
    ) -> pa.RecordBatch:
        """Return an insert event for each row with its new values; unset columns are NULL here."""
        count = found.rows.num_rows
        # Bucket columns cannot change, so a row keeps its bucket. Without buckets, all new rows of
        # a statement of this size go to one file.
        own = _buckets(found) if self.table.num_buckets else _zeros(count)
        return self._batch(
            partition=_repeated_text(view, found),
            kind=event_files.INSERT_KIND,
            bucket=own,
            file=pa.repeat(pa.scalar(found.file.number, pa.int64()), count),
            clause=pa.repeat(pa.scalar(UPDATE_CLAUSE, pa.int32()), count),
            identity=[found.rows.column(name) for name in acid.IDENTITY_COLUMNS],
            row=self._row(values, count),
        )

    def inserts(self, partitions: pa.Array, values: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return an insert event for each new row; `partitions` has the `_partition` values."""
        count, table = len(partitions), self.table
        bucket = _zeros(count)
        if table.num_buckets:
            types = {column.name: parse_type(column.type) for column in table.columns}
            bucket = bucket_ids(
                [values[name] for name in table.bucket_columns],
                [types[name] for name in table.bucket_columns],
                table.num_buckets,
                table.bucketing_version,
            )
        return self._batch(
            partition=partitions,
            kind=event_files.INSERT_KIND,
            bucket=bucket,
            file=pa.nulls(count, pa.int64()),
            clause=pa.repeat(pa.scalar(INSERT_CLAUSE, pa.int32()), count),
            identity=[pa.nulls(count, type_) for type_ in (pa.int64(), pa.int32(), pa.int64())],
            row=self._row(values, count),
        )

    def _row(self, values: Mapping[str, pa.Array], count: int) -> pa.Array:
        fields = list(self._row_type)
        arrays = [
            self._formed(values[f.name]) if f.name in values else pa.nulls(count, f.type)
            for f in fields
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    def _formed(self, values: pa.Array) -> pa.Array:
        return timestamps.with_pairs(values) if self._is_orc else values

    @property
    def _is_orc(self) -> bool:
        return self.table.storage.format is FileFormat.ORC

    @property
    def _row_type(self) -> pa.StructType:
        """The type of new rows; ORC files get exact timestamps, other files microseconds."""

        def form(type_: pa.DataType) -> pa.DataType:
            if not pa.types.is_timestamp(type_):
                return type_
            return timestamps.PAIR_TYPE if self._is_orc else pa.timestamp("us", type_.tz)

        return with_leaf_types(row_type(self.columns), form)

    def _batch(  # noqa: PLR0913 - an event has these columns
        self,
        *,
        partition: pa.Array,
        kind: int,
        bucket: pa.Array,
        file: pa.Array,
        clause: pa.Array,
        identity: Sequence[pa.Array],
        row: pa.Array,
    ) -> pa.RecordBatch:
        kinds = pa.repeat(pa.scalar(kind, pa.int8()), len(partition))
        columns = [partition, kinds, bucket, file, clause, *identity, row]
        return pa.RecordBatch.from_arrays(columns, names=list(event_files.EVENT_COLUMNS))


def partition_keys(names: Sequence[PartitionName]) -> pa.Array:
    """Return the `_partition` value of each partition."""
    return pa.array([event_files.partition_text(name) for name in names], pa.string())


def _repeated_text(view: TableView, found: FileRows) -> pa.Array:
    text = event_files.partition_text(view.partitions[found.file.partition].name)
    return pa.repeat(pa.scalar(text, pa.string()), found.rows.num_rows)


def _buckets(found: FileRows) -> pa.Array:
    properties = found.rows.column(acid.BUCKET_PROPERTY).dictionary_encode()
    numbers = bucket_ids_in(found.file.data, properties.dictionary.to_pylist())
    return pa.array(numbers, pa.int32()).take(properties.indices)


def _zeros(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), count)
