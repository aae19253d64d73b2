"""A program that commits one row, says so, and then waits to be killed.

Arguments: address of the metastore, table. Its standard input holds it.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from pyarrow import fs

from airflow_hiveacid.format import conflicts, ids, names
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from tests.support.terms import job_terms


def main() -> None:
    """Commit the row."""
    uri, name = sys.argv[1:]
    with connect(MetastoreEndpoint(uris=(uri,))) as client:
        table = client.get_table(TableRef.parse(name))
        writing = TableAccess(table=table, operations=frozenset({conflicts.DataOperation.INSERT}))
        with begin(client, job_terms(name), writes=[writing]) as txn:
            write_id = txn.write_ids[table.ref]
            delta = names.DeltaName(low=write_id, high=write_id, statement_id=ids.StatementId(0))
            path = f"{table.location.removeprefix('file:')}/{delta}/bucket_00000"
            row = pa.record_batch({table.columns[0].name: pa.array([7], pa.int64())})
            place = ids.encode(ids.BucketId(0), ids.StatementId(0))
            with AcidFileWriter(
                fs.LocalFileSystem(), path, table.columns, WriterOptions(), is_delete=False
            ) as file:
                file.write(insert_events(row, write_id, place, ids.RowId(0)))
                file.close()
    print("committed", flush=True)  # noqa: T201 -- what the test reads
    sys.stdin.read()


if __name__ == "__main__":
    main()
