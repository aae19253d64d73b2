"""Knows the two ways in which the campaign reads both tables: with Spark, and from files alone.

Either under a snapshot that a read transaction holds, and twice, since a snapshot must not change.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.reading.tables import ReadSnapshot, read_snapshot, read_table
from airflow_hiveacid.storage.acid.read.scan import scan
from campaign.plans import Table
from campaign.polls import Poll, Row, Seen, keep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint


class Look(Protocol):
    """Reads one table's rows, sorted."""

    def __call__(self, snapshot: ReadSnapshot, ref: TableRef) -> list[Row]:
        """Read."""


def with_spark(spark: SparkSession) -> Look:
    """Read as an application with Spark does."""

    def look(snapshot: ReadSnapshot, ref: TableRef) -> list[Row]:
        with typed_failures():
            return sorted(tuple(row) for row in read_table(spark, str(ref), snapshot).collect())

    return look


def from_files(snapshot: ReadSnapshot, ref: TableRef) -> list[Row]:
    """Read without Spark, directory by directory."""
    table = snapshot.tables[ref]
    found: list[Row] = []
    for partition in snapshot.client.list_partitions(table):
        values = tuple(int(value or 0) for value in partition.name.values)
        batches = scan(
            partition.location,
            table.columns,
            snapshot.snapshot.write_ids(ref),
            snapshot.snapshot.txns,
        )
        found += [(*row.values(), *values) for batch in batches for row in batch.to_pylist()]
    return sorted(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who looks, where and how; `folder` keeps the rows."""

    name: str
    endpoint: MetastoreEndpoint
    db: str
    look: Look
    folder: Path

    def poll(self, between: Callable[[], None]) -> Poll:
        """Look once; what keeps a reader from it is noted, and becomes its poll's error."""
        began_at = time.time()
        tables: dict[str, Seen] = {}
        error = None
        try:
            tables = self._look_twice(between)
        except HiveAcidError as failure:
            error = (type(failure).__name__, str(failure))
        return Poll(
            reader=self.name,
            began_at=began_at,
            ended_at=time.time(),
            tables=tables,
            error=error,
        )

    def _look_twice(self, between: Callable[[], None]) -> dict[str, Seen]:
        names = [f"{self.db}.{table.value}" for table in Table]
        key = f"campaign/{self.name}"
        with read_snapshot(self.endpoint, names, job_key=key) as snapshot:
            first = {ref: self._keep(snapshot, ref) for ref in snapshot.tables}
            between()
            second = {ref: self._keep(snapshot, ref) for ref in snapshot.tables}
            return {
                ref.name: Seen(
                    write_ids=snapshot.snapshot.write_ids(ref).text(),
                    digest=first[ref],
                    again=second[ref],
                )
                for ref in snapshot.tables
            }

    def _keep(self, snapshot: ReadSnapshot, ref: TableRef) -> str:
        return keep(self.folder, self.look(snapshot, ref))
