"""A name server that does not answer; the system's look-up would wait for minutes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_hiveacid.format.errors import MetastoreUnavailableError
from airflow_hiveacid.jobs.endpoint import HeaderLogin, MetastoreEndpoint, Transport
from airflow_hiveacid.metastore.auth import bounded, sockets
from airflow_hiveacid.metastore.auth.address import ConnectError, parse_uri
from airflow_hiveacid.metastore.auth.refusals import Outages
from airflow_hiveacid.metastore.auth.sockets import connect_named, open_socket
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.client.transport import open_transport

_LOOK_UP = socket.getaddrinfo
LOGINS: list[tuple[Transport, Any]] = [
    (Transport.PLAIN, None),
    (Transport.TLS, None),
    (Transport.HTTP, HeaderLogin(user="etl")),
    (Transport.HTTPS, HeaderLogin(user="etl")),
]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Names below `.silent` are never found out, until the test is over."""
    over = threading.Event()

    def look_up(host: str, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as the system's
        if str(host).endswith(".silent"):
            over.wait(60)
        return _LOOK_UP("127.0.0.1" if str(host).endswith(".silent") else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield over
    over.set()


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(("transport", "login"), LOGINS)
def test_a_name_server_that_does_not_answer_times_out_for_every_login(
    transport: Transport,
    login: Any,  # noqa: ANN401
) -> None:
    uri = f"{transport.scheme}://hms.silent:9083"
    endpoint = MetastoreEndpoint(
        uris=(uri,), transport=transport, login=login, connect_timeout_s=0.2
    )
    with pytest.raises(ConnectError, match=r"for hms\.silent within 0\.2 s"):
        open_transport(endpoint, parse_uri(uri, transport))


@pytest.mark.usefixtures("silent")
def test_the_next_metastore_server_is_tried_and_the_error_names_both() -> None:
    uris = ("thrift://hms.silent:9083", "thrift://127.0.0.1:1")
    endpoint = MetastoreEndpoint(uris=uris, connect_timeout_s=0.2)
    with connect(endpoint) as client, pytest.raises(MetastoreUnavailableError) as caught:
        client.valid_txns()
    assert "answered for hms.silent" in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


@pytest.mark.parametrize(("transport", "login"), LOGINS)
def test_an_unknown_host_name_is_reported_by_every_transport(
    transport: Transport,
    login: Any,  # noqa: ANN401
) -> None:
    uri = f"{transport.scheme}://nowhere.invalid:9083"
    endpoint = MetastoreEndpoint(uris=(uri,), transport=transport, login=login)
    with pytest.raises(ConnectError, match=r"nowhere\.invalid"):
        open_transport(endpoint, parse_uri(uri, transport))


def test_every_address_of_a_host_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        found = [(*stream, ("127.0.0.1", 1)), (*stream, ("127.0.0.1", port))]

        def look_up(host: str, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as the system's
            return found if host == "hms" else _LOOK_UP(host, *more, **named)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with connect_named(("hms", port), 5.0) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)
        found.pop()
        with pytest.raises(ConnectionRefusedError):
            connect_named(("hms", port), 5.0)


def test_an_error_in_a_function_with_a_time_limit_is_raised() -> None:
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        bounded(work, timeout_s=5.0, name="work")


@pytest.mark.parametrize("is_http", [False, True])
def test_an_address_of_a_name_that_does_not_answer_is_asked_last(
    monkeypatch: pytest.MonkeyPatch, *, is_http: bool
) -> None:
    asked: list[str] = []
    connects = socket.socket.connect

    def connect_counted(self: socket.socket, address: tuple[str, int]) -> None:
        asked.append(address[0])
        connects(self, address)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        hosts = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))
            for host in ("127.0.0.2", "127.0.0.1")
        ]

        def look_up(host: str, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as the system's
            return hosts if host == "hms" else _LOOK_UP(host, *more, **named)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        monkeypatch.setattr(socket.socket, "connect", connect_counted)
        monkeypatch.setattr(sockets, "OUTAGES", Outages())
        endpoint = MetastoreEndpoint(uris=(f"thrift://hms:{port}",), transport=Transport.PLAIN)
        for _ in range(3):
            if is_http:
                connect_named(("hms", port), 5.0).close()
            else:
                open_socket(endpoint, parse_uri(endpoint.uris[0], endpoint.transport)).close()
    assert asked == ["127.0.0.2", *["127.0.0.1"] * 3]
