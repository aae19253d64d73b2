"""The files and stripes from which a range of changes is read.

A stretch is a segment of a partition's history; together, they form the range. Of a file without
inserts in the range, only stripes that may contain a removed row are read, by its footer; of delete
files, all footers are read, as an event of any age may delete a row of the range.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from airflow_hiveacid.format.change_range import ChangeSegment
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName
from airflow_hiveacid.format.table import Column, PartitionInfo, TableInfo
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import FILE_BITS, NUMBER, file_number
from airflow_hiveacid.reading.arrow_scan import (
    IS_BORN,
    VERSION,
    ChangePiece,
    TargetFile,
    deletes_of,
    read_together,
    scan_changes,
    work_of_changes,
)
from airflow_hiveacid.reading.orc_fit import doubts_about
from airflow_hiveacid.reading.pieces import TASK_BYTES, work_of_file
from airflow_hiveacid.reading.table_view import numbered_files
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.spark.reading.file_relation import file_of, looked_up
from airflow_hiveacid.spark.reading.live_files import LiveFiles, PlainRows
from airflow_hiveacid.spark.reading.orc_frame import POSITION_FIELDS
from airflow_hiveacid.storage.acid import ORIGINAL_WRITE_ID
from airflow_hiveacid.storage.acid.read.buckets import BucketFiles, buckets_changed
from airflow_hiveacid.storage.acid.read.changed_rows import ChangeFile, change_files
from airflow_hiveacid.storage.stores.threads import each_in_threads

PartitionSegment = tuple["PartitionInfo", "ChangeSegment"]
"""A partition, with one stretch of its history."""

_CODES: Final = (StructField(IS_BORN, BooleanType()), StructField(VERSION, LongType()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a table, and the number of bytes to read to find the changes."""

    rows: DataFrame
    size_bytes: int


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class ChangedFiles:
    """The files of a full-ACID table that contain a range of changes.

    The number of a file contains a position in `stretches`, not that of a partition. `old` are the
    data columns to read from files without inserted rows; None means all.
    """

    spark: SparkSession
    table: TableInfo
    stretches: Sequence[PartitionSegment]
    is_net: bool
    old: frozenset[str] | None = None

    def changes(self, wanted: Sequence[str], position: str) -> Changes:
        """Return `position`, the wanted data columns (NULL if not read), `IS_BORN`, `VERSION`."""
        columns = [c for c in self.table.columns if c.name in wanted]
        make = functools.partial(
            ChangePiece, is_net=self.is_net, columns=self.table.columns, position=position
        )

        def frame_of(pieces: Sequence[ChangePiece], columns: Sequence[Column]) -> DataFrame:
            where = StructField(position, StructType(list(POSITION_FIELDS)))
            schema = StructType([where, *struct_of(columns), *_CODES])
            return run_tasks(self.spark, scan_changes, pieces, schema, work=work_of_changes)

        old = [c for c in columns if self.old is None or c.name in self.old]
        whole = list(self._whole(functools.partial(make, wanted=_names(columns))))
        parts = list(self._in_part(functools.partial(make, wanted=_names(old))))
        new = [target for target, file in self._files if self._is_new(target, file)]
        pieces = [*whole, *parts]
        frames = [self._as_live(new, wanted, position)] if new else []
        # Pieces that need fewer columns get a frame of their own; otherwise, all pieces share one.
        if parts and len(old) < len(columns):
            unread = [field for field in struct_of(columns) if field.name not in _names(old)]
            nulls = {field.name: F.lit(None).cast(field.dataType) for field in unread}
            frames.append(frame_of(parts, old).withColumns(nulls))
        else:
            whole = pieces
        if whole or not frames:
            frames.append(frame_of(whole, columns))
        sizes = [work_of_file(target.data) for target in new]
        sizes += map(work_of_changes, pieces)
        return Changes(rows=reduce(DataFrame.unionByName, frames), size_bytes=sum(sizes))

    def _is_new(self, target: TargetFile, file: ChangeFile) -> bool:
        """Return whether all rows of a file are of the range, and no delete file concerns them."""
        segment = self._segment(target)
        return (
            file.is_whole
            and segment.ends_with is None
            and not file.deletes
            and segment.is_all_of_range(file.data.top)
        )

    def _as_live(
        self, files: Sequence[TargetFile], wanted: Sequence[str], position: str
    ) -> DataFrame:
        """Read files that contain only new rows; use Spark's reader if it reads them correctly."""
        live = LiveFiles(
            spark=self.spark,
            table=self.table,
            partitions=[info for info, _ in self.stretches],
            files=files,
            doubts=[doubts_about(segment.state) for _, segment in self.stretches],
            # Stretches that no overwrite ends, as those of new files, all end with the range.
            write_ids=self._segment(files[0]).part.until,
            ranges={},
        )
        born_by = F.col(f"{quoted(position)}.{ORIGINAL_WRITE_ID}")
        return live.rows(wanted, position).withColumns({IS_BORN: F.lit(True), VERSION: born_by})

    def _whole(self, make: functools.partial[ChangePiece]) -> Iterator[ChangePiece]:
        files = [t for t, file in self._files if file.is_whole and not self._is_new(t, file)]
        for together, stripes in read_together(files, self.spark.sparkContext.defaultParallelism):
            segment = self._segment(together[0])
            yield make(
                numbers=tuple(file.number for file in together),
                data=tuple(file.data for file in together),
                stripes=stripes,
                deletes=deletes_of(together),
                part=segment.part,
                ends_with=segment.ends_with,
                is_whole=True,
            )

    def _in_part(self, make: functools.partial[ChangePiece]) -> Iterator[ChangePiece]:
        """Yield pieces for the other files: stripes that may contain a row removed in the range."""
        files = [(target, file) for target, file in self._files if not file.is_whole]
        hits = each_in_threads(lambda pair: _in_tasks(pair[1]), files)
        for (target, file), parts in zip(files, hits, strict=True):
            for stripes, size in parts:
                yield make(
                    numbers=(target.number,),
                    data=(file.data,),
                    stripes=stripes,
                    deletes=file.deletes,
                    part=self._segment(target).part,
                    ends_with=None,
                    is_whole=False,
                    size_bytes=size,
                )

    @functools.cached_property
    def _files(self) -> tuple[tuple[TargetFile, ChangeFile], ...]:
        files: list[tuple[TargetFile, ChangeFile]] = []
        for index, ((_, segment), buckets) in enumerate(
            zip(self.stretches, self._buckets(), strict=True)
        ):
            for file in change_files(segment, buckets):
                target = TargetFile(
                    number=file_number(index, len(files)),
                    partition=index,
                    data=file.data,
                    deletes=file.deletes,
                )
                files.append((target, file))
        return tuple(files)

    def _segment(self, file: TargetFile) -> ChangeSegment:
        return self.stretches[file.partition][1]

    def _buckets(self) -> Iterator[tuple[BucketFiles, ...]]:
        segments = [segment for _, segment in self.stretches]
        for _, group in itertools.groupby(segments, lambda s: id(s.part)):
            yield from buckets_changed(list(group))


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _in_tasks(file: ChangeFile) -> list[tuple[tuple[int, ...], int]]:
    """Return the stripes of a file for each task, with their size in bytes."""
    tail = file.data.tail()
    parts: list[list[int]] = []
    size = 0
    for stripe in file.stripes_hit():
        size += tail.stripes[stripe].length
        if not parts or size > TASK_BYTES:
            parts.append([])
            size = tail.stripes[stripe].length
        parts[-1].append(stripe)
    return [(tuple(part), sum(tail.stripes[s].length for s in part)) for part in parts]


