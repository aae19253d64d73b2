"""Snapshots that are taken without a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.port import MetastorePort


def snapshot_now(client: MetastorePort, tables: Sequence[TableRef]) -> Snapshot:
    """Return a snapshot of the current state; cleaners do not wait for readers that use it."""
    txns = client.valid_txns()
    return Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids(tables, txns))
