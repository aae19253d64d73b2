"""Rows of one ORC file with their identity, as batches of the six ACID columns.

Takes one `AcidFile` (which file, what is in it, how far it counts) and the table's columns; gives
batches in file order, only with the columns asked for, in the table's types. A file without ACID
columns gets the identity that its place in the table gives it. Everything a reader relies on is
checked batch by batch: order, operations, no NULL where none may be. Must not know which files
count (`acid_files`) nor which rows are visible (`sorted_merge`).
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    UnknownColumnError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.batch_size import fitting_rows
from airflow_hiveacid.storage.filesystem import file_errors
from airflow_hiveacid.storage.identity import Key, Keys
from airflow_hiveacid.storage.orc_convert import FieldPlan, Matching, plan_fields, read_type
from airflow_hiveacid.storage.orc_footer import OrcTail, TypeKind, read_tail
from airflow_hiveacid.storage.orc_timestamps import TimestampForm
from airflow_hiveacid.storage.orc_view import (
    DEFAULT_BATCH_ROWS,
    ShowTimestamps,
    View,
    read_view,
    writer_time_zones,
)
from airflow_hiveacid.storage.row_schema import (
    CURRENT_WRITE_ID,
    IDENTITY_COLUMNS,
    OPERATION,
    ROW,
    root_schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.table import Column

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
"""Values of the `operation` column (OrcRecordUpdater of Hive)."""

# 28 bytes each, and as much again to sort them.
_MOST_UNORDERED: Final = 4_000_000
_UTC_ZONES: Final = frozenset({"UTC", "GMT"})
_FIRST_ROW: Final = RowId(0)
_BEFORE_ALL: Final = WriteId(0)
ROOT_NAMES: Final = (OPERATION, *IDENTITY_COLUMNS, CURRENT_WRITE_ID, ROW)
"""Names of the root columns of an ACID file."""

_ROOT_KINDS: Final = (
    TypeKind.INT,
    TypeKind.LONG,
    TypeKind.INT,
    TypeKind.LONG,
    TypeKind.LONG,
    TypeKind.STRUCT,
)
IDENTITY_SCHEMA: Final = root_schema(pa.struct([])).remove(len(ROOT_NAMES) - 1)
"""What `read_identity` gives: the root columns without `row`."""

_NO_EVENTS: Final = pa.RecordBatch.from_arrays(
    [pa.nulls(0, type_) for type_ in IDENTITY_SCHEMA.types], schema=IDENTITY_SCHEMA
)


class FileKind(enum.Enum):
    """What a file holds: insert events, delete events, or rows without ACID columns."""

    DATA = "data"
    DELETE = "delete"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticIdentity:
    """The identity of the rows of a file that stores none.

    Row IDs count up from `first_row_id` in file order. `write_id` is 0 for a file from before the
    table was transactional, else that of the directory it was loaded into.
    """

    write_id: WriteId
    bucket_property: BucketProperty
    first_row_id: RowId = _FIRST_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidFile:
    """One file that a reader reads. A plain value: tasks get it as it is.

    `path` is the file as `fs` names it, `key` its path below the table's or partition's root.
    `length` is where the file ends for a reader, in bytes: less than its size while a streaming
    writer is at it. `synthetic` goes with `FileKind.ORIGINAL` and no other. `least_write_id`: no
    row in it has a smaller original write ID.
    """

    fs: pafs.FileSystem
    path: str
    key: str
    length: int
    kind: FileKind
    bucket_id: BucketId
    least_write_id: WriteId = _BEFORE_ALL
    synthetic: SyntheticIdentity | None = None

    def __post_init__(self) -> None:
        if (self.kind is FileKind.ORIGINAL) != (self.synthetic is not None):
            raise ValueError("an original file, and no other, has a synthetic identity")

    def tail(self) -> OrcTail:
        """Read and check the end of the file.

        Raises:
            CorruptFileError: it is no ORC file, or damaged.
            UnsupportedFileError: it is written in a way that cannot be read.
            LocationPermissionError: it may not be read.
            StorageError: it is gone, or reading failed otherwise.
        """
        with file_errors("read", self.path):
            return read_tail(self.fs, self.path, self.length)


def has_acid_columns(tail: OrcTail) -> bool:
    """Whether a file has the six root columns, in any case (SchemaEvolution.checkAcidSchema)."""
    root = tail.types[0]
    kinds = tuple(tail.types[child].kind for child in root.children)
    names = tuple(name.lower() for name in root.field_names)
    return names == tuple(n.lower() for n in ROOT_NAMES) and kinds == _ROOT_KINDS


def read_events(  # noqa: PLR0913 - which rows, which columns, in which form: each has its default
    file: AcidFile,
    columns: Sequence[Column],
    *,
    data_columns: Sequence[str] | None = None,
    stripes: Sequence[int] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.NAME,
) -> Iterator[pa.RecordBatch]:
    """Read the events of one file, in file order, which is ascending by identity.

    Args:
        file: what to read.
        columns: the table's data columns, in the table's order.
        data_columns: the ones that `row` shall have, in this order; None for all.
        stripes: 0-based numbers of the stripes to read; None for all.
        batch_rows: the most rows of a batch.
        timestamps: the form of timestamp columns.
        matching: how the table's columns are found in the file.

    Returns:
        Batches of `read_schema(...)`; `row` is NULL in delete events and in no other.

    Raises:
        UnknownColumnError: `data_columns` names a column that the table does not have.
        UnsupportedTableError: a column has a type that cannot be read.
        UnsupportedFileError: the file holds a column in a type or with a value that does not fit.
        CorruptFileError: the file is damaged, out of order, or not of its kind.
        LocationPermissionError: it may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    wanted = chosen_columns(columns, data_columns)
    schema = read_schema(wanted, timestamps)
    source = _source(file, stripes, batch_rows)
    if file.kind is FileKind.DELETE:
        for root in source.identities():
            none = pa.nulls(root.num_rows, schema.field(ROW).type)
            yield pa.RecordBatch.from_arrays([*root.columns, none], schema=schema)
        return
    fields = plan_fields(
        source.tail, source.row_struct, columns, wanted=wanted, form=timestamps, matching=matching
    )
    for root, row in source.rows(_in_one_part(source, fields)):
        yield pa.RecordBatch.from_arrays([*root.columns, row], schema=schema)


