"""A table under one snapshot, for reads and changes: its files, and frames of their rows.

The input is a table and a snapshot; the output is frames with the row ID of each row. The driver
lists the files and resolves the table's state once. Executors get plain values (files, write IDs,
column names), so that a retried task reads the same rows.
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

from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState, flat_state, resolve
from airflow_hiveacid.format.state.directories import Listing
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TransactionalKind,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.spark.engine.expressions.checked import condition as checked_condition
from airflow_hiveacid.spark.engine.expressions.checked import resolved
from airflow_hiveacid.spark.engine.types import named, spark_type, table_struct
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.reading.events import IDENTITY, partition_text
from airflow_hiveacid.spark.reading.files.arrow_scan import TargetFile
from airflow_hiveacid.spark.reading.files.bounds import bounds
from airflow_hiveacid.spark.reading.files.file_numbers import (
    NUMBER,
    bucket_of,
    file_number,
    looked_up,
    partition_of,
)
from airflow_hiveacid.spark.reading.files.live_files import LiveFiles
from airflow_hiveacid.spark.reading.files.orc_fit import Doubts, doubts_about
from airflow_hiveacid.spark.reading.files.plain_rows import PlainRows
from airflow_hiveacid.spark.reading.files.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.reading.names import free_name
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
    from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
    from airflow_hiveacid.spark.reading.files.key_ranges import KeyRange
    from airflow_hiveacid.spark.reading.staged import Staged
    from airflow_hiveacid.storage.acid.read.buckets import BucketFiles
    from airflow_hiveacid.storage.plain.files import PlainFile
    from airflow_hiveacid.versions.past import Past

POSITION: Final = "__position"
"""The column that a scan adds to the table's columns: a row's file number and row ID."""


def empty_target(spark: SparkSession, table: TableInfo) -> DataFrame:
    """Return an empty frame with a table's columns, to check expressions."""
    return spark.createDataFrame([], table_struct(table))


def whole_rows(table: TableInfo, rows: DataFrame, *beside: str) -> DataFrame:
    """Return rows with alias `t`: the columns in `beside`, then all columns of a table, in order.

    Columns that the rows lack are NULL. No expression uses the missing columns. But `t.*` and names
    must mean the same as when the expression was checked.
    """
    # Use one call for all columns. A table may have thousands of columns, and each separate column
    # would cost several calls to the JVM. Spark fills in missing nullable columns
    # (Project.matchSchema); its documentation is wrong about that.
    fields = [rows.schema[name] for name in beside]
    return rows.to(StructType([*fields, *table_struct(table)])).alias("t")


