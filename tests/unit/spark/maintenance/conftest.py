"""Lets the tasks of compactions run in the test's own process."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.table import TableInfo
from tests.contract.fake_client import FakeClient
from tests.unit.spark.maintenance.rig import Rig, without_spark


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.fixture
def rig(client: FakeClient, table: TableInfo) -> Rig:
    return Rig(client, table)


@pytest.fixture
def filled(rig: Rig) -> Rig:
    """A table of three inserts."""
    rig.insert(1, 2, 3)
    return rig
