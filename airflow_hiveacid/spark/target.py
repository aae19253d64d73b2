"""A table under one snapshot, to be read or changed: its files, and frames over them.

Takes a table and a snapshot; gives frames whose rows carry their identity. The driver lists and
resolves once; executors get plain values (files, write IDs, column names), so that a task which
runs again reads the same.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import PartitionNotFoundError
from airflow_hiveacid.format.table import Column, PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.spark.events import IDENTITY, partition_text
from airflow_hiveacid.spark.orc_fit import readable_part
from airflow_hiveacid.spark.orc_frame import KeyRange, is_native, live_rows
from airflow_hiveacid.spark.rows import conjuncts_on
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.types import spark_type, struct_of, table_struct
from airflow_hiveacid.storage.acid_files import bucket_files
from airflow_hiveacid.storage.filesystem import list_table
from airflow_hiveacid.storage.orc_convert import Matching
from airflow_hiveacid.storage.orc_reader import AcidFile, read_events
from airflow_hiveacid.storage.orc_timestamps import TimestampForm
from airflow_hiveacid.storage.row_schema import arrow_type
from airflow_hiveacid.storage.sorted_merge import (
    merge_sorted,
    subtract_deletes,
    unique_deletes,
    visible_events,
)
from airflow_hiveacid.storage.timestamp_forms import with_microseconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.metastore.port import MetastorePort

_PARALLEL: Final = 16
_RANGED: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
_SPLIT_BYTES: Final = 64 << 20
# A frame for each partition makes plans long; the partitions beyond are read in one.
_MOST_FRAMES: Final = 64

PLACE: Final = "__place"
"""The one column of a scan that is not the table's: where a row is, and its identity."""

