"""A table under one snapshot, to be read or changed: its files, and frames over them.

Takes a table and a snapshot; gives frames whose rows carry their identity. The driver lists and
resolves once; executors get plain values (files, write IDs, column names), so that a task which
runs again reads the same.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    PartitionNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.flat_state import flat_state
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TransactionalKind,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.checked import condition as checked_condition
from airflow_hiveacid.spark.checked import resolved
from airflow_hiveacid.spark.events import IDENTITY, partition_text
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.reading.arrow_scan import TargetFile
from airflow_hiveacid.spark.reading.bounds import bounds
from airflow_hiveacid.spark.reading.file_numbers import (
    NUMBER,
    bucket_of,
    file_number,
    looked_up,
    partition_of,
)
from airflow_hiveacid.spark.reading.live_files import LiveFiles
from airflow_hiveacid.spark.reading.orc_fit import Doubts, doubts_about
from airflow_hiveacid.spark.reading.plain_rows import PlainRows
from airflow_hiveacid.spark.reading.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.types import named, spark_type, table_struct
from airflow_hiveacid.storage.acid.read.buckets import buckets_of
from airflow_hiveacid.storage.acid.row_schema import BUCKET_PROPERTY
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.traits import publishes_files
from airflow_hiveacid.storage.values.partition_values import partition_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.catalyst import Moment
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.spark.reading.staged import Staged
    from airflow_hiveacid.storage.acid.read.buckets import BucketFiles
    from airflow_hiveacid.versions.past import Past

PLACE: Final = "__place"
"""The one column of a scan that is not the table's: where a row is, and its identity."""


def empty_target(spark: SparkSession, table: TableInfo) -> DataFrame:
    """A frame with a table's columns and no rows, to check expressions against."""
    return spark.createDataFrame([], table_struct(table))


def whole_rows(table: TableInfo, rows: DataFrame, *beside: str) -> DataFrame:
    """Rows as `t`: some columns of theirs, then every column of a table, in its order.

    What rows do not have is NULL. No expression uses it, but `t.*` and names must mean what they
    meant when it was checked.
    """
    # At once: a table may have thousands of columns, and each would be several calls of the JVM.
    # Spark fills in columns that may be NULL (Project.matchSchema); its documentation denies it.
    there = [rows.schema[name] for name in beside]
    return rows.to(StructType([*there, *table_struct(table)])).alias("t")


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


def resolve_target(  # noqa: PLR0913 - each is a part of what is seen
    spark: SparkSession,
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    touched: Touched | None = None,
    *,
    staged: Staged | None = None,
    past: Past | None = None,
) -> Target:
    """A table (or some of its partitions) under a snapshot. Directories are listed when needed.

    A table without transactions has no write IDs: all its files count, as they are. What the
    reader's own transaction has staged counts as if it were published and committed; `past` is the
    table as of an earlier version, which has nothing of that.

    Raises:
        VersionGoneError: a partition that the version had is not there any more.
    """
    touched = touched or Touched()
    partitions = touched.places(client, table)
    if past is not None:
        if table.is_partitioned and touched.names is None:
            past.check_vanished([p.name for p in partitions])
        write_ids = past.then
    elif table.kind is TransactionalKind.NONE:
        write_ids = ValidWriteIdList(table=table.ref, high_watermark=WriteId(0))
    else:
        write_ids = snapshot.write_ids(table.ref)
    if staged is not None:
        write_ids = write_ids.with_own(staged.write_id)
        known = {p.name for p in partitions}
        is_asked = frozenset(touched.names or (p.name for p in staged.partitions))
        new = [p for p in staged.partitions if p.name in is_asked - known]
        partitions = (*partitions, *new)
    return Target(
        spark=spark,
        table=table,
        write_ids=write_ids,
        txns=snapshot.txns,
        partitions=partitions,
        is_narrow=touched.names is not None,
        staged=staged,
        past=past,
    )


