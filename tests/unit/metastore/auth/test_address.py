from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import Transport
from airflow_hiveacid.metastore.auth.address import Address, parse_uri


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
    assert parse_uri(uri, Transport.TLS) == expected
    assert parse_uri(str(expected)) == expected


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("https://hms", "/metastore"),
        ("https://hms:9083/", "/metastore"),
        ("https://hms:9083/gate/hive/", "/gate/hive"),
    ],
)
def test_over_http_an_address_has_a_path(uri: str, path: str) -> None:
    assert parse_uri(uri, Transport.HTTPS) == Address("hms", 9083, "https", path)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "hms:9083",
        "http://hms:9083",
        "thrift://",
        "thrift://h:port",
        "thrift://h/path",
        "thrift://a..b",
        "thrift://.hms",
        f"thrift://{'a' * 64}.lab",
        "thrift://h\0x",
    ],
)
def test_an_invalid_address_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="thrift://host:port"):
        parse_uri(uri)


@pytest.mark.parametrize("uri", ["thrift://hms:9083", "https://hms:9083", "http://"])
def test_an_address_of_a_different_transport_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="transport http requires"):
        parse_uri(uri, Transport.HTTP)


@pytest.mark.parametrize(
    "uri",
    [
        "http://u:hunter2@hms/",
        "http://hms/?t=hunter2",
        "http://h/#x",
        "http://u:hunter2@hms:port",
        "http://u:hunter2@[::1",
    ],
)
def test_an_address_that_may_contain_a_secret_is_not_shown_in_the_error(uri: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_uri(uri, Transport.HTTP)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["/meta store", "/met\u00e4store", "/a\0b", "/a\\b"])
def test_a_path_with_invalid_characters_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="http://host:port/path"):
        parse_uri(f"http://hms{path}", Transport.HTTP)
