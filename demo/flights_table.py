"""The definition of `demo.flights`, and a reader of whole tables.

The table is a full-ACID ORC table, partitioned by month. Reading needs neither Airflow nor Spark: a
metastore snapshot selects the visible directories, and the storage package streams their rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyarrow as pa

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import TableNotFoundError
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.acid.read.scan import scan

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction

FLIGHTS: Final = TableRef("demo", "flights")
CARRIERS: Final = TableRef("demo", "carriers")
"""A table that a DAG derives from `FLIGHTS`."""
COPY: Final = TableRef("demo", "flights_copy")
"""A copy that a DAG keeps equal to `FLIGHTS`."""

_TYPES: Final = {
    **dict.fromkeys(("carrier", "origin", "dest", "tailnum"), "string"),
    "time_hour": "timestamp",
}
_COLUMNS: Final = (
    "year",
    "day",
    "carrier",
    "flight",
    "origin",
    "dest",
    "sched_dep_time",
    "sched_arr_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "air_time",
    "tailnum",
)
_PARTITION: Final = "month"
_LOCK_TIMEOUT_S: Final = 60.0


def definition() -> NewTable:
    """Return the table's definition, with the source's column names."""
    return NewTable(
        ref=FLIGHTS,
        columns=tuple(Column(name=name, type=_TYPES.get(name, "int")) for name in _COLUMNS),
        partition_columns=(Column(name=_PARTITION, type="int"),),
    )


def ensure_table(metastore_uri: str) -> bool:
    """Create database and table if they are missing; return True if the table is new."""
    with connect(MetastoreEndpoint(uris=(metastore_uri,))) as client:
        client.create_database(FLIGHTS.db)
        try:
            client.get_table(FLIGHTS)
        except TableNotFoundError:
            client.create_table(definition())
            return True
    return False


def table_folder(metastore_uri: str) -> Path:
    """Return the table's folder in the local warehouse."""
    with connect(MetastoreEndpoint(uris=(metastore_uri,))) as client:
        return Path(urlsplit(client.get_table(FLIGHTS).location).path)


def read_whole_table(metastore_uri: str, ref: TableRef) -> pa.Table:
    """Read all rows and columns, including the int partition columns, under one snapshot."""
    with connect(MetastoreEndpoint(uris=(metastore_uri,))) as client:
        table = client.get_table(ref)
        access = TableAccess(table=table, operations=frozenset({DataOperation.SELECT}))
        # While the transaction is open, cleaning does not remove the snapshot's files.
        with begin(
            client, JobTerms(job_key=None, lock_timeout_s=_LOCK_TIMEOUT_S), reads=[access]
        ) as txn:
            partitions = client.list_partitions(table)
            parts = [_read_partition(table, partition, txn) for partition in partitions]
    return pa.concat_tables(parts) if parts else pa.table({})


def _read_partition(
    table: TableInfo, partition: PartitionInfo, txn: MetastoreTransaction
) -> pa.Table:
    write_ids = txn.snapshot.write_ids(table.ref)
    batches = list(scan(partition.location, table.columns, write_ids, txn.snapshot.txns))
    if not batches:
        return pa.table({})
    rows = pa.Table.from_batches(batches)
    for column, value in zip(partition.name.columns, partition.name.values, strict=True):
        same = pa.repeat(pa.scalar(int(str(value)), pa.int32()), rows.num_rows)
        rows = rows.append_column(column, same)
    return rows
