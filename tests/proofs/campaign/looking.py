"""The campaign's two ways of reading both tables: with Spark, and from files alone.

Both read under a snapshot that a read transaction holds, and twice, since a snapshot must not
change. With Spark they also read a table as of a version, and the changes up to that version.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import (
    ChangesGoneError,
    HiveAcidError,
    VersionGoneError,
    VersionNotSettledError,
)
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.reading.snapshots import ReadSnapshot, read_snapshot
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.reading.read_changes import CHANGE_TYPE, read_changes
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.proofs.campaign.plans import Table
from tests.proofs.campaign.polls import Past, Poll, Row, Seen, keep

# Readers may be refused versions that were compacted away, or that an open write may change.
_MAY_BE_REFUSED: Final = (VersionGoneError, ChangesGoneError, VersionNotSettledError)


class Look(Protocol):
    """A function that reads one table's rows, sorted."""

    def __call__(self, snapshot: ReadSnapshot, ref: TableRef) -> list[Row]: ...


def with_spark(spark: SparkSession) -> Look:
    """Return a look that reads as an application with Spark does."""

    def look(snapshot: ReadSnapshot, ref: TableRef) -> list[Row]:
        with typed_failures():
            return sorted(tuple(row) for row in read_table(spark, str(ref), snapshot).collect())

    return look


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """A reader of random earlier versions with Spark; `keep` stores rows and returns their name."""

    spark: SparkSession
    random: Random
    keep: Callable[[Sequence[Row]], str]

    def look(self, snapshot: ReadSnapshot, ref: TableRef) -> Past:
        """Read some version of a table, and an earlier one with all changes up to the first."""
        newest = snapshot.snapshot.write_ids(ref).high_watermark
        since, version = sorted(self.random.randint(0, newest) for _ in range(2))
        refused: list[str] = []

        def kept(read: Callable[[], Counter[Row]]) -> str | None:
            try:
                with typed_failures():
                    return self.keep(_flat(read()))
            except _MAY_BE_REFUSED as error:
                refused.append(type(error).__name__)
                return None

        digest = kept(lambda: self._rows(snapshot, ref, version))
        replayed = kept(lambda: self._replay(snapshot, ref, since, version))
        return Past(
            version=version,
            since=since,
            digest=digest,
            replayed=replayed,
            refused=tuple(refused),
        )

    def _rows(self, snapshot: ReadSnapshot, ref: TableRef, version: int) -> Counter[Row]:
        if version == 0:
            return Counter()
        frame = read_table(self.spark, str(ref), snapshot, version=version)
        return Counter(tuple(row) for row in frame.collect())

    def _replay(
        self, snapshot: ReadSnapshot, ref: TableRef, since: int, version: int
    ) -> Counter[Row]:
        rows = self._rows(snapshot, ref, since)
        frame = read_changes(self.spark, str(ref), snapshot, since=since, until=version)
        width = frame.columns.index(CHANGE_TYPE)
        for change in frame.collect():
            rows[tuple(change[:width])] += 1 if change[width] == "insert" else -1
        return rows


def _flat(rows: Counter[Row]) -> list[Row]:
    """Return each row as often as it occurs, sorted, and rows deleted that were not there."""
    below: list[Row] = [("not there", *row) for row, count in rows.items() if count < 0]
    return [*below, *sorted(rows.elements())]


def from_files(snapshot: ReadSnapshot, ref: TableRef) -> list[Row]:
    """Return the rows, read without Spark, directory by directory."""
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
    """One reader: its name, tables and way of reading; `folder` keeps the rows."""

    name: str
    endpoint: MetastoreEndpoint
    db: str
    look: Look
    folder: Path
    look_back: Callable[[ReadSnapshot, TableRef], Past] | None = None

    def poll(self, between: Callable[[], None]) -> Poll:
        """Look once; an error is recorded as the poll's error."""
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
            past = {
                ref: None if self.look_back is None else self.look_back(snapshot, ref)
                for ref in snapshot.tables
            }
            second = {ref: self._keep(snapshot, ref) for ref in snapshot.tables}
            return {
                ref.name: Seen(
                    write_ids=snapshot.snapshot.write_ids(ref).text(),
                    digest=first[ref],
                    again=second[ref],
                    past=past[ref],
                )
                for ref in snapshot.tables
            }

    def _keep(self, snapshot: ReadSnapshot, ref: TableRef) -> str:
        return keep(self.folder, self.look(snapshot, ref))