# ---- insert-only tables --------------------------------------------------------------------------


def plain_changes(  # noqa: PLR0913 - the table, its stretches, and the request
    spark: SparkSession,
    table: TableInfo,
    stretches: Sequence[PartitionSegment],
    wanted: Sequence[str],
    *,
    is_net: bool,
    position: str,
) -> Changes:
    """Return changes of an insert-only table: rows of directories that were added or replaced."""
    # A net range omits rows that it both inserted and overwrote.
    born = [_born(i, s) for i, s in stretches if s.fresh and not (is_net and s.ends_with)]
    dead = [_dying(i, s, is_net=is_net) for i, s in stretches if s.ends_with is not None]
    frames = [
        _plain(spark, table, group, is_born=is_born, wanted=wanted, position=position)
        for group, is_born in ((born, True), (dead, False))
        if group
    ]
    if not frames:
        frames = [_plain(spark, table, [], is_born=True, wanted=wanted, position=position)]
    sizes = [d.size_bytes for _, segment in (*born, *dead) for d in segment.state.live]
    return Changes(rows=reduce(DataFrame.unionByName, frames), size_bytes=sum(sizes))


def _born(info: PartitionInfo, segment: ChangeSegment) -> PartitionSegment:
    state = segment.state
    base = state.base if state.base is not None and state.base.text in segment.fresh else None
    deltas = tuple(d for d in state.deltas if d.text in segment.fresh)
    only = dataclasses.replace(state, base=base, deltas=deltas, originals=())
    return info, dataclasses.replace(segment, state=only)


def _dying(info: PartitionInfo, segment: ChangeSegment, *, is_net: bool) -> PartitionSegment:
    """Return a stretch with the directories removed at its end; if `is_net`, only older ones."""
    state = segment.state
    if is_net:
        base = None if state.base is None or state.base.text in segment.fresh else state.base
        deltas = tuple(d for d in state.deltas if d.text not in segment.fresh)
        # Beside a base, original files are not live, also if the base is left out here.
        originals = state.originals if state.base is None else ()
        state = dataclasses.replace(state, base=base, deltas=deltas, originals=originals)
    return info, dataclasses.replace(segment, state=state)


def _plain(  # noqa: PLR0913 - as `plain_changes`
    spark: SparkSession,
    table: TableInfo,
    stretches: Sequence[PartitionSegment],
    *,
    is_born: bool,
    wanted: Sequence[str],
    position: str,
) -> DataFrame:
    partitions = [info for info, _ in stretches]
    files = numbered_files(table, partitions, [segment.state for _, segment in stretches])
    plain_rows = PlainRows(spark=spark, table=table, partitions=partitions, files=files, ranges={})
    versions = [
        str(_version(stretches[number >> FILE_BITS][1], file.key.partition("/")[0], is_born))
        for number, file in files
    ]
    return plain_rows.rows(wanted, position).withColumns(
        {IS_BORN: F.lit(is_born), VERSION: _looked_up(versions, position)}
    )


def _version(segment: ChangeSegment, directory: str, is_born: bool) -> WriteId | None:  # noqa: FBT001 - as its caller has it
    if not is_born:
        return segment.ends_with
    name = next(d.name for d in segment.state.live if d.text == directory)
    if isinstance(name, BaseName):
        return name.write_id
    # One is visible: the range would be refused, or read from the inputs, if a delta merged more.
    several = map(WriteId, range(name.low, name.high + 1))
    return next(w for w in several if segment.part.until.is_visible(w))


def _looked_up(versions: Sequence[str], position: str) -> SparkColumn:
    file = file_of(F.col(f"`{position}`.{NUMBER}"))
    return looked_up(versions, LongType(), file) if versions else F.lit(None).cast("bigint")
