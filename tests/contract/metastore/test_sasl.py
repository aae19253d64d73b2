"""Logins over SASL: what is sent, what is protected, and what a refusal says."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    MetastoreLoginError,
    MetastoreUnavailableError,
)
from airflow_hiveacid.jobs.endpoint import (
    Login,
    MetastoreEndpoint,
    PasswordLogin,
    Protection,
    SecretSource,
    TokenLogin,
)
from airflow_hiveacid.metastore.auth import refusals
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.gen.transactions.ttypes import GetOpenTxnsResponse
from tests.contract.sasl_server import COMPLETE, DigestHalf, PlainHalf, SaslServer, ServerHalf
from tests.contract.stub_server import NOTHING_OPEN, StubServer

PASSWORD = PasswordLogin(
    user="etl", password=SecretSource(variable="METASTORE_PASSWORD"), in_clear=True
)
TOKEN = TokenLogin(token=SecretSource(variable="METASTORE_TOKEN"))
IDENTIFIER, HALF = b"\x00owner=alice", b"its other half"


def text_of(identifier: bytes, password: bytes) -> str:
    parts = (identifier, password, b"HIVE_DELEGATION_TOKEN", b"")
    raw = b"".join(bytes([len(part)]) + part for part in parts)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "s3cret words")
    monkeypatch.setenv("METASTORE_TOKEN", text_of(IDENTIFIER, HALF))


@contextmanager
def serving(half: Callable[[], ServerHalf]) -> Iterator[SaslServer]:
    answers = {
        "get_open_txns_req": lambda _: NOTHING_OPEN,
        "get_config_value": lambda *_: "answered",
        "set_ugi": lambda *_: [],
    }
    with SaslServer(half, **answers) as server:
        yield server


def client_of(uri: str, login: Login, **changes: str | float) -> MetastoreClient:
    bounds = {"connect_timeout_s": 3.0, "call_timeout_s": 3.0}
    return connect(MetastoreEndpoint(uris=(uri,), login=login, **{**bounds, **changes}))  # type: ignore[arg-type]


def plain_half() -> PlainHalf:
    return PlainHalf("etl", "s3cret words")


def digest_half() -> DigestHalf:
    return DigestHalf(IDENTIFIER, HALF)


def test_a_password_login_sends_no_separate_user_name() -> None:
    with serving(plain_half) as server, client_of(server.uri, PASSWORD, user="bob") as client:
        assert client.valid_txns().high_watermark == 7
        assert client.valid_txns().high_watermark == 7
        assert set(server.calls) == {"get_open_txns_req"}
        assert server.connections == 1


def test_a_wrong_password_is_not_retried_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "hunter2")
    with serving(plain_half) as server:
        client = client_of(server.uri, PASSWORD)
        client.be_patient(lambda: 60.0)  # which must not lock the account
        with pytest.raises(MetastoreLoginError, match="Error validating the login") as caught:
            client.valid_txns()
        assert server.connections == 1
    assert "'etl'" in str(caught.value)
    assert "environment variable METASTORE_PASSWORD" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_further_calls_send_a_wrong_password_again_only_after_a_growing_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(refusals, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setenv("METASTORE_PASSWORD", "hunter2")

    def asked(server: SaslServer) -> int:
        with pytest.raises(MetastoreLoginError, match="Error validating the login"):
            client.valid_txns()
        return server.connections

    with serving(plain_half) as server, client_of(server.uri, PASSWORD) as client:
        # As a heartbeat does, or who wants to know what became of a commit.
        assert [asked(server) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(MetastoreLoginError, match="is not sent for 120 s"):
            client.valid_txns()
        now_s[0] += 121  # the directory may have been away
        assert [asked(server) for _ in range(2)] == [2, 2]
        now_s[0] += 121
        assert asked(server) == 2
        now_s[0] += 121
        assert [asked(server) for _ in range(2)] == [3, 3]
        monkeypatch.setenv("METASTORE_PASSWORD", "another")
        assert [asked(server) for _ in range(2)] == [4, 4]
        now_s[0] += 121
        assert asked(server) == 5
        monkeypatch.setenv("METASTORE_PASSWORD", "s3cret words")
        assert client.valid_txns().high_watermark == 7


def test_retries_for_an_unreachable_server_do_not_repeat_a_wrong_password_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "hunter2")
    left_s = iter([9.0, 9.0, 0.0])
    with serving(plain_half) as server:
        uris = (server.uri, "thrift://127.0.0.1:1")
        client = connect(MetastoreEndpoint(uris=uris, login=PASSWORD, connect_timeout_s=3.0))
        client.be_patient(lambda: next(left_s))
        with pytest.raises(MetastoreUnavailableError, match=r"validating the login.*refused"):
            client.valid_txns()
        assert server.connections == 1


def test_a_password_is_read_again_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(plain_half) as server:
        client = client_of(server.uri, PASSWORD)
        client.valid_txns()
        monkeypatch.setenv("METASTORE_PASSWORD", "changed")
        client.valid_txns()
        client.close()
        with pytest.raises(MetastoreLoginError):
            client.valid_txns()


def test_a_missing_secret_is_reported_before_the_metastore_is_contacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("METASTORE_PASSWORD")
    with serving(plain_half) as server:
        with pytest.raises(ConfigurationError, match="METASTORE_PASSWORD is not set"):
            client_of(server.uri, PASSWORD).valid_txns()
        assert server.connections == 0


def test_a_password_with_non_ascii_characters_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "pässword")
    with serving(plain_half) as server:
        with pytest.raises(ConfigurationError, match="ASCII") as caught:
            client_of(server.uri, PASSWORD).valid_txns()
        assert server.connections == 0
    assert "ssword" not in str(caught.value).replace("METASTORE_PASSWORD", "")


def test_a_server_without_password_logins_raises_a_login_error() -> None:
    with serving(digest_half) as server, pytest.raises(MetastoreLoginError, match="Unsupported"):
        client_of(server.uri, PASSWORD).valid_txns()


@pytest.mark.parametrize("login", [PASSWORD, TOKEN], ids=["password", "token"])
def test_the_error_distinguishes_a_server_without_sasl_from_a_wrong_password(login: Login) -> None:
    with (
        StubServer(get_open_txns_req=lambda _: NOTHING_OPEN) as server,
        pytest.raises(MetastoreUnavailableError, match=r"not support SASL|not speak SASL"),
    ):
        client_of(server.uri, login, connect_timeout_s=1.0).valid_txns()


def test_a_login_that_the_server_does_not_continue_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []
        thread = threading.Thread(target=lambda: taken.append(listener.accept()[0]))
        thread.start()
        uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(MetastoreUnavailableError, match="broke off the login by PLAIN"):
            client_of(uri, PASSWORD, connect_timeout_s=0.2).valid_txns()
        thread.join()
        taken[0].close()


@pytest.mark.parametrize(
    ("qops", "least", "chosen"),
    [
        ("auth", Protection.AUTHENTICATION, "auth"),
        ("auth-int,auth", Protection.AUTHENTICATION, "auth-int"),
        ("auth-int", Protection.INTEGRITY, "auth-int"),
        ("auth-conf,auth-int,auth", Protection.AUTHENTICATION, "auth-conf"),
        ("auth-conf", Protection.PRIVACY, "auth-conf"),
    ],
)
def test_a_token_login_uses_the_strongest_offered_protection(
    qops: str, least: Protection, chosen: str
) -> None:
    login = TokenLogin(token=TOKEN.token, protection=least)
    with (
        serving(lambda: DigestHalf(IDENTIFIER, HALF, qops=qops)) as server,
        client_of(server.uri, login) as client,
    ):
        for _ in range(3):
            assert client.valid_txns().high_watermark == 7
        (half,) = server.halves
        assert isinstance(half, DigestHalf)
        assert half.chosen == chosen
        travels_in_clear = all(b"get_open_txns_req" in frame for frame in server.frames)
        assert travels_in_clear == (chosen != "auth-conf")


@pytest.mark.parametrize("qops", ["auth", "auth,", "auth-conf-x,auth"])
def test_a_token_login_refuses_a_challenge_without_integrity_protection(qops: str) -> None:
    """The challenge travels in clear: whoever sits between can take the protections out of it."""
    with (
        serving(lambda: DigestHalf(IDENTIFIER, HALF, qops=qops)) as server,
        pytest.raises(
            MetastoreLoginError,
            match=r"requires at least integrity.*set the connection.s protection",
        ),
    ):
        client_of(server.uri, TOKEN).valid_txns()
    with serving(lambda: DigestHalf(IDENTIFIER, HALF, qops="auth-int,auth")) as server:
        assert client_of(server.uri, TOKEN).valid_txns().high_watermark == 7
        (half,) = server.halves
        assert isinstance(half, DigestHalf)
        assert half.chosen == "auth-int"


def test_a_token_login_inside_tls_requires_no_sasl_protection_by_default() -> None:
    assert TOKEN.least(is_encrypted=True) is Protection.AUTHENTICATION
    assert TOKEN.least(is_encrypted=False) is Protection.INTEGRITY
    privacy = TokenLogin(token=TOKEN.token, protection=Protection.PRIVACY)
    assert privacy.least(is_encrypted=True) is Protection.PRIVACY


@pytest.mark.parametrize(
    ("qops", "ciphers"), [("auth-int,auth", "rc4"), ("auth-conf,auth", "3des,des")]
)
def test_protection_weaker_than_the_configured_level_is_refused(qops: str, ciphers: str) -> None:
    login = TokenLogin(token=TOKEN.token, protection=Protection.PRIVACY)
    half = DigestHalf(IDENTIFIER, HALF, qops=qops, ciphers=ciphers)
    with (
        serving(lambda: half) as server,
        pytest.raises(MetastoreLoginError, match="requires at least privacy"),
    ):
        client_of(server.uri, login).valid_txns()


def test_a_server_that_cannot_prove_that_it_knows_the_token_is_refused() -> None:
    half = DigestHalf(IDENTIFIER, HALF, knows_token=False)
    with (
        serving(lambda: half) as server,
        pytest.raises(MetastoreUnavailableError, match="did not prove"),
    ):
        client_of(server.uri, TOKEN).valid_txns()
    assert server.calls == []


@pytest.mark.parametrize("is_last", [False, True])
def test_an_oversized_challenge_is_refused(*, is_last: bool) -> None:
    class Endless(DigestHalf):
        def respond(self, response: bytes) -> tuple[int, bytes]:
            status, payload = super().respond(response)
            return status, b"a" * 2048 + payload if is_last == (status == COMPLETE) else payload

    with (
        serving(lambda: Endless(IDENTIFIER, HALF)) as server,
        pytest.raises(MetastoreUnavailableError, match=r"challenge cannot have 2\d+ bytes"),
    ):
        client_of(server.uri, TOKEN).valid_txns()
    assert server.calls == []


def test_a_waiting_call_continues_when_its_token_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text_of(b"old", HALF))
    asked: list[float] = []

    def patience() -> float:
        asked.append(1.0)
        if len(asked) == 2:
            file.write_text(text_of(IDENTIFIER, HALF))
        return 30.0

    with serving(digest_half) as server:
        login = TokenLogin(token=SecretSource(file=str(file)))
        with pytest.raises(MetastoreUnavailableError, match="expired, was cancelled"):
            client_of(server.uri, login).valid_txns()
        client = client_of(server.uri, login)
        client.be_patient(patience)
        assert client.config_value("any", "") == "answered"


@pytest.mark.parametrize("at", [20, -12, -1], ids=["message", "code", "number"])
def test_a_message_that_was_changed_in_transit_is_refused(at: int) -> None:
    class Forged(DigestHalf):
        def seal(self, message: bytes) -> bytes:
            sealed = bytearray(super().seal(message))
            sealed[at] ^= 1
            return bytes(sealed)

    with (
        serving(lambda: Forged(IDENTIFIER, HALF)) as server,
        pytest.raises(MetastoreUnavailableError, match="changed, lost or repeated"),
    ):
        client_of(server.uri, TOKEN).valid_txns()


def test_a_response_of_three_megabytes_is_read_from_one_frame() -> None:
    many = GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[], abortedBits=b"\0" * 3_000_000)
    with (
        SaslServer(
            lambda: DigestHalf(IDENTIFIER, HALF, qops="auth-int"), get_open_txns_req=lambda _: many
        ) as server,
        client_of(server.uri, TOKEN) as client,
    ):
        assert client.valid_txns().high_watermark == 9
