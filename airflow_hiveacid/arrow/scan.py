"""The live rows of a table under a snapshot as Arrow batches, with the rows of a simple condition.

A plan has plain values; several threads read its batches, without the metastore. Partitions and
stripes that cannot contain a row of the condition are not read. The rows come partition by
partition and bucket by bucket, in the order of row IDs, so two reads of one plan give the same rows
in the same order.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from airflow_hiveacid.arrow.columns import rows_that_meet
from airflow_hiveacid.arrow.search import partition_constants, stripes_where
from airflow_hiveacid.format.errors import SparkNeededError, UnknownColumnError
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements.conditions import Condition, columns_of, reduced
from airflow_hiveacid.reading import arrow_scan, free_name, partition_at
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.column_types import arrow_type
from airflow_hiveacid.storage.values.nested import batch_of, with_time_unit
from airflow_hiveacid.storage.values.partition_values import partition_texts

CORES: Final = len(os.sched_getaffinity(0))
"""The cores that this process may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Work, the typed values of its partition, and the rest of the condition (None: all rows)."""

    work: arrow_scan.ScanPiece | arrow_scan.PlainPiece
    values: Mapping[str, pa.Scalar]
    rest: Condition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The pieces of a scan, and the schema of its batches."""

    schema: pa.Schema
    pieces: Sequence[_Piece]

    def batches(self, threads: int = CORES) -> Iterator[pa.RecordBatch]:
        """Yield the rows; no batch is empty. For errors, see `TableView`."""
        return read_in_order(self.pieces, self._read, threads=threads)

    def _read(self, piece: _Piece) -> Iterator[pa.RecordBatch]:
        work = piece.work
        for batch in (
            arrow_scan.scan_piece(work)
            if isinstance(work, arrow_scan.ScanPiece)
            else arrow_scan.scan_plain(work)
        ):
            if piece.rest is not None:
                columns = {name: batch.column(name) for name in columns_of(piece.rest)}
                batch = batch.filter(rows_that_meet(piece.rest, columns))  # noqa: PLW2901 - its rows
            count = batch.num_rows
            arrays = [
                pa.repeat(piece.values[field.name], count)
                if field.name in piece.values
                else _cast(batch.column(field.name), field.type)
                for field in self.schema
            ]
            yield batch_of(arrays, self.schema, count)


