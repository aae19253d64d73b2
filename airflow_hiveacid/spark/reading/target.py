"""Frames of the rows of a table under one snapshot, for reads and changes.

Executors get plain values (files, write IDs, column names), so that a retried task reads the same
rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StringType, StructType

from airflow_hiveacid.format.errors import UnknownColumnError
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import Column, TableInfo, TransactionalKind
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import NUMBER, KeyRange, free_name
from airflow_hiveacid.reading.orc_fit import doubts_about
from airflow_hiveacid.reading.table_view import Staged, TableView, Touched, view_of
from airflow_hiveacid.spark.engine.catalyst import Moment, condition as checked_condition, resolved
from airflow_hiveacid.spark.engine.types import named, spark_type, table_struct
from airflow_hiveacid.spark.reading import pruning
from airflow_hiveacid.spark.reading.file_relation import bucket_of, looked_up, partition_of
from airflow_hiveacid.spark.reading.live_files import LiveFiles, PlainRows
from airflow_hiveacid.storage.acid import BUCKET_PROPERTY, IDENTITY_COLUMNS
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.versions.past import Past
from airflow_hiveacid.writing.event_files import partition_text

POSITION: Final = "__position"
"""The column that a scan adds to the table's columns: a row's file number and row ID."""


def empty_target(spark: SparkSession, table: TableInfo) -> DataFrame:
    """Return an empty frame with a table's columns, to check expressions."""
    return spark.createDataFrame([], table_struct(table))


def columns_used(
    spark: SparkSession, table: TableInfo, where: str, moment: Moment
) -> tuple[str, ...]:
    """Return the columns that a condition uses, in the table's order; refuse a wrong condition."""
    empty = empty_target(spark, table).alias("t")
    (expression,) = resolved(table, empty, [where], moment)
    checked_condition(table, where, expression)
    return tuple(name for i, name in enumerate(table.column_names) if i in expression.uses)


def whole_rows(table: TableInfo, rows: DataFrame, *beside: str) -> DataFrame:
    """Return rows with alias `t`: the columns in `beside`, then all columns of a table, in order.

    Columns that the rows lack are NULL. So `t.*` and names mean the same as when the expression was
    checked.
    """
    # One call for all columns, of which there may be thousands. Spark fills in missing nullable
    # columns (Project.matchSchema); its documentation is wrong about that.
    fields = [rows.schema[name] for name in beside]
    return rows.to(StructType([*fields, *table_struct(table)])).alias("t")


def resolve_target(  # noqa: PLR0913 - as `view_of`
    spark: SparkSession,
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    touched: Touched | None = None,
    *,
    staged: Staged | None = None,
    past: Past | None = None,
) -> Target:
    """Return a table, or some of its partitions, under a snapshot; see `view_of`."""
    view = view_of(client, table, snapshot, touched, staged=staged, past=past)
    return Target.of(spark, view)


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class Target(TableView):
    """A table under one snapshot, as frames. A target is used only on the driver."""

    spark: SparkSession

    @classmethod
    def of(cls, spark: SparkSession, view: TableView) -> Self:
        """Return the frames of a view."""
        fields = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
        return cls(spark=spark, **fields)

    def scan(
        self, wanted: Sequence[str], *, position: str = POSITION, for_changes: bool = False
    ) -> DataFrame:
        """Return a frame of the live rows that a statement needs.

        It has the columns `position`, the wanted data columns, and all partition columns, in the
        table's order. A target from `within` or `where` may omit rows. `for_changes` is True if
        some of the rows may be deleted or updated; see `LiveFiles.rows`.
        """
        if self._is_plain:
            rows = self._live.rows(wanted, position)
        else:
            rows = self._acid.rows(wanted, position, for_changes=for_changes)
        columns = [c for c in self.table.columns if c.name in wanted]
        return rows.select(
            position, *self.values([*columns, *self.table.partition_columns], position)
        )

    def live_rows(self, wanted: Collection[str], position: str) -> DataFrame:
        """Return live rows, without partition columns: `position` and the wanted data columns."""
        return self._live.rows(wanted, position)

    def rows(self, wanted: Sequence[str] | None = None) -> DataFrame:
        """Return a frame of live rows for a reader: data columns, then partition columns."""
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
        """Return the live rows for which a condition holds at a statement's time; see `rows`."""
        names = self.table.column_names if wanted is None else [name.lower() for name in wanted]
        used = columns_used(self.spark, self.table, where, moment)
        rows = self.where(where, moment).rows(list(dict.fromkeys((*names, *used))))
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
    def _texts(self) -> list[tuple[str | None, ...]]:
        columns = self.table.partition_columns
        each = [partition_texts(columns, info.name) for info in self.partitions]
        return [tuple(texts[index] for texts in each) for index in range(len(columns))]

    @property
    def _is_plain(self) -> bool:
        return self.table.kind is not TransactionalKind.FULL_ACID

    @property
    def _live(self) -> LiveFiles | PlainRows:
        if not self._is_plain:
            return self._acid
        return PlainRows(
            spark=self.spark,
            table=self.table,
            partitions=self.partitions,
            files=self.plain_files,
            ranges=self.ranges,
        )

    @property
    def _acid(self) -> LiveFiles:
        return LiveFiles(
            spark=self.spark,
            table=self.table,
            partitions=self.partitions,
            files=self.files,
            doubts=tuple(map(doubts_about, self.states)),
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
        of the other keys select files and rows. `equal` returns the join's predicate for one key,
        over `t` and `s`.
        """
        if self.is_narrow:
            return dataclasses.replace(self, ranges=ranges)
        matches = pruning.partitions_meeting(self.table, self._names, source, keys, equal)
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
            matches = pruning.partitions_where(
                self.spark, self.table, self._names, condition, moment, beside=beside
            )
        ranges: Mapping[str, KeyRange] = {}
        if condition is not None and beside is None:
            ranges = pruning.bounds(
                self.table, empty_target(self.spark, self.table).alias("t"), condition, moment
            )
        return dataclasses.replace(
            self,
            partitions=self.partitions if matches is None else self._named(matches),
            ranges=ranges,
        )

    def position_columns(self, position: str) -> list[SparkColumn]:
        """Return the partition, bucket, file and row ID of scanned rows, named as event columns."""
        prefix = quoted(position)
        number, bucket = F.col(f"{prefix}.{NUMBER}"), F.col(f"{prefix}.{BUCKET_PROPERTY}")
        texts = [partition_text(info.name) for info in self.partitions]
        return [
            looked_up(texts, StringType(), partition_of(number)).alias("_partition"),
            bucket_of(bucket).alias("_bucket"),
            number.alias("_file"),
            *[F.col(f"{prefix}.{name}").alias(name) for name in IDENTITY_COLUMNS],
        ]
