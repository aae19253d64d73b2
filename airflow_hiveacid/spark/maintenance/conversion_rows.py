"""A digest of a table's rows, to compare them before and after a conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_hiveacid.spark.engine.tasks import job_group
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.writing.files.row_hash import RowDigest, row_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort


class Rows(Protocol):
    """The methods with which a conversion reads rows."""

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """Run a block's Spark jobs as one group; yield a function that cancels the group."""

    def digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        """Return the digest of a table's rows, read with the given definition of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRows:
    """Access to rows with Spark."""

    spark: SparkSession
    client: MetastorePort

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """See Rows."""
        return job_group(self.spark, name)

    def digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        """See Rows."""
        target = Target(
            spark=self.spark,
            table=table,
            write_ids=write_ids,
            txns=self.client.valid_txns(),
            partitions=self.client.list_partitions(table),
        )
        return row_digest(target.rows())