def schema_of(table: TableInfo, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of a scan of these columns; by default, of all.

    Timestamps are in microseconds, as on Spark's side: nanoseconds would not hold the years before
    1678 and after 2261. Raises UnknownColumnError if the table has no such column.
    """
    types = {c.name: parse_type(c.type) for c in (*table.columns, *table.partition_columns)}
    names = table.column_names if columns is None else [name.lower() for name in columns]
    for name in names:
        if name not in types:
            raise UnknownColumnError(table=table.ref, column=name, known=table.column_names)
    return pa.schema([(name, with_time_unit(arrow_type(types[name]), "us")) for name in names])


def plan_scan(view: TableView, schema: pa.Schema, condition: Condition | None) -> ScanPlan:
    """Return the plan of a scan; SparkNeededError for a partition value only Spark reads."""
    table = view.table
    columns = [c.name for c in table.partition_columns if c.name in columns_of(condition)]
    values: dict[int, Mapping[str, pa.Scalar]] = {}
    rests: dict[int, Condition | None] = {}
    for position, info in enumerate(view.partitions):
        constants = partition_constants(table, info.name, columns)
        rest = True if condition is None else reduced(condition, constants)
        # False: no row of the partition meets the condition. True: each one does.
        if not isinstance(rest, bool) or rest:
            values[position] = _values(table, info, schema)
            rests[position] = None if isinstance(rest, bool) else rest
    works: Iterator[tuple[int, arrow_scan.ScanPiece | arrow_scan.PlainPiece]] = (
        _acid_works(view, schema, rests)
        if table.kind is TransactionalKind.FULL_ACID
        else _plain_works(view, schema, rests)
    )
    pieces = [
        _Piece(work=work, values=values[position], rest=rests[position]) for position, work in works
    ]
    return ScanPlan(schema=schema, pieces=pieces)


def _acid_works(
    view: TableView, schema: pa.Schema, rests: Mapping[int, Condition | None]
) -> Iterator[tuple[int, arrow_scan.ScanPiece]]:
    files = [file for file in view.files if file.partition in rests]
    stripes = _stripes(view.table, files, rests)
    files = [file for file in files if stripes.get(file.number) != ()]
    for together, part in arrow_scan.read_together(files, CORES):
        position, first = together[0].partition, together[0].number
        chosen = part  # None, as for files that are read together, means all stripes
        if len(together) == 1 and first in stripes:
            chosen = tuple(s for s in stripes[first] if part is None or s in part)
        if chosen != ():
            yield (
                position,
                arrow_scan.ScanPiece(
                    numbers=tuple(file.number for file in together),
                    data=tuple(file.data for file in together),
                    stripes=chosen,
                    deletes=arrow_scan.deletes_of(together),
                    write_ids=view.write_ids,
                    columns=view.table.columns,
                    wanted=_wanted(view.table, schema, rests[position]),
                    ranges={},
                    position=_position(view.table),
                ),
            )


def _plain_works(
    view: TableView, schema: pa.Schema, rests: Mapping[int, Condition | None]
) -> Iterator[tuple[int, arrow_scan.PlainPiece]]:
    for number, file in view.plain_files:
        position = partition_at(number)
        if position in rests:
            yield (
                position,
                arrow_scan.PlainPiece(
                    number=number,
                    file=file,
                    columns=view.table.columns,
                    wanted=_wanted(view.table, schema, rests[position]),
                    position=_position(view.table),
                ),
            )


def _stripes(
    table: TableInfo, files: Sequence[arrow_scan.TargetFile], rests: Mapping[int, Condition | None]
) -> dict[int, tuple[int, ...]]:
    """Return the stripes that may have a row, by file number; leave out files read whole."""

    def reached(file: arrow_scan.TargetFile) -> tuple[int, ...] | None:
        rest = rests[file.partition]
        if rest is None:
            return None
        tail = file.data.tail()
        chosen = stripes_where(table, file, tail, rest)
        return None if len(chosen) == len(tail.stripes) else chosen

    stripes = each_in_threads(reached, files)
    return {f.number: s for f, s in zip(files, stripes, strict=True) if s is not None}


def _wanted(table: TableInfo, schema: pa.Schema, rest: Condition | None) -> tuple[str, ...]:
    names = {*schema.names, *columns_of(rest)}
    return tuple(column.name for column in table.columns if column.name in names)


def _position(table: TableInfo) -> str:
    return free_name("position", table.column_names)


def _values(table: TableInfo, info: PartitionInfo, schema: pa.Schema) -> dict[str, pa.Scalar]:
    texts = partition_texts(table.partition_columns, info.name)
    values = {}
    for column, text in zip(table.partition_columns, texts, strict=True):
        if column.name in schema.names:
            try:
                array = pa.array([text], pa.string()).cast(schema.field(column.name).type)
            except pa.ArrowException as error:  # a time whose zone is a name, or the reader's
                raise SparkNeededError(
                    reason=f"partition column {column.name} is of type {column.type}"
                ) from error
            values[column.name] = array[0]
    return values


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type.equals(type_) else column.cast(type_)


_P = TypeVar("_P")

READ_AHEAD_BYTES: Final = 256 << 20
"""The bytes that may wait for the caller; each thread holds one more batch."""


def read_in_order(
    pieces: Sequence[_P],
    read: Callable[[_P], Iterator[pa.RecordBatch]],
    *,
    threads: int,
    most_bytes: int = READ_AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of every piece, in order, and then its error; `threads` read ahead.

    They read up to a number of bytes, so memory stays bounded even if the caller is slow, and end
    with the caller's last batch, when the caller drops the iterator, or with the process. Batches
    without rows are left out, but they also are points at which a thread can end.
    """
    if threads <= 1 or len(pieces) <= 1:
        for piece in pieces:
            yield from (batch for batch in read(piece) if batch.num_rows)
        return
    ahead = _Ahead(len(pieces), most_bytes)

    def work() -> None:
        for number in ahead.numbers():
            ahead.fill(number, read(pieces[number]))

    try:
        for number in range(min(threads, len(pieces))):
            # Python would wait for other threads than daemons before `_end_readers` stops them.
            reader = threading.Thread(target=work, name=f"reader-{number}", daemon=True)
            reader.start()
            _READERS[reader] = ahead
        for number in range(len(pieces)):
            yield from ahead.batches(number)
    finally:
        ahead.stop()


class _Ahead:
    """The batches that threads have read ahead. Mutable, and shared by threads."""

    def __init__(self, pieces: int, most_bytes: int) -> None:
        self._changed = threading.Condition()
        self._queues: list[deque[pa.RecordBatch]] = [deque() for _ in range(pieces)]
        self._ends: dict[int, BaseException | None] = {}
        self._most_bytes = most_bytes
        self._bytes = self._taken = self._first = 0
        self._is_stopped = False

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the pieces; each number is yielded to one thread."""
        while True:
            with self._changed:
                number, self._taken = self._taken, self._taken + 1
            if number >= len(self._queues) or self._is_stopped:
                return
            yield number

    def fill(self, number: int, batches: Iterator[pa.RecordBatch]) -> None:
        """Read the batches of a piece as long as they are wanted; note its end, or its error."""
        error: BaseException | None = None
        try:
            all(self._put(number, batch) for batch in batches)
        except BaseException as failure:  # noqa: BLE001 - raised in the caller's thread
            error = failure
        with self._changed:
            self._ends[number] = error
            self._changed.notify_all()

    def _put(self, number: int, batch: pa.RecordBatch) -> bool:
        """Add a batch, as soon as there is room; return False if no more batches are wanted."""
        with self._changed:
            # The piece that the caller waits for always has room, even if later pieces take all.
            self._changed.wait_for(
                lambda: (
                    self._is_stopped
                    or self._bytes < self._most_bytes
                    or (number == self._first and not self._queues[number])
                )
            )
            if batch.num_rows:
                self._queues[number].append(batch)
                self._bytes += batch.nbytes
                self._changed.notify_all()
            return not self._is_stopped

    def batches(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the next piece of the caller."""
        queue = self._queues[number]
        while True:
            with self._changed:
                self._first = number
                self._changed.notify_all()
                self._changed.wait_for(lambda: queue or number in self._ends)
                if not queue:
                    break
                batch = queue.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch
        error = self._ends[number]
        if error is not None:
            raise error

    def stop(self) -> None:
        """Let every thread end at its next batch."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


_MOST_WAIT_S: Final = 60.0
"""How long a process that ends waits for reads that a store does not answer."""
_READERS: Final[WeakKeyDictionary[threading.Thread, _Ahead]] = WeakKeyDictionary()
"""The threads that read ahead; a fork has none of them."""
os.register_at_fork(after_in_child=_READERS.clear)


@atexit.register
def _end_readers() -> None:
    """Wait for the threads of unfinished scans: Arrow aborts a process that ends during a call."""
    readers = list(_READERS.items())
    for _, ahead in readers:
        ahead.stop()
    until_s = time.monotonic() + _MOST_WAIT_S
    for reader, _ in readers:
        reader.join(max(0.0, until_s - time.monotonic()))
