from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.transport import Address, open_transport, parse_uri

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("thrift://hms-1:9083", Address("hms-1", 9083)),
        ("thrift://hms-1", Address("hms-1", 9083)),
        (" thrift://10.0.0.1:1234/ ", Address("10.0.0.1", 1234)),
        ("thrift://[::1]:9083", Address("::1", 9083)),
    ],
)
def test_an_address_is_host_and_port(uri: str, expected: Address) -> None:
    assert parse_uri(uri) == expected


@pytest.mark.parametrize(
    "uri", ["", "hms:9083", "http://hms:9083", "thrift://", "thrift://h:port", "thrift://h/path"]
)
def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="thrift://host:port"):
        parse_uri(uri)


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


def test_a_client_is_made_without_a_server() -> None:
    connect(MetastoreEndpoint(uris=("thrift://127.0.0.1:1",))).close()
