"""Gives each unit test a fake metastore of either generation, with a clock that stands still."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=MetastoreGeneration, ids=lambda g: f"hive{g.value}")
def server(request: pytest.FixtureRequest, clock: ManualClock) -> FakeMetastore:
    return FakeMetastore(request.param, clock, txn_timeout_s=20.0)


@pytest.fixture
def client(server: FakeMetastore) -> FakeClient:
    return FakeClient(server)
