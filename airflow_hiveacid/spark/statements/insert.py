"""INSERT INTO and INSERT OVERWRITE as events.

Takes a source frame; gives `Events` that hold insert events only. Rows of an unpartitioned,
unbucketed table are written where Spark has them, without a shuffle; others travel once, to the
task that writes their partition and bucket.

Each row of one evaluation of the source is written exactly once, whatever is lost and runs again on
the way. That takes two things, since Spark makes lost parts of a shuffle anew while tasks that have
read the other parts are done. A row's way depends on the values in the row alone, never on its
place among others. And a part that is made anew has the same rows as before: a source of which that
is not known (a LIMIT, an aggregate of floating numbers, `rand()`, a database) is kept first
(`localCheckpoint`), so that an executor's loss is the end of the job and not of some rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.jobs.specs import ColumnMatch
from airflow_hiveacid.plan.statements import columns_of_texts, quoted, resolve_insert
from airflow_hiveacid.spark.catalyst import Moment, expected_bytes, is_repeatable, rebalanced
from airflow_hiveacid.spark.checked import resolved
from airflow_hiveacid.spark.events import (
    Events,
    grouped,
    insert_events,
    partition_key,
    with_no_old_row,
)
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.spark.row_hash import hash_of
from airflow_hiveacid.spark.statements.constraints import allowed
from airflow_hiveacid.spark.statements.expressions import row_struct, stored
from airflow_hiveacid.spark.types import struct_of
from airflow_hiveacid.spark.writing.flat_rows import flat_rows
from airflow_hiveacid.spark.writing.spreading import spread
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.traits import renames_directories

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.jobs.specs import InsertSpec
    from airflow_hiveacid.spark.catalyst import Resolved

_WRITER_BYTES: Final = 256 << 20
_HASH: Final = "_hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertProgram:
    """A checked INSERT: an expression over the source for each column of the table.

    Columns in `from_text` take any text that can be read as a value of theirs. `checked` is the
    frame that it was checked against, with its values: they are those of whatever is made of this
    very frame, so that the analyser is not asked twice.
    """

    table: TableInfo
    expressions: Mapping[str, str]
    from_text: frozenset[str]
    moment: Moment
    checked: tuple[DataFrame, Mapping[str, Column]] | None = None

    def values(self, source: DataFrame) -> dict[str, Column]:
        """The expressions, checked and cast; errors in rows that the table does not allow.

        Raises:
            InputError: see `expressions.resolved`, `expressions.stored`, `constraints.allowed`.
        """
        found = self._resolved(source, self.expressions)
        values = self._stored(source, found)
        return allowed(source.sparkSession, self.table, values, found, self.moment)

    def constants(self, source: DataFrame, names: Collection[str]) -> dict[str, Column]:
        """Some of the values alone, of which rows are not made.

        Raises:
            InputError: see `expressions.resolved` and `expressions.stored`.
        """
        return self._stored(source, self._resolved(source, names))

    def _resolved(self, source: DataFrame, names: Collection[str]) -> dict[str, Resolved]:
        texts = [self.expressions[name] for name in names]
        return dict(zip(names, resolved(self.table, source, texts, self.moment), strict=True))

    def _stored(self, source: DataFrame, found: Mapping[str, Resolved]) -> dict[str, Column]:
        return {
            name: stored(
                source.sparkSession, self.table, name, value, from_text=name in self.from_text
            )
            for name, value in found.items()
        }


def in_order(spec: InsertSpec, source: DataFrame) -> DataFrame:
    """The source with names of its own if those that it has are not distinct, and do not count."""
    names = {name.lower() for name in source.columns}
    by_name = not spec.columns and spec.match is ColumnMatch.NAME
    if by_name or len(names) == len(source.columns):
        return source
    return source.toDF(*[f"col{i + 1}" for i in range(len(source.columns))])


def plan_insert(
    table: TableInfo, spec: InsertSpec, source: DataFrame, moment: Moment
) -> InsertProgram:
    """Check an INSERT against the schemas of target and source.

    Raises:
        InputError: see `plan.statements.resolve_insert` and `InsertProgram.values`.
    """
    program = InsertProgram(
        table=table,
        expressions=resolve_insert(table, spec, source.columns),
        from_text=columns_of_texts(table, spec, source.columns),
        moment=moment,
    )
    return replace(program, checked=(source, program.values(source)))


def new_row_events(program: InsertProgram, source: DataFrame, *, is_ours: bool = True) -> Events:
    """The insert events of every source row; `is_ours` says that no code of a user's makes it."""
    table = program.table
    kept = program.moment.fixed_in(source)
    if not is_repeatable(kept, is_ours=is_ours):
        kept = kept.localCheckpoint()
    shape, values = program.checked or (None, {})
    if shape is not source:  # an ACID table is read under the job's own snapshot
        values = program.values(kept)
    key = partition_key(table, [values[c.name] for c in table.partition_columns])
    return Events(
        frame=partial(_row_events, table, kept, values, key),
        given=(frozenset(c.name for c in table.columns),),
        flat=flat_rows(table, kept, values, key if table.partition_columns else None)
        if table.storage.format is FileFormat.ORC
        else None,
    )


