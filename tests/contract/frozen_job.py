"""A program that holds a transaction open until its standard input ends, then tells how that went.

Started by tests that stop it, freeze it or kill it. Arguments: address of the metastore, table.
"""

from __future__ import annotations

import sys

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.support.terms import job_terms


def main() -> str:
    """Runs one transaction; the answer is its outcome in one word."""
    uri, name = sys.argv[1:]
    with connect(MetastoreEndpoint(uris=(uri,))) as client:
        table = client.get_table(TableRef.parse(name))
        writing = TableAccess(table=table, operations=frozenset({DataOperation.UPDATE}))
        try:
            with begin(client, job_terms(name), writes=[writing]) as txn:
                print(txn.txn_id, flush=True)  # noqa: T201 -- what the test reads
                sys.stdin.read()
        except HiveAcidError as error:
            return type(error).__name__
    return "committed"


if __name__ == "__main__":
    print(main(), flush=True)  # noqa: T201 -- what the test reads
