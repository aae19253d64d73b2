"""Gives each test tables of which there are no files."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from tests.contract.fake_client import FakeClient


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
