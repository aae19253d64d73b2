"""Connections: from a metastore's addresses, or from an Airflow connection."""

from __future__ import annotations

import pytest

from airflow_hiveacid import acid
from airflow_hiveacid.format.errors import ConfigurationError, MetastoreUnavailableError
from tests.unit.lake.lakes import T, Warehouse, ids


def test_a_connection_asks_the_metastore_only_for_a_table() -> None:
    metastore = acid.Metastore(uris=("thrift://127.0.0.1:1",), connect_timeout_s=0.1)
    with acid.connect(metastore) as lake:
        assert repr(lake) == "<connection to thrift://127.0.0.1:1>"
        with pytest.raises(MetastoreUnavailableError):
            lake.table("demo.orders")


def test_an_airflow_connection_needs_airflow() -> None:
    pytest.importorskip("pyspark", reason="Airflow's environment has Airflow")
    with pytest.raises(ConfigurationError, match=r"'hive_acid_default' needs Airflow.*Metastore"):
        acid.connect("hive_acid_default")


def test_a_connection_warns_once_of_settings_with_which_dead_readers_stay(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.create()
    with warehouse.connect() as lake:
        assert caplog.messages == []
        assert ids(lake.table(T)) == []
        lake.table(T).refresh()
    (warning,) = [text for text in caplog.messages if "does not end transactions" in text]
    assert warning.startswith("this metastore does not end transactions of clients that died")
