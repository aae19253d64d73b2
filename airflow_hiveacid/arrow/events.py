"""Events of found and new rows, for `writing.event_files`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.arrow.search import FileRows
from airflow_hiveacid.format.table import Column, FileFormat, PartitionName, TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.reading.orc_fit import require_own_bucket
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.storage.acid.read.buckets import bucket_ids_in
from airflow_hiveacid.storage.acid.row_schema import BUCKET_PROPERTY, IDENTITY_COLUMNS
from airflow_hiveacid.storage.hashing import bucket_ids
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.nested import with_leaf_types
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, with_pairs
from airflow_hiveacid.writing import event_files

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
            identity=[found.rows.column(name) for name in IDENTITY_COLUMNS],
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
            identity=[found.rows.column(name) for name in IDENTITY_COLUMNS],
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
        return with_pairs(values) if self._is_orc else values

    @property
    def _is_orc(self) -> bool:
        return self.table.storage.format is FileFormat.ORC

    @property
    def _row_type(self) -> pa.StructType:
        """The type of new rows; ORC files get exact timestamps, other files microseconds."""

        def form(type_: pa.DataType) -> pa.DataType:
            if not pa.types.is_timestamp(type_):
                return type_
            return PAIR_TYPE if self._is_orc else pa.timestamp("us", type_.tz)

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
    properties = found.rows.column(BUCKET_PROPERTY).dictionary_encode()
    numbers = bucket_ids_in(found.file.data, properties.dictionary.to_pylist())
    return pa.array(numbers, pa.int32()).take(properties.indices)


def _zeros(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), count)
