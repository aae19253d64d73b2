"""A connection to a fake metastore, and tables with real files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_hiveacid.arrow import LIBRARY_LIMITS, Limits
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import Metastore
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.session import Session
from airflow_hiveacid.metastore.catalog import NewTable
from tests.contract.fake_client import FakeClient
from tests.unit.arrow.lake import COLUMNS

if TYPE_CHECKING:
    from airflow_hiveacid.lake.table import Table
    from tests.contract.fake_metastore import FakeMetastore
    from tests.contract.manual_clock import ManualClock

DAY = (Column(name="day", type="date"),)
T = "default.s"


@dataclass(frozen=True)
class Warehouse:
    """A server, its clock, and a directory for tables."""

    server: FakeMetastore
    clock: ManualClock
    root: Path

    @property
    def client(self) -> FakeClient:
        """Another client of the server."""
        return FakeClient(self.server)

    def connect(self, limits: Limits = LIBRARY_LIMITS) -> Lake:
        return Lake(
            Session(
                client=FakeClient(self.server),
                endpoint=Metastore(uris=("thrift://h:1",)),
                limits=limits,
                lock_timeout_s=5.0,
                clock=self.clock,
            )
        )

    def create(self, name: str = T, **others: Any) -> None:  # noqa: ANN401
        ref = TableRef.parse(name)
        (self.root / ref.name).mkdir()
        others = {"columns": COLUMNS, **others}
        new = NewTable(ref=ref, location=f"file:{self.root}/{ref.name}", **others)
        self.client.create_table(new)

    def info(self, name: str = T) -> TableInfo:
        return self.client.get_table(TableRef.parse(name))

    def add_partition(self, name: str, partition: PartitionName, location: str) -> str:
        """Add a partition to a table; return its location, which may be below the directory."""
        uri = location if location.startswith(("file:", "/")) else f"file:{self.root}/{location}"
        self.client.add_partitions(self.info(name), [partition], locations={partition: uri})
        return uri


def rows(*ids: int, **columns: Any) -> pa.Table:  # noqa: ANN401
    """Rows with these IDs, and columns whose values are given, or one value for all."""
    values = {
        name: value if isinstance(value, list) else [value] * len(ids)
        for name, value in columns.items()
    }
    return pa.table({"id": pa.array(ids, pa.int64()), **values})


def ids(table: Table, where: str | None = None, **others: Any) -> list[int]:  # noqa: ANN401
    """The IDs of a scan, sorted."""
    return sorted(table.scan(["id"], where, **others).to_arrow()["id"].to_pylist())
