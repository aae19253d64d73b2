"""Read the rows of one ORC file with their identities, as batches of the six ACID columns.

In a file without ACID columns, a row's identity follows from the file's path and the row's
position. The module checks what readers rely on: the order, the operations, and forbidden NULLs.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, IDENTITY_SCHEMA, ROW, root_schema
from airflow_hiveacid.storage.acid.events import insert_columns
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.read import (
    AcidFile,
    FileKind,
    SyntheticIdentity,
    has_acid_columns,
)
from airflow_hiveacid.storage.acid.read.file_check import FileCheck, as_new_rows, require_new_rows
from airflow_hiveacid.storage.orc.footer import OrcTail, StripeInfo, TypeKind, Writer
from airflow_hiveacid.storage.orc.view import (
    DEFAULT_BATCH_ROWS,
    TIMESTAMP_KINDS,
    ColumnView,
    ShowTimestamps,
    fitting_rows,
    read_view,
    writer_time_zones,
)
from airflow_hiveacid.storage.values.convert import FieldPlan, Matching, plan_fields
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.nested import batch_of
from airflow_hiveacid.storage.values.time_zones import TimeZone, zone_of
from airflow_hiveacid.storage.values.timestamps import TimestampForm

# An event takes 28 bytes in memory. Sorting takes another 28 bytes.
_MOST_UNORDERED: Final = 4_000_000

_NO_EVENTS: Final = pa.RecordBatch.from_arrays(
    [pa.nulls(0, type_) for type_ in IDENTITY_SCHEMA.types], schema=IDENTITY_SCHEMA
)


def read_events(  # noqa: PLR0913 - which rows, columns and form: each has its default
    file: AcidFile,
    columns: Sequence[Column],
    *,
    data_columns: Sequence[str] | None = None,
    stripes: Sequence[int] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.NAME,
    tail: OrcTail | None = None,
    is_hives: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read the events of one file in file order, that is, in ascending order of identity.

    `columns` are the table's data columns, in the table's order. `data_columns` are the columns of
    `row`, in this order, and `stripes` are 0-based numbers; None means all. `tail` is the file's
    tail, if the caller has already read it. For `is_hives`, see `calendars.is_hybrid`. Batches have
    the schema `read_schema(...)`; `row` is NULL only in delete events.
    """
    selection = chosen_columns(columns, data_columns)
    schema = read_schema(selection, timestamps)
    source = _source(file, stripes, batch_rows, tail)
    if file.kind is FileKind.DELETE:
        for root in source.identities():
            none = pa.nulls(root.num_rows, schema.field(ROW).type)
            yield pa.RecordBatch.from_arrays([*root.columns, none], schema=schema)
        return
    plan = partial(
        plan_fields,
        source.tail,
        source.row_struct,
        columns,
        wanted=selection,
        form=timestamps,
        matching=matching,
        is_hives=is_hives,
    )
    fields = plan()
    check = FileCheck(file)
    for zone, part in source.zones.parts(_column_ids(fields)):
        in_zone = fields if zone is None else plan(zone=zone)
        for root, row in replace(source, stripes=part).rows(in_zone, check):
            yield pa.RecordBatch.from_arrays([*root.columns, row], schema=schema)