_TEXT: Final = "__partition_"
_INSTANT: Final = pa.timestamp("ns", "UTC")
_PLACE_TYPE: Final = StructType(
    [
        StructField("partition", StringType()),
        StructField("bucket_id", IntegerType()),
        StructField("file", StringType()),
        StructField("originalTransaction", LongType()),
        StructField("bucket", IntegerType()),
        StructField("rowId", LongType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPiece:
    """One data file, or some stripes of it, with the delete events of its bucket; plain values."""

    partition: PartitionName
    partition_key: str
    file_key: str
    data: AcidFile
    stripes: tuple[int, ...] | None
    deletes: tuple[AcidFile, ...]
    write_ids: ValidWriteIdList
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    ranges: Mapping[str, KeyRange]
    place: str | None


def empty_target(spark: SparkSession, table: TableInfo) -> DataFrame:
    """A frame with a table's columns and no rows, to check expressions against."""
    return spark.createDataFrame([], table_struct(table))


def partitions_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """All partitions of a table, or the one that is named.

    Raises:
        PartitionNotFoundError: there is none of that name.
    """
    if partition is None:
        return client.list_partitions(table)
    name = PartitionName.parse(partition)
    found = client.get_partitions(table, [name])
    if not found:
        raise PartitionNotFoundError(table=table.ref, partition=partition)
    return found


def resolve_target(
    spark: SparkSession,
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    partitions: tuple[PartitionName, ...] | None = None,
) -> Target:
    """A table (or some of its partitions) under a snapshot. Directories are listed when needed."""
    infos = (
        client.list_partitions(table)
        if partitions is None
        else client.get_partitions(table, partitions)
    )
    return Target(
        spark=spark,
        table=table,
        write_ids=snapshot.write_ids(table.ref),
        txns=snapshot.txns,
        partitions=infos,
    )


@dataclass(frozen=True, kw_only=True)  # no slots: the states are kept once they are known
class Target:
    """A table under one snapshot. Stays on the driver; frames take plain values along.

    What lists directories raises NotEnoughHistoryError, DanglingDeleteError or StorageError if what
    is there cannot be read.
    """

    spark: SparkSession
    table: TableInfo
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    partitions: tuple[PartitionInfo, ...]
    ranges: Mapping[str, KeyRange] = dataclasses.field(default_factory=dict)

    @cached_property
    def states(self) -> tuple[AcidState, ...]:
        """What the snapshot reads of each partition."""

        def state_of(info: PartitionInfo) -> AcidState:
            return resolve(list_table(info.location), self.write_ids, self.txns)

        with ThreadPoolExecutor(_PARALLEL) as pool:
            return tuple(pool.map(state_of, self.partitions))

    @property
    def locations(self) -> dict[PartitionName, str]:
        """Where the partitions are."""
        return {info.name: info.location for info in self.partitions}

    @property
    def files(self) -> dict[str, AcidFile]:
        """Every data file by the key that scanned rows carry."""
        return {
            _file_key(info, data): data
            for info, state in zip(self.partitions, self.states, strict=True)
            for bucket in bucket_files(state, self.write_ids)
            for data in bucket.inserts
        }

    def scan(self, wanted: Sequence[str]) -> DataFrame:
        """A frame of live rows: `PLACE`, the wanted data columns, all partition columns.

        Columns are in the table's order. `within` may have narrowed what is read; nothing else is
        left out.
        """
        return self._frame(wanted, place=PLACE)

    def rows(self, wanted: Sequence[str] | None = None) -> DataFrame:
        """A frame of live rows as a reader wants them: data columns, then partition columns."""
        names = self.table.column_names if wanted is None else wanted
        return self._frame(names, place=None).select(*[F.col(f"`{n}`") for n in names])

    def _frame(self, wanted: Sequence[str], *, place: str | None) -> DataFrame:
        """Spark's own ORC reader reads the partitions that it reads right, ours the others."""
        columns = [c for c in self.table.columns if c.name in {*wanted, *self.ranges}]
        columns = columns or list(self.table.columns[:1])
        most = _MOST_FRAMES if is_native(self.spark) else 0
        pairs = tuple(zip(self.partitions, self.states, strict=True))[:most]
        found = [readable_part(self.table, columns, *pair, self.write_ids) for pair in pairs]
        parts = [part for part in found if part is not None]
        others = {info.name for info in self.partitions} - {part.info.name for part in parts}
        frames = [
            live_rows(
                self.spark,
                self.table,
                columns,
                part,
                self.write_ids,
                ranges=self.ranges,
                place=place,
            )
            for part in parts
        ]
        if others or not frames:
            frames.append(self.read_with_arrow(wanted, others, place=place))
        names = [c.name for c in columns if c.name in wanted]
        names += [c.name for c in self.table.partition_columns]
        chosen = [F.col(f"`{n}`") for n in ([] if place is None else [place]) + names]
        return reduce(DataFrame.unionByName, [frame.select(*chosen) for frame in frames])

    def read_with_arrow(
        self,
        wanted: Sequence[str],
        partitions: Collection[PartitionName] | None = None,
        *,
        place: str | None = None,
    ) -> DataFrame:
        """The same frame by our own reader, which is right about every file; in some partitions."""
        columns = [c for c in self.table.columns if c.name in wanted]
        texts = [f"{_TEXT}{i}" for i in range(len(self.table.partition_columns))]
        where = [] if place is None else [StructField(place, _PLACE_TYPE)]
        schema = StructType(
            [*where, *[StructField(text, StringType()) for text in texts], *struct_of(columns)]
        )
        pieces = self._pieces(tuple(c.name for c in columns), partitions, place)
        frame = run_tasks(self.spark, scan_piece, pieces, schema)
        return frame.select(
            *[field.name for field in where],
            *[F.col(f"`{c.name}`") for c in columns],
            *[
                F.col(text).cast(spark_type(parse_type(c.type))).alias(c.name)
                for text, c in zip(texts, self.table.partition_columns, strict=True)
            ],
        )

    def within(self, source: DataFrame, keys: Sequence[str]) -> Target:
        """The part of the target that rows with these keys can be in.

        Partitions go by the source's values of the partition columns among the keys; rows go, in
        the readers, by the range of the others. One small aggregation of the (kept) source.
        """
        narrowed = self._in_partitions(source, keys)
        types = {c.name: parse_type(c.type) for c in self.table.columns}
        given = {f.name.lower(): f.dataType for f in source.schema}
        ranged = [
            k
            for k in keys
            if isinstance(t := types.get(k), PrimitiveType)
            and t.name in _RANGED
            # Of another type, the join casts one side or the other; that is its business.
            and given[k] == spark_type(t)
        ]
        if not ranged:
            return narrowed
        bounds = source.select(
            *[f(F.col(f"`{k}`")).alias(f"{n}_{k}") for k in ranged for n, f in _BOUNDS]
        ).collect()[0]
        ranges = {k: (bounds[f"low_{k}"], bounds[f"high_{k}"]) for k in ranged}
        return dataclasses.replace(narrowed, ranges=ranges)

    def where(self, condition: str | None) -> Target:
        """The partitions in which a condition over `t` can hold, by what it says of them alone."""
        found = partitions_where(self.spark, self.table, self.partitions, condition)
        return self if found is None else dataclasses.replace(self, partitions=found)

    def _in_partitions(self, source: DataFrame, keys: Sequence[str]) -> Target:
        columns = [c for c in self.table.partition_columns if c.name in keys]
        if not columns or len(self.partitions) <= 1:
            return self
        wanted = source.select(
            *[
                F.col(f"`{c.name}`").cast(spark_type(parse_type(c.type))).alias(c.name)
                for c in columns
            ]
        ).distinct()
        values = _partition_values(self.spark, self.table, self.partitions)
        found = values.join(wanted, [c.name for c in columns], "left_semi")
        return dataclasses.replace(self, partitions=_numbered(found, self.partitions))

    def _pieces(
        self,
        wanted: tuple[str, ...],
        partitions: Collection[PartitionName] | None,
        place: str | None,
    ) -> list[ScanPiece]:
        return [
            ScanPiece(
                partition=info.name,
                partition_key=partition_text(info.name),
                file_key=_file_key(info, data),
                data=data,
                stripes=stripes,
                deletes=bucket.deletes,
                write_ids=self.write_ids,
                columns=self.table.columns,
                wanted=wanted,
                ranges=self.ranges,
                place=place,
            )
            for info, state in zip(self.partitions, self.states, strict=True)
            if partitions is None or info.name in partitions
            for bucket in bucket_files(state, self.write_ids)
            for data in bucket.inserts
            for stripes in _splits(data)
        ]


def _file_key(info: PartitionInfo, data: AcidFile) -> str:
    """Names a data file of the table; `orc_frame` makes the same from what Spark says."""
    return f"{info.name}/{data.key}"


def partitions_where(
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionInfo, ...],
    condition: str | None,
) -> tuple[PartitionInfo, ...] | None:
    """The partitions in which a condition over `t` can hold; None if it says nothing of them."""
    names = [c.name for c in table.partition_columns]
    test = None if condition is None else conjuncts_on(condition, names)
    if test is None or len(partitions) <= 1:
        return None
    values = _partition_values(spark, table, partitions).alias("t")
    return _numbered(values.where(F.expr(test)), partitions)


def _partition_values(
    spark: SparkSession, table: TableInfo, partitions: Sequence[PartitionInfo]
) -> DataFrame:
    """A small frame of partitions: `PLACE` is their number here, then their values, typed."""
    columns = table.partition_columns
    texts = ", ".join(f"`{c.name}` string" for c in columns)
    rows = [(i, *info.name.values) for i, info in enumerate(partitions)]
    return spark.createDataFrame(rows, f"{PLACE} int, {texts}").select(
        PLACE,
        *[F.col(f"`{c.name}`").cast(spark_type(parse_type(c.type))).alias(c.name) for c in columns],
    )


def _numbered(
    values: DataFrame, partitions: tuple[PartitionInfo, ...]
) -> tuple[PartitionInfo, ...]:
    return tuple(partitions[i] for i in sorted(r[0] for r in values.select(PLACE).collect()))


def _splits(data: AcidFile) -> Iterator[tuple[int, ...] | None]:
    """The stripes of each task that reads a part of a large file; None is the whole file."""
    if data.length <= _SPLIT_BYTES:
        yield None
        return
    part: list[int] = []
    size = 0
    for number, stripe in enumerate(data.tail().stripes):
        part.append(number)
        size += stripe.length
        if size >= _SPLIT_BYTES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


_BOUNDS: Final = (("low", F.min), ("high", F.max))


def place(side: str) -> list[SparkColumn]:
    """What an event needs of a scanned row's place, under the names of `spark.events`."""
    names = {"partition": "_partition", "bucket_id": "_bucket", "file": "_file"}
    fields = [*names.items(), *((name, name) for name in IDENTITY)]
    return [F.col(f"{side}.{PLACE}.{field}").alias(name) for field, name in fields]


def scan_piece(piece: ScanPiece) -> Iterator[pa.RecordBatch]:
    """Read one data file on an executor: visible rows without a delete event, in range."""
    for events in live_events(piece):
        events_in_range = _in_range(events, piece.ranges)
        if events_in_range.num_rows:
            yield _scanned(events_in_range, piece)


def live_events(piece: ScanPiece) -> Iterator[pa.RecordBatch]:
    """The visible rows of one data file, less those with a visible delete event."""
    wanted = list(dict.fromkeys((*piece.wanted, *piece.ranges)))
    inserts = visible_events(
        read_events(
            piece.data,
            piece.columns,
            data_columns=wanted,
            stripes=piece.stripes,
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
        ),
        piece.write_ids,
    )
    if not piece.deletes:
        return inserts
    deletes = merge_sorted(
        [
            visible_events(read_events(f, piece.columns, data_columns=[]), piece.write_ids)
            for f in piece.deletes
        ]
    )
    return subtract_deletes(inserts, unique_deletes(deletes))


def _in_range(events: pa.RecordBatch, ranges: Mapping[str, KeyRange]) -> pa.RecordBatch:
    for name, (low, high) in ranges.items():
        values = pc.struct_field(events.column("row"), name)
        if low is None:
            # The source has no value at all, and NULL equals nothing.
            return events.slice(0, 0)
        is_in = pc.and_(
            pc.greater_equal(values, pa.scalar(low, values.type)),
            pc.less_equal(values, pa.scalar(high, values.type)),
        )
        events = events.filter(is_in)
    return events


def _scanned(events: pa.RecordBatch, piece: ScanPiece) -> pa.RecordBatch:
    count = events.num_rows
    where = {} if piece.place is None else {piece.place: _places(events, piece)}
    texts = {
        f"{_TEXT}{i}": pa.repeat(pa.scalar(v, pa.string()), count)
        for i, v in enumerate(piece.partition.values)
    }
    types = {c.name: arrow_type(parse_type(c.type)) for c in piece.columns}
    row = events.column("row")
    values = {n: _for_spark(pc.struct_field(row, n), types[n]) for n in piece.wanted}
    columns = {**where, **texts, **values}
    return pa.RecordBatch.from_struct_array(
        pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        if columns
        else pa.nulls(count, pa.struct([]))
    )


def _places(events: pa.RecordBatch, piece: ScanPiece) -> pa.StructArray:
    count = events.num_rows
    return pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar(piece.partition_key), count),
            pa.repeat(pa.scalar(int(piece.data.bucket_id), pa.int32()), count),
            pa.repeat(pa.scalar(piece.file_key), count),
            *[events.column(name) for name in IDENTITY],
        ],
        names=["partition", "bucket_id", "file", *IDENTITY],
    )


def _for_spark(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cut nanoseconds, for Spark holds microseconds; a local timestamp is an instant in UTC."""
    cut = with_microseconds(values)
    return cut.cast(pa.timestamp("us", "UTC")) if wanted == _INSTANT else cut