def read_identity(
    file: AcidFile,
    *,
    stripes: Sequence[int] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Read only operation, identity and current write ID of the events of one file, in file order.

    Args:
        file: what to read.
        stripes: 0-based numbers of the stripes to read; None for all.
        batch_rows: the most rows of a batch.

    Returns:
        Batches of `IDENTITY_SCHEMA`.

    Raises:
        CorruptFileError: the file is damaged, out of order, or not of its kind.
        UnsupportedFileError: it is written in a way that cannot be read.
        LocationPermissionError: it may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    yield from _source(file, stripes, batch_rows).identities()


def chosen_columns(columns: Sequence[Column], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns of these names, in this order; None for all.

    Raises:
        UnknownColumnError: there is no column of a name.
    """
    if names is None:
        return tuple(columns)
    known = {column.name.lower(): column for column in columns}
    for name in names:
        if name.lower() not in known:
            raise UnknownColumnError(table="read", column=name, known=tuple(known))
    return tuple(known[name.lower()] for name in names)


def read_schema(
    columns: Sequence[Column], timestamps: TimestampForm = TimestampForm.NANOSECONDS
) -> pa.Schema:
    """The schema of what `read_events` gives for these columns.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column is or holds a union.
    """
    return root_schema(
        pa.struct(
            [(column.name, read_type(parse_type(column.type), timestamps)) for column in columns]
        )
    )


def _source(file: AcidFile, stripes: Sequence[int] | None, batch_rows: int) -> _Source:
    tail = file.tail()
    is_original = file.kind is FileKind.ORIGINAL
    if has_acid_columns(tail) == is_original:
        what = "the ACID columns" if is_original else "no ACID columns"
        raise CorruptFileError(
            path=file.path, reason=f"it has {what}, against what its directory says"
        )
    chosen = range(len(tail.stripes)) if stripes is None else sorted(stripes)
    return _Source(file=file, tail=tail, stripes=tuple(chosen), batch_rows=batch_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One file with its tail, and what part of it is read."""

    file: AcidFile
    tail: OrcTail
    stripes: tuple[int, ...]
    batch_rows: int

    @property
    def row_struct(self) -> int:
        """The column ID of the struct that holds the table's columns."""
        is_original = self.file.kind is FileKind.ORIGINAL
        return 0 if is_original else self.tail.types[0].children[-1]

    def identities(self) -> Iterator[pa.RecordBatch]:
        """The root columns without `row`, in order of identity."""
        if self.file.kind is FileKind.DELETE and not self._is_streamable():
            yield from self._put_in_order()
            return
        for root, _ in self.rows(()):
            yield root

    @property
    def _events(self) -> int:
        return sum(self.tail.stripes[index].rows for index in self.stripes)

    def _is_streamable(self) -> bool:
        """Whether delete events are in order and many; not every writer sees to the order."""
        if self._events <= self.batch_rows:
            return False
        last: Key | None = None
        for root, _ in self.roots(()):
            keys = Keys.of(root)
            if not keys.is_sorted() or (last is not None and keys.at(0) < last):
                return False
            last = keys.at(-1)
        return True

    def _put_in_order(self) -> Iterator[pa.RecordBatch]:
        if self._events > _MOST_UNORDERED:
            raise UnsupportedFileError(
                path=self.file.path,
                reason=f"its {self._events} delete events are out of order; rewrite the delete"
                " delta by a compaction in Hive",
            )
        check = _Check(self.file)
        events = pa.concat_batches([_NO_EVENTS, *(root for root, _ in self.roots(()))])
        if not Keys.of(events).is_sorted():
            events = events.take(pa.array(Keys.of(events).order()))
        for start in range(0, self._events, self.batch_rows):
            root = events.slice(start, self.batch_rows)
            check.see(root)
            yield root

    def rows(self, fields: Sequence[FieldPlan]) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The root columns without `row`, and `row` with these fields."""
        check = _Check(self.file)
        # A column whose timestamps may be too much for Arrow is read twice, in two parts.
        split = [f for f in fields if f.is_split]
        rows = fitting_rows(self.tail, _column_ids(fields), self.batch_rows)
        source = replace(self, batch_rows=rows)
        nanos = source.read_apart(split, ShowTimestamps.NANOS)
        seconds = source.read_apart(split, ShowTimestamps.SECONDS)
        for root, batch in source.roots([f for f in fields if not f.is_split]):
            check.see(root)
            yield root, _row(fields, root.num_rows, batch, (next(nanos), next(seconds)))

    def roots(self, fields: Sequence[FieldPlan]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The root columns of each batch, stored or made, and the batch they came with."""
        ids = _column_ids(fields)
        if self.file.synthetic is not None:
            batches = self._read(ids) if ids else self._empty_batches()
            yield from self._numbered(self.file.synthetic, batches)
            return
        root_ids = self.tail.types[0].children
        for batch in self._read((*root_ids, *ids)):
            self._require_values(batch)
            columns = batch.columns[: len(IDENTITY_SCHEMA)]
            yield pa.RecordBatch.from_arrays(columns, schema=IDENTITY_SCHEMA), batch

    def read_apart(
        self, fields: Sequence[FieldPlan], timestamps: ShowTimestamps
    ) -> Iterator[pa.RecordBatch | None]:
        """One part of these columns, batch by batch; None for ever if there are none."""
        nothing: Iterator[pa.RecordBatch | None] = itertools.repeat(None)
        return self._read(_column_ids(fields), timestamps) if fields else nothing

    def _read(
        self, ids: tuple[int, ...], timestamps: ShowTimestamps = ShowTimestamps.WHOLE
    ) -> Iterator[pa.RecordBatch]:
        view = View(
            columns=ids,
            flatten=self.row_struct or None,
            stripes=self.stripes,
            timestamps=timestamps,
        )
        return read_view(self.file.fs, self.tail, view, self.batch_rows)

    def _empty_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches without columns, cut as Arrow cuts: only how many rows there are counts."""
        for index in self.stripes:
            rows = self.tail.stripes[index].rows
            for start in range(0, rows, self.batch_rows):
                none = pa.nulls(min(self.batch_rows, rows - start), pa.struct([]))
                yield pa.RecordBatch.from_struct_array(none)

    def _numbered(
        self, synthetic: SyntheticIdentity, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Rows without ACID columns, with the ones that their place gives them."""
        lengths = np.array([stripe.rows for stripe in self.tail.stripes], dtype=np.int64)
        firsts = np.cumsum(lengths) - lengths
        chosen = list(self.stripes)
        ends = np.cumsum(lengths[chosen])
        # From the place among the rows that are read to the place in the file.
        skipped = firsts[chosen] - (ends - lengths[chosen])
        at = 0
        for batch in batches:
            places = np.arange(at, at + batch.num_rows)
            numbers = places + skipped[np.searchsorted(ends, places, "right")]
            at += batch.num_rows
            yield _made(synthetic, synthetic.first_row_id + numbers), batch

    def _require_values(self, batch: pa.RecordBatch) -> None:
        """Root columns have no NULL, but for `row`, which all delete events lack and no others."""
        *root, row = (column.null_count for column in batch.columns[: len(ROOT_NAMES)])
        is_delete = self.file.kind is FileKind.DELETE
        if any(root) or (row and not is_delete):
            raise CorruptFileError(
                path=self.file.path, reason="an ACID column is NULL where it must not be"
            )


def _made(synthetic: SyntheticIdentity, row_ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
    size = len(row_ids)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(size, INSERT, dtype=np.int32)),
            pa.array(np.full(size, synthetic.write_id, dtype=np.int64)),
            pa.array(np.full(size, synthetic.bucket_property, dtype=np.int32)),
            pa.array(row_ids),
            pa.array(np.full(size, synthetic.write_id, dtype=np.int64)),
        ],
        schema=IDENTITY_SCHEMA,
    )


