"""A scan of a table under a snapshot that stays open, as Arrow data and as frames of libraries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_hiveacid.arrow.scan import ScanPlan, plan_scan
from airflow_hiveacid.arrow.statements import partitions_where
from airflow_hiveacid.format.errors import ConfigurationError, StorageError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.lake.session import HeldSnapshot, without_spark
from airflow_hiveacid.plan.statements.conditions import Condition
from airflow_hiveacid.reading.snapshots import ReadSnapshot
from airflow_hiveacid.reading.table_view import Touched, touched_as_of, view_of
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


class Scan:
    """The rows of a table under a snapshot; each method reads them again, always the same rows.

    A scan is itself Arrow data: `pyarrow.table(scan)`, `polars.DataFrame(scan)` and DuckDB's SQL
    read it. All cores read; at most 256 MiB wait for the caller. Timestamps are in microseconds,
    and a char has no padding.

    Every method raises SnapshotClosedError if the scan's table or connection was closed, or if the
    metastore has ended the snapshot's transaction, and StorageError if files cannot be read.

    Example:
        scan = lake.table("demo.orders").scan(["id"], "day >= :day", parameters={"day": NEW_YEAR})
        for batch in scan.to_batches():
            print(batch.num_rows)
    """

    def __init__(
        self,
        snapshot: HeldSnapshot,
        schema: pa.Schema,
        condition: Condition | None,
        version: VersionSpec,
    ) -> None:
        self._snapshot, self._schema = snapshot, schema
        self._condition, self._version = condition, version
        self._guard = threading.Lock()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, without reading any."""
        return self._schema

    def to_batches(self) -> pa.RecordBatchReader:
        """Return a reader of record batches, which begins to read at its first batch.

        The rows come partition by partition and bucket by bucket, in the order of row IDs.
        """
        with self._guard:
            plan = self._plan
        return pa.RecordBatchReader.from_batches(self._schema, self._batches(plan))

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table in memory."""
        return self.to_batches().read_all()

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401 - passed on
        """Return all rows as a frame of pandas; options are those of `pyarrow.Table.to_pandas`.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        _library("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a frame of Polars.

        Raises:
            ConfigurationError: Polars is not installed.
        """
        frame: pl.DataFrame = _library("polars").from_arrow(self.to_arrow())
        return frame

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return a relation of DuckDB, which reads the rows in batches each time it runs.

        By default, the relation belongs to DuckDB's default connection.

        Raises:
            ConfigurationError: DuckDB is not installed.
        """
        relation: duckdb.DuckDBPyRelation = (connection or _library("duckdb")).from_arrow(self)
        return relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        where = "" if self._condition is None else ", with a condition"
        names = ", ".join(self._schema.names)
        return f"<scan of {self._snapshot.table.ref} {self._version.text()}: {names}{where}>"

    @cached_property
    def _plan(self) -> ScanPlan:
        with self._snapshot.opened() as snapshot, without_spark(self._snapshot.table.ref):
            return self._planned(snapshot)

    def _planned(self, snapshot: ReadSnapshot) -> ScanPlan:
        client, table = snapshot.client, self._snapshot.table
        past = None
        if not self._version.is_now:
            past = past_of(
                client, table, self._version, snapshot.snapshot, taken_s=snapshot.taken_s
            )
        touched, condition = Touched(), self._condition
        if table.is_partitioned and condition is not None:
            touched = touched_as_of(
                client, table, past, lambda names: partitions_where(table, names, condition)
            )
        view = view_of(client, table, snapshot.snapshot, touched, past=past)
        return plan_scan(view, self._schema, condition)

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        # The plan may be hours old: other files may meanwhile have the names that it remembers.
        with self._snapshot.opened():
            pass
        try:
            for batch in plan.batches():
                with self._snapshot.opened(asks=False):
                    pass
                yield batch
        except StorageError:
            with self._snapshot.opened():  # raises if files are missing because it has ended
                raise


def _library(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ConfigurationError(
            f"to_{name} needs the package {name}, which this Python does not have; run"
            f" `pip install {name}`, or use to_arrow"
        ) from error
