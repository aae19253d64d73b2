"""The examples of use-tables-in-python.md and notebook.md in docs, against each metastore."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid import acid
from airflow_hiveacid.format.errors import SnapshotClosedError
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.session import Session
from airflow_hiveacid.lake.table import Table
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.port import TxnState
from tests.contract.bench import Bench
from tests.support.documents import DOCS, python_blocks

DAY = date(2026, 1, 31)
COLUMNS = (Column(name="id", type="bigint"), Column(name="price", type="decimal(8,2)"))
CUSTOMERS = (Column(name="id", type="bigint"), Column(name="name", type="string"))


@pytest.fixture
def lake(bench: Bench, tmp_path: Path) -> Iterator[Lake]:
    client = bench.client()
    is_real = isinstance(client, MetastoreClient)
    for name, columns, partition_columns in (
        ("orders", COLUMNS, (Column(name="day", type="date"),)),
        ("audit", COLUMNS, ()),
        ("customers", CUSTOMERS, ()),
    ):
        (tmp_path / name).mkdir()
        client.create_table(
            NewTable(
                ref=TableRef(bench.db, name),
                columns=columns,
                partition_columns=partition_columns,
                # 4.x refuses a managed table outside of its warehouse; the fake has no directories.
                location=None if is_real else f"file:{tmp_path}/{name}",
            )
        )
    if isinstance(client, MetastoreClient):
        lake = acid.connect(client.endpoint)
    else:
        endpoint = acid.Metastore(uris=("thrift://fake:1",))
        lake = Lake(Session(client=client, endpoint=endpoint, clock=bench.clock))
    with lake:
        yield lake


def rows(*ids: int, price: int) -> pa.Table:
    return pa.table({"id": ids, "price": [price] * len(ids), "day": [DAY] * len(ids)})


def test_tables_are_read_and_changed_without_spark(bench: Bench, lake: Lake) -> None:
    orders = lake.table(f"{bench.db}.orders")
    orders.append(rows(1, 2, 7, price=1))
    scan = orders.scan(["id", "price"], "day >= :day", parameters={"day": date(2026, 1, 1)})
    assert scan.to_pandas()["id"].tolist() == [1, 2, 7]
    result = orders.upsert(rows(7, 8, price=2), keys=["id"])
    assert (result.rows.updated, result.rows.inserted) == (1, 1)

    def load() -> acid.JobResult | None:
        with lake.transaction(key=f"orders of {DAY} in {bench.db}") as txn:
            txn.table(f"{bench.db}.orders").delete("id IN (:ids)", parameters={"ids": [1, 2]})
            txn.table(f"{bench.db}.audit").append(pa.table({"id": [7]}))
        return txn.result

    assert [result.was_done_before for result in (load(), load()) if result] == [False, True]
    assert lake.table(f"{bench.db}.audit").scan().to_arrow().num_rows == 1
    found = orders.scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": id_, "price": Decimal("2.00"), "day": DAY} for id_ in (7, 8)]
    assert scan.to_arrow().num_rows == 3
    versions = orders.history().versions
    assert [version.operation for version in versions] == ["delete", "merge", "insert"]
    assert orders.scan(version=versions[-1].number).to_arrow().num_rows == 3
    assert orders.clean(dry_run=True).status.value == "planned"
    orders.overwrite(rows(9, price=3))
    with pytest.raises(SnapshotClosedError):
        scan.to_arrow()
    assert orders.scan().to_arrow()["id"].to_pylist() == [9]
    lake.close()
    txns = [txn for txn in bench.client().open_txns_info() if txn.state is TxnState.OPEN]
    assert txns == []


def test_the_cells_of_the_notebook_page_read_rows_and_end_their_snapshot(
    bench: Bench, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table(f"{bench.db}.customers").append(pa.table({"id": [1], "name": ["Ada"]}))
    monkeypatch.setattr(acid, "connect", lambda _metastore: lake)
    page = DOCS / "tutorial" / "notebook.md"
    names: dict[str, object] = {}
    for cell in python_blocks(page):
        code = cell.replace('"demo.', f'"{bench.db}.')
        exec(compile(code, page.name, "exec"), names)  # noqa: S102 - our own page
    customers = names["customers"]
    assert isinstance(customers, Table)
    assert customers.schema.names == ["id", "name"]
    txns = [txn for txn in bench.client().open_txns_info() if txn.state is TxnState.OPEN]
    assert txns == []