def _row_events(
    table: TableInfo, source: DataFrame, values: Mapping[str, Column], key: Column
) -> DataFrame:
    """The same rows for our own writers."""
    rows = source.select(
        key.alias("_partition"),
        row_struct(table.columns, values).alias("row"),
        F.lit(0).alias("_clause"),
    )
    if not table.partition_columns and not table.num_buckets:
        return insert_events(_in_place(_joined(table, rows, source)))
    return grouped(
        insert_events(spread(table, with_no_old_row(rows), _writers(source), row_hash(table)))
    )


def row_hash(table: TableInfo) -> Column:
    """A hash of all values in `row`, so that rows find their writers by nothing but themselves.

    Equal rows meet in one writer.
    """
    fields = struct_of(table.columns).fields
    return hash_of([(f.dataType, F.col(f"row.{quoted(f.name)}")) for f in fields])


def _writers(source: DataFrame) -> int:
    """Writers per partition, by the size that Spark expects of the source (often too high)."""
    tasks = int(source.sparkSession.sparkContext.defaultParallelism)
    return max(1, min(tasks, expected_bytes(source) // _WRITER_BYTES))


def _joined(table: TableInfo, rows: DataFrame, source: DataFrame) -> DataFrame:
    """The rows in as many tasks as their bytes deserve, where a file for each would be too many.

    Where nothing is renamed, a compaction of several files may not be made at all (docs/adr/0043),
    so that a file for each task of each statement would stay for good. Rows find their tasks by
    nothing but themselves. How many there are at most is ours to say: left alone, Spark puts tasks
    together only where it adapts its plans, and even then as many as there are cores stay apart.
    """
    if renames_directories(scheme_of(table.location)):
        return rows
    hashed = rows.withColumn(_HASH, row_hash(table))
    return rebalanced(hashed, _HASH, _writers(source)).drop(_HASH)


def _in_place(rows: DataFrame) -> DataFrame:
    """Number the writers by Spark's own partitions, put together where they are too many."""
    return with_no_old_row(rows.coalesce(MAX_BUCKET_ID + 1)).withColumn(
        "_bucket", F.spark_partition_id()
    )


def fixed_partition(
    spark: SparkSession, program: InsertProgram, spec: InsertSpec
) -> tuple[PartitionName, ...] | None:
    """The one partition that a full static partition clause names; None if rows decide.

    Under the name that its rows get: what is given as `01` for an int is in partition 1.

    Raises:
        ConfigurationError: a value cannot be read as one of its column.
    """
    table = program.table
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    names = [c.name for c in table.partition_columns]
    if not names or set(fixed) != set(names):
        return None
    one_row = spark.range(1)
    values = program.constants(one_row, names)
    try:
        (place,) = one_row.select(partition_key(table, [values[n] for n in names])).collect()
    except PySparkException as error:
        raise ConfigurationError(
            f"INSERT into {table.ref}: partition {fixed} does not fit its columns' types:"
            f" {reason_of(error)}"
        ) from error
    return (table.partition_name(json.loads(place[0])),)
