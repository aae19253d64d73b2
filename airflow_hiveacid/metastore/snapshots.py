"""Snapshots that are taken without a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.port import MetastorePort


def snapshot_now(client: MetastorePort, tables: Sequence[TableRef]) -> Snapshot:
    """Return a snapshot of the current state.

    Cleaners do not wait for readers that use this snapshot.

    Raises:
        MetastoreUnavailableError: no server answers.
    """
    txns = client.valid_txns()
    return Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids(tables, txns))
