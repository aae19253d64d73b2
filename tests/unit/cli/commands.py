"""A metastore with tables of a few rows, for the commands, and what tests call to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import LockRequest, TableAccess, components_for
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.storage.orc_tables import insert, write_acid

COLUMNS = (Column(name="id", type="int"), Column(name="name", type="string"))
Run = Callable[..., str]
"""Runs a command: its words, and the exit `status` that it must have."""
Records = Callable[..., list[dict[str, Any]]]
"""Runs a command with `-o json`."""


class Warehouse:
    """A metastore with the database `demo`, whose tables have their files below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        server = FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=300.0)
        self.client = FakeClient(server)
        self.client.create_database("demo")

    def table(
        self,
        name: str,
        deltas: int = 0,
        *,
        parameters: Mapping[str, str] | None = None,
        **others: Any,  # noqa: ANN401 - of a new table
    ) -> TableRef:
        """Create a table with a number of deltas."""
        ref, location = TableRef("demo", name), self.root / name
        location.mkdir()
        new = NewTable(ref=ref, columns=COLUMNS, location=str(location), **others)
        self.client.create_table(new)
        if parameters:
            self.client.set_table_parameters(ref, parameters)
        for _ in range(deltas):
            self.write(ref)
        return ref

    def write(
        self,
        ref: TableRef,
        ids: Sequence[int] | None = None,
        *,
        partition: str = "",
        base: bool = False,
        ends: bool = True,
    ) -> TxnId:
        """Write rows with these IDs, by default one with the write ID, as a delta or a base."""
        txn_id = self.opened(ref)
        write_id = self.client.allocate_write_id(txn_id, ref)
        name = f"base_{write_id}" if base else f"delta_{write_id}_{write_id}_0"
        events = [insert(write_id, at, i) for at, i in enumerate(ids or [int(write_id)])]
        write_acid(self.root / ref.name / partition / name / "bucket_00000", events)
        if ends:
            self.client.commit_txn(txn_id)
        return txn_id

    def opened(self, *refs: TableRef, writes: bool = True, job: str = "etl/load") -> TxnId:
        """Open a transaction with a lock on each table."""
        txn_id = self.client.open_txn()
        operation = DataOperation.INSERT if writes else DataOperation.SELECT
        accesses = [
            TableAccess(table=self.client.get_table(ref), operations=frozenset({operation}))
            for ref in refs
        ]
        reads, written = ([], accesses) if writes else (accesses, [])
        locks = components_for(reads, written, self.client.generation)
        self.client.lock(LockRequest(txn_id=txn_id, components=locks, agent_info=job))
        return txn_id