def _row(
    fields: Sequence[FieldPlan],
    size: int,
    whole: pa.RecordBatch,
    parts: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
) -> pa.Array:
    """`row` of one batch."""
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), size, [None])
    columns = []
    for field in fields:
        name = f"c{field.column_id}"
        if field.column_id is None:
            columns.append(pa.nulls(size, field.field.type))
        elif field.is_split:
            nanos, seconds = (part.column(name) for part in parts if part is not None)
            columns.append(field.convert(nanos, seconds))
        else:
            columns.append(field.convert(whole.column(name), None))
    return pa.StructArray.from_arrays(columns, fields=[field.field for field in fields])


def _column_ids(fields: Sequence[FieldPlan]) -> tuple[int, ...]:
    return tuple(f.column_id for f in fields if f.column_id is not None)


def _in_one_part(source: _Source, fields: Sequence[FieldPlan]) -> tuple[FieldPlan, ...]:
    """Reading in parts understands writers in UTC only; other files are left to Arrow."""
    if any(f.is_split for f in fields):
        zones = writer_time_zones(source.file.fs, source.tail)
        if not zones <= _UTC_ZONES:
            return tuple(replace(field, is_split=False) for field in fields)
    return tuple(fields)


class _Check:
    """Sees the events of one file go by, and objects to those that no reader could rely on.

    Mutable: it remembers the last row.
    """

    def __init__(self, file: AcidFile) -> None:
        self._file = file
        self._last: Key = (file.least_write_id, -(1 << 31), -(1 << 63))

    def see(self, root: pa.RecordBatch) -> None:
        """Check one batch.

        Raises:
            CorruptFileError: it is out of order, or holds an event that does not belong here.
            UnsupportedFileError: it holds update events, which only Hive before 3 writes.
        """
        keys = Keys.of(root)
        if not len(keys):
            return
        if keys.at(0) < self._last or not keys.is_sorted():
            raise CorruptFileError(
                path=self._file.path,
                reason="its rows are not in the order of row identity, or older than its directory",
            )
        self._last = keys.at(-1)
        self._see_operations(root.column(OPERATION).to_numpy())

    def _see_operations(self, operations: npt.NDArray[np.int32]) -> None:
        expected = DELETE if self._file.kind is FileKind.DELETE else INSERT
        if (operations == expected).all():
            return
        if (operations == UPDATE).any():
            raise UnsupportedFileError(
                path=self._file.path,
                reason="it holds update events of Hive before 3; compact the table there first",
            )
        raise CorruptFileError(
            path=self._file.path, reason=f"it holds events other than operation {expected}"
        )
