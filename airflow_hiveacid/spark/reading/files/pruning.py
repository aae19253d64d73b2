"""The partitions that a statement can reach, from its conditions on partition columns.

The input is names of partitions, and a condition or the keys of a MERGE's source. The output is the
names that remain. Spark evaluates the statement's own expressions over the values of the
partitions: no expression is converted to text, parsed again or cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements.dml import quoted, require_partition_columns
from airflow_hiveacid.reading.request import free_name
from airflow_hiveacid.spark.engine.expressions.catalyst import TEXT_ERRORS, Moment, conjuncts
from airflow_hiveacid.spark.engine.failures import reason_of
from airflow_hiveacid.spark.engine.small_frames import small_frame
from airflow_hiveacid.spark.engine.types import named, spark_type
from airflow_hiveacid.storage.values.partition_values import partition_texts


def partitions_where(  # noqa: PLR0913 - the partitions, and all that the condition can use
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    condition: str | None,
    moment: Moment,
    *,
    beside: DataFrame | None = None,
) -> tuple[PartitionName, ...] | None:
    """Return the partitions in which a condition can hold; None if it does not restrict them.

    A row meets the condition only if it meets each part that is joined with AND. This function uses
    only parts that are deterministic, contain only partition columns, and have no subquery. In the
    condition, the table is `t`, and the source `beside`, if there is one, is `s`.
    """
    if condition is None or not table.is_partitioned or len(partitions) <= 1:
        return None
    number = free_name("number", table.column_names, beside.columns if beside is not None else ())
    null_columns = [
        named(spark, c, F.lit(None).cast(spark_type(parse_type(c.type)))) for c in table.columns
    ]
    values = _values(spark, table, table.partition_columns, partitions, number)
    names = [F.col(quoted(c.name)) for c in table.partition_columns]
    rows = values.select(number, *null_columns, *names).alias("t")
    sees = rows if beside is None else rows.crossJoin(beside.alias("s"))
    try:
        parts = conjuncts(sees.drop(number), condition, moment)
        partition_indexes = range(len(table.columns), len(table.column_names))
        alone = [
            part.column
            for part in parts
            if part.uses and part.uses <= set(partition_indexes)
            if part.is_deterministic and not part.has_subquery
        ]
        return _numbered(rows.where(reduce(and_, alone)), number, partitions) if alone else None
    except TEXT_ERRORS:
        # The later check of the statement reports this error with more detail.
        return None
    except PySparkException:
        # One part of the condition may fail for rows that another part excludes. So the error is
        # ignored here, and no partition is excluded.
        return None


def partitions_meeting(
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    source: DataFrame,
    keys: Sequence[str],
    equal: Callable[[str], SparkColumn],
) -> tuple[PartitionName, ...]:
    """Return the partitions with key values that equal the values of at least one source row.

    `equal` returns the join's predicate for a key, over the sides `t` and `s`. Only this predicate
    decides. The source is not cast to the column's type, because the join may cast either side.
    """
    columns = [c for c in table.partition_columns if c.name in keys]
    if not columns or len(partitions) <= 1:
        return partitions
    number = free_name("number", table.column_names)
    values = _values(source.sparkSession, table, columns, partitions, number).alias("t")
    source_keys = source.select(*[F.col(quoted(c.name)) for c in columns]).distinct().alias("s")
    matches = values.join(source_keys, reduce(and_, [equal(c.name) for c in columns]), "left_semi")
    return _numbered(matches, number, partitions)


def partitions_with(
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    wanted: Mapping[str, str | None],
) -> tuple[PartitionName, ...]:
    """Return the partitions in which columns have exactly these values; all if `wanted` is empty.

    Values are compared in their column's type. In an int column, `01` selects the partition with
    the value 1, even if the partition's name is spelled differently.

    Raises:
        UnknownColumnError: a name is not a partition column.
        ConfigurationError: a value is not valid for its column's type.
    """
    require_partition_columns(table, wanted)
    if not wanted:
        return partitions
    types = {c.name: c.type for c in table.partition_columns}
    number = free_name("number", table.column_names)
    rows = _values(spark, table, table.partition_columns, partitions, number)
    for name, value in wanted.items():
        kind = spark_type(parse_type(types[name.lower()]))
        rows = rows.where(F.col(quoted(name.lower())).eqNullSafe(F.lit(value).cast(kind)))
    try:
        return _numbered(rows, number, partitions)
    except PySparkException as error:
        raise ConfigurationError(
            f"partition {dict(wanted)} of {table.ref} does not fit its columns' types:"
            f" {reason_of(error)}"
        ) from error


def _values(
    spark: SparkSession,
    table: TableInfo,
    columns: Sequence[Column],
    partitions: Sequence[PartitionName],
    number: str,
) -> DataFrame:
    """Return a small frame of the partitions' positions and typed values."""
    indexes = [[c.name for c in table.partition_columns].index(column.name) for column in columns]
    texts = ", ".join(f"{quoted(c.name)} string" for c in columns)
    read = [partition_texts(table.partition_columns, name) for name in partitions]
    rows = [(i, *[texts_of[j] for j in indexes]) for i, texts_of in enumerate(read)]
    return small_frame(spark, rows, f"{number} int, {texts}").select(
        number,
        *[
            named(spark, c, F.col(quoted(c.name)).cast(spark_type(parse_type(c.type))))
            for c in columns
        ],
    )


def _numbered(
    values: DataFrame, number: str, partitions: tuple[PartitionName, ...]
) -> tuple[PartitionName, ...]:
    return tuple(partitions[i] for i in sorted(r[0] for r in values.select(number).collect()))