def resolve_target(  # noqa: PLR0913 - each argument is a part of the view
    spark: SparkSession,
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    touched: Touched | None = None,
    *,
    staged: Staged | None = None,
    past: Past | None = None,
) -> Target:
    """Return a table, or some of its partitions, under a snapshot; directories are listed later.

    A table without transactions has no write IDs, so all its files are visible. If the reader's own
    transaction has staged files, the frames contain their rows as if the files were committed.
    `past` is the table as of an earlier version. An earlier version has no staged files.

    Raises:
        VersionGoneError: a partition of the version `past` no longer exists.
    """
    touched = touched or Touched()
    partitions = touched.partitions(client, table)
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
        names = {p.name for p in partitions}
        is_asked = frozenset(touched.names or (p.name for p in staged.partitions))
        new = [p for p in staged.partitions if p.name in is_asked - names]
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


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class Target:
    """A table under one snapshot. A target is used only on the driver; frames contain plain values.

    `is_narrow` is True if `partitions` contains only partitions that the statement can touch.

    Members that list directories raise NotEnoughHistoryError, DanglingDeleteError or StorageError
    if the files cannot be read. These members raise VersionGoneError if files of a `past` version
    are missing.
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
        """The files of each partition under the snapshot."""
        if self.past is not None:
            listings = each_in_threads(self.listing, self.partitions)
            return self.past.states(self.partitions, listings)

        def state_of(info: PartitionInfo) -> AcidState:
            if self.table.kind is TransactionalKind.NONE:
                return flat_state(self.listing(info))
            return resolve(self.listing(info), self.write_ids, self.txns, self.table.kind)

        return tuple(each_in_threads(state_of, self.partitions))

    def listing(self, info: PartitionInfo) -> Listing:
        """List a partition's files, including files staged by the reader's own transaction."""
        own = () if self.staged is None else self.staged.files.get(info.name, ())
        if own and publishes_files(scheme_of(info.location)):
            raise UnsupportedTableError(
                table=self.table.ref,
                detail="a statement reads rows that an earlier statement of its transaction wrote"
                f" to {info.location}, but files on {scheme_of(info.location)}:// cannot be read"
                " before they are published; run the two statements in separate transactions",
            )
        try:
            listing = list_table(info.location)
        except LocationNotFoundError:
            if not own:
                raise
            listing = Listing(location=info.location, files=())  # the commit creates this partition
        return dataclasses.replace(listing, files=(*listing.files, *own))

    @cached_property
    def buckets(self) -> tuple[tuple[BucketFiles, ...], ...]:
        """The files of each partition, bucket by bucket; every delete file has been checked."""
        return buckets_of(self.states, self.write_ids)

    @property
    def elsewhere(self) -> dict[PartitionName, str]:
        """The locations of the partitions that are not at their default location."""
        usual = self.table.default_partition_location
        return {p.name: p.location for p in self.partitions if p.location != usual(p.name)}

    @cached_property
    def files(self) -> tuple[TargetFile, ...]:
        """Every data file, partition by partition, bucket by bucket."""
        entries = [
            (partition, data, bucket.deletes_of(data))
            for partition, buckets in enumerate(self.buckets)
            for bucket in buckets
            for data in bucket.inserts
        ]
        return tuple(
            TargetFile(
                number=file_number(partition, index),
                partition=partition,
                data=data,
                deletes=deletes,
            )
            for index, (partition, data, deletes) in enumerate(entries)
        )

    def scan(self, wanted: Sequence[str], *, position: str = POSITION) -> DataFrame:
        """Return a frame of the live rows to change.

        It has the columns `position`, the wanted data columns, and all partition columns, in the
        table's order. The frame has all live rows. But a target from `within` or `where` may omit
        rows.

        Raises:
            UnsupportedFileError: Hive would ignore delete events for some rows of a file.
        """
        live = self._live
        rows = (
            live.rows(wanted, position)
            if isinstance(live, PlainRows)
            else live.rows(wanted, position, for_changes=True)
        )
        columns = [c for c in self.table.columns if c.name in wanted]
        return rows.select(
            position, *self.values([*columns, *self.table.partition_columns], position)
        )

    def live_rows(self, wanted: Collection[str], position: str) -> DataFrame:
        """Return live rows, without partition columns: `position` and the wanted data columns."""
        return self._live.rows(wanted, position)

    def rows(self, wanted: Sequence[str] | None = None) -> DataFrame:
        """Return a frame of live rows for a reader: data columns, then partition columns.

        Raises:
            UnknownColumnError: the table has no such column.
        """
        column_names = self.table.column_names
        names = column_names if wanted is None else tuple(name.lower() for name in wanted)
        for name in set(names) - set(column_names):
            raise UnknownColumnError(table=self.table.ref, column=name, known=column_names)
        position = free_name("position", column_names)
        columns = {c.name: c for c in (*self.table.columns, *self.table.partition_columns)}
        return self._live.rows(names, position).select(
            *self.values([columns[n] for n in names], position)
        )

    def rows_where(
        self, where: str, moment: Moment, wanted: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the live rows for which a condition holds at a statement's time; see `rows`.

        Raises:
            UnknownColumnError, ExpressionError: the condition cannot be resolved, or is not
                boolean.
        """
        names = self.table.column_names if wanted is None else [name.lower() for name in wanted]
        empty = empty_target(self.spark, self.table).alias("t")
        (expression,) = resolved(self.table, empty, [where], moment)
        checked_condition(self.table, where, expression)
        filter_columns = [self.table.column_names[i] for i in expression.uses]
        rows = self.where(where, moment).rows(list(dict.fromkeys((*names, *filter_columns))))
        every = whole_rows(self.table, rows)
        (expression,) = resolved(self.table, every, [where], moment)
        holds = checked_condition(self.table, where, expression)
        if not self._is_plain:
            # Spark does not push a condition of this form down to ORC; see `search_argument`.
            holds = F.coalesce(holds, F.lit(False))
        return every.where(holds).select(*[F.col(quoted(name)) for name in names])

    def values(self, columns: Sequence[Column], position: str) -> list[SparkColumn]:
        """Return the expressions of these columns for rows that have a column `position`."""
        names = [c.name for c in self.table.partition_columns]
        partition = partition_of(F.col(f"{quoted(position)}.{NUMBER}"))
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
        """The values of each partition column as strings, partition by partition."""
        columns = self.table.partition_columns
        each = [partition_texts(columns, info.name) for info in self.partitions]
        return [tuple(texts[index] for texts in each) for index in range(len(columns))]

    @property
    def plain_files(self) -> tuple[tuple[int, PlainFile], ...]:
        """Every file of an insert-only or flat table, with its number, partition by partition."""
        return self._plain.files

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

    def read_with_arrow(self, wanted: Collection[str], *, position: str = POSITION) -> DataFrame:
        """Read live rows with our own reader, even if Spark could read them; see `LiveFiles`."""
        return self._acid.with_arrow(wanted, position)

    def within(
        self,
        source: DataFrame,
        keys: Sequence[str],
        equal: Callable[[str], SparkColumn],
        ranges: Mapping[str, KeyRange],
    ) -> Target:
        """Return the part of the target that can contain rows with these keys.

        If a key is a partition column, its values in the source select the partitions. The ranges
        of the other keys select files and rows.

        Args:
            source: the source's rows.
            keys: the columns on which source and target are joined.
            equal: a function that returns the join's predicate for one key, over `t` and `s`.
            ranges: the ranges of these keys (`key_ranges`).
        """
        if self.is_narrow:
            return dataclasses.replace(self, ranges=ranges)
        matches = partitions_meeting(self.table, self._names, source, keys, equal)
        return dataclasses.replace(self, partitions=self._named(matches), ranges=ranges)

    def where(
        self, condition: str | None, moment: Moment, beside: DataFrame | None = None
    ) -> Target:
        """Return the part of the target in which a condition can hold.

        The condition's parts that use only partition columns select the partitions. Comparisons of
        columns with constants select the rows. The condition is over `t`, and over `s` if `beside`
        is a source.
        """
        matches = None
        if not self.is_narrow:
            matches = partitions_where(
                self.spark, self.table, self._names, condition, moment, beside=beside
            )
        ranges: Mapping[str, KeyRange] = {}
        if condition is not None and beside is None:
            ranges = bounds(
                self.table, empty_target(self.spark, self.table).alias("t"), condition, moment
            )
        return dataclasses.replace(
            self,
            partitions=self.partitions if matches is None else self._named(matches),
            ranges=ranges,
        )

    def of_partitions(self, partitions: Iterable[PartitionInfo]) -> Target:
        """Return a target with the given partitions; a partition may occur more than once."""
        return dataclasses.replace(self, partitions=tuple(partitions))

    @property
    def _names(self) -> tuple[PartitionName, ...]:
        return tuple(p.name for p in self.partitions)

    def _named(self, names: Collection[PartitionName]) -> tuple[PartitionInfo, ...]:
        selection = frozenset(names)
        return tuple(p for p in self.partitions if p.name in selection)

    def position_columns(self, position: str) -> list[SparkColumn]:
        """Return the partition, bucket, file and row ID of scanned rows, named as event columns."""
        prefix = quoted(position)
        number, bucket = F.col(f"{prefix}.{NUMBER}"), F.col(f"{prefix}.{BUCKET_PROPERTY}")
        texts = [partition_text(info.name) for info in self.partitions]
        return [
            looked_up(texts, StringType(), partition_of(number)).alias("_partition"),
            bucket_of(bucket).alias("_bucket"),
            number.alias("_file"),
            *[F.col(f"{prefix}.{name}").alias(name) for name in IDENTITY],
        ]
