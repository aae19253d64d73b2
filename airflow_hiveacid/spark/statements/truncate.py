"""TRUNCATE: which partitions are replaced by nothing.

Takes names of partitions and the values that some of their columns have to have; gives those that
have them. Values are compared as their columns' type: what is given as `01` for an int means the
partition of 1, however anybody has spelled it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import ConfigurationError, UnknownColumnError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import quoted, sql_string
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.table import PartitionName, TableInfo


def partitions_with(
    spark: SparkSession,
    table: TableInfo,
    names: tuple[PartitionName, ...],
    values: Mapping[str, str | None],
) -> tuple[PartitionName, ...]:
    """The partitions in which columns have these values; all of them if none is given.

    Raises:
        UnknownColumnError: one is no partition column.
        ConfigurationError: a value cannot be read as one of its column.
    """
    types = {c.name: spark_type(parse_type(c.type)) for c in table.partition_columns}
    for name in values:
        if name.lower() not in types:
            raise UnknownColumnError(table=table.ref, column=name, known=tuple(sorted(types)))
    if not values:
        return names
    condition = " AND ".join(
        f"{quoted(name.lower())} <=> {_constant(value, types[name.lower()].simpleString())}"
        for name, value in values.items()
    )
    try:
        found = partitions_where(spark, table, names, condition, Moment.now(spark))
    except PySparkException as error:
        raise ConfigurationError(
            f"TRUNCATE of {table.ref}: partition {dict(values)} does not fit its columns' types:"
            f" {reason_of(error)}"
        ) from error
    return names if found is None else found


def _constant(value: str | None, type_name: str) -> str:
    return "NULL" if value is None else f"CAST({sql_string(value)} AS {type_name})"
