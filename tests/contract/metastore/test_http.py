"""Calls over HTTP: who is named in the headers, what is repeated, and what an answer means."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreUnavailableError
from airflow_hiveacid.jobs.endpoint import (
    BearerLogin,
    HeaderLogin,
    Login,
    MetastoreEndpoint,
    SecretSource,
    Transport,
)
from airflow_hiveacid.metastore.auth import http_calls
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.gen.service import Metastore
from airflow_hiveacid.metastore.gen.transactions import ttypes
from tests.contract.http_server import HttpStub
from tests.contract.stub_server import NOTHING_OPEN, StubServer

USER = HeaderLogin(user="etl")


def stub(admits: Callable[[dict[str, str]], tuple[int, str]] | None = None) -> HttpStub:
    answers = {"get_open_txns_req": lambda _: NOTHING_OPEN, "set_ugi": lambda *_: []}
    answers["open_txns"] = lambda _: ttypes.OpenTxnsResponse(txn_ids=[5])
    return HttpStub(admits or (lambda _: (200, "")), **answers)


def client_of(uri: str, login: Login = USER, **changes: str | float) -> MetastoreClient:
    bounds = {"connect_timeout_s": 3.0, "call_timeout_s": 3.0}
    return connect(
        MetastoreEndpoint(
            uris=(uri,), transport=Transport.HTTP, login=login, **{**bounds, **changes}
        )  # type: ignore[arg-type]
    )


def bearer(file: Path) -> BearerLogin:
    return BearerLogin(bearer=SecretSource(file=str(file)), in_clear=True)


def test_each_http_call_sends_the_user_name_over_one_connection() -> None:
    with stub() as server, client_of(server.uri, user="bob") as client:
        for _ in range(3):
            assert client.valid_txns().high_watermark == 7
        assert {r["x-actor-username"] for r in server.requests} == {"etl"}
        assert len(server.peers) == 1
        assert "set_ugi" not in server.calls


def test_a_bearer_token_is_read_again_for_each_call(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text(" first.to.ken \n")
    with stub() as server, client_of(server.uri, bearer(file)) as client:
        client.valid_txns()
        file.write_text("second.to.ken\n")
        client.valid_txns()
        sent = list(dict.fromkeys(r["authorization"] for r in server.requests))
        assert sent == ["Bearer first.to.ken", "Bearer second.to.ken"]


def test_a_call_refused_for_an_old_token_is_sent_again_with_the_new_token(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text("old")

    def admits(headers: dict[str, str]) -> tuple[int, str]:
        if headers["authorization"] == "Bearer new":
            return 200, ""
        file.write_text("new")
        return 401, "Failed to validate JWT from Bearer token in Authentication header"

    with stub(admits) as server, client_of(server.uri, bearer(file)) as client:
        # A call that must not be made twice: the refused one was not made.
        assert client.open_txn() == 5
        assert server.calls.count("open_txns") == 1
        assert len(server.requests) >= 2


def test_a_refused_token_is_sent_at_most_four_times(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text("my.own.secret")
    with stub(lambda _: (401, "Failed to validate JWT")) as server:
        client = client_of(server.uri, bearer(file))
        with pytest.raises(MetastoreUnavailableError, match="bearer token has expired") as caught:
            client.open_txn()
        assert server.calls == []
        # A call that may be repeated is tried once more by the connection, and each try is two.
        assert len(server.requests) == 4
    assert "Failed to validate JWT" in str(caught.value)
    assert "my.own.secret" not in str(caught.value)


def test_a_refused_user_name_is_sent_at_most_twice() -> None:
    with stub(lambda _: (401, "Couldn't find bearer token in the auth header")) as server:
        with pytest.raises(MetastoreUnavailableError, match="it requires a bearer token"):
            client_of(server.uri).open_txn()
        assert len(server.requests) == 2  # of the connection, which tries once more


@pytest.mark.parametrize(
    ("status", "page", "words"),
    [
        (302, "", "redirects the call"),
        (403, "", "gateway"),
        (404, "", "it provides no service at this path"),
        (431, "", "too long"),
        (
            500,
            "<h2>HTTP ERROR 500</h2>",
            "HTTP 500: its log gives the reason. It said: HTTP ERROR 500",
        ),
        (200, "<html><style>p{}</style><p>Please sign in</p></html>", "Please sign in"),
    ],
)
def test_the_error_explains_a_response_that_is_not_thrift(
    status: int, page: str, words: str
) -> None:
    with (
        stub(lambda _: (status, page)) as server,
        pytest.raises(MetastoreUnavailableError, match=words),
    ):
        client_of(server.uri).open_txn()


@pytest.mark.parametrize("status", [200, 500])
def test_the_error_quotes_only_the_beginning_of_a_page(status: int) -> None:
    page = "<html>Sorry" + "<" * 8192 + "> The end"
    with (
        stub(lambda _: (status, page)) as server,
        pytest.raises(MetastoreUnavailableError, match="Sorry") as caught,
    ):
        client_of(server.uri).open_txn()
    assert "The end" not in str(caught.value)


def test_no_part_of_a_token_is_shown_where_a_quoted_page_is_cut(tmp_path: Path) -> None:
    (tmp_path / "jwt").write_text("my.own.secret")
    with (
        stub(lambda _: (500, "a" * 297 + "my.own.secret")) as server,
        pytest.raises(MetastoreUnavailableError, match=r"a\*\*\*") as caught,
    ):
        client_of(server.uri, bearer(tmp_path / "jwt")).open_txn()
    assert "my." not in str(caught.value)


def test_the_error_about_a_wrong_http_path_names_the_setting_of_hive() -> None:
    with stub() as server, pytest.raises(MetastoreUnavailableError, match=r"thrift\.http\.path"):
        client_of(server.uri + "/elsewhere").open_txn()


def test_a_new_connection_is_opened_if_the_server_closed_the_idle_one() -> None:
    with stub() as server, client_of(server.uri) as client:
        server.hangs_up = True
        client.valid_txns()
        # A call that must not be made twice finds out before it is sent.
        assert client.open_txn() == 5
        assert len(server.peers) >= 2


def test_a_response_may_take_longer_than_the_connect_timeout() -> None:
    def admits(_: dict[str, str]) -> tuple[int, str]:
        time.sleep(1.2)
        return 200, ""

    with stub(admits) as server:
        client = client_of(server.uri, connect_timeout_s=1.0, call_timeout_s=60.0)
        assert client.open_txn() == 5
        client.close()


def test_calls_ignore_the_proxy_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with stub() as server, client_of(server.uri) as client:
        assert client.valid_txns().high_watermark == 7


def test_the_error_distinguishes_a_metastore_without_http_from_an_unreachable_one() -> None:
    with StubServer(get_open_txns_req=lambda _: NOTHING_OPEN) as server:
        uri = server.uri.replace("thrift:", "http:")
        with pytest.raises(MetastoreUnavailableError, match=r"Hive 3\.1 does not support HTTP"):
            client_of(uri, call_timeout_s=0.5).valid_txns()
    with pytest.raises(MetastoreUnavailableError, match="refused"):
        client_of("http://127.0.0.1:1/metastore").valid_txns()


@pytest.mark.parametrize("content", ["two words", "line\r\nx-actor-username: root", "t\u00f6ken"])
def test_an_invalid_bearer_token_is_not_sent(content: str, tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text(content)
    with stub() as server:
        with pytest.raises(ConfigurationError, match="jwt") as caught:
            client_of(server.uri, bearer(file)).valid_txns()
        assert server.requests == []
    assert content not in str(caught.value)


@contextmanager
def raw(answer: bytes) -> Iterator[str]:
    """An address where each request gets these bytes, and then the end."""

    def answer_all() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                with near, contextlib.suppress(OSError):
                    near.settimeout(5)
                    head = b""
                    while not head.endswith(b"\r\n\r\n") and (byte := near.recv(1)):
                        head += byte
                    if head:
                        length = re.search(rb"Content-Length: (\d+)", head)
                        assert length
                        near.recv(int(length[1]), socket.MSG_WAITALL)
                        near.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_all)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metastore"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=10)


def message() -> bytes:
    out = TMemoryBuffer()
    protocol = TBinaryProtocol(out)
    protocol.writeMessageBegin("get_open_txns_req", TMessageType.REPLY, 0)
    Metastore.get_open_txns_req_result(success=NOTHING_OPEN).write(protocol)
    protocol.writeMessageEnd()
    return bytes(out.getvalue())


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"],
    ids=["at once", "continued"],
)
def test_a_chunked_http_response_is_read(head: bytes) -> None:
    chunks = [message()[at : at + 7] for at in range(0, len(message()), 7)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    with raw(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n") as uri:
        assert client_of(uri).valid_txns().high_watermark == 7


@pytest.mark.parametrize(
    "lie",
    [b"Content-Length: 99", b"Content-Length: 1125899906842624", b"Transfer-Encoding: chunked"],
)
def test_a_response_shorter_than_its_declared_length_is_refused(lie: bytes) -> None:
    body = b"63\r\n" + message() if b"chunked" in lie else message()
    with (
        raw(b"HTTP/1.1 200 OK\r\n" + lie + b"\r\n\r\n" + body) as uri,
        pytest.raises(MetastoreUnavailableError, match="IncompleteRead"),
    ):
        client_of(uri).valid_txns()


def test_a_response_that_exceeds_the_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "_MAX_ANSWER_BYTES", 1000)
    with (
        raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"\x80\x01" * 501) as uri,
        pytest.raises(MetastoreUnavailableError, match="the response exceeds the 1000-byte limit"),
    ):
        client_of(uri).valid_txns()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_token_is_not_sent_to_the_target_of_a_redirect(status: int, tmp_path: Path) -> None:
    (tmp_path / "jwt").write_text("my.own.secret")
    with stub() as elsewhere:
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere.uri}\r\nContent-Length: 0\r\n\r\n"
        with (
            raw(head.encode()) as uri,
            pytest.raises(MetastoreUnavailableError, match="redirects the call"),
        ):
            client_of(uri, bearer(tmp_path / "jwt")).valid_txns()
        assert elsewhere.requests == []
