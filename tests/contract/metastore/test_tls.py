"""TLS: who is trusted, whose name is checked, and who has to show a certificate of their own."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.jobs.endpoint import (
    HeaderLogin,
    MetastoreEndpoint,
    PasswordLogin,
    SecretSource,
    Transport,
)
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.gen.locks.ttypes import LockResponse
from airflow_hiveacid.metastore.locks import LockRequest
from tests.contract.http_server import HttpStub
from tests.contract.relay import Relay
from tests.contract.sasl_server import PlainHalf, SaslServer
from tests.contract.stub_server import NOTHING_OPEN, StubServer
from tests.support.logins.openssl import Certificates, make_certificates, openssl

REFUSED = re.compile("certificate verify failed", re.IGNORECASE)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = make_certificates(tmp_path_factory.mktemp("authority"))
    made.sign("elsewhere", "subjectAltName=DNS:elsewhere.example")
    return made


@pytest.fixture
def trust(authority: Certificates) -> dict[str, str]:
    return {"ca_certificate": str(authority.authority)}


@pytest.fixture
def own(authority: Certificates) -> dict[str, str]:
    """The client's certificate, in words of an endpoint."""
    files = {"client_certificate": "client.pem", "client_key": "client.key"}
    return {name: str(authority.file(file)) for name, file in files.items()}


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer(get_open_txns_req=lambda _: NOTHING_OPEN) as made:
        yield made


def client_of(uri: str, **changes: object) -> MetastoreClient:
    plain = MetastoreEndpoint(
        uris=(uri,), transport=Transport.TLS, connect_timeout_s=3.0, call_timeout_s=3.0
    )
    return connect(replace(plain, **changes))  # type: ignore[arg-type]


def test_a_server_with_a_certificate_of_the_trusted_authority_is_accepted(
    authority: Certificates, trust: dict[str, str], server: StubServer
) -> None:
    with (
        Relay(server.port, tls=authority.server_context()) as relay,
        client_of(relay.uri, **trust) as client,
    ):
        assert client.valid_txns().high_watermark == 7


def test_a_server_with_an_untrusted_certificate_is_refused(
    authority: Certificates, server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context()) as relay:
        client = client_of(relay.uri)
        with pytest.raises(errors.MetastoreUnavailableError, match=REFUSED):
            client.valid_txns()
    assert server.calls == []


def test_a_certificate_for_a_different_host_is_refused_unless_host_checks_are_off(
    authority: Certificates, trust: dict[str, str], server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context("elsewhere")) as relay:
        with pytest.raises(errors.MetastoreUnavailableError, match=r"127\.0\.0\.1"):
            client_of(relay.uri, **trust).valid_txns()
        assert server.calls == []
        with client_of(relay.uri, **trust, verify_host=False) as client:
            assert client.valid_txns().high_watermark == 7
        with pytest.raises(errors.MetastoreUnavailableError, match=REFUSED):
            client_of(relay.uri, verify_host=False).valid_txns()


def test_a_client_certificate_is_sent_to_a_server_that_requires_one(
    authority: Certificates, trust: dict[str, str], own: dict[str, str], server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context(wants_client=True)) as relay:
        with pytest.raises(errors.MetastoreUnavailableError):
            client_of(relay.uri, **trust).valid_txns()
        assert server.calls == []
        with client_of(relay.uri, **trust, **own) as client:
            assert client.valid_txns().high_watermark == 7


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_connection_that_closed_between_calls_is_replaced_before_a_lock_request(
    authority: Certificates, trust: dict[str, str], is_encrypted: bool
) -> None:
    granted, plain = LockResponse(lockid=5, state=1), {"transport": Transport.PLAIN}
    request = LockRequest(txn_id=ids.TxnId(1), components=(), agent_info="me")
    with (
        StubServer(lock=lambda _: granted) as server,
        Relay(server.port, tls=authority.server_context() if is_encrypted else None) as relay,
        client_of(relay.uri, **(trust if is_encrypted else plain)) as client,
    ):
        assert client.lock(request).lock_id == 5
        transport = client._connection._protocol.trans
        assert transport.isOpen()
        connected = transport._TBufferedTransport__trans.handle
        # So that one whose other side vanished without a word is not open for ever.
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        relay.drop()
        deadline = time.monotonic() + 10
        while transport.isOpen():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # It must not be made twice, so it is known before it is sent that nobody hears it.
        assert client.lock(request).lock_id == 5
        assert (server.calls.count("lock"), relay.connections) == (2, 2)


def test_an_encrypted_client_key_is_refused_without_a_password_prompt(
    authority: Certificates, trust: dict[str, str], own: dict[str, str]
) -> None:
    command = "rsa -aes256 -passout pass:secret -in client.key -out locked.key"
    openssl(authority.folder, *command.split())
    locked = {**own, "client_key": str(authority.file("locked.key"))}
    client = client_of("thrift://127.0.0.1:1", **trust, **locked)
    with pytest.raises(errors.ConfigurationError, match=r"locked\.key") as caught:
        client.valid_txns()
    assert "secret" not in str(caught.value)


def test_a_mismatch_of_tls_and_plain_transport_raises_an_error(
    authority: Certificates, trust: dict[str, str], server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context()) as relay:
        plain = connect(MetastoreEndpoint(uris=(relay.uri,), call_timeout_s=3.0))
        with pytest.raises(errors.MetastoreUnavailableError):
            plain.valid_txns()
    with pytest.raises(errors.MetastoreUnavailableError):
        client_of(server.uri, **trust).valid_txns()


def test_https_calls_verify_the_server_certificate(
    authority: Certificates, trust: dict[str, str]
) -> None:
    login = {"transport": Transport.HTTPS, "login": HeaderLogin(user="etl")}
    with (
        HttpStub(tls=authority.server_context(), get_open_txns_req=lambda _: NOTHING_OPEN) as https,
        client_of(https.uri, **login, **trust) as client,
    ):
        assert client.valid_txns().high_watermark == 7
        with pytest.raises(errors.MetastoreUnavailableError, match=REFUSED):
            client_of(https.uri, **login).valid_txns()
        as_http = {**login, "transport": Transport.HTTP}
        with pytest.raises(errors.MetastoreUnavailableError, match="URI must say http or https"):
            client_of(https.uri.replace("https", "http"), **as_http).valid_txns()


def test_a_password_login_works_over_tls(
    authority: Certificates, trust: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "s3cret")
    login = PasswordLogin(user="etl", password=SecretSource(variable="METASTORE_PASSWORD"))
    with (
        SaslServer(
            lambda: PlainHalf("etl", "s3cret"), get_open_txns_req=lambda _: NOTHING_OPEN
        ) as server,
        Relay(server.port, tls=authority.server_context()) as relay,
        client_of(relay.uri, login=login, **trust) as client,
    ):
        assert client.valid_txns().high_watermark == 7


def test_a_real_metastore_can_be_used_over_tls(
    authority: Certificates,
    trust: dict[str, str],
    own: dict[str, str],
    hive_metastore: LocalMetastore,
) -> None:
    with (
        Relay(hive_metastore.port, tls=authority.server_context(wants_client=True)) as relay,
        client_of(relay.uri, **trust, **own) as client,
    ):
        assert client.generation is conflicts.MetastoreGeneration.V4
        txn_id = client.open_txn()
        assert "default" in client.list_databases()
        assert client.abort_txn(txn_id)
