"""Calls over HTTP: who is named in the headers, what is repeated, and what an answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreUnavailableError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.jobs.logins import BearerLogin, HeaderLogin, Login, SecretSource
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.gen.transactions.ttypes import (
    GetOpenTxnsResponse,
    OpenTxnsResponse,
)
from contract.http_server import HttpStub
from contract.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANSWER = GetOpenTxnsResponse(txn_high_water_mark=7, open_txns=[], abortedBits=b"")
USER = HeaderLogin(user="etl")


def stub(admits: Callable[[dict[str, str]], tuple[int, str]] | None = None) -> HttpStub:
    answers = {"get_open_txns_req": lambda _: ANSWER, "set_ugi": lambda *_: []}
    answers["open_txns"] = lambda _: OpenTxnsResponse(txn_ids=[5])
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


def test_each_call_names_the_user_on_one_connection() -> None:
    with stub() as server, client_of(server.uri, user="bob") as client:
        for _ in range(3):
            assert client.valid_txns().high_watermark == 7
        assert {r["x-actor-username"] for r in server.requests} == {"etl"}
        assert len(server.peers) == 1
        assert "set_ugi" not in server.calls


def test_a_bearer_token_is_read_anew_at_each_call(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text("first.to.ken\n")
    with stub() as server, client_of(server.uri, bearer(file)) as client:
        client.valid_txns()
        file.write_text("second.to.ken\n")
        client.valid_txns()
        sent = list(dict.fromkeys(r["authorization"] for r in server.requests))
        assert sent == ["Bearer first.to.ken", "Bearer second.to.ken"]


def test_a_call_that_came_with_an_old_token_is_sent_again_with_the_new_one(tmp_path: Path) -> None:
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


def test_a_token_that_is_refused_twice_is_not_sent_on_and_on(tmp_path: Path) -> None:
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


def test_a_refused_user_is_not_sent_again() -> None:
    with stub(lambda _: (401, "Couldn't find bearer token in the auth header")) as server:
        with pytest.raises(MetastoreUnavailableError, match="it wants a bearer token"):
            client_of(server.uri).open_txn()
        assert len(server.requests) == 2  # of the connection, which tries once more


@pytest.mark.parametrize(
    ("status", "page", "words"),
    [
        (302, "", "somewhere else"),
        (403, "", "gateway"),
        (404, "", "nobody serves this path"),
        (431, "", "too long"),
        (500, "<h2>HTTP ERROR 500</h2>", "HTTP 500: its log says why. It said: HTTP ERROR 500"),
        (200, "<html><style>p{}</style><p>Please sign in</p></html>", "Please sign in"),
    ],
)
def test_an_answer_that_is_no_thrift_is_put_into_words(status: int, page: str, words: str) -> None:
    with (
        stub(lambda _: (status, page)) as server,
        pytest.raises(MetastoreUnavailableError, match=words),
    ):
        client_of(server.uri).open_txn()


def test_a_wrong_path_is_named() -> None:
    with stub() as server, pytest.raises(MetastoreUnavailableError, match=r"thrift\.http\.path"):
        client_of(server.uri + "/elsewhere").open_txn()


def test_a_server_that_ends_idle_connections_is_called_on_a_new_one() -> None:
    with stub() as server, client_of(server.uri) as client:
        server.hangs_up = True
        client.valid_txns()
        # A call that must not be made twice finds out before it is sent.
        assert client.open_txn() == 5
        assert len(server.peers) >= 2


def test_a_proxy_of_the_environment_does_not_get_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with stub() as server, client_of(server.uri) as client:
        assert client.valid_txns().high_watermark == 7


def test_a_metastore_without_http_is_told_from_one_that_is_away() -> None:
    with StubServer(get_open_txns_req=lambda _: ANSWER) as server:
        uri = server.uri.replace("thrift:", "http:")
        with pytest.raises(MetastoreUnavailableError, match=r"3\.1 knows no HTTP"):
            client_of(uri, call_timeout_s=0.5).valid_txns()
    with pytest.raises(MetastoreUnavailableError, match="refused"):
        client_of("http://127.0.0.1:1/metastore").valid_txns()


@pytest.mark.parametrize("content", ["two words", "line\r\nx-actor-username: root", "t\u00f6ken"])
def test_what_is_no_token_is_not_sent(content: str, tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    file.write_text(content)
    with stub() as server:
        with pytest.raises(ConfigurationError, match="jwt") as caught:
            client_of(server.uri, bearer(file)).valid_txns()
        assert server.requests == []
    assert content not in str(caught.value)
