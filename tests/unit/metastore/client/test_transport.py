from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.metastore.auth.address import Address
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.client.transport import open_transport


def test_an_endpoint_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no address"):
        connect(MetastoreEndpoint(uris=()))


def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    endpoint = MetastoreEndpoint(
        uris=("thrift://127.0.0.1:1",), transport=Transport.TLS, ca_certificate=missing
    )
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        open_transport(endpoint, Address("127.0.0.1", 1))


def test_a_client_is_created_without_a_connection_to_a_server() -> None:
    connect(MetastoreEndpoint(uris=("thrift://127.0.0.1:1",))).close()
