"""Events, the rows that bring row changes to their writers: one staged file per bucket.

`write_events` takes batches of events in `EVENT_ORDER`, on an executor or in this process. It
writes staged files and yields one row per file. A file's path contains the attempt, and the driver
publishes only files that tasks reported, so a second copy of a task does no harm. `write_here`
sorts and writes a few thousand events in this process.

Memory holds a few batches and one stripe of an old file, even if files and groups are large.

A delete event contains the row ID of an old row, an insert event a new row. An update is both: its
insert event omits columns that the statement does not change, and contains the old row's ID, so
that the writer fetches them from the old row, exact to the nanosecond.

Columns of events:

| column | meaning |
| --- | --- |
| `_partition` | JSON array of the partition values as strings; `[]` in an unpartitioned table |
| `_kind` | 0 delete event, 1 insert event |
| `_bucket` | number of the bucket file to which the event is written |
| `_file`, `_clause` | for updates: number of the old row's file, and clause of the new row |
| `originalTransaction`, `bucket`, `rowId` | row ID of the old row; NULL without an old row |
| `row` | the new row, or only the columns that a clause sets; NULL in a delete event |

If a writer gets two changes of one row ID, a note to its error names the files with the row. Either
two rows of a MERGE's source match one row, or two rows of the table have this row ID, as
after a delta was copied. Then every change of one row would change both. The files tell the two
cases apart.
"""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MergeCardinalityError, TwinRowIdsError
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId, encode
from airflow_hiveacid.format.names import BaseName, DeltaName, data_file
from airflow_hiveacid.format.table import (
    Column as TableColumn,
    FileFormat,
    PartitionName,
    TableInfo,
    TransactionalKind,
    check_storable,
)
from airflow_hiveacid.reading.pieces import arrow_schema
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.read import AcidFile, has_acid_columns
from airflow_hiveacid.storage.acid.read.old_rows import OldRows
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.stream_writer import RowsWriter
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.filesystem import make_directory
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.values.timestamps import with_pairs
from airflow_hiveacid.writing.publish import StagedFile

WRITTEN_SCHEMA: Final = (
    "partition string, directory string, bucket int, attempt string, rows long, updated long,"
    " size_bytes long"
)
"""One row per staged file; `updated` counts new rows that replace an old row."""


class Written(NamedTuple):
    """One row of `WRITTEN_SCHEMA`."""

    partition: str
    directory: str
    bucket: int
    attempt: str
    rows: int
    updated: int
    size_bytes: int

    @classmethod
    def of(cls, row: object) -> Self:
        """Convert a row from Spark."""
        return cls(*(getattr(row, name) for name in cls._fields))

    def batch(self) -> pa.RecordBatch:
        """Return the row as an Arrow batch."""
        return pa.RecordBatch.from_pylist([self._asdict()], schema=arrow_schema(WRITTEN_SCHEMA))

    @classmethod
    def all_of(cls, batches: Iterable[pa.RecordBatch]) -> list[Self]:
        """Convert the batches that a writer yields."""
        return [cls(**row) for batch in batches for row in batch.to_pylist()]


# The default dfs.namenode.fs-limits.max-component-length of HDFS, and the limit of Linux.
_LONGEST_NAME_BYTES: Final = 255
_BOUNDED_NAMES: Final = frozenset({"file", "hdfs"})
# By Hive's names; any other codec becomes GZIP, which every reader supports.
_IN_PARQUET: Final = {"uncompressed": "none", "snappy": "snappy", "gzip": "zlib"}


MOST_EVENTS: Final = 50_000
MOST_BYTES: Final = 16 << 20
"""The limits for writes in the driver: a few tenths of a second of work, in little memory.
"""

_BATCH_ROWS: Final = 16_384
# Old values of updated rows are fetched for a whole batch, even if the rows are wide.
_FETCHING_ROWS: Final = 1_000


