"""Gives each test a warehouse, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.table import Table
from tests.unit.lake.lakes import DAY, T, Warehouse

if TYPE_CHECKING:
    from tests.contract.fake_metastore import FakeMetastore
    from tests.contract.manual_clock import ManualClock


@pytest.fixture
def warehouse(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Warehouse:
    return Warehouse(server, clock, tmp_path)


@pytest.fixture
def lake(warehouse: Warehouse) -> Iterator[Lake]:
    with warehouse.connect() as lake:
        yield lake


@pytest.fixture
def table(warehouse: Warehouse, lake: Lake) -> Table:
    """The table `T`, without rows."""
    warehouse.create()
    return lake.table(T)


@pytest.fixture
def dated(warehouse: Warehouse, lake: Lake) -> Table:
    """The table `T`, without rows, partitioned by `day`."""
    warehouse.create(partition_columns=DAY)
    return lake.table(T)
