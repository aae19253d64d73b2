"""Gives each unit test a fake metastore of either generation, and a table whose files are real.

The metastore's clock stands still.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.table import TableInfo
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.tables import id_table


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
def table(client: FakeClient, tmp_path: Path) -> TableInfo:
    (tmp_path / "t").mkdir()
    return id_table(client, "t", tmp_path / "t")