def writer_options(
    table: TableInfo, generation: MetastoreGeneration, *, is_base: bool
) -> WriterOptions:
    """Return the layout of files: large stripes in bases, small stripes in deltas, as in Hive.

    The table chooses the compression. The default is a codec that every reader of the metastore's
    generation supports. For example, ORC 1.5 in Hive 3.1 does not support ZSTD.
    """
    default = "zlib" if generation is MetastoreGeneration.V3 else "zstd"
    compression = table.parameters.get("orc.compress", "").lower() or default
    if table.storage.format is FileFormat.PARQUET:
        codec = table.parameters.get("parquet.compression", "").lower()
        compression = _IN_PARQUET.get(codec, "zlib")
    return WriterOptions(
        compression=compression,
        stripe_size_bytes=(64 if is_base else 16) << 20,
        compression_block_bytes=(256 if is_base else 64) << 10,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The plan by which an executor writes events, as plain values.

    `token` is the name of the staging directories. `locations` contains the locations of partitions
    outside of their default root below the table. `insert_directory` is a delta, or a base for an
    overwrite; `delete_directory` is a delete delta. `given[clause]` has the columns that a clause
    sets. `old_files` maps the `_file` values of updates to the files that contain the old rows.
    """

    table: TableInfo
    write_id: WriteId
    statement_id: StatementId
    token: str
    insert_directory: DeltaName | BaseName
    delete_directory: DeltaName
    options: WriterOptions
    given: tuple[frozenset[str], ...]
    locations: Mapping[PartitionName, str] = field(default_factory=dict)
    old_files: Mapping[int, AcidFile] = field(default_factory=dict)

    def partition(self, key: str) -> PartitionName:
        """Return the partition for a `_partition` value."""
        name = self.table.partition_name(json.loads(key))
        is_bounded = scheme_of(self.table.location) in _BOUNDED_NAMES
        check_storable(name, most_bytes=_LONGEST_NAME_BYTES if is_bounded else None)
        return name

    def staging(self, partition: PartitionName) -> Staging:
        """Return the staging area of a partition's files."""
        location = self.locations.get(partition)
        return Staging.of(
            self.table, location or self.table.default_partition_location(partition), self.token
        )

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The table's data columns."""
        return self.table.columns


def write_events(batches: Iterator[pa.RecordBatch], *, plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """Write events in `EVENT_ORDER`, as one task; yield one row of `WRITTEN_SCHEMA` per file."""
    attempt = uuid.uuid4().hex
    is_plain = plan.table.kind is TransactionalKind.INSERT_ONLY
    group: _PlainGroup | None = None
    try:
        for batch in batches:
            for part in _runs(batch):
                partition, kind, bucket = (part.column(name)[0].as_py() for name in GROUP)
                key = (partition, kind, bucket)
                if group is None or group.key != key:
                    if group is not None:
                        yield group.close()
                    group = (_PlainGroup if is_plain else _EventGroup)(plan, key, attempt)
                group.write(part)
        if group is not None:
            yield group.close()
    except BaseException:
        if group is not None:
            group.abort()
        raise


def are_few(events: int, size_bytes: int) -> bool:
    """Return True if this many events, with this approximate size, can be written in the driver."""
    return events <= MOST_EVENTS and size_bytes <= MOST_BYTES


def write_here(plan: WritePlan, batches: Sequence[pa.RecordBatch]) -> list[Written]:
    """Write unordered events in this process; return one record per file."""
    if not batches:
        return []
    (events,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    order = pc.sort_indices(events, [(name, "ascending", "at_start") for name in EVENT_ORDER])
    step = _FETCHING_ROWS if plan.old_files else _BATCH_ROWS
    ordered = (events.take(order[start : start + step]) for start in range(0, len(order), step))
    return Written.all_of(write_events(ordered, plan=plan))


def staged_files(plan: WritePlan, written: Iterable[Written]) -> tuple[StagedFile, ...]:
    """Return the files that the writers report, for publication."""
    return tuple(
        StagedFile(
            partition=plan.partition(file.partition),
            directory=file.directory,
            bucket=BucketId(file.bucket),
            attempt=file.attempt,
            rows=file.rows,
            updated=file.updated,
            size_bytes=file.size_bytes,
            kind=plan.table.kind,
        )
        for file in written
    )


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch where the partition, kind or bucket changes, so that a part has one `GROUP`."""
    if not batch.num_rows:
        return
    changed = np.zeros(batch.num_rows - 1, dtype=bool)
    for name in GROUP:
        column = batch.column(name)
        changed |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    cuts = [0, *(np.flatnonzero(changed) + 1).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(cuts):
        yield batch.slice(start, end - start)


class _PlainGroup:
    """A staged file of plain rows, in an insert-only table. Mutable: it counts rows."""

    def __init__(self, plan: WritePlan, key: tuple[str, int, int], attempt: str) -> None:
        self.key, self._plan, self._attempt = key, plan, attempt
        self._partition, kind, bucket = key
        self._bucket = BucketId(bucket)
        self._is_delete = kind == DELETE_KIND
        self._directory = str(plan.delete_directory if self._is_delete else plan.insert_directory)
        self._rows = self._updated = 0
        staging = plan.staging(plan.partition(self._partition))
        name = data_file(self._bucket, plan.table.kind)
        self._writer = self._opened(staging.attempt_path(self._directory, name, attempt))

    def _opened(self, uri: str) -> AcidFileWriter | RowsWriter:
        table = self._plan.table
        return rows_writer(
            table.storage.format,
            *open_location(uri),
            self._plan.columns,
            self._plan.options,
            table.ref,
            text=text_form(table.ref, table.storage, table.parameters),
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch.column("row"))
        self._rows += batch.num_rows

    def close(self) -> pa.RecordBatch:
        return Written(
            partition=self._partition,
            directory=self._directory,
            bucket=int(self._bucket),
            attempt=self._attempt,
            rows=self._rows,
            updated=self._updated,
            size_bytes=self._writer.close().size_bytes,
        ).batch()

    def abort(self) -> None:
        self._writer.abort()


class _EventGroup(_PlainGroup):
    """A staged file of events. Mutable: it also stores the last row ID."""

    def __init__(self, plan: WritePlan, key: tuple[str, int, int], attempt: str) -> None:
        super().__init__(plan, key, attempt)
        # The columns that some clause does not set. All rows of the file fetch the same ones,
        # because the cursor of `OldRows` restarts if the columns change.
        self._fetched = tuple(
            c.name for c in plan.columns if any(c.name not in g for g in plan.given)
        )
        self._old_rows = OldRows(plan.old_files, plan.columns, self._fetched)
        self._last: Key | None = None

    def _opened(self, uri: str) -> AcidFileWriter:
        fs, path = open_location(uri)
        make_directory(fs, posixpath.dirname(path))
        return AcidFileWriter(
            fs,
            path,
            self._plan.columns,
            self._plan.options,
            is_delete=self._is_delete,
            table=self._plan.table.ref,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        if self._is_delete:
            self._refuse_doubles(batch)
            events = delete_events(
                batch.select(list(IDENTITY_COLUMNS)), self._plan.write_id, self._plan.columns
            )
        else:
            updates = batch.filter(pc.is_valid(batch.column("rowId")))
            self._updated += updates.num_rows
            if updates.num_rows:
                self._refuse_doubles(updates)
            events = insert_events(
                self._whole_rows(batch),
                self._plan.write_id,
                encode(self._bucket, self._plan.statement_id),
                RowId(self._rows),
            )
        self._writer.write(events)
        self._rows += batch.num_rows

    def _refuse_doubles(self, batch: pa.RecordBatch) -> None:
        """Raise MergeCardinalityError if a row ID equals the one before it, also across batches."""
        keys = Keys.of(batch)
        again = keys.repeats()
        again[0] = keys.at(0) == self._last
        if again.any():
            raise MergeCardinalityError(
                table=self._plan.table.ref,
                count=int(again.sum()),
                example=row_text(keys.at(int(np.argmax(again)))),
            )
        self._last = keys.at(-1)

    def _whole_rows(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return the new rows; columns that were not set are fetched from the old rows."""
        new = batch.column("row")
        if not self._fetched:
            return new
        # Old rows have timestamps as pairs, and all rows of a file have one form.
        new = with_pairs(new)
        clause = batch.column("_clause").to_numpy(zero_copy_only=False)
        is_update = batch.column("rowId").is_valid().to_numpy(zero_copy_only=False)
        old_masks: dict[str, np.ndarray] = {}
        for column in self._plan.columns:
            is_given = np.array([column.name in names for names in self._plan.given], dtype=bool)
            # `is_given` has a value per clause; `is_update` drops what other rows look up.
            old = is_update & ~np.take(is_given, np.where(is_update, clause, 0).astype(int))
            if old.any():
                old_masks[column.name] = old
        if not old_masks:
            return new
        needs_old = np.logical_or.reduce(list(old_masks.values()))
        return self._merged(batch, new, old_masks, needs_old)

    def _merged(
        self,
        batch: pa.RecordBatch,
        new: pa.StructArray,
        kept: Mapping[str, np.ndarray],
        needs_old: np.ndarray,
    ) -> pa.StructArray:
        # `kept` has, for each column, the rows whose old value stays.
        fetched = self._old_rows.fetch(batch.filter(pa.array(needs_old)))
        # The place of each row's old values behind the new values.
        index = np.cumsum(needs_old) - 1 + batch.num_rows
        # Flatten once, because extracting one field costs as much as extracting all fields.
        new_values = dict(zip((field.name for field in new.type), new.flatten(), strict=True))
        fields = []
        for column in self._plan.columns:
            values = new_values.get(column.name)
            if values is None:
                # No clause sets this column, so every row here takes its value from an old row.
                fields.append(fetched[column.name])
            elif column.name in kept:
                pick = np.where(kept[column.name], index, np.arange(batch.num_rows))
                old = fetched[column.name]
                both = pa.concat_arrays([values.cast(old.type), old])
                fields.append(both.take(pa.array(pick)))
            else:
                fields.append(values)
        return pa.StructArray.from_arrays(fields, names=[c.name for c in self._plan.columns])


DELETE_KIND: Final = 0
INSERT_KIND: Final = 1
GROUP: Final = ("_partition", "_kind", "_bucket")
EVENT_ORDER: Final = (*GROUP, "_file", *IDENTITY_COLUMNS)
"""The order in which a writer takes events, all of one group together.

Delete events are ordered by row ID. Insert events of updates are ordered by file and old row, so
that each old stripe is read once.
"""
EVENT_COLUMNS: Final = (*GROUP, "_file", "_clause", *IDENTITY_COLUMNS, "row")

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


def partition_text(name: PartitionName) -> str:
    """Return the `_partition` value of a partition, as Spark's `to_json` writes it."""
    text = json.dumps(list(name.values), separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(_as_spark_writes_it, text)


def _as_spark_writes_it(escape: re.Match[str]) -> str:
    """Return a JSON escape in upper case, as Spark writes it, so that a partition has one key."""
    return escape[0] if escape[1] is None else f"\\u{escape[1].upper()}"


_ROW: Final = re.compile(r"row (\d+) of write ID (\d+), bucket property (-?\d+)")


@contextmanager
def named_twins(target: TableView) -> Iterator[None]:
    """Run a block that changes rows; find the cause of its error about two changes of one row.

    Two rows of the table with the same row ID raise TwinRowIdsError. Two source rows that match one
    target row raise MergeCardinalityError, as before.
    """
    try:
        yield
    except MergeCardinalityError as error:
        row = _ROW.search(str(error))  # a worker passes only the message
        if row is None:
            raise
        files = _holders(target, (int(row[2]), int(row[3]), int(row[1])))
        if len(files) <= 1:
            raise
        raise TwinRowIdsError(table=target.table.ref, row=row[0], files=files) from error


def row_text(key: Key) -> str:
    """Return the text for a row ID in a message."""
    write_id, bucket, row = key
    return f"row {row} of write ID {write_id}, bucket property {bucket}"


def _holders(target: TableView, row: Key) -> tuple[str, ...]:
    """Return a file's URI for each row with this ID, in one partition: that with the most rows."""
    holders: dict[int, list[str]] = {}
    for file in target.files:
        path = f"{target.partitions[file.partition].location.rstrip('/')}/{file.data.key}"
        holders.setdefault(file.partition, []).extend([path] * _count(file.data, row))
    most: list[str] = max(holders.values(), key=len, default=[])
    return tuple(most)


def _count(file: AcidFile, row: Key) -> int:
    """Return how many rows of a file have this row ID; read none if statistics rule it out."""
    tail = file.tail()
    ranges = [tail.integer_range(column_id) for column_id in IDENTITY_COLUMN_IDS]
    if has_acid_columns(tail) and any(
        bounds is not None and not bounds[0] <= value <= bounds[1]
        for bounds, value in zip(ranges, row, strict=True)
    ):
        return 0
    count = 0
    for batch in read_identity(file):
        keys = Keys.of(batch)
        is_row = (keys.original == row[0]) & (keys.bucket == row[1]) & (keys.row == row[2])
        count += int(np.count_nonzero(is_row))
    return count
