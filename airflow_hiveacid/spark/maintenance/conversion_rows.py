"""The rows of a table that is converted, as one digest, by the readers that will read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.row_hash import RowDigest, row_digest
from airflow_hiveacid.spark.tasks import job_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort


class Rows(Protocol):
    """What a conversion asks about rows."""

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """Run a block's work under a name; gives what cancels it."""

    def digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        """The digest of the table's rows, if it were this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRows:
    """Reads with Spark."""

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
