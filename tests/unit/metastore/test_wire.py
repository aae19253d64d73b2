from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.wire import seconds
from tests.contract.stub_server import StubServer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("300", 300.0),
        ("300s", 300.0),
        ("20000ms", 20.0),
        ("5 min", 300.0),
        ("5M", 300.0),
        ("1h", 3600.0),
        ("2 days", 172800.0),
        ("1000000us", 1.0),
    ],
)
def test_durations_are_read_as_hive_writes_them(text: str, expected: float) -> None:
    assert seconds(text, default_unit="s") == pytest.approx(expected)


def test_a_bare_number_has_the_unit_of_its_setting() -> None:
    assert seconds("5000", default_unit="ms") == 5.0


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 fortnights", "1.5h"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="duration"):
        seconds(text, default_unit="s")


def test_a_connection_reads_the_transaction_timeout_once() -> None:
    settings = {"hive.txn.timeout": "20s"}
    with (
        StubServer(get_config_value=settings.get) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        assert [client.txn_timeout_s for _ in range(3)] == [20.0] * 3
        assert server.calls == ["get_config_value"] * 2
        client.close()
        settings["hive.txn.timeout"] = "30s"  # it was started again
        assert client.txn_timeout_s == 30.0
