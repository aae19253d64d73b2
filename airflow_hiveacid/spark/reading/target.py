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

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import PartitionNotFoundError, UnknownColumnError
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.events import IDENTITY, partition_text
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.reading.arrow_scan import ScanPiece, scan_piece, splits
from airflow_hiveacid.spark.reading.key_ranges import key_ranges
from airflow_hiveacid.spark.reading.orc_fit import readable_part
from airflow_hiveacid.spark.reading.orc_frame import is_native, live_rows
from airflow_hiveacid.spark.reading.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.types import named, spark_type, struct_of, table_struct
from airflow_hiveacid.storage.acid.read.files import bucket_files
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.partition_values import partition_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.catalyst import Moment
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.files import BucketFiles

_PARALLEL: Final = 16
# A frame for each partition makes plans long; the partitions beyond are read in one.
_MOST_FRAMES: Final = 64

PLACE: Final = "__place"
"""The one column of a scan that is not the table's: where a row is, and its identity."""

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

    @cached_property
    def buckets(self) -> tuple[tuple[BucketFiles, ...], ...]:
        """The files of each partition, bucket by bucket; every delete file has been looked at."""
        return tuple(bucket_files(state, self.write_ids) for state in self.states)

    @property
    def locations(self) -> dict[PartitionName, str]:
        """Where the partitions are."""
        return {info.name: info.location for info in self.partitions}

    @property
    def files(self) -> dict[str, AcidFile]:
        """Every data file by the key that scanned rows carry."""
        return {
            _file_key(info, data): data
            for info, buckets in zip(self.partitions, self.buckets, strict=True)
            for bucket in buckets
            for data in bucket.inserts
        }

    def scan(self, wanted: Sequence[str], *, place: str = PLACE) -> DataFrame:
        """A frame of live rows: their place, the wanted data columns, all partition columns.

        Columns are in the table's order. `within` may have narrowed what is read; nothing else is
        left out.
        """
        return self._frame(wanted, place=place)

    def rows(self, wanted: Sequence[str] | None = None) -> DataFrame:
        """A frame of live rows as a reader wants them: data columns, then partition columns.

        Raises:
            UnknownColumnError: the table has no such column.
        """
        known = self.table.column_names
        names = known if wanted is None else tuple(name.lower() for name in wanted)
        for name in set(names) - set(known):
            raise UnknownColumnError(table=self.table.ref, column=name, known=known)
        return self._frame(names, place=None).select(*[F.col(quoted(n)) for n in names])

    def _frame(self, wanted: Sequence[str], *, place: str | None) -> DataFrame:
        """Spark's own ORC reader reads the partitions that it reads right, ours the others."""
        needed = {*wanted, *self.ranges}
        columns = [c for c in self.table.columns if c.name in needed]
        columns = columns or list(self.table.columns[:1])
        most = _MOST_FRAMES if is_native(self.spark) else 0
        known = zip(self.partitions[:most], self.states, self.buckets, strict=False)
        found = [readable_part(self.table, columns, *one) for one in known]
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
        read = [c for c in columns if c.name in wanted]
        chosen = [
            *([] if place is None else [F.col(place)]),
            *[
                named(self.spark, c, F.col(quoted(c.name)))
                for c in (*read, *self.table.partition_columns)
            ],
        ]
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
        texts = [
            free_name(f"partition_{i}", self.table.column_names)
            for i in range(len(self.table.partition_columns))
        ]
        where = [] if place is None else [StructField(place, _PLACE_TYPE)]
        schema = StructType(
            [*where, *[StructField(text, StringType()) for text in texts], *struct_of(columns)]
        )
        pieces = self._pieces(tuple(c.name for c in columns), partitions, place, tuple(texts))
        frame = run_tasks(self.spark, scan_piece, pieces, schema)
        return frame.select(
            *[field.name for field in where],
            *[F.col(quoted(c.name)) for c in columns],
            *[
                F.col(text).cast(spark_type(parse_type(c.type))).alias(c.name)
                for text, c in zip(texts, self.table.partition_columns, strict=True)
            ],
        )

    def within(
        self, source: DataFrame, keys: Sequence[str], equal: Callable[[str], SparkColumn]
    ) -> Target:
        """The part of the target that rows with these keys can be in.

        Partitions go by the source's values of the partition columns among the keys; rows go, in
        the readers, by the range of the others (`key_ranges`).

        Args:
            source: the rows.
            keys: the columns on which they are joined with the target.
            equal: the join's predicate for one of them, over `t` and `s`.
        """
        found = partitions_meeting(self.table, self.partitions, source, keys, equal)
        ranges = key_ranges(source, keys, self.table.columns)
        return dataclasses.replace(self, partitions=found, ranges=ranges)

    def where(
        self, condition: str | None, moment: Moment, beside: DataFrame | None = None
    ) -> Target:
        """The partitions in which a condition can hold, by what it says of them alone.

        The condition is over `t`, and over `s` if there is a source beside it.
        """
        found = partitions_where(
            self.spark, self.table, self.partitions, condition, moment, beside=beside
        )
        return self if found is None else dataclasses.replace(self, partitions=found)

    def _pieces(
        self,
        wanted: tuple[str, ...],
        partitions: Collection[PartitionName] | None,
        place: str | None,
        texts: tuple[str, ...],
    ) -> list[ScanPiece]:
        return [
            ScanPiece(
                partition=partition_texts(self.table.partition_columns, info.name),
                partition_columns=texts,
                partition_key=partition_text(info.name),
                file_key=_file_key(info, data),
                data=data,
                stripes=stripes,
                deletes=deletes,
                write_ids=self.write_ids,
                columns=self.table.columns,
                wanted=wanted,
                ranges=self.ranges,
                place=place,
            )
            for info, buckets in zip(self.partitions, self.buckets, strict=True)
            if partitions is None or info.name in partitions
            for bucket in buckets
            for data in bucket.inserts
            for deletes in (bucket.deletes_of(data),)
            for stripes in splits(data)
        ]


def _file_key(info: PartitionInfo, data: AcidFile) -> str:
    """Names a data file of the table; `orc_frame` makes the same from what Spark says."""
    return f"{info.name}/{data.key}"


def place_fields(place: str) -> list[SparkColumn]:
    """What an event needs of a scanned row's place, under the names of `spark.events`."""
    names = {"partition": "_partition", "bucket_id": "_bucket", "file": "_file"}
    fields = [*names.items(), *((name, name) for name in IDENTITY)]
    return [F.col(f"{quoted(place)}.{field}").alias(name) for field, name in fields]
