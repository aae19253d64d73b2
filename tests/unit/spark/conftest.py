"""Gives each test a table whose files are real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hiveacid.format.table import TableInfo
    from tests.contract.fake_client import FakeClient


@pytest.fixture
def table(client: FakeClient, tmp_path: Path) -> TableInfo:
    (tmp_path / "t").mkdir()
    return client.create_table(
        NewTable(
            ref=TableRef("default", "t"),
            columns=(Column(name="id", type="bigint"),),
            location=f"file:{tmp_path}/t",
        )
    )
