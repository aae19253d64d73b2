"""Which partitions a statement can reach, by what it says of the partition columns alone.

Takes names of partitions and a condition, or the keys of a MERGE's source; gives those that are
left. Spark evaluates the very expressions that it would evaluate for each row, over the values of
the partitions: nothing is printed, read again or cast for this.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as F

from airflow_hiveacid.format.errors import ConfigurationError, UnknownColumnError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.catalyst import NotOfOneRowError, conjuncts
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.types import named, spark_type
from airflow_hiveacid.storage.values.partition_values import partition_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.table import Column, PartitionName, TableInfo
    from airflow_hiveacid.spark.catalyst import Moment


def partitions_where(  # noqa: PLR0913 - which partitions, of what, and what a condition sees
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    condition: str | None,
    moment: Moment,
    *,
    beside: DataFrame | None = None,
) -> tuple[PartitionName, ...] | None:
    """The partitions in which a condition can hold; None if it says nothing of them.

    A row for which the condition holds makes each of its parts that are joined by AND hold. Those
    parts decide here that use partition columns alone, are deterministic and ask no subquery.

    Args:
        spark: the session.
        table: the table, `t` in the condition.
        partitions: their names.
        condition: Spark SQL; none says nothing.
        moment: the statement's time.
        beside: the source, `s` in the condition, if it sees one.
    """
    if condition is None or not table.is_partitioned or len(partitions) <= 1:
        return None
    number = free_name("number", table.column_names, beside.columns if beside is not None else ())
    nothing = [
        named(spark, c, F.lit(None).cast(spark_type(parse_type(c.type)))) for c in table.columns
    ]
    values = _values(spark, table, table.partition_columns, partitions, number)
    names = [F.col(quoted(c.name)) for c in table.partition_columns]
    rows = values.select(number, *nothing, *names).alias("t")
    sees = rows if beside is None else rows.crossJoin(beside.alias("s"))
    try:
        parts = conjuncts(sees.drop(number), condition, moment)
        known = range(len(table.columns), len(table.column_names))
        alone = [
            part.column
            for part in parts
            if part.uses and part.uses <= set(known)
            if part.is_deterministic and not part.has_subquery
        ]
        return _numbered(rows.where(reduce(and_, alone)), number, partitions) if alone else None
    except (AnalysisException, ParseException, NotOfOneRowError):
        # The statement's own check says what is wrong with it, in better words.
        return None
    except PySparkException:
        # A part may fail for a partition where another part, of the rows, never lets it be asked.
        return None


def partitions_meeting(
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    source: DataFrame,
    keys: Sequence[str],
    equal: Callable[[str], SparkColumn],
) -> tuple[PartitionName, ...]:
    """The partitions whose values of these keys some source row equals.

    Args:
        table: the table.
        partitions: their names.
        source: the source.
        keys: the join's keys; those that are no partition columns say nothing here.
        equal: the join's predicate for a key, over the sides `t` and `s`. It decides: the source is
            not cast to the column's type, since the join casts either side as it pleases.
    """
    columns = [c for c in table.partition_columns if c.name in keys]
    if not columns or len(partitions) <= 1:
        return partitions
    number = free_name("number", table.column_names)
    values = _values(source.sparkSession, table, columns, partitions, number).alias("t")
    wanted = source.select(*[F.col(quoted(c.name)) for c in columns]).distinct().alias("s")
    found = values.join(wanted, reduce(and_, [equal(c.name) for c in columns]), "left_semi")
    return _numbered(found, number, partitions)


def partitions_with(
    spark: SparkSession,
    table: TableInfo,
    partitions: tuple[PartitionName, ...],
    wanted: Mapping[str, str | None],
) -> tuple[PartitionName, ...]:
    """The partitions in which columns have these values, exactly; all of them if none is given.

    Values are compared as their columns' type: what is given as `01` for an int means the partition
    of 1, however anybody has spelled it.

    Raises:
        UnknownColumnError: one is no partition column.
        ConfigurationError: a value cannot be read as one of its column.
    """
    columns = {c.name: c for c in table.partition_columns}
    for name in wanted:
        if name.lower() not in columns:
            raise UnknownColumnError(table=table.ref, column=name, known=tuple(sorted(columns)))
    if not wanted:
        return partitions
    number = free_name("number", table.column_names)
    rows = _values(spark, table, table.partition_columns, partitions, number)
    for name, value in wanted.items():
        kind = spark_type(parse_type(columns[name.lower()].type))
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
    """A small frame of partitions: their number here, then their values, as rows have them."""
    at = [[c.name for c in table.partition_columns].index(column.name) for column in columns]
    texts = ", ".join(f"{quoted(c.name)} string" for c in columns)
    read = [partition_texts(table.partition_columns, name) for name in partitions]
    rows = [(i, *[texts_of[j] for j in at]) for i, texts_of in enumerate(read)]
    return spark.createDataFrame(rows, f"{number} int, {texts}").select(
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
