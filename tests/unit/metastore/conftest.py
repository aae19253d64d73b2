"""Gives each unit test a fake metastore of either generation, with a clock that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from contract.fake_client import FakeClient
from contract.fake_metastore import FakeMetastore
from contract.manual_clock import ManualClock

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import TableInfo


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=MetastoreGeneration, ids=lambda g: f"hive{g.value}")
def server(request: pytest.FixtureRequest, clock: ManualClock) -> FakeMetastore:
    return FakeMetastore(request.param, clock, txn_timeout_s=20.0)


@pytest.fixture
def client(server: FakeMetastore) -> FakeClient:
    return FakeClient(server)


@pytest.fixture
def table(client: FakeClient) -> TableInfo:
    columns = (Column(name="id", type="bigint"),)
    return client.create_table(NewTable(ref=TableRef("default", "t"), columns=columns))


@pytest.fixture
def partitioned(client: FakeClient) -> TableInfo:
    columns = (Column(name="id", type="bigint"),)
    month = (Column(name="month", type="string"),)
    ref = TableRef("default", "p")
    return client.create_table(NewTable(ref=ref, columns=columns, partition_columns=month))