def read_identity(
    file: AcidFile,
    *,
    stripes: Sequence[int] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    tail: OrcTail | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the operation, identity and current write ID of one file's events, in file order.

    Yield batches of `IDENTITY_SCHEMA`. `stripes` are 0-based numbers; None means all. `tail` is the
    file's tail, if the caller has already read it.
    """
    yield from _source(file, stripes, batch_rows, tail).identities()


def read_bucket_properties(file: AcidFile) -> Iterator[npt.NDArray[np.int32]]:
    """Read only the bucket properties of one file with ACID columns; rows are not checked."""
    source = _source(file, None, DEFAULT_BATCH_ROWS)
    for batch in source.read_roots(IDENTITY_COLUMN_IDS[1:2]):
        yield batch.column(0).to_numpy()


def chosen_columns(columns: Sequence[Column], names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns with these names, in this order, or all; or raise UnknownColumnError."""
    if names is None:
        return tuple(columns)
    by_name = {column.name.lower(): column for column in columns}
    for name in names:
        if name.lower() not in by_name:
            raise errors.UnknownColumnError(table="read", column=name, known=tuple(by_name))
    return tuple(by_name[name.lower()] for name in names)


def read_schema(
    columns: Sequence[Column], timestamps: TimestampForm = TimestampForm.NANOSECONDS
) -> pa.Schema:
    """Return the schema of the batches that `read_events` yields for these columns."""
    return root_schema(
        pa.struct(
            [(column.name, read_type(parse_type(column.type), timestamps)) for column in columns]
        )
    )


def _source(
    file: AcidFile, stripes: Sequence[int] | None, batch_rows: int, tail: OrcTail | None = None
) -> _Source:
    tail = file.tail() if tail is None else tail
    is_original = file.kind is FileKind.ORIGINAL
    if has_acid_columns(tail) == is_original:
        contents = "the ACID columns" if is_original else "no ACID columns"
        raise errors.CorruptFileError(
            path=file.path, reason=f"it has {contents}, which contradicts the name of its directory"
        )
    # Check the whole file even if only some stripes are read, because a row's update event may be
    # in a different stripe.
    require_new_rows(file, tail)
    chosen = range(len(tail.stripes)) if stripes is None else sorted(stripes)
    zones = zones_of(file.fs, tail, chosen)
    return _Source(file=file, tail=tail, stripes=tuple(chosen), batch_rows=batch_rows, zones=zones)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    file: AcidFile
    tail: OrcTail
    stripes: tuple[int, ...]
    batch_rows: int
    zones: StripeZones

    @property
    def row_struct(self) -> int:
        is_original = self.file.kind is FileKind.ORIGINAL
        return 0 if is_original else self.tail.types[0].children[-1]

    def identities(self) -> Iterator[pa.RecordBatch]:
        """Yield the root columns without `row`, in identity order."""
        if self.file.kind is FileKind.DELETE and not self._is_streamable():
            yield from self._put_in_order()
            return
        for root, _ in self.rows((), FileCheck(self.file)):
            yield root

    @property
    def _events(self) -> int:
        return sum(self.tail.stripes[index].rows for index in self.stripes)

    def _is_streamable(self) -> bool:
        # Sorted delete events that are too many for a batch can be streamed. Not all writers sort.
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
            raise errors.UnsupportedFileError(
                path=self.file.path,
                reason=f"its {self._events} delete events are out of order; rewrite the delete"
                " delta by a compaction in Hive",
            )
        check = FileCheck(self.file)
        events = pa.concat_batches([_NO_EVENTS, *(root for root, _ in self.roots(()))])
        if not Keys.of(events).is_sorted():
            events = events.take(pa.array(Keys.of(events).order()))
        for start in range(0, self._events, self.batch_rows):
            root = events.slice(start, self.batch_rows)
            check.see(root)
            yield root

    def rows(
        self, fields: Sequence[FieldPlan], check: FileCheck
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Yield pairs: the root columns without `row`, and the column `row` with these fields."""
        # If Arrow cannot read timestamps whole, it reads the nanoseconds and the seconds apart.
        split = [f for f in fields if f.is_split]
        rows = fitting_rows(self.tail, _column_ids(fields), self.batch_rows)
        source = replace(self, batch_rows=rows)
        nanos = source.read_apart(split, ShowTimestamps.NANOS)
        seconds = source.read_apart(split, ShowTimestamps.SECONDS)
        for root, batch in source.roots([f for f in fields if not f.is_split]):
            check.see(root)
            if self.file.kind is FileKind.DATA:
                # After the root columns in `root` comes the struct `row`; its fields follow.
                self._require_values([batch.column(len(IDENTITY_SCHEMA))])
            row = _row(fields, root.num_rows, batch, (next(nanos), next(seconds)))
            yield as_new_rows(self.file, root), row

    def roots(self, fields: Sequence[FieldPlan]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yield the root columns of each batch, stored or derived, and the batch."""
        ids = _column_ids(fields)
        if self.file.synthetic is not None:
            batches = self._read(ids) if ids else self._empty_batches()
            yield from numbered(self.file.synthetic, self.tail.stripes, self.stripes, batches)
            return
        root_ids = self.tail.types[0].children
        for batch in self._read((*root_ids, *ids)):
            columns = batch.columns[: len(IDENTITY_SCHEMA)]
            self._require_values(columns)
            yield pa.RecordBatch.from_arrays(columns, schema=IDENTITY_SCHEMA), batch

    def read_roots(self, ids: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        """Yield only these root columns, without `row`."""
        for batch in self._read(ids):
            self._require_values(batch.columns)
            yield batch

    def read_apart(
        self, fields: Sequence[FieldPlan], timestamps: ShowTimestamps
    ) -> Iterator[pa.RecordBatch | None]:
        """Yield only seconds or nanoseconds of timestamps; None indefinitely without `fields`."""
        no_batches: Iterator[pa.RecordBatch | None] = itertools.repeat(None)
        return self._read(_column_ids(fields), timestamps) if fields else no_batches

    def _read(
        self, ids: tuple[int, ...], timestamps: ShowTimestamps = ShowTimestamps.WHOLE
    ) -> Iterator[pa.RecordBatch]:
        view = ColumnView(
            columns=ids,
            flatten=self.row_struct or None,
            stripes=self.stripes,
            timestamps=timestamps,
            in_utc=not self.zones.are_known_to_arrow,
        )
        return read_view(self.file.fs, self.tail, view, self.batch_rows)

    def _empty_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches without columns, but with the row counts of Arrow's batches."""
        for index in self.stripes:
            rows = self.tail.stripes[index].rows
            for start in range(0, rows, self.batch_rows):
                yield batch_of((), pa.schema([]), min(self.batch_rows, rows - start))

    def _require_values(self, columns: Sequence[pa.Array]) -> None:
        if any(column.null_count for column in columns):
            raise errors.CorruptFileError(
                path=self.file.path, reason="an ACID column is NULL where it must not be"
            )


def _row(
    fields: Sequence[FieldPlan],
    size: int,
    whole: pa.RecordBatch,
    parts: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
) -> pa.Array:
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


def numbered(
    synthetic: SyntheticIdentity,
    stripes: Sequence[StripeInfo],
    read: Sequence[int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield each batch with its root columns; the row IDs are derived from positions.

    `stripes` are all stripes of the file. `read` are the 0-based numbers of the stripes with the
    rows of `batches`, in ascending order. The root columns have the `IDENTITY_SCHEMA`.
    """
    lengths = np.array([stripe.rows for stripe in stripes], dtype=np.int64)
    firsts = np.cumsum(lengths) - lengths
    chosen = list(read)
    ends = np.cumsum(lengths[chosen])
    # A row's position in the file is this number plus the row's position in the chosen stripes.
    skipped = firsts[chosen] - (ends - lengths[chosen])
    start = 0
    for batch in batches:
        positions = np.arange(start, start + batch.num_rows)
        numbers = positions + skipped[np.searchsorted(ends, positions, "right")]
        start += batch.num_rows
        row_ids = synthetic.first_row_id + numbers
        columns = insert_columns(synthetic.write_id, synthetic.bucket_property, row_ids)
        yield pa.RecordBatch.from_arrays(columns, schema=IDENTITY_SCHEMA), batch


_KNOWN_TO_ARROW: Final = frozenset({"UTC", "GMT"})
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeZones:
    """The stripes to read, and the name of each stripe's zone; "" if the stripe names none."""

    tail: OrcTail
    stripes: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def are_known_to_arrow(self) -> bool:
        """Whether Arrow reads the stripes, and their timestamps as Java does."""
        return _KNOWN_TO_ARROW.issuperset(self.names)

    def parts(self, column_ids: Iterable[int]) -> Iterator[tuple[TimeZone | None, tuple[int, ...]]]:
        """Yield the stripes in order, grouped by zone; None means UTC, or no timestamps."""
        kinds = (self.tail.types[column_id].kind for column_id in self.tail.below(column_ids))
        if self.are_known_to_arrow or TypeKind.TIMESTAMP not in kinds:
            yield None, self.stripes
            return
        if "" in self.names:
            # Java's readers use the zone of their own JVM.
            _log.warning(
                "ORC file does not state its time zone: its timestamps are read as if Hive ran in"
                " UTC path=%s",
                self.tail.path,
            )
        pairs = zip(map(self._zone, self.names), self.stripes, strict=True)
        for zone, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            yield zone, tuple(stripe for _, stripe in group)

    def _zone(self, name: str) -> TimeZone | None:
        try:
            zone = zone_of(name or "UTC")
        except LookupError as error:
            raise errors.UnsupportedFileError(
                path=self.tail.path,
                reason=f"its timestamps were written in the time zone {name!r}, but this reader has"
                " no rules for this zone. Install a newer Python package tzdata",
            ) from error
        return None if zone.is_utc else zone


def zones_of(fs: pafs.FileSystem, tail: OrcTail, stripes: Sequence[int]) -> StripeZones:
    """Read the stripes' zones from their footers if one may matter; others count as UTC."""
    names = ("UTC",) * len(stripes)
    if _may_differ_from_utc(tail):
        names = writer_time_zones(fs, tail, stripes)
    return StripeZones(tail=tail, stripes=tuple(stripes), names=names)


def _may_differ_from_utc(tail: OrcTail) -> bool:
    match tail.footer.writer:
        case Writer.JAVA:
            # Hive and ORC state the zone only if there are timestamps. Old Presto counts as Java,
            # and always states the zone. It does not write ACID files or the software's version.
            is_presto = not (tail.footer.software_version or has_acid_columns(tail))
            return is_presto or _has_timestamps(tail)
        case Writer.CPP:  # Arrow's, of this provider
            return _has_timestamps(tail) and not has_acid_columns(tail)
        case _:
            return True


def _has_timestamps(tail: OrcTail) -> bool:
    return any(type_.kind in TIMESTAMP_KINDS for type_ in tail.types)
