"""INSERT INTO and INSERT OVERWRITE as events.

Takes a source frame; gives `Events` that hold insert events only. Rows of an unpartitioned,
unbucketed table are written where Spark has them, without a shuffle; others travel once, to the
task that writes their partition and bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.plan.statements import resolve_insert
from airflow_hiveacid.spark.events import (
    Events,
    grouped,
    insert_events,
    partition_key,
    with_no_old_row,
)
from airflow_hiveacid.spark.rows import row_struct, stored
from airflow_hiveacid.spark.writers import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.jobs.specs import InsertSpec

_WRITER_BYTES: Final = 256 << 20
_MAX_BUCKETS: Final = 4096  # what the bucket property's 12 bits hold


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertProgram:
    """A checked INSERT."""

    table: TableInfo
    values: Mapping[str, Column]


def plan_insert(
    spark: SparkSession, table: TableInfo, spec: InsertSpec, source: DataFrame
) -> InsertProgram:
    """Check an INSERT against the schemas of target and source.

    Raises:
        InputError: see `plan.statements.resolve_insert` and `spark.rows.stored`.
    """
    constants = {name.lower() for name in spec.partition}
    return InsertProgram(
        table=table,
        values={
            column: stored(
                spark,
                source,
                table,
                column,
                expression,
                from_text=spec.source.values is not None or column in constants,
            )
            for column, expression in resolve_insert(table, spec, source.columns).items()
        },
    )


def new_row_events(program: InsertProgram, source: DataFrame) -> Events:
    """The insert events of every source row."""
    table = program.table
    rows = source.select(
        partition_key(table, [program.values[c.name] for c in table.partition_columns]).alias(
            "_partition"
        ),
        row_struct(table, program.values).alias("row"),
        F.lit(0).alias("_clause"),
    )
    given = (frozenset(c.name for c in table.columns),)
    if not table.partition_columns and not table.num_buckets:
        return Events(frame=insert_events(_in_place(rows)), given=given)
    seeded = rows.withColumn("_seed", F.monotonically_increasing_id())
    routed = spread(table, with_no_old_row(seeded), _writers(source), F.col("_seed"))
    return Events(frame=grouped(insert_events(routed)), given=given)


def _writers(source: DataFrame) -> int:
    """Writers per partition, by the size that Spark expects of the source (often too high)."""
    jdf = source._jdf  # noqa: SLF001 - Spark's estimate is only reachable on the JVM side
    size = int(str(jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    tasks = int(source.sparkSession.sparkContext.defaultParallelism)
    return max(1, min(tasks, size // _WRITER_BYTES))


def _in_place(rows: DataFrame) -> DataFrame:
    """Number the writers by Spark's own partitions."""
    if rows.rdd.getNumPartitions() > _MAX_BUCKETS:
        rows = rows.coalesce(_MAX_BUCKETS)
    return with_no_old_row(rows).withColumn("_bucket", F.spark_partition_id())


def fixed_partition(table: TableInfo, spec: InsertSpec) -> tuple[PartitionName, ...] | None:
    """The one partition that a full static partition clause names; None if rows decide."""
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    if not table.partition_columns or set(fixed) != {c.name for c in table.partition_columns}:
        return None
    return (table.partition_name([fixed[c.name] for c in table.partition_columns]),)