@dataclass(frozen=True, kw_only=True)  # no slots: the states are kept once they are known
class Target:
    """A table under one snapshot. Stays on the driver; frames take plain values along.

    `is_narrow` says that `partitions` are those that the statement can touch: nobody has to ask
    again.

    What lists directories raises NotEnoughHistoryError, DanglingDeleteError or StorageError if what
    is there cannot be read; VersionGoneError, if it is not all that a `past` had.
    """

    spark: SparkSession
    table: TableInfo
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    partitions: tuple[PartitionInfo, ...]
    ranges: Mapping[str, KeyRange] = dataclasses.field(default_factory=dict)
    is_narrow: bool = False
    staged: Staged | None = None
    past: Past | None = None

    @cached_property
    def states(self) -> tuple[AcidState, ...]:
        """What the snapshot reads of each partition."""
        if self.past is not None:
            listings = each_in_threads(self.listing, self.partitions)
            return self.past.states(self.partitions, listings)

        def state_of(info: PartitionInfo) -> AcidState:
            if self.table.kind is TransactionalKind.NONE:
                return flat_state(self.listing(info))
            return resolve(self.listing(info), self.write_ids, self.txns, self.table.kind)

        return tuple(each_in_threads(state_of, self.partitions))

    def listing(self, info: PartitionInfo) -> Listing:
        """All that lies in a partition, and what the reader's own transaction has staged for it."""
        own = () if self.staged is None else self.staged.files.get(info.name, ())
        if own and publishes_files(scheme_of(info.location)):
            raise UnsupportedTableError(
                table=self.table.ref,
                detail=f"a statement reads what an earlier one of its transaction has written to"
                f" {info.location}, and on {scheme_of(info.location)}:// nothing can be read before"
                " it is published; commit between the two",
            )
        try:
            listing = list_table(info.location)
        except LocationNotFoundError:
            if not own:
                raise
            listing = Listing(location=info.location, files=())  # it comes with the commit
        return dataclasses.replace(listing, files=(*listing.files, *own))

    @cached_property
    def buckets(self) -> tuple[tuple[BucketFiles, ...], ...]:
        """The files of each partition, bucket by bucket; every delete file has been looked at."""
        return buckets_of(self.states, self.write_ids)

    @property
    def elsewhere(self) -> dict[PartitionName, str]:
        """Where those partitions are that are not where the table would put them."""
        usual = self.table.default_partition_location
        return {p.name: p.location for p in self.partitions if p.location != usual(p.name)}

    @cached_property
    def files(self) -> tuple[TargetFile, ...]:
        """Every data file, partition by partition, bucket by bucket."""
        found = [
            (partition, data, bucket.deletes_of(data))
            for partition, buckets in enumerate(self.buckets)
            for bucket in buckets
            for data in bucket.inserts
        ]
        return tuple(
            TargetFile(
                number=file_number(partition, at), partition=partition, data=data, deletes=deletes
            )
            for at, (partition, data, deletes) in enumerate(found)
        )

    def scan(self, wanted: Sequence[str], *, place: str = PLACE) -> DataFrame:
        """A frame of live rows: their place, the wanted data columns, all partition columns.

        Columns are in the table's order. `within` may have narrowed what is read; nothing else is
        left out.
        """
        rows = self._live.rows(wanted, place)
        columns = [c for c in self.table.columns if c.name in wanted]
        return rows.select(place, *self.values([*columns, *self.table.partition_columns], place))

    def live_rows(self, wanted: Collection[str], place: str) -> DataFrame:
        """Live rows as they are in files: their place, under this name, and data columns."""
        return self._live.rows(wanted, place)

    def rows(self, wanted: Sequence[str] | None = None) -> DataFrame:
        """A frame of live rows as a reader wants them: data columns, then partition columns.

        Raises:
            UnknownColumnError: the table has no such column.
        """
        known = self.table.column_names
        names = known if wanted is None else tuple(name.lower() for name in wanted)
        for name in set(names) - set(known):
            raise UnknownColumnError(table=self.table.ref, column=name, known=known)
        place = free_name("place", known)
        columns = {c.name: c for c in (*self.table.columns, *self.table.partition_columns)}
        return self._live.rows(names, place).select(
            *self.values([columns[n] for n in names], place)
        )

    def rows_where(
        self, where: str, moment: Moment, wanted: Sequence[str] | None = None
    ) -> DataFrame:
        """The live rows for which a condition holds at a moment; see `rows`.

        Raises:
            UnknownColumnError, ExpressionError: the condition cannot be read, or is none.
        """
        names = self.table.column_names if wanted is None else [name.lower() for name in wanted]
        empty = empty_target(self.spark, self.table).alias("t")
        (found,) = resolved(self.table, empty, [where], moment)
        checked_condition(self.table, where, found)
        used = [self.table.column_names[i] for i in found.uses]
        rows = self.where(where, moment).rows(list(dict.fromkeys((*names, *used))))
        every = whole_rows(self.table, rows)
        (found,) = resolved(self.table, every, [where], moment)
        holds = checked_condition(self.table, where, found)
        if not self._is_plain:
            # Spark tells ORC nothing of a condition in this form; see `search_argument`.
            holds = F.coalesce(holds, F.lit(False))
        return every.where(holds).select(*[F.col(quoted(name)) for name in names])

    def values(self, columns: Sequence[Column], place: str) -> list[SparkColumn]:
        """Columns of the table, from live rows with their place."""
        names = [c.name for c in self.table.partition_columns]
        partition = partition_of(F.col(f"{quoted(place)}.{NUMBER}"))
        return [
            named(
                self.spark,
                column,
                looked_up(
                    self._texts[names.index(column.name)],
                    spark_type(parse_type(column.type)),
                    partition,
                )
                if column.name in names
                else F.col(quoted(column.name)),
            )
            for column in columns
        ]

    @cached_property
    def _doubts(self) -> tuple[Doubts, ...]:
        return tuple(map(doubts_about, self.states))

    @cached_property
    def _texts(self) -> list[tuple[str | None, ...]]:
        """What the values mean of each partition column, partition by partition."""
        columns = self.table.partition_columns
        each = [partition_texts(columns, info.name) for info in self.partitions]
        return [tuple(texts[at] for texts in each) for at in range(len(columns))]

    @property
    def _is_plain(self) -> bool:
        return self.table.kind is not TransactionalKind.FULL_ACID

    @property
    def _live(self) -> LiveFiles | PlainRows:
        return self._plain if self._is_plain else self._acid

    @property
    def _plain(self) -> PlainRows:
        return PlainRows(
            spark=self.spark,
            table=self.table,
            partitions=self.partitions,
            states=self.states,
            ranges=self.ranges,
        )

    @property
    def _acid(self) -> LiveFiles:
        return LiveFiles(
            spark=self.spark,
            table=self.table,
            partitions=self.partitions,
            files=self.files,
            doubts=self._doubts,
            write_ids=self.write_ids,
            ranges=self.ranges,
        )

    def read_with_arrow(self, wanted: Collection[str], *, place: str = PLACE) -> DataFrame:
        """Live rows by our own reader, whatever the files; see `LiveFiles`."""
        return self._acid.with_arrow(wanted, place)

    def within(
        self,
        source: DataFrame,
        keys: Sequence[str],
        equal: Callable[[str], SparkColumn],
        ranges: Mapping[str, KeyRange],
    ) -> Target:
        """The part of the target that rows with these keys can be in.

        Partitions go by the source's values of the partition columns among the keys; files and rows
        go by the range of the others.

        Args:
            source: the rows.
            keys: the columns on which they are joined with the target.
            equal: the join's predicate for one of them, over `t` and `s`.
            ranges: of these keys (`key_ranges`).
        """
        if self.is_narrow:
            return dataclasses.replace(self, ranges=ranges)
        found = partitions_meeting(self.table, self._names, source, keys, equal)
        return dataclasses.replace(self, partitions=self._named(found), ranges=ranges)

    def where(
        self, condition: str | None, moment: Moment, beside: DataFrame | None = None
    ) -> Target:
        """The part of the target in which a condition can hold.

        Partitions go by what it says of them alone, rows by the constants that it compares their
        columns with. It is over `t`, and over `s` if there is a source beside it.
        """
        found = None
        if not self.is_narrow:
            found = partitions_where(
                self.spark, self.table, self._names, condition, moment, beside=beside
            )
        ranges: Mapping[str, KeyRange] = {}
        if condition is not None and beside is None:
            ranges = bounds(
                self.table, empty_target(self.spark, self.table).alias("t"), condition, moment
            )
        return dataclasses.replace(
            self,
            partitions=self.partitions if found is None else self._named(found),
            ranges=ranges,
        )

    def of_partitions(self, partitions: Iterable[PartitionInfo]) -> Target:
        """The same of other partitions, of which one may be there more than once."""
        return dataclasses.replace(self, partitions=tuple(partitions))

    @property
    def _names(self) -> tuple[PartitionName, ...]:
        return tuple(p.name for p in self.partitions)

    def _named(self, names: Collection[PartitionName]) -> tuple[PartitionInfo, ...]:
        wanted = frozenset(names)
        return tuple(p for p in self.partitions if p.name in wanted)

    def place_fields(self, place: str) -> list[SparkColumn]:
        """What an event needs of a scanned row's place, under the names of `spark.events`."""
        here = quoted(place)
        number, bucket = F.col(f"{here}.{NUMBER}"), F.col(f"{here}.{BUCKET_PROPERTY}")
        texts = [partition_text(info.name) for info in self.partitions]
        return [
            looked_up(texts, StringType(), partition_of(number)).alias("_partition"),
            bucket_of(bucket).alias("_bucket"),
            number.alias("_file"),
            *[F.col(f"{here}.{name}").alias(name) for name in IDENTITY],
        ]
